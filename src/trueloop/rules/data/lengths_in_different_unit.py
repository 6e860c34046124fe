"""DAT156 lengths-in-different-unit: stored lengths do not say where the padded sequences beside them end.

What it sees
------------
An array of padded sequences and a column of lengths for its rows, both from data files. One value fills the ends of the
rows and comes nowhere before, so the end of each row is known. The lengths are a constant multiple of it (seconds
instead of frames; also rounded to a few whole numbers), or they point into the padding in at least 90 % of the rows
(characters instead of tokens). Where the padding is also content (no rain, no flow), no row ends behind a whole
multiple of its length, and most end there.

Or the lengths that `pack_padded_sequence` is given in recorded training steps, wherever they come from: nearly every
sequence continues behind its length, up to a constant multiple of it, or to three times of it and more (sentences
instead of tokens) by a factor that varies little.

Why it hurts
------------
Packed sequences and masks cut every sequence off, or the state that is read is that of padding. Nothing fails as long
as the lengths are smaller than the array is wide.

Evidence
--------
Both files, the median length and the median end of the content, and the factor between them.

Use instead
-----------
    lengths = (ids != 0).sum(1)                       # from the sequences themselves
    assert (ids[range(len(ids)), lengths - 1] != 0).all()

When it is fine
---------------
An end token more or less; lengths that agree in a part of the rows; a second column of lengths that is right; arrays in
which the padding value is also content. Not reported in scripts that shorten sequences (CTC, strides, pooling) or
multiply or divide the lengths (unless they divide lengths that are too short already), or that neither pack nor mask
nor index by them. Lengths that come from no file are not reported where the script divides anything by `//` or rounds
a product: a model may be given only a part on purpose.
"""

import re
from typing import Final

from trueloop.event import LengthsContradicted, LengthsStated, RunEnded, StepProgram, TablesRead
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import source_of

__all__ = ["LengthsInDifferentUnit"]

_LENGTH: Final = r"(lens|lengths?|seconds|durations?)"
_CONVERTS: Final = re.compile(
    rf"ctc|stride|pool|downsampl|subsampl|hop_length|sample_rate|\bfps\b|\b{_LENGTH}\w*(\[[^\]]*\])?\s*(\*|/)|\*\s*{_LENGTH}\b",
    re.IGNORECASE,
)
"""Words in a script that shortens the sequences, or brings the lengths into another unit."""
_USES: Final = re.compile(r"pack_padded_sequence|arange\(|mask|\blen\w*\s*-\s*1|gather\(|[:\[]\s*:?\s*(int\()?len\w*\W")


_DIVIDES: Final = re.compile(rf"\b{_LENGTH}\w*(\[[^\]]*\])?(\s*[+-]\s*\w+\))?\s*//", re.IGNORECASE)
_MULTIPLIES: Final = re.compile(rf"\b{_LENGTH}\w*(\[[^\]]*\])?\s*\*|\*\s*{_LENGTH}\b", re.IGNORECASE)
"""Lengths that are too short must be multiplied; a script that divides them, for a stride, takes them for positions."""
_SHORTENS: Final = re.compile(r"//\s*\w|\b(int|ceil|floor|round|trunc)\(.*[*/]")


class LengthsInDifferentUnit(Rule, code="DAT156", severity=Severity.WARNING):
    not_applicable = "no data file with lengths of padded sequences was read"
    applies_after = (TablesRead, StepProgram)

    def __init__(self) -> None:
        self._found: dict[str, list[LengthsContradicted]] = {}
        self._stated: list[LengthsStated] = []

    def on_lengths_contradicted(self, event: LengthsContradicted) -> None:
        paths = {*event.modules, event.place.path if event.place else ""}
        text = "\n".join(line for path in paths for line in source_of(path).lines)
        takes_positions = event.factor > 1 and _DIVIDES.search(text) and not _MULTIPLIES.search(text)
        if _USES.search(text) and (takes_positions or not _CONVERTS.search(text)):
            self._found.setdefault(event.column, []).append(event)

    def on_lengths_stated(self, event: LengthsStated) -> None:
        paths = {*event.modules, event.place.path if event.place else ""}
        lines = [line.partition("#")[0] for path in paths for line in source_of(path).lines]
        if not any(_CONVERTS.search(line) or _SHORTENS.search(line) for line in lines):
            self._stated.append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for stated in () if self._found else self._stated[:1]:
            yield self.finding(
                stated,
                f"The lengths given to `pack_padded_sequence` seem to be in a different unit than the positions: the "
                f"median length is {stated.length:g}, and the content ends after {stated.end:g} positions. In "
                f"{stated.rows:,} sequences it continues behind the length, up to about {stated.factor:.3g} times it, "
                f"so the model never sees the rest.",
                fix="Count the positions of each row before the padding: `(x != 0).any(-1).sum(1)`.",
                evidence={"rows": stated.rows, "factor": round(stated.factor, 3), "median length": stated.length,
                          "median end": stated.end, "positions": stated.positions},
            )  # fmt: skip
        for events in self._found.values():
            event = max(events, key=lambda each: each.rows)
            others = [f"`{each.file}`" for each in events if each is not event]
            called = f"`{event.column}` of `{event.file}`" if event.column else f"`{event.file}`"
            means = f"the median length is {event.length:g}, and the content ends after {event.end:g} positions"
            if event.factor:
                what = (f"{called} seems to be in a different unit than the positions of `{event.other}`: {means}, "
                        f"{event.factor:.3g} times the length.")  # fmt: skip
            else:
                what = (f"{called} points into the padding of `{event.other}` in {event.beyond:.0%} of {event.rows:,} "
                        f"rows: {means}.")  # fmt: skip
            yield self.finding(
                event,
                what + (f" The same holds for {', '.join(others)}." if others else ""),
                fix="Count the positions of each row before the padding, and store those: `(ids != padding).sum(1)`.",
                evidence={"file": event.file, "other": event.other, "rows": event.rows, "factor": event.factor,
                          "median length": event.length, "median end": event.end, "positions": event.positions},
            )  # fmt: skip
