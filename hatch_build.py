"""What the build adds to the metadata: the addresses of the project, and a README with absolute links.

Both follow from the one setting ``repository`` in ``pyproject.toml``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A relative target of a link or an image, in Markdown or in HTML; anchors of the same page stay.
_RELATIVE_TARGET = re.compile(
    r"""(\]\(|^\[[^\]]+\]:\ +|\b(?:src|srcset|href)=")(?!https?:|mailto:|\#)([^)\s"]+)""", re.MULTILINE
)
# The hosts of repositories, and the domain of the pages of their owners.
_PAGES = {"github.com": "github.io", "gitlab.com": "gitlab.io"}
_PICTURES = (".png", ".svg", ".jpg", ".gif")


class ProjectAddresses(MetadataHookInterface):
    """Sets ``urls`` and ``readme``."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        repository = self.config["repository"]
        metadata["urls"] = {
            "Documentation": pages_of(repository),
            "Source": repository,
            "Issues": f"{repository}/issues",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        }
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(readme, repository)}


def pages_of(repository: str) -> str:
    """Return the address at which the workflow of a repository publishes the documentation."""
    host, _, path = repository.removeprefix("https://").partition("/")
    owner, _, name = path.partition("/")
    if host not in _PAGES or not name:
        accepted = ", ".join(f"https://{each}/OWNER/NAME" for each in _PAGES)
        raise ValueError(
            f"the address of the pages of the repository {repository!r} is unknown; accepted: {accepted}, and those of "
            "other hosts in _PAGES of hatch_build.py"
        )
    return f"https://{owner}.{_PAGES[host]}/{name}/"


def with_absolute_links(text: str, repository: str) -> str:
    """Return Markdown with relative targets replaced by addresses in the main branch of the repository."""

    def replace(match: re.Match[str]) -> str:
        before, target = match.groups()
        view = "raw" if target.lower().endswith(_PICTURES) else "blob"
        return f"{before}{repository}/{view}/main/{target}"

    return _RELATIVE_TARGET.sub(replace, text)
