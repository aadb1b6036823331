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
    """Return the address at which the workflow ``site.yml`` publishes the documentation of a repository on GitHub."""
    owner, name = repository.removeprefix("https://github.com/").split("/")
    return f"https://{owner}.github.io/{name}/"


def with_absolute_links(text: str, repository: str) -> str:
    """Return Markdown with relative targets replaced by addresses in the main branch of the repository."""

    def replace(match: re.Match[str]) -> str:
        before, target = match.groups()
        view = "raw" if target.lower().endswith(_PICTURES) else "blob"
        return f"{before}{repository}/{view}/main/{target}"

    return _RELATIVE_TARGET.sub(replace, text)
