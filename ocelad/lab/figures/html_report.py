"""The report: one HTML page with all figures, claims and settings, without external resources."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from ocelad.lab.figures.figure import Claim, Figure
from ocelad.lab.figures.figure_data import FigureData

PAPER = "Greenewald, Kelley, Hero: Dynamic metric learning from pairwise comparisons"


class ReportFigure(NamedTuple):
    """A computed figure, its data, and its picture as the bytes of a PNG file."""

    figure: Figure
    data: FigureData
    picture: bytes


def make_report(figures: Sequence[ReportFigure], missing: Mapping[str, str] | None = None) -> str:
    """Return the HTML page.

    Parameters
    ----------
    figures : sequence of ReportFigure
    missing : dict of str
        The names of figures that were not computed, with the reasons.
    """
    sections = [
        _make_summary(figures, missing or {}),
        *(_make_section(each) for each in figures),
        _list_versions(figures),
    ]
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
{chr(10).join(sections)}
</main>
</body>
</html>
"""


def _make_summary(figures: Sequence[ReportFigure], missing: Mapping[str, str]) -> str:
    """List the claims that agree and those that do not, and the figures that are missing or reduced."""
    claims = [(each.figure, claim) for each in figures for claim in each.figure.claims(each.data)]
    counts = {agrees: sum(claim.agrees is agrees for _, claim in claims) for agrees in (True, False)}
    lines = [
        f"<p>{counts[True] + counts[False]} claims of the paper can be checked: "
        f"{counts[True]} agree and {counts[False]} do not.</p>"
    ]
    for heading, agrees in (("Claims that do not agree", False), ("Claims that agree", True)):
        items = "".join(_list_claim(figure, claim) for figure, claim in claims if claim.agrees is agrees)
        if items:
            lines.append(f"<h3>{heading}</h3><ul>{items}</ul>")
    if missing:
        items = "".join(f"<li>Figure {escape(name)}: {escape(reason)}</li>" for name, reason in missing.items())
        lines.append(f"<h3>Figures that were not computed</h3><ul>{items}</ul>")
    reduced = [each.figure.name for each in figures if _changed_settings(each)]
    if reduced:
        lines.append(f"<p><strong>Not at full size</strong>: figures {', '.join(map(escape, reduced))}.</p>")
    return "<section><h2>Summary</h2>" + "".join(lines) + "</section>"


def _list_claim(figure: Figure, claim: Claim) -> str:
    remark = f" ({escape(claim.remark)})" if claim.remark else ""
    link = f'<a href="#figure-{escape(figure.name)}">figure {escape(figure.name)}</a>'
    comparison = f"{escape(claim.what)}: paper: {escape(claim.paper)}; computed: {escape(claim.ours)}"
    return f"<li>{link}, {comparison}{remark}</li>"


def _make_section(each: ReportFigure) -> str:
    figure, data, picture = each
    image = base64.b64encode(picture).decode()
    claims = figure.claims(data)
    tables = []
    if figure.summarize is not None:
        tables.append(_make_table(*figure.summarize(data)))
    if claims:
        rows = [[c.what, c.paper, c.ours, c.verdict, c.remark] for c in claims]
        tables.append(_make_table(["", "paper", "computed", "agrees", "remark"], rows))
    settings = ", ".join(f"{key} = {value}" for key, value in data.metadata["settings"].items())
    departures = f"<p>{escape(figure.departures)}</p>" if figure.departures else ""
    return f"""<section id="figure-{escape(figure.name)}">
<h2>Figure {escape(figure.name)}: {escape(figure.title)}</h2>
<figure><img src="data:image/png;base64,{image}" alt="Figure {escape(figure.name)}: {escape(figure.title)}"></figure>
{departures}{"".join(tables)}
<p class="small">Command: <code>{escape(_make_command(each))}</code>. Settings: {escape(settings)}.
{escape(_describe_reviews(data))}</p>
</section>"""


def _describe_reviews(data: FigureData) -> str:
    """Return the source and the fingerprint of the reviews, or an empty string for figures without reviews."""
    if "reviews" not in data.tables:
        return ""
    reviews = {name: column[0] for name, column in data.tables["reviews"].items()}
    return (
        f"Reviews: {reviews['reviews']} of {reviews['source']}, with {reviews['words']} words, "
        f"fingerprint {reviews['fingerprint'][:16]}."
    )


def _changed_settings(each: ReportFigure) -> dict[str, Any]:
    """Return the settings that differ from those of the full size."""
    settings = each.data.metadata["settings"]
    return {key: value for key, value in settings.items() if each.figure.settings.get(key) != value}


def _make_command(each: ReportFigure) -> str:
    changed = "".join(f" --set {key}={_quote(value)}" for key, value in _changed_settings(each).items())
    return f"ocelad figure {each.figure.name}{changed}"


def _quote(value: Any) -> str:
    return f"'{value}'" if " " in str(value) else str(value)


def _make_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heading = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in rest) + "</tr>"
        for first, *rest in rows
    )
    return f'<div class="wide"><table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table></div>'


def _list_versions(figures: Sequence[ReportFigure]) -> str:
    if not figures:
        return ""
    metadata = figures[0].data.metadata
    versions = ", ".join(f"{name} {version}" for name, version in metadata["versions"].items())
    text = f"ocelad {metadata['version']}; {versions}."
    return f'<section><h2>Versions</h2><p class="small">{escape(text)}</p></section>'


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
