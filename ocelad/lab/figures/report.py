"""One HTML page with all figures, the paper's words beside ours, and settings; nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from ocelad.lab.figures.figure import Claim, Figure
from ocelad.lab.figures.rows import Rows

PAPER = "Greenewald, Kelley, Hero: Dynamic metric learning from pairwise comparisons"


class Part(NamedTuple):
    """A figure that was computed: its rows, and its picture as a PNG file's bytes."""

    figure: Figure
    rows: Rows
    picture: bytes


def report(parts: Sequence[Part], missing: Mapping[str, str] | None = None) -> str:
    """The page.

    Parameters
    ----------
    parts : sequence of Part
    missing : dict of str
        Figures that were not computed, and why.
    """
    bodies = [_in_short(parts, missing or {}), *(_section(each) for each in parts), _made_with(parts)]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper's results, reproduced</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>The paper's results, reproduced</h1>
<p>{escape(PAPER)}.</p>
{chr(10).join(bodies)}
</main>
</body>
</html>
"""


def _in_short(parts: Sequence[Part], missing: Mapping[str, str]) -> str:
    """How many of the paper's statements are confirmed, and which are not."""
    claims = [(each.figure, claim) for each in parts for claim in each.figure.claims(each.rows)]
    counts = {agrees: sum(claim.agrees is agrees for _, claim in claims) for agrees in (True, False)}
    lines = [
        f"<p>Of {counts[True] + counts[False]} statements of the paper that can be held against what was computed, "
        f"{counts[True]} agree and {counts[False]} do not.</p>"
    ]
    for word, agrees in (("What does not agree", False), ("What agrees", True)):
        items = "".join(_item(figure, claim) for figure, claim in claims if claim.agrees is agrees)
        if items:
            lines.append(f"<h3>{word}</h3><ul>{items}</ul>")
    if missing:
        items = "".join(f"<li>Figure {escape(name)}: {escape(why)}</li>" for name, why in missing.items())
        lines.append(f"<h3>What was not computed</h3><ul>{items}</ul>")
    reduced = [each.figure.name for each in parts if _reduced(each)]
    if reduced:
        lines.append(f"<p><strong>Not at full size</strong>: figures {', '.join(map(escape, reduced))}.</p>")
    return "<section><h2>In short</h2>" + "".join(lines) + "</section>"


def _item(figure: Figure, claim: Claim) -> str:
    remark = f" ({escape(claim.remark)})" if claim.remark else ""
    link = f'<a href="#figure-{escape(figure.name)}">figure {escape(figure.name)}</a>'
    words = f"{escape(claim.what)}: the paper, {escape(claim.paper)}; here, {escape(claim.ours)}"
    return f"<li>{link}, {words}{remark}</li>"


def _section(each: Part) -> str:
    figure, rows, picture = each
    image = base64.b64encode(picture).decode()
    claims = figure.claims(rows)
    shown = figure.shown(rows) if figure.shown is not None else None
    tables = [] if shown is None else [_table(shown.head, shown.body)]
    if claims:
        body = [[c.what, c.paper, c.ours, c.verdict, c.remark] for c in claims]
        tables.append(_table(["", "the paper", "here", "agrees", "why"], body))
    settings = ", ".join(f"{key} = {value}" for key, value in rows.metadata["settings"].items())
    departures = f"<p>{escape(figure.departures)}</p>" if figure.departures else ""
    return f"""<section id="figure-{escape(figure.name)}">
<h2>Figure {escape(figure.name)}: {escape(figure.title)}</h2>
<figure><img src="data:image/png;base64,{image}" alt="Figure {escape(figure.name)}: {escape(figure.title)}"></figure>
{departures}{"".join(tables)}
<p class="small">Again: <code>{escape(_command(each))}</code>. Settings: {escape(settings)}.{escape(_reviews(rows))}</p>
</section>"""


def _reviews(rows: Rows) -> str:
    """Which reviews it is about, if it is about reviews."""
    if "reviews" not in rows.tables:
        return ""
    reviews = {name: column[0] for name, column in rows.tables["reviews"].items()}
    return (
        f" Reviews: {reviews['reviews']} of {reviews['source']}, with {reviews['words']} words, "
        f"fingerprint {reviews['fingerprint'][:16]}."
    )


def _reduced(each: Part) -> dict[str, Any]:
    """The settings that are others than at full size."""
    settings = each.rows.metadata["settings"]
    return {key: value for key, value in settings.items() if each.figure.settings.get(key) != value}


def _command(each: Part) -> str:
    changed = "".join(f" --set {key}={_quoted(value)}" for key, value in _reduced(each).items())
    return f"ocelad figure {each.figure.name}{changed}"


def _quoted(value: Any) -> str:
    return f"'{value}'" if " " in str(value) else str(value)


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    rows = "".join(
        f'<tr><th scope="row">{escape(first)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in rest) + "</tr>"
        for first, *rest in body
    )
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _made_with(parts: Sequence[Part]) -> str:
    if not parts:
        return ""
    metadata = parts[0].rows.metadata
    versions = ", ".join(f"{name} {version}" for name, version in metadata["versions"].items())
    made = f"ocelad {metadata['version']}; {versions}."
    return f'<section><h2>Made with</h2><p class="small">{escape(made)}</p></section>'


_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; background: Canvas; color: CanvasText; }
main { max-width: 66rem; margin: 0 auto; padding: 1.5rem; }
section { margin-top: 2.5rem; }
figure { margin: 1rem 0; }
img { max-width: 100%; background: white; border-radius: 4px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0; }
tr { border-bottom: 1px solid color-mix(in srgb, CanvasText 20%, Canvas); }
tbody th { font-weight: normal; }
.small { font-size: 0.85rem; overflow-wrap: anywhere; }
"""
