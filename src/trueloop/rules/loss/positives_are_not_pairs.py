"""LOS150 positives-are-not-pairs: the positives of a contrastive loss are rows of different samples.

What it sees
------------
A contrastive loss takes row 2i with row 2i + 1 as positives, or row i with row i + N. In the first recorded steps these
pairs are no more similar than any two rows. The pairs of the other layout are far more similar, or the program shows
that they are the two views of one sample: both views were computed from the same rows, and were joined in this layout.

Why it hurts
------------
Two views that are put one after the other (`torch.cat`) have their pairs N rows apart; views that are interleaved have
them side by side. With the wrong layout the loss pulls unrelated samples together and pushes the two views of a sample
apart. It still falls, because samples can be memorized.

Evidence
--------
The number of rows, and how far both kinds of pairs are above all other pairs, in standard errors; whether the layout
is known from the program.

Use instead
-----------
    z = torch.cat([first, second])                         # rows i and i + N are a pair
    positives = (torch.arange(2 * n) + n) % (2 * n)
    z = torch.stack([first, second], 1).flatten(0, 1)      # rows 2i and 2i + 1 are a pair
    positives = torch.arange(2 * n) ^ 1

When it is fine
---------------
Not reported: positives that are more similar than other pairs at first, views that an untrained model cannot tell from
other samples, batches whose neighbors or distant rows are alike anyway (sorted by time, class by class), positives by
labels, and tables of two different sets of rows (images and texts).
"""

from math import sqrt
from typing import Final

from trueloop.event import ContrastivePairsRead, Place, StepProgram
from trueloop.rules.program_pairs import joined_views
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["PositivesAreNotPairs"]

FIRST: Final = 3  # recorded steps: training on wrong pairs makes them similar in the end
SURE: Final = 7.0  # standard errors, of these steps together
CHANCE: Final = 3.0
_PAIRS: Final = ("2i with 2i + 1", "i with i + N")


class PositivesAreNotPairs(Rule, code="LOS150", severity=Severity.ERROR):
    not_applicable = "no contrastive loss on a square table of similarities was recorded"

    def __init__(self) -> None:
        self._seen: dict[Place | None, list[ContrastivePairsRead]] = {}
        self._joined: dict[Place | None, list[str]] = {}  # the layout of the rows, by the program of each step

    def on_contrastive_pairs_read(self, event: ContrastivePairsRead) -> None:
        self._seen.setdefault(event.place, []).append(event)

    def on_step_program(self, program: StepProgram) -> Findings:
        """At the end of each recorded step."""
        for place, seen in self._seen.items():
            if seen[-1].step == program.step and len(seen) <= FIRST:
                self._joined.setdefault(place, []).append(_layout(program, place))
                yield from self._judge(seen, self._joined[place])

    def _judge(self, seen: list[ContrastivePairsRead], joined: list[str]) -> Findings:
        event = seen[-1]
        if len(seen) != FIRST or len({step.pairs for step in seen}) > 1:
            return
        positives, others, unrelated = (
            sum(getattr(step, name) for step in seen) / sqrt(FIRST) for name in ("positives", "others", "unrelated")
        )
        known = set(joined) == {"halves" if event.pairs == "neighbors" else "neighbors"} and len(joined) == FIRST
        similar = others >= SURE and unrelated <= others / 2
        if abs(positives) > CHANCE or not (known or similar):
            return
        taken, meant = _PAIRS if event.pairs == "neighbors" else _PAIRS[::-1]
        yield self.finding(
            event,
            f"The positives, row {taken} of {event.rows}, are as similar as any two rows ({positives:+.1f} "
            f"standard errors); row {meant} are the pairs ({others:+.1f}).",
            fix="After `torch.cat([first, second])` the positive of row i is row `(i + n) % (2 * n)`.",
            evidence=facts(
                event,
                "rows pairs",
                positives=round(positives, 1),
                others=round(others, 1),
                unrelated=round(unrelated, 1),
                views_of_one_batch=known,
                sampled_steps=FIRST,
            ),
        )


def _layout(program: StepProgram, place: Place | None) -> str:
    """How the rows of the table were joined; empty where it is not certain."""
    view = ProgramView(program)
    found = {
        joined_views(view, operation.inputs[0])
        for operation in program.operations
        if operation.place == place and operation.inputs and _is_square(view.values[operation.inputs[0]].shape)
    }
    return next(iter(found)) or "" if len(found) == 1 else ""


def _is_square(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and shape[0] == shape[1]
