"""DAT152 ids-drawn-from-wrong-range: ids or positions drawn at random stop at the size of something else.

What it sees
------------
In recorded training steps one embedding table is looked up twice. Some of the ids reach over all of its rows. The
others are spread evenly from 0 to exactly the size of a smaller table of the same step, and never beyond.

Windows of a long stored stream (a text, a signal) differ in each recorded step, from the first to a late one,
and they all begin below the width of one window, spread from end to end.

Why it hurts
------------
Negative items drawn with `randint(n_users)` leave out every item from `n_users` on. These items are never negatives:
their scores are pushed up by positives only, and the ranking puts them first. Window starts drawn with
`randint(block)` leave out all of the text except its first two blocks, which the model learns by heart.

Evidence
--------
Both tables with their sizes, the range of the ids that are drawn, and how many were seen. Of windows: the length of the
stream, the width, and where they begin.

Use instead
-----------
    negatives = torch.randint(0, n_items, users.shape)
    starts = torch.randint(len(text) - block, (batch,))

When it is fine
---------------
Not reported: ids that are also looked up in the smaller table (users and items in one table), ids that are not spread
evenly (popular items, real data), ranges that are no other table's size, and fewer than 60 ids. Windows that are read
in their order, the same windows in every step (a test of overfitting), and streams shorter than 20 windows.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import Final

from trueloop.event import Place, RunEnded, StepProgram, WindowsDrawn
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["IdsDrawnFromWrongRange"]

SAMPLED: Final = 3  # recorded steps
FEWEST: Final = 60  # ids
NEAR: Final = 0.05  # of the smaller table: from the smallest and largest id to its ends
SIGMAS: Final = 4.0  # of the mean of evenly spread ids
RECORDED: Final = 4  # steps: the first three, and one after at least 24 steps
WINDOWS: Final = 20  # in the stream
END: Final = 0.25  # of the width: the starts of each step come so near to 0 and to the width
SURE: Final = -14.0  # log of the chance that even draws from the whole table would all stay below
_LOOKUPS: Final = {"embedding": (0, 1), "__getitem__": (1, 0), "index_select": (1, 0)}
"""Positions of the ids and of the table."""


@dataclass(slots=True)
class _Ids:
    """The ids of one lookup, over the recorded steps."""

    place: Place | None
    count: int = 0
    total: float = 0.0
    low: float = float("inf")
    high: float = -1.0
    steps: int = 0

    def is_even_below(self, size: int) -> bool:
        """Are they spread evenly over 0 .. size - 1, from end to end?"""
        mean, error = self.total / self.count, size / sqrt(12 * self.count)
        ends = self.low <= NEAR * size and size * (1 - NEAR) - 1 <= self.high < size
        return ends and abs(mean - (size - 1) / 2) <= SIGMAS * error


class IdsDrawnFromWrongRange(Rule, code="DAT152", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self._event: StepProgram | None = None
        self._ids: dict[tuple[str, int], dict[int, _Ids]] = {}
        """By the name and the rows of a table: its lookups, in the order of a step."""
        self._shared: set[tuple[str, int, int]] = set()
        """Lookups whose ids are also looked up in a table with so many rows: table, position, rows."""

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "training" or not event.losses:
            return
        self._event = event
        view = ProgramView(event)
        used: dict[int, list[tuple[str, int, int]]] = {}
        positions: dict[tuple[str, int], int] = {}
        for operation in view.operations:
            where = _LOOKUPS.get(operation.name)
            if where is None or len(operation.inputs) < 2:
                continue
            ids, table = (operation.inputs[i] for i in where)
            given, weight = view.values[ids], view.values[table]
            if weight.origin != "parameter" or given.dtype not in ("int64", "int32") or given.mean is None:
                continue
            if given.smallest is None or given.largest is None or len(weight.shape) != 2:
                continue
            key = (weight.name, weight.shape[0])
            position = positions[key] = positions.get(key, -1) + 1
            used.setdefault(view.through_views(ids), []).append((*key, position))
            seen = self._ids.setdefault(key, {}).setdefault(position, _Ids(operation.place))
            number = 1
            for size in given.shape:
                number *= size
            seen.count, seen.total, seen.steps = seen.count + number, seen.total + number * given.mean, seen.steps + 1
            seen.low, seen.high = min(seen.low, given.smallest), max(seen.high, given.largest)
        for lookups in used.values():
            for name, rows, position in lookups:
                self._shared |= {(name, position, others) for _, others, _ in lookups if others != rows}

    def on_windows_drawn(self, event: WindowsDrawn) -> Findings:
        width, last = event.width, max(high for _, high, _ in event.steps)
        if len(event.steps) < RECORDED or event.different < len(event.steps) or event.length < WINDOWS * width:
            return
        if last > width or not all(
            low <= END * width and high >= (1 - END) * width - 2 for low, high, _ in event.steps
        ):
            return
        yield self.finding(
            event,
            f"All windows of {width} positions begin at positions 0 to {last} of {event.length:,}, in all "
            f"{len(event.steps)} recorded steps, as if drawn from the width of a window. Positions from {last + width} "
            "on are never read.",
            fix="Draw the starts from the length of the stream: `torch.randint(len(text) - block, (batch,))`.",
            evidence={"length": event.length, "width": width, "last_start": last, "recorded_steps": len(event.steps),
                      "windows": sum(count for _, _, count in event.steps)},
        )  # fmt: skip

    def on_run_ended(self, _: RunEnded) -> Findings:
        for (name, rows), lookups in self._ids.items():
            for position, ids in lookups.items():
                other = self._other_table(name, rows, position, ids, lookups)
                if self._event is None or other is None or self.count("reported") > 1:
                    continue
                named, size = other
                yield self.finding(
                    self._event,
                    f"{ids.count:,} ids that are looked up in a table of {rows} rows are spread evenly from "
                    f"{ids.low:g} to {ids.high:g}, as if drawn for a different table, of {size} rows. Rows {size} to "
                    f"{rows - 1} are never drawn.",
                    fix="Draw the ids from the size of their own table: `torch.randint(0, n_items, ...)`.",
                    evidence={"table": name, "rows": rows, "other_table": named, "other_rows": size,
                              "ids": ids.count, "range": [ids.low, ids.high]},
                    place=ids.place,
                )  # fmt: skip

    def _other_table(
        self, name: str, rows: int, position: int, ids: _Ids, lookups: dict[int, _Ids]
    ) -> tuple[str, int] | None:
        """The smaller table at whose size the ids stop, where other ids of the same table go beyond."""
        for named, size in self._ids:
            if size >= rows or (name, position, size) in self._shared or ids.count < FEWEST or ids.steps < SAMPLED:
                continue
            beyond = any(other.high >= size for key, other in lookups.items() if key != position)
            if beyond and ids.count * log(size / rows) <= SURE and ids.is_even_below(size):
                return named, size
        return None
