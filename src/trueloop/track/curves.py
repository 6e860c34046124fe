"""`curves.html`: the curves of a run as one page that opens offline."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, final

from trueloop.errors import NotARun
from trueloop.hook import Ending, Hook, Row, Start
from trueloop.report.html import render
from trueloop.report.units import number
from trueloop.results.document import Axis, Document, Facts, Plot, Series
from trueloop.track.log_lines import CURVES
from trueloop.track.metrics import current_rows, read_rows

__all__ = ["Curves", "document"]

COLORS: Final = {"train": 0, "valid": 1}


@final
class Curves(Hook):
    """Draws at the end, from the run's own file: a resumed run shows all its steps."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        self.start: Start | None = None

    def started(self, start: Start) -> None:
        self.start = start

    def ended(self, ending: Ending) -> None:
        if self.start is None:
            return
        try:
            rows = current_rows(read_rows(self.folder, ("train", "valid", "test")))
            if rows:
                (self.folder / CURVES).write_text(render(document(self.start, ending, rows)), encoding="utf-8")
        except (OSError, NotARun) as error:
            self.say(f"The curves could not be drawn: {error}")


def document(start: Start, ending: Ending, rows: Sequence[Row]) -> Document:
    facts = {ending.reason.replace("-", " "): f"{ending.step:,} of {start.total_steps:,} steps"}
    if ending.best is not None:
        facts[f"best {ending.metric}"] = number(ending.best)
    facts |= {f"test {name}": number(value) for name, value in (ending.test or {}).items()}
    plots = (plot for plot in _plots(rows, ending) if any(series.points for series in plot.series))
    return Document(
        title=start.name,
        parts=(Facts("", facts, inline=True), *plots),
        subtitle=f"{start.model}, {start.parameters:,} parameters, on {start.device}; {start.samples:,} samples",
    )


def _plots(rows: Sequence[Row], ending: Ending) -> Iterator[Plot]:
    def series(name: str, kind: str, value: str) -> Series:
        points = tuple((row.step, row.values[value]) for row in rows if row.kind == kind and value in row.values)
        best = (ending.best_step, ending.best) if kind == "valid" and value == ending.metric else (None, None)
        mark = (best[0], best[1]) if best[0] is not None and best[1] is not None else None
        return Series(name, points, COLORS[kind], mark=mark)

    steps, auto = Axis("step", zero=True), Axis(scale="auto")
    yield Plot("loss", (series("training", "train", "loss"), series("validation", "valid", "loss")), steps, auto)
    valid = (row for row in rows if row.kind == "valid")
    for name in dict.fromkeys(name for row in valid for name in row.values if name not in ("loss", "seconds")):
        yield Plot(name.replace("_", " "), (series("validation", "valid", name),), steps, auto)
    # People know a schedule by its shape: a logarithmic axis would bend a cosine.
    yield Plot("learning rate", (series("learning rate", "train", "lr"),), steps)
    yield Plot("gradient norm", (series("gradient norm", "train", "gradient_norm"),), steps, auto)
