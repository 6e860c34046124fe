"""A progress bar for a terminal: two lines that are redrawn, and above them the lines worth keeping.

    digits ━━━━━━━━━━━━━━━━━━━━━━━━━╸───────────────  62%  step 470/760  epoch 24.7  0:04 left
           loss 0.0123  accuracy 0.9850  1,740 samples/s  data 1%  412 MB

It is drawn by the loop, a few times per second, and not by a thread: it costs the steps nothing.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TextIO, final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from trueloop.hook import Ending, Hook, Row, Start
from trueloop.report.units import duration, number
from trueloop.track.log_lines import closing, metrics, opening, speed

__all__ = ["ProgressBar"]

PAUSE: Final = 0.5  # seconds between two drawings: faster is not read, and each takes about a millisecond
LONGEST: Final = 40  # columns of the bar itself, at most


@final
class ProgressBar(Hook):
    """Shown from `started` to `ended`; notes outside of that are printed as they are."""

    def __init__(
        self, to: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic, width: int | None = None
    ) -> None:
        self.console = Console(file=to or sys.stdout, highlight=False, markup=False, emoji=False, width=width)
        self.clock = clock
        self.start: Start | None = None
        self.live: Live | None = None
        self.row: Row | None = None
        self.valid: Row | None = None
        self.begun = self.drawn = clock()
        self.first: tuple[int, float] | None = None
        """Step and time of the first row: the first steps are slow (compilers, caches) and are not extrapolated."""

    def started(self, start: Start) -> None:
        self.start, self.begun = start, self.clock()
        for line in opening(start):
            self._print(line, "")
        self.live = Live(console=self.console, auto_refresh=False, transient=True, get_renderable=self._picture)
        self.live.start()
        self.console.show_cursor(True)  # a killed run must not leave a terminal without one
        self._draw()  # before the first step, which may take long

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            self._show(row)
        elif row.kind == "valid":
            self.valid = row
            text = "  ".join([f"valid  step {row.step}", *metrics(row)])
            self._print(text, "", "  best" if row.best else "", "green")

    def progressed(self, row: Row) -> None:
        known = self.row.values if self.row else {}
        self._show(replace(row, values={**known, **row.values}))

    def _show(self, row: Row) -> None:
        begins, self.row = self.first is None, row
        self.first = self.first or (row.step, self.clock())
        if begins or self.clock() - self.drawn >= PAUSE:
            self._draw()

    def noted(self, sentence: str) -> None:
        self._print(sentence, "yellow")

    def ended(self, ending: Ending) -> None:
        if self.live is not None:
            self._try(self.live.stop)
            self.live = None
        folder = self.start.folder if self.start else ""
        for line in closing(ending, folder, self.clock() - self.begun, self.valid):
            bad = line == ending.message and ending.reason in ("failed", "nonfinite", "collapsed")
            self._print(line, "red" if bad else "")

    # -- drawing --

    def _print(self, *parts: str) -> None:
        """(text, style) side by side; above the bar while there is one."""
        line = Text.assemble(*zip(parts[::2], parts[1::2], strict=True))
        self._try(lambda: self.console.print(line, soft_wrap=True))

    def _draw(self) -> None:
        self.drawn = self.clock()
        if self.live is not None:
            self._try(self.live.refresh)

    def _try(self, draw: Callable[[], None]) -> None:
        """A closed terminal does not end the run."""
        try:
            draw()
        except OSError:
            self.console.quiet = True

    def _picture(self) -> Group:
        if self.start is None:
            return Group()
        start = self.start
        row = self.row or Row("train", start.from_step, start.from_step / max(1, start.steps_per_epoch), {})
        share = min(1.0, row.step / max(1, start.total_steps))
        step = f"step {row.step:,}/{start.total_steps:,}"
        text = f"{100 * share:4.0f}%  {step}  epoch {row.epoch:.1f}  {self._left(row.step)}".rstrip()
        room = self.console.width - len(start.name) - len(text) - 2
        bar = self._bar(share, min(LONGEST, room)) if room >= 5 else Text()
        first = Text.assemble((start.name, "bold"), " ", bar, " ", text, no_wrap=True, overflow="ellipsis")
        loss = [f"loss {number(row.values['loss'])}"] if "loss" in row.values else []
        facts = [*loss, *self._reached(), *speed(row)]
        second = Text(" " * (len(start.name) + 1) + "  ".join(facts), style="dim", no_wrap=True, overflow="ellipsis")
        return Group(first, second)

    def _bar(self, share: float, width: int) -> Text:
        """Done and not done differ in shape, not only in color."""
        done, rest = ("━", "─") if self.console.encoding.startswith("utf") else ("#", "-")
        filled = round(share * width)
        return Text.assemble((done * filled, "cyan"), (rest * (width - filled), "dim"))

    def _reached(self) -> list[str]:
        """The last validation: its first metric that is not the loss, or the loss."""
        if self.valid is None or not self.valid.values:
            return []
        values = {name: value for name, value in self.valid.values.items() if name != "loss"} or self.valid.values
        name, value = next(iter(values.items()))
        return [f"{'valid ' if name == 'loss' else ''}{name} {number(value)}"]

    def _left(self, step: int) -> str:
        if self.start is None or self.first is None or step <= self.first[0]:
            return ""
        per_step = (self.clock() - self.first[1]) / (step - self.first[0])
        return f"{duration(per_step * (self.start.total_steps - step))} left"
