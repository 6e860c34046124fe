"""LOS150 positives-are-not-pairs: the positives of a contrastive loss are rows of different samples.

What it sees
------------
A contrastive loss takes row 2i with row 2i + 1 as positives, or row i with row i + N. Or a fixed index, a diagonal or a
mask gives each row a different one. In the first recorded steps these pairs are no more similar than any two rows. The
pairs of another layout are far more similar, or the program shows that they are the two views of one sample: both views
were computed from the same rows, and were joined in this layout. Or all terms of the loss compare rows with themselves
(`z @ z.T`), and the labels are the diagonal: the positive of each row is the row itself.

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
    loss = F.cross_entropy(first @ second.T / temperature, torch.arange(n))

When it is fine
---------------
Not reported: positives that are more similar than other pairs at first, views that an untrained model cannot tell from
other samples, batches whose neighbors or distant rows are alike anyway (sorted by time, class by class), positives by
labels, tables of two different sets of rows (images and texts), and a term that pushes all rows apart beside others.
"""

from math import sqrt
from typing import Final

from trueloop.event import ContrastivePairsRead, Place, StepProgram
from trueloop.event.operation_names import CLASS_LOSSES
from trueloop.rules.program_pairs import compares_rows_with_themselves, joined_views
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts

__all__ = ["PositivesAreNotPairs"]

FIRST: Final = 3  # recorded steps: training on wrong pairs makes them similar in the end
SURE: Final = 7.0  # standard errors, of these steps together
CHANCE: Final = 3.0
_MEANT: Final = {"neighbors": "2i with 2i + 1", "halves": "i with i + N"}
_TAKEN: Final = _MEANT | {"fixed": "i with the one that a fixed index gives"}


class PositivesAreNotPairs(Rule, code="LOS150", severity=Severity.ERROR):
    not_applicable = "no contrastive loss on a square table of similarities was recorded"

    def __init__(self) -> None:
        self._seen: dict[Place | None, list[ContrastivePairsRead]] = {}
        self._joined: dict[Place | None, list[str]] = {}  # the layout of the rows, by the program of each step

    def on_contrastive_pairs_read(self, event: ContrastivePairsRead) -> None:
        seen = self._seen.setdefault(event.place, [])
        if not seen or seen[-1].step < event.step:
            seen.append(event)

    def on_step_program(self, program: StepProgram) -> Findings:
        """At the end of each recorded step."""
        for place, seen in self._seen.items():
            if seen[-1].step != program.step or len(seen) > FIRST:
                continue
            joined = self._joined.setdefault(place, [])
            joined.append(_only_itself(program) if seen[-1].pairs == "itself" else _layout(program, place))
            if len(seen) == FIRST and len(joined) == FIRST and len({(s.pairs, s.table) for s in seen}) == 1:
                yield from self._judge(seen, set(joined))

    def _judge(self, seen: list[ContrastivePairsRead], joined: set[str]) -> Findings:
        event = seen[-1]
        layout = joined.pop() if len(joined) == 1 else ""
        if event.pairs == "itself":
            if layout == "itself":
                yield self._of_itself(event)
            return
        positives, neighbors, halves, unrelated = (
            sum(getattr(step, name) for step in seen) / sqrt(FIRST)
            for name in ("positives", "neighbors", "halves", "unrelated")
        )
        others = {kind: z for kind, z in (("neighbors", neighbors), ("halves", halves)) if kind != event.pairs}
        meant = layout if layout in _MEANT else max(others, key=others.__getitem__)
        similar = others.get(meant, 0) >= SURE and unrelated <= others[meant] / 2
        if meant == event.pairs or abs(positives) > CHANCE or not (layout in _MEANT or similar):
            return
        yield self.finding(
            event,
            f"The positives, row {_TAKEN[event.pairs]} of {event.rows}, are as similar as any two rows "
            f"({positives:+.1f} standard errors); row {_MEANT[meant]} are the pairs ({others[meant]:+.1f}).",
            fix="After `torch.cat([first, second])` the positive of row i is row `(i + n) % (2 * n)`.",
            evidence=facts(
                event,
                "rows pairs",
                positives=round(positives, 1),
                others=round(others[meant], 1),
                unrelated=round(unrelated, 1),
                views_of_one_batch=layout in _MEANT,
                sampled_steps=FIRST,
            ),
        )

    def _of_itself(self, event: ContrastivePairsRead) -> Finding:
        return self.finding(
            event,
            f"The positive of each of {event.rows} rows is the row itself: the table compares rows with themselves, "
            "and the labels take its diagonal. No second view is in this loss.",
            fix="Compare two views: `cross_entropy(first @ second.T / temperature, torch.arange(n))`.",
            evidence=facts(event, "rows pairs", sampled_steps=FIRST),
        )


def _layout(program: StepProgram, place: Place | None) -> str:
    """How the rows of the table were joined; empty where it is not certain."""
    view = ProgramView(program)
    found = {
        joined_views(view, index)
        for operation in program.operations
        if operation.place == place
        for index in operation.inputs[:2]
        if view.values[index].grad and _is_square(view.values[index].shape)
    }
    return next(iter(found)) or "" if len(found) == 1 else ""


def _only_itself(program: StepProgram) -> str:
    """Each term of the loss compares rows with themselves: nothing pulls two samples together."""
    view = ProgramView(program)
    terms = [index for loss in program.losses for index in view.terms(loss)]
    for _ in range(4):  # (a + b) / 2
        scaled = [(index, view.maker(index)) for index in terms]
        terms = [
            term
            for index, maker in scaled
            for term in (view.terms(maker.inputs[0]) if maker is not None and view.factor(maker) else [index])
        ]
    made = [view.maker(index) for index in terms]
    losses = [m.inputs[0] for m in made if m is not None and m.name in CLASS_LOSSES and m.inputs]
    alone = 0 < len(losses) == len(terms)
    return "itself" if alone and all(compares_rows_with_themselves(view, index) for index in losses) else ""


def _is_square(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and shape[0] == shape[1]
