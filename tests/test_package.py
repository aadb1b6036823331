"""The package that is released: metadata, contents, and what a user gets who installs it."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

import ocelad

ROOT = Path(__file__).parent.parent
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]["custom"][
    "repository"
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built wheel and source archive."""
    built = tmp_path_factory.mktemp("dist")
    run("build", "--no-isolation", "--outdir", str(built), str(ROOT))
    return built


@pytest.fixture(scope="module")
def wheel(folder: Path) -> ZipFile:
    return ZipFile(next(folder.glob("*.whl")))


@pytest.fixture(scope="module")
def metadata(wheel: ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


def run(module: str, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_index_would_accept_the_files(folder: Path) -> None:
    run("twine", "check", "--strict", *map(str, folder.iterdir()))


def test_the_wheel_has_the_package_and_nothing_else(wheel: ZipFile) -> None:
    names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    tracked = subprocess.run(["git", "ls-files", "ocelad"], capture_output=True, text=True, cwd=ROOT, check=True)
    assert set(names) >= {name for name in tracked.stdout.split() if (ROOT / name).exists()}
    assert {name.split("/")[0] for name in names} == {"ocelad"}
    assert {Path(name).suffix for name in names} <= {".py", ".typed", ".html", ".css", ".js", ".svg", ".LICENSE"}


def test_the_source_archive_has_what_a_build_needs_and_no_more(folder: Path) -> None:
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        names = {Path(name).parts[1] for name in archive.getnames()}
    assert names == {
        *("ocelad", "pyproject.toml", "hatch_build.py", ".gitignore", "PKG-INFO"),
        *("README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"),
    }


def test_links_of_the_readme_work_elsewhere(metadata: Message) -> None:
    readme = str(metadata.get_payload())
    targets = re.findall(r"""(?:\]\(|^\[[^\]]+\]: +|\b(?:src|srcset|href)=")([^)\s"]+)""", readme, re.MULTILINE)
    ours = [target for target in targets if target.startswith(f"{REPOSITORY}/")]
    assert ours
    assert all(target.startswith(("https://", "#")) for target in targets)
    for target in ours:
        view, branch, path = target.removeprefix(f"{REPOSITORY}/").split("/", 2)
        assert (view, branch) == ("raw" if path.endswith((".png", ".svg")) else "blob", "main")
        assert (ROOT / path.partition("#")[0]).exists(), target


def test_addresses_follow_from_one_setting(metadata: Message) -> None:
    addresses = [address.split(", ")[1] for address in metadata.get_all("Project-URL")]
    assert len(addresses) == 4
    assert all(address.startswith((REPOSITORY, pages_of(REPOSITORY))) for address in addresses)
    text = (ROOT / "pyproject.toml").read_text()
    assert text.count(REPOSITORY) == 1


def pages_of(repository: str) -> str:
    return str(runpy.run_path(str(ROOT / "hatch_build.py"))["pages_of"](repository))


@pytest.mark.parametrize(
    ("repository", "pages"),
    [
        ("https://github.com/anna/tools", "https://anna.github.io/tools/"),
        ("https://gitlab.com/anna/tools", "https://anna.gitlab.io/tools/"),
        ("https://gitlab.com/group/part/tools", "https://group.gitlab.io/part/tools/"),
    ],
)
def test_the_documentation_is_on_the_pages_of_the_repository(repository: str, pages: str) -> None:
    assert pages_of(repository) == pages


@pytest.mark.parametrize("repository", ["https://git.example.org/anna/tools", "https://github.com/anna"])
def test_a_repository_without_known_pages_is_refused(repository: str) -> None:
    with pytest.raises(ValueError, match=r"is unknown; accepted: https://github\.com/OWNER/NAME, https://gitlab"):
        pages_of(repository)


def test_version_changelog_and_citation_agree() -> None:
    changelog, citation = (ROOT / "CHANGELOG.md").read_text(), yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## \[(.+?)\] - (unreleased|\d{4}-\d{2}-\d{2})$", changelog, re.MULTILINE)
    assert newest is not None
    assert newest[1] == citation["version"] == ocelad.__version__
    assert str(citation.get("date-released", "unreleased")) == newest[2]
    assert citation["repository-code"] == REPOSITORY


def test_the_page_about_citing_has_the_entries_of_the_citation_file() -> None:
    page, citation = (ROOT / "docs/project/cite.md").read_text(), yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (paper,) = citation["references"]
    names = [f"{author['family-names']}, " for author in paper["authors"]]
    software = (citation["title"], citation["repository-code"], f"version = {{{citation['version']}}}")
    for text in (*software, paper["title"], str(paper["year"]), paper["doi"], *names):
        assert text in page


@pytest.mark.parametrize("path", [".github/workflows/check.yml", ".gitlab-ci.yml"])
def test_workflows_run_commands_that_exist(path: str) -> None:
    text = (ROOT / path).read_text()
    assert yaml.safe_load(text)
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"\bmake ([a-z-]+)", text))
    assert targets >= {"check", "test", "package"}
    assert "/bin/ocelad doctor && release/bin/ocelad demo" in text  # of the wheel, in an environment of its own
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_jobs_in_containers_may_use_git() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text())["jobs"]
    in_containers = [[step.get("run", "") for step in job["steps"]] for job in jobs.values() if "container" in job]
    assert in_containers
    for commands in in_containers:
        assert commands.index('git config --global --add safe.directory "$GITHUB_WORKSPACE"') == 1  # after the checkout
