"""`curves.html`: a run's curves as one page that opens offline. No scripts, nothing fetched; light or dark as the
reader's system is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final, final

from trueloop.errors import NotARun
from trueloop.hook import Ending, Hook, Row, Start
from trueloop.track.chart import Line, chart
from trueloop.track.metrics import read_rows, standing
from trueloop.track.words import CURVES, number

__all__ = ["Curves", "page"]

STYLE: Final = """
:root { color-scheme: light dark; --paper: #fbfbfa; --card: #fff; --ink: #1d2125; --soft: #626a73; --line: #e3e4e2;
  --train: #1f6f94; --valid: #b3541e; --bad: #c2272d; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181b; --card: #1c2024; --ink: #e6e8ea; --soft: #98a1aa; --line: #30363c;
  --train: #71bfe4; --valid: #f0a35e; --bad: #ff7b7f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 84rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; line-height: 1.25; } h2 { font-size: 1rem; margin: 0; }
.soft { color: var(--soft); margin: 0; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; margin: 1.25rem 0; list-style: none; }
.facts li { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .35rem .8rem; color: var(--soft); }
.facts b { color: var(--ink); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1.25rem; }
figure { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem; margin: 0; }
figcaption { display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline; margin-bottom: .5rem; }
figcaption span::before { content: ""; display: inline-block; width: 1.2rem; height: .2rem; margin-right: .4rem; vertical-align: middle;
  background: var(--tone); }
svg { width: 100%; height: auto; display: block; }
svg path, svg circle { fill: none; stroke: var(--tone); stroke-width: 1.8; stroke-linejoin: round; }
svg text { fill: var(--soft); font-size: 14px; font-variant-numeric: tabular-nums; }
.train { --tone: var(--train); } .valid { --tone: var(--valid); } svg .dot { fill: var(--tone); } svg .mark { fill: var(--card); }
svg .grid, svg .axis { stroke: var(--line); stroke-width: 1; } svg .broken { stroke: var(--bad); stroke-dasharray: 3 3; }
"""

LINEAR: Final = "learning rate"
"""A chart that people know by its shape: powers of ten would bend a cosine."""

PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="soft">{about}</p>
<ul class="facts">{facts}</ul>
<div class="charts">
{charts}
</div>
</main>
</body>
</html>
"""


@final
class Curves(Hook):
    """Draws at the end, from the run's own file: a resumed run shows its whole life."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        self.start: Start | None = None

    def started(self, start: Start) -> None:
        self.start = start

    def ended(self, ending: Ending) -> None:
        if self.start is None:
            return
        try:
            rows = standing(read_rows(self.folder, ("train", "valid", "test")))
            if rows:
                (self.folder / CURVES).write_text(page(self.start, ending, rows), encoding="utf-8")
        except (OSError, NotARun) as error:
            self.say(f"The curves could not be drawn: {error}")


def page(start: Start, ending: Ending, rows: Sequence[Row]) -> str:
    about = f"{start.model}, {start.parameters:,} parameters, on {start.device}; {start.samples:,} samples"
    facts = "".join(f"<li>{escape(word)} <b>{escape(value)}</b></li>" for word, value in _facts(ending, start))
    drawn = [(title, lines) for title, lines in _charts(rows, ending) if any(line.points for line in lines)]
    charts = "\n".join(_figure(title, lines, f"chart-{index}") for index, (title, lines) in enumerate(drawn, 1))
    return PAGE.format(title=escape(start.name), style=STYLE, about=escape(about), facts=facts, charts=charts)


def _facts(ending: Ending, start: Start) -> Iterator[tuple[str, str]]:
    yield ending.reason.replace("-", " "), f"{ending.step:,} of {start.total_steps:,} steps"
    if ending.best is not None:
        yield f"best {ending.metric}", number(ending.best)
    for name, value in (ending.test or {}).items():
        yield f"test {name}", number(value)


def _charts(rows: Sequence[Row], ending: Ending) -> Iterator[tuple[str, list[Line]]]:
    def line(name: str, kind: str, value: str) -> Line:
        points = [(row.step, row.values[value]) for row in rows if row.kind == kind and value in row.values]
        best = (ending.best_step, ending.best) if kind == "valid" and value == ending.metric else (None, None)
        mark = (best[0], best[1]) if best[0] is not None and best[1] is not None else None
        return Line(name, points, kind, mark)

    yield "loss", [line("training", "train", "loss"), line("validation", "valid", "loss")]
    names = dict.fromkeys(
        name for row in rows if row.kind == "valid" for name in row.values if name not in ("loss", "seconds")
    )
    for name in names:
        yield name.replace("_", " "), [line("validation", "valid", name)]
    yield LINEAR, [line("learning rate", "train", "lr")]
    yield "gradient norm", [line("gradient norm", "train", "gradient_norm")]


def _figure(title: str, lines: Sequence[Line], name: str) -> str:
    legend = (
        "".join(f'<span class="{line.tone}">{escape(line.name)}</span>' for line in lines if line.points)
        if len(lines) > 1
        else ""
    )
    drawn = chart(title, lines, name, linear=title == LINEAR)
    return f"<figure>\n<figcaption><h2>{escape(title)}</h2>{legend}</figcaption>\n{drawn}\n</figure>"
