"""DAT111 no-seed-set: the run cannot be repeated, because no seed was set before its weights and its order were drawn.

What it sees
------------
At the first step, PyTorch's generator still starts from the seed that the machine gave it, and numbers have been drawn
from it: weights, an order, dropout. Or it was seeded, but only after the optimizer had been given weights that were
drawn before. `numpy.random.seed` and
`random.seed` alone do not seed PyTorch.

Why it hurts
------------
Two runs of the same script differ, so one cannot tell whether a change helped or the dice did; and a run that fails
cannot be run again to look at it. Differences between seeds are often as large as the improvements that are reported.

Evidence
--------
The model, and whether a seed came too late or not at all.

Use instead
-----------
    torch.manual_seed(0)          # first of all, before the model is made

When it is fine
---------------
A script that draws nothing at random needs no seed; weights that are loaded over the random ones do not count as drawn
too early. A seed that was set at any time before the model is enough, also by a framework; `torch.seed()` says that
none is wanted. Whether the run is then exactly repeatable (workers, devices, algorithms) is not looked at here.
"""

from __future__ import annotations

import ast
from itertools import dropwhile, takewhile
from typing import final

from trueloop.event import Place, SeedChecked
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Edit, Source, called_name, calls_in, diff, source_of

__all__ = ["NoSeedSet"]


@final
class NoSeedSet(Rule):
    code = "DAT111"
    name = "no-seed-set"
    severity = Severity.ADVICE
    not_applicable = "no optimizer step was seen"

    def on_seed_checked(self, event: SeedChecked) -> Findings:
        if not event.drawn or (event.seeded and not event.seeded_late):
            return
        what = event.model or "The model"
        never = f"{what} was made and trained without a seed: every run of this script is another one."
        late = f"The seed was set after the weights of {what} had been drawn: they are others in every run."
        source = None if event.place is None else source_of(event.place.path)
        yield self.finding(
            event,
            late if event.seeded_late else never,
            fix="Call torch.manual_seed(0) first of all, before the model is made.",
            evidence={"model": event.model, "seeded": "too late" if event.seeded_late else "never"},
            place=event.place if source is None else _made_at(source, event.model) or event.place,
            diff="" if source is None else _seeded(source),
        )


def _made_at(source: Source, model: str) -> Place | None:
    """The first line outside of classes that makes the model."""
    inside = {
        id(node) for owner in ast.walk(source.tree) if isinstance(owner, ast.ClassDef) for node in ast.walk(owner)
    }
    calls = [call for call in calls_in(source.tree) if called_name(call) == model and id(call) not in inside]
    return source.place(min(calls, key=lambda call: call.lineno)) if calls else None


def _seeded(source: Source) -> str:
    """The seed after the imports that the file begins with."""
    imports = list(takewhile(_is_import, dropwhile(lambda node: not _is_import(node), source.tree.body)))
    if not any(
        isinstance(node, ast.Import) and any(a.name == "torch" and not a.asname for a in node.names) for node in imports
    ):
        return ""
    line = imports[-1].end_lineno or imports[-1].lineno
    return diff(source.path, [Edit(line + 1, line, ("", "torch.manual_seed(0)"))])


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))
