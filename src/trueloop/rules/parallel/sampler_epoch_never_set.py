"""PAR102 sampler-epoch-never-set: a DistributedSampler gives the same order in every epoch, because nobody tells it the
epoch.

What it sees
------------
Passes that begin at one line, over a loader whose DistributedSampler shuffles. Its order depends on its seed and on its
`epoch` alone. Two or more passes were trained on, and neither has moved.

Why it hurts
------------
Every epoch shows every rank the same samples in the same order and in the same batches: the data is shuffled once, not
in each epoch, and no rank ever meets what the others see. The loss still falls, and generalises worse.

Evidence
--------
The number of passes, the epoch and the seed that the sampler had in all of them, and the number of replicas.

Use instead
-----------
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            ...

When it is fine
---------------
`shuffle=False`, passes that nothing is trained on (evaluation), a run of one epoch, and samplers of your own that draw
in another way are not reported. A sampler that is built anew with another seed in each epoch moves too.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final, final

from trueloop.event import Place, RunEnded, SamplerPass
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import loops_around, owns_its_lines
from trueloop.usercode.source import Edit, Source, called_name, diff, source_of

__all__ = ["SamplerEpochNeverSet"]

SURE: Final = 3
"""Passes after which it is said at once: after two, set_epoch may still come, at the end of the loop's body, one epoch
late."""


@dataclass(slots=True)
class _Story:
    """The passes at one line over one dataset."""

    orders: set[tuple[int, int]] = field(default_factory=set)
    """(epoch, seed) that the sampler had."""
    passes: int = 0
    trained: int = 0
    """Passes that are known to have been trained on."""
    latest: SamplerPass | None = None


@final
class SamplerEpochNeverSet(Rule):
    code = "PAR102"
    name = "sampler-epoch-never-set"
    severity = Severity.ERROR
    not_applicable = "no DistributedSampler shuffled a second pass"

    def __init__(self) -> None:
        self._stories: dict[tuple[Place | None, int], _Story] = {}

    def why_not_checked(self) -> str:
        return "" if any(story.passes > 1 for story in self._stories.values()) else self.not_applicable

    def on_sampler_pass(self, event: SamplerPass) -> Findings:
        story = self._stories.setdefault((event.place, event.dataset), _Story())
        story.passes += 1
        story.trained += bool(event.trained)
        story.orders.add((event.epoch, event.seed))
        story.latest = event
        if story.passes == SURE and _repeats(story):
            yield self._said(story, event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for story in self._stories.values():
            if (
                story.passes < SURE
                and event.reason in ("finished", "exit")
                and _repeats(story)
                and story.latest is not None
            ):
                yield self._said(story, story.latest)

    def _said(self, story: _Story, event: SamplerPass) -> Finding:
        return self.finding(
            event,
            f"The DistributedSampler began pass {story.passes} over the training data with epoch {event.epoch}, like all passes before: "
            "every epoch has the same order.",
            fix="Call sampler.set_epoch(epoch) at the start of each epoch.",
            evidence={"passes": story.passes, "epoch": event.epoch, "seed": event.seed, "replicas": event.replicas},
            diff=_set_epoch(event),
        )


def _repeats(story: _Story) -> bool:
    return len(story.orders) == 1 and story.passes > 1 and story.trained > 0


def _set_epoch(event: SamplerPass) -> str:
    """`sampler.set_epoch(epoch)` as the first line of the loop over epochs, when that loop and the loader stand in one
    function."""
    place = event.place
    if place is None:
        return ""
    source = source_of(place.path)
    statement = source.statement(place.line)
    loops = [] if statement is None else loops_around(source, statement)
    if not isinstance(statement, ast.For) or not loops or not isinstance(loops[0], ast.For):
        return ""
    epochs, sampler = loops[0], _sampler_text(source, statement, event.attribute)
    first = epochs.body[0]
    if not isinstance(epochs.target, ast.Name) or epochs.target.id == "_" or not _counts(epochs.iter) or not sampler:
        return ""
    if first.lineno == epochs.lineno or (not isinstance(first, ast.For) and not owns_its_lines(source, first)):
        return ""
    line = f"{source.indent(first.lineno)}{sampler}.set_epoch({epochs.target.id})"
    return diff(place.path, [Edit(first.lineno, first.lineno - 1, (line,))])


def _counts(iterated: ast.expr) -> bool:
    """range(...), also inside a progress bar."""
    return isinstance(iterated, ast.Call) and (
        called_name(iterated) in ("range", "count", "trange") or any(map(_counts, iterated.args))
    )


def _sampler_text(source: Source, loop: ast.For, attribute: str) -> str:
    """The variable of the sampler, if the same function has one; `loader.sampler` otherwise; '' if neither is there
    before the loop."""
    around = source.enclosing_function(loop.lineno) or source.tree
    built = [
        node.targets[0].id
        for node in ast.walk(around)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and called_name(node.value) == "DistributedSampler"
        and isinstance(node.targets[0], ast.Name)
    ]
    names = [
        node
        for node in ast.walk(loop.iter)
        if isinstance(node, (ast.Name, ast.Attribute)) and "loader" in source.text(node).lower()
    ]
    if len(built) == 1 and not _inside(source, loop, built[0]):
        return built[0]
    there = bool(names) and not any(_inside(source, loop, n.id) for n in ast.walk(names[0]) if isinstance(n, ast.Name))
    return f"{source.text(names[0])}.{attribute}" if there else ""


def _inside(source: Source, loop: ast.For, name: str) -> bool:
    """Is the variable assigned inside the loop over epochs? Then it does not exist yet where the line would stand."""
    epochs = loops_around(source, loop)[0]
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in ast.walk(epochs)
    )
