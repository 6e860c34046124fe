"""PAR102 set-epoch-not-called: a DistributedSampler gives the same order in every epoch without `set_epoch`.

What it sees
------------
Passes that start on one line, over a loader with a shuffling DistributedSampler. Its order depends only on its seed and
its `epoch`. Two or more passes were trained on, and neither changed.

Why it hurts
------------
In every epoch each rank gets the same samples in the same order and the same batches: the data is shuffled once, not
every epoch, and no rank ever sees the samples of the others. The loss still falls, but generalization is worse.

Evidence
--------
The number of passes, the epoch and the seed of the sampler in all of them, and the number of replicas.

Use instead
-----------
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            ...

When it is fine
---------------
Not reported: `shuffle=False`, passes without training (evaluation), a run of one epoch, your own samplers that draw
differently, and a sampler created with a different seed in each epoch.
"""

import ast
from dataclasses import dataclass, field
from typing import Final

from trueloop.event import Place, RunEnded, SamplerPass
from trueloop.rules.rule import Finding, Findings, Rule, Severity, statement_at
from trueloop.usercode.rewrite import loops_around, owns_its_lines
from trueloop.usercode.source import Edit, Source, called_name, diff

__all__ = ["SetEpochNotCalled"]

SURE: Final = 3  # Passes before it is reported in the run: after two, `set_epoch` may still come at the end of the loop


@dataclass(slots=True)
class _Passes:
    """The passes at one line over one dataset."""

    orders: set[tuple[int, int]] = field(default_factory=set)  # (epoch, seed) of the sampler
    passes: int = 0
    trained: int = 0  # Passes that were trained on
    latest: SamplerPass | None = None

    def repeats(self) -> bool:
        return len(self.orders) == 1 and self.passes > 1 and self.trained > 0


class SetEpochNotCalled(Rule, code="PAR102", severity=Severity.ERROR):
    not_applicable = "no DistributedSampler shuffled a second pass"

    def __init__(self) -> None:
        self._loops: dict[tuple[Place | None, int], _Passes] = {}

    def why_not_checked(self) -> str:
        return "" if any(loop.passes > 1 for loop in self._loops.values()) else self.not_applicable

    def on_sampler_pass(self, event: SamplerPass) -> Findings:
        loop = self._loops.setdefault((event.place, event.dataset), _Passes())
        loop.passes += 1
        loop.trained += bool(event.trained)
        loop.orders.add((event.epoch, event.seed))
        loop.latest = event
        if loop.passes == SURE and loop.repeats():
            yield self._report(loop, event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for loop in self._loops.values() if event.reason in ("finished", "exit") else ():
            if loop.passes < SURE and loop.repeats() and loop.latest is not None:
                yield self._report(loop, loop.latest)

    def _report(self, loop: _Passes, event: SamplerPass) -> Finding:
        return self.finding(
            event,
            f"`set_epoch` was not called: the DistributedSampler had epoch {event.epoch} in all {loop.passes} passes, "
            "so every epoch has the same order.",
            fix="Call `sampler.set_epoch(epoch)` at the start of each epoch.",
            evidence={"passes": loop.passes, "epoch": event.epoch, "seed": event.seed, "replicas": event.replicas},
            diff=_set_epoch(event),
        )


def _set_epoch(event: SamplerPass) -> str:
    """`sampler.set_epoch(epoch)` as the first line of the epoch loop, if that loop is in the same function."""
    source, statement = statement_at(event.place)
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
    return diff(source.path, [Edit(first.lineno, first.lineno - 1, (line,))])


def _counts(iterated: ast.expr) -> bool:
    """range(...), also inside a progress bar."""
    if not isinstance(iterated, ast.Call):
        return False
    return called_name(iterated) in ("range", "count", "trange") or any(map(_counts, iterated.args))


def _sampler_text(source: Source, loop: ast.For, attribute: str) -> str:
    """The sampler variable of the function, or `loader.sampler`; empty if neither exists before the loop."""
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
    if not names or any(_inside(source, loop, n.id) for n in ast.walk(names[0]) if isinstance(n, ast.Name)):
        return ""
    return f"{source.text(names[0])}.{attribute}"


def _inside(source: Source, loop: ast.For, name: str) -> bool:
    """Is the variable assigned inside the epoch loop? Then it does not exist yet where the line is inserted."""
    nodes = (node for node in ast.walk(loops_around(source, loop)[0]) if isinstance(node, ast.Name))
    return any(node.id == name and isinstance(node.ctx, ast.Store) for node in nodes)
