"""DAT111 no-seed-set: no seed is set before the weights and the data order are drawn, so every run differs.

What it sees
------------
At the first step, PyTorch's generator still uses the seed it got from the operating system, and numbers have been drawn
from it: weights, a shuffle, dropout. Or it was seeded only after the weights in the optimizer had been drawn.
`numpy.random.seed` and `random.seed` alone do not seed PyTorch.

Why it hurts
------------
Two runs of the same script differ, so you cannot tell whether a change helped, and a failing run cannot be repeated.
Differences between seeds are often as large as reported improvements.

Evidence
--------
The model, and whether the seed was set too late or never.

Use instead
-----------
    torch.manual_seed(0)          # first, before the model is created

When it is fine
---------------
Not reported: a script without random draws; weights that are loaded over the random ones; a seed set at any time before
the model, also by a framework; `torch.seed()`, which asks for a random seed. Whether the run is then exactly
reproducible (workers, devices, algorithms) is not checked here.
"""

import ast
from itertools import dropwhile, takewhile

from trueloop.event import Place, SeedChecked
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import Edit, Source, called_name, calls_in, diff, source_of

__all__ = ["NoSeedSet"]


class NoSeedSet(Rule, code="DAT111", severity=Severity.ADVICE):
    not_applicable = "no optimizer step was seen"

    def on_seed_checked(self, event: SeedChecked) -> Findings:
        if not event.drawn or (event.seeded and not event.seeded_late):
            return
        model = event.model or "the model"
        never = f"No seed is set before {model} is created and trained, so every run gives different results."
        late = f"The seed is set after the weights of {model} were drawn, so every run starts with different weights."
        source = None if event.place is None else source_of(event.place.path)
        yield self.finding(
            event,
            late if event.seeded_late else never,
            fix="Call `torch.manual_seed(0)` before the model is created.",
            evidence={"model": event.model, "seeded": "too late" if event.seeded_late else "never"},
            place=event.place if source is None else _created_at(source, event.model) or event.place,
            diff="" if source is None else _seeded(source),
        )


def _created_at(source: Source, model: str) -> Place | None:
    """The first line outside of classes that creates the model."""
    classes = [node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)]
    inside = {id(call) for owner in classes for call in calls_in(owner)}
    calls = [call for call in calls_in(source.tree) if called_name(call) == model and id(call) not in inside]
    return source.place(min(calls, key=lambda call: call.lineno)) if calls else None


def _seeded(source: Source) -> str:
    """The seed after the imports at the top of the file."""
    imports = list(takewhile(_is_import, dropwhile(lambda node: not _is_import(node), source.tree.body)))
    names = [alias for node in imports if isinstance(node, ast.Import) for alias in node.names]
    if not any(alias.name == "torch" and not alias.asname for alias in names):
        return ""
    line = imports[-1].end_lineno or imports[-1].lineno
    return diff(source.path, [Edit(line + 1, line, ("", "torch.manual_seed(0)"))])


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))
