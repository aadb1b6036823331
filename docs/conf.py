"""Sphinx configuration. The build needs no network: the inventories of other projects are in ``inventories/``."""

from __future__ import annotations

import builtins
import inspect
import sys
import zlib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util.nodes import find_pending_xref_condition

from ocelad import __version__

sys.path.insert(0, str(Path(__file__).parent))
from help_texts import format_help

project = "ocelad"
author = "The ocelad developers"
copyright = "2026, The ocelad developers"
release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
templates_path = ["templates"]

# Curly quotes and dashes, but no ellipses.
smartquotes_action = "qD"

html_theme = "furo"
html_title = f"ocelad {release}"
html_static_path = ["static"]
html_css_files = ["ocelad.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False
# One page of all names would be the largest of all; the search and the reference find them.
html_use_index = False
html_copy_source = False

# Attributes in MyST: captions and classes of pictures. Cards and grids.
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

# Copy commands and Python code, without prompts and results.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autosummary_generate = True
# A file system may ignore case: these functions have a class of nearly the same name beside them.
autosummary_filename_map = {
    f"ocelad.lab.baselines.{name}.{name}": f"ocelad.lab.baselines.{name}.{name}_function"
    for name in ("ader", "cbce", "hedge", "saol")
}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_display_short_literal_types = True
maximum_signature_line_length = 90
napoleon_google_docstring = False
napoleon_use_ivar = False
# Parameter and attribute names such as "probabilities" are found in several classes.
suppress_warnings = ["ref.python"]


def write_inventory(name: str) -> str:
    """Compress the list of names of a project, as ``objects.inv`` has them, and return the path of the file."""
    here = Path(__file__).parent
    lines = here.joinpath("inventories", f"{name}.txt").read_text(encoding="utf-8")
    path = here / "_build" / "inventories" / f"{name}.inv"
    path.parent.mkdir(parents=True, exist_ok=True)
    header = f"# Sphinx inventory version 2\n# Project: {name}\n# Version: \n# The rest is compressed with zlib.\n"
    path.write_bytes(header.encode() + zlib.compress(lines.encode()))
    return str(path)


intersphinx_mapping = {
    name: (address, write_inventory(name))
    for name, address in {
        "numpy": "https://numpy.org/doc/stable/",
        "pandas": "https://pandas.pydata.org/docs/",
        "python": "https://docs.python.org/3/",
        "river": "https://riverml.xyz/latest/",
        "scipy": "https://docs.scipy.org/doc/scipy/",
        "sklearn": "https://scikit-learn.org/stable/",
    }.items()
}


# Methods of scikit-learn's estimators that the guides use, with a text that stands on its own.
SCIKIT_LEARN_METHODS = {
    "set_output": "Let ``transform`` return tables: see :py:meth:`TransformerMixin.set_output"
    " <sklearn.base.TransformerMixin.set_output>`.",
    "set_params": "Set parameters by name, also those of nested estimators: see :py:meth:`BaseEstimator.set_params"
    " <sklearn.base.BaseEstimator.set_params>`.",
}


def skip_foreign_members(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what a class inherits from other packages, what it lacks, and fields of named tuples without text."""
    if name == "fit_transform" and isinstance(member, property):  # trackers of tuples have none; theirs says so
        return True
    function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
    module = getattr(function, "__module__", None)
    if inspect.isroutine(function) and not str(module).startswith("ocelad"):
        return None if name in SCIKIT_LEARN_METHODS and str(module).startswith("sklearn") else True
    if str(getattr(member, "__doc__", "")).startswith("Alias for field number"):
        return True
    return None


def shorten_docstring(app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Replace scikit-learn's texts, which link to its user guide and name its versions."""
    text = SCIKIT_LEARN_METHODS.get(name.rpartition(".")[2])
    if text is not None and str(getattr(inspect.unwrap(member), "__module__", None)).startswith("sklearn"):
        lines[:] = [text, ""]


def tidy(app: Any, doctree: nodes.document) -> None:
    """Drop the empty last line of doctests, and links from words in types of parameters, such as n_features."""
    for block in list(doctree.findall(nodes.literal_block)):
        if block.astext().endswith("\n"):
            block.rawsource = block.rawsource.rstrip("\n")  # blocks that differ from their source have no colours
            block.children = []
            block += nodes.Text(block.rawsource)
    for link in list(doctree.findall(addnodes.pending_xref)):
        target = link.get("reftarget", "")
        if link.get("reftype") == "class" and target.islower() and "." not in target and not hasattr(builtins, target):
            shown = find_pending_xref_condition(link, "*") or link
            link.replace_self(shown.children)


def move_links(app: Any, path: Path, parent: str, content: list[str]) -> None:
    """Make links of files that are included from the root of the repository relative to ``project/``."""
    content[0] = content[0].replace("](docs/", "](../")
    for name in ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "RELEASING"):
        content[0] = content[0].replace(f"]({name}.md", f"]({name.lower()}.md")


def setup(app: Any) -> None:
    app.connect("doctree-read", tidy)
    app.connect("include-read", move_links)
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.connect("autodoc-process-docstring", shorten_docstring, priority=400)  # before napoleon
    for part in ("arguments", "description", "epilog", "options"):
        app.connect(f"sphinx-click-process-{part}", format_help)
