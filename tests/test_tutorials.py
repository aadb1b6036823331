"""The code of the tutorials runs as the pages say, also after an installation in a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import run_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TUTORIALS = sorted(path for path in DOCS.joinpath("tutorials").glob("*.md") if path.name != "index.md")
PAGES = [DOCS / "get-started.md", *TUTORIALS]
# These take more than a few seconds.
MARKS = {
    "find-duplicates": pytest.mark.heavy,
    "get-started": pytest.mark.slow,
    "reproduce-the-paper": pytest.mark.heavy,
    "teach-pictures": pytest.mark.heavy,
}


def run(python: str, page: Path, folder: Path, **environment: str) -> None:
    command = [python, str(ROOT / "tools" / "run_page.py"), str(page)]
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_DISABLE_JIT")}
    done = subprocess.run(command, cwd=folder, env=kept | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=MARKS.get(page.stem, ())) for page in PAGES],
)
def test_a_page_runs(page, tmp_path):
    run(sys.executable, page, tmp_path, PYTHONPATH=str(ROOT))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def environments(tmp_path_factory, wheel):
    """A function that returns the Python of a clean environment with what a page tells its reader to install."""
    created: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}

    def create(page: Path) -> str:
        wanted = extras, packages = run_page.extras(page), run_page.other_packages(page)
        if wanted not in created:
            folder = tmp_path_factory.mktemp("environment")
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            python = str(folder / "bin" / "python")
            constraints = ["--constraint", str(ROOT / "constraints.txt")]
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *constraints]
            subprocess.run([*pip, f"{wheel}[{','.join(extras)}]", *packages], check=True)
            created[wanted] = python
        return created[wanted]

    return create


@pytest.mark.heavy
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_in_a_clean_environment(page, environments, tmp_path):
    run(environments(page), page, tmp_path)


def write_page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\n>>> 1 + 1\n3\n\n```\n", "Expected:\n    3\nGot:\n    2"),
        ("```sh\necho one\nfalse\n```\n", "page.md:2: exit code 1"),
        ("```sh\necho one\n```\n\n```text\ntwo\n```\n", "the page shows\ntwo\nbut the command prints\none"),
        ("![A curve](pictures/curve.png)\n", "its code does not draw curve.png"),
        (":::{figure} pictures/curve.png\n:::\n", "its code does not draw curve.png"),
    ],
)
def test_a_wrong_page_is_refused(text, message, tmp_path):
    with pytest.raises(run_page.PageError) as error:
        run_page.run_page(write_page(tmp_path, text), tmp_path)
    assert message in str(error.value)


def test_a_page_runs_its_commands_and_examples_in_order(tmp_path):
    text = (
        "```sh\npip install 'ocelad[plot,files]' pandas\n```\n\n"
        "```python\n>>> import pathlib\n>>> written = pathlib.Path('one.txt').write_text('first')\n\n```\n\n"
        "```sh\ncat one.txt\n```\n\n```text\nfi...\n```\n"
        "```python\n>>> written\n5\n\n```\n"
    )
    page = write_page(tmp_path, text)
    run_page.run_page(page, tmp_path)
    assert tmp_path.joinpath("one.txt").read_text() == "first"
    assert run_page.extras(page) == ("files", "plot")
    assert run_page.other_packages(page) == ("pandas",)


def test_commands_in_the_background_use_a_free_port_and_end_with_the_page(tmp_path):
    text = (
        '```sh\npython -c \'import os, time; open("port", "w").write(os.environ["OCELAD_SERVE_PORT"]); '
        "time.sleep(600)' &\n```\n\n"
        "```python\n>>> import pathlib, time\n>>> while not pathlib.Path('port').exists() or not "
        "pathlib.Path('port').read_text():\n...     time.sleep(0.01)\n"
        ">>> pathlib.Path('port').read_text() == '8765'\nTrue\n\n```\n"
    )
    run_page.run_page(write_page(tmp_path, text), tmp_path)
    assert tmp_path.joinpath("port").read_text() != "8765"
