"""Sphinx configuration."""

from ocelad import __version__

project = "ocelad"
author = "The ocelad developers"
copyright = "2026, The ocelad developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"ocelad {release}"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = False
myst_heading_anchors = 3
# Parameter and attribute names such as "probabilities" are found in several classes.
suppress_warnings = ["ref.python"]
