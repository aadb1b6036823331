"""The pages: links, anchors, pictures and tables of contents."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

import ocelad
from ocelad.cli import cli
from ocelad.lab.compare.few_answers import BENCHMARKS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *PAGES]
SUITE = DOCS / "explanation" / "few-answers.md"
PICTURES = sorted({*DOCS.rglob("*.png"), *DOCS.rglob("*.svg")} - set(DOCS.joinpath("_build").rglob("*")))
_FIGURE = re.compile(r"^[`:]{3,}\{(?:figure|image)\} (\S+)\n((?::\S+:.*\n)*)", re.MULTILINE)
_CAPTION = re.compile(r"^([`:]{3,})\{figure\} (\S+)\n(?::\S+:[^\n]*\n)*(.*?)^\1$", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"<(?:img|source)\b[^>]*>")
_CARD_LINK = re.compile(r"^:link: (\S+)\n(?::[a-z-]+:.*\n)*?:link-type: (\w+)$", re.MULTILINE)
_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tokens(path: Path) -> list[Token]:
    return MarkdownIt().enable("table").parse(path.read_text(encoding="utf-8"))


def inline(path: Path) -> Iterator[Token]:
    for token in tokens(path):
        yield from token.children or ()


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and MyST make them."""
    found: dict[str, int] = {}
    parsed = tokens(path)
    for token, content in pairwise(parsed):
        if token.type == "heading_open":
            text = "".join(child.content for child in content.children or () if child.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
    return {slug if not n else f"{slug}-{n}" for slug, last in found.items() for n in range(last + 1)}


def links(path: Path) -> Iterator[str]:
    for token in inline(path):
        if token.type == "link_open":
            yield str(token.attrs["href"])
    for target, kind in _CARD_LINK.findall(path.read_text(encoding="utf-8")):
        if kind == "doc":
            yield f"{target}.md"


def pictures(path: Path) -> Iterator[tuple[str, str]]:
    """The address and the alternative text of each picture of a page."""
    for token in inline(path):
        if token.type == "image":
            yield str(token.attrs["src"]), token.content
    for tag in (tag for token in tokens(path) if token.type == "html_block" for tag in _IMAGE.findall(token.content)):
        alternative = re.search(r'alt="([^"]+)"', tag)
        for source in re.findall(r'src(?:set)?="([^"]+)"', tag):
            # The sources of a picture share the text of its image.
            yield source, alternative[1] if alternative else "of the image" if tag.startswith("<source") else ""
    for source, options in _FIGURE.findall(path.read_text(encoding="utf-8")):
        alternative = re.search(r"^:alt: (.+)$", options, re.MULTILINE)
        yield source, alternative[1] if alternative else ""


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_to_files_and_headings(path):
    wrong = []
    for link in links(path):
        if re.match(r"[a-z]+:", link):
            continue
        address, _, anchor = link.partition("#")
        target = (path.parent / address).resolve() if address else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert not wrong


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if any(pictures(path))], ids=name)
def test_pictures_exist_and_have_an_alternative_text(path):
    for source, alternative in pictures(path):
        assert path.parent.joinpath(source).is_file(), source
        assert alternative.strip(), source


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if any(pictures(path))], ids=name)
def test_alternative_texts_of_markdown_are_on_one_line(path):
    """The built pages lose the space at a line break; those of HTML keep it."""
    wrapped = [token.attrs["src"] for token in inline(path) if token.type == "image" and "\n" in token.content]
    assert wrapped == []


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_pictures_of_the_site_have_a_caption(path):
    bare = [token.attrs["src"] for token in inline(path) if token.type == "image"]
    assert bare == []
    for _, source, caption in _CAPTION.findall(path.read_text(encoding="utf-8")):
        assert caption.strip(), source


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_lines_outside_tables_have_at_most_120_characters(path):
    lines = enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
    assert [number for number, line in lines if len(line) > 120 and not line.startswith("|")] == []


def test_each_picture_is_shown():
    shown = {path.parent.joinpath(source).resolve() for path in DOCUMENTS for source, _ in pictures(path)}
    assert PICTURES
    assert [name(path) for path in PICTURES if path not in shown] == []


def test_each_page_is_in_a_table_of_contents():
    listed = {DOCS / "index.md"}
    for path in PAGES:
        for entries in _TOCTREE.findall(path.read_text(encoding="utf-8")):
            for entry in entries.split("\n"):
                if entry and not entry.startswith(":"):
                    found = {
                        page for page in path.parent.glob(f"{entry}.md") if page.name != "index.md" or "index" in entry
                    }
                    assert found, f"{name(path)}: {entry}"
                    listed |= found
    assert [name(path) for path in PAGES if path not in listed] == []


def test_the_reference_lists_each_public_name():
    listed = {
        line.strip().lstrip("~")
        for path in DOCS.joinpath("reference").glob("*.md")
        for line in path.read_text(encoding="utf-8").split("\n")
        if line.startswith("   ~")
    }
    modules = {f"ocelad.{each}" for each in ("__version__", "evaluation", "io", "lab", "neighbors", "testing")}
    public = {f"ocelad.{each}" for each in ocelad.__all__} - modules
    assert public <= listed


def test_the_reference_lists_each_command():
    pages = DOCS.joinpath("reference", "commands").glob("*.md")
    listed = {match for path in pages for match in re.findall(r":prog: ocelad (\S+)", path.read_text(encoding="utf-8"))}
    assert listed == set(cli.commands)


def interrupting_lists(lines: list[str], parsed: list[Token]) -> Iterator[int]:
    """The lines that begin a list directly below a line of text, such as "1) sqrt|I|" after re-wrapping."""
    for before, token in pairwise(parsed):
        is_list = token.type in ("ordered_list_open", "bullet_list_open") and token.level == 0
        if is_list and before.type == "paragraph_close" and token.map and lines[token.map[0] - 1].strip():
            yield token.map[0] + 1


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_no_line_within_a_paragraph_begins_a_list(path):
    assert list(interrupting_lists(path.read_text(encoding="utf-8").split("\n"), tokens(path))) == []


def test_a_line_that_begins_a_list_is_found():
    text = "The bound is `40 log(s +\n1) sqrt|I|`.\n\n1. One.\n"
    assert list(interrupting_lists(text.split("\n"), MarkdownIt().parse(text))) == [2]


def test_commands_and_options_in_help_texts_become_code():
    """A command may contain options and continue on the next line; no backtick must be left over."""
    format_help = runpy.run_path(str(DOCS / "help_texts.py"))["format_help"]
    lines = [
        "A curved distance (--linear) has no matrix: `ocelad",
        "embed --axes-of ITEMS` embeds queries.",
        "",
        "x_ y",
    ]
    format_help(None, None, lines)
    assert lines == [
        "A curved distance (--linear) has no matrix: ``ocelad",
        "embed --axes-of ITEMS`` embeds queries.",
        "",
        r"x\_ y",
    ]
    for command in cli.commands.values():
        lines = cleandoc(command.help or "").split("\n")
        format_help(None, None, lines)
        assert "`" not in re.sub(r"``[^`]+``", "", "\n".join(lines)), command.name


def test_numbers_of_benchmarks_are_those_of_the_suite():
    tabulated = re.findall(r"^\| ([\w%.-]+/\w+)(?: \| [-+][\d.]+/[-+][\d.]+){6} \|$", SUITE.read_text(), re.MULTILINE)
    assert set(tabulated) <= set(BENCHMARKS)
    assert f"on {len(tabulated)} benchmarks, after 10 to 1000 answers" in (ROOT / "README.md").read_text()
    assert re.search(rf"few-answers` runs {len(BENCHMARKS)}:", (ROOT / "CHANGELOG.md").read_text())


def test_get_started_and_each_tutorial_name_what_to_install():
    for path in (DOCS / "get-started.md", *DOCS.glob("tutorials/*-*.md")):
        first = next(token for token in tokens(path) if token.type == "fence")
        assert first.content.startswith("pip install 'ocelad["), name(path)
