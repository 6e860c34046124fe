"""GRD111 backward-through-earlier-steps: each backward goes through the graphs of all earlier steps.

What it sees
------------
The graph of a backward contains operations that earlier backwards already went through, before optimizer steps. At each
measurement it reaches further back and contains more operations. A hidden state or a running sum is carried from step
to step without `detach()`.

Why it hurts
------------
Step 100 computes gradients through 100 steps: time and memory grow with every step, and most of the gradient belongs to
old weights. `retain_graph=True`, which silences PyTorch's error here, makes it possible.

Evidence
--------
The number of optimizer steps the graph reaches back, its number of operations at the first and the last measurement,
and whether `retain_graph=True` was used.

Use instead
-----------
    hidden = hidden.detach()           # at the start of each step: keeps the value, drops the graph
    output, hidden = rnn(x, hidden)
    loss.backward()                    # without retain_graph=True

When it is fine
---------------
Not reported, since the depth is bounded: a GAN's generator output used before and after the discriminator's step;
unrolled optimization; truncated backpropagation through time that detaches every few steps; several backwards through
one graph within a step.
"""

import ast
from collections.abc import Iterator
from typing import Final

from trueloop.event import Backward, Place, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity, facts
from trueloop.usercode.source import Source, called_name, source_of

__all__ = ["BackwardThroughEarlierSteps"]

DEEP: Final = 64  # No intended window is this long: reported at once
DEEP_AT_THE_END: Final = 5  # The same at the end of a short run, after growth at every measurement

_CUTS: Final = ("detach", "item", "tolist", "numpy", "size", "numel", "len", "float", "int", "str")
"""Calls whose result has no graph."""


class _Chain:
    """The measured backwards of one line."""

    def __init__(self, first: Backward) -> None:
        self.first = self.last = first
        self.unbroken = True

    def add(self, event: Backward) -> None:
        assert event.nodes is not None
        assert event.spanned_steps is not None
        grew = event.spanned_steps > (self.last.spanned_steps or 0) and event.nodes > (self.last.nodes or 0)
        self.unbroken = self.unbroken and grew
        self.last = event


class BackwardThroughEarlierSteps(Rule, code="GRD111", severity=Severity.WARNING):
    not_applicable = "no backward was seen"

    def __init__(self) -> None:
        self._chains: dict[Place | None, _Chain] = {}
        self._reported: set[Place | None] = set()

    def on_backward(self, event: Backward) -> Findings | None:
        return None if event.spanned_steps is None or event.nodes is None else self._look(event, event.spanned_steps)

    def _look(self, event: Backward, spanned: int) -> Findings:
        chain = self._chains.get(event.place)
        if chain is None:
            self._chains[event.place] = _Chain(event)
        elif event.step > chain.last.step:
            chain.add(event)
            if chain.unbroken and spanned >= DEEP:
                yield from self._report(chain)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for chain in self._chains.values():
            if chain.unbroken and (chain.last.spanned_steps or 0) >= DEEP_AT_THE_END:
                yield from self._report(chain)

    def _report(self, chain: _Chain) -> Findings:
        first, last = chain.first, chain.last
        if last.place in self._reported:
            return
        self._reported.add(last.place)
        carried = _carried_at(last.place) if last.place else None
        state = "the hidden state" if carried is None else f"`{carried[1]}`"
        yield self.finding(
            last,
            f"`backward()` of step {last.step + 1} goes through the graphs of {last.spanned_steps} earlier steps: the "
            f"graph has grown from {first.nodes} to {last.nodes} operations.",
            fix=f"Call `.detach()` on {state} at the start of each step, and `backward()` without `retain_graph=True`.",
            evidence=facts(
                last,
                "spanned_steps operations_first operations_last=nodes retain_graph=retained",
                operations_first=first.nodes,
                carried=None if carried is None else carried[1],
            ),
            place=None if carried is None else carried[0],
        )


def _carried_at(place: Place) -> tuple[Place, str] | None:
    """The statement that computes a value from its own value of the previous step, and the name of that value."""
    source = source_of(place.path)
    loop = source.enclosing_loop(place.line)
    inside = [] if loop is None else list(_carrying(loop))
    by_self = [pair for pair in _carrying_attributes(source) if pair[1].startswith("self.")]
    found = inside or by_self
    return (source.place(found[0][0], place.function), found[0][1]) if len(found) == 1 or inside else None


def _carrying(loop: ast.For | ast.While | ast.AsyncFor) -> Iterator[tuple[ast.stmt, str]]:
    """Statements in the loop around a backward that read a value of the previous iteration and assign it."""
    given = set(_named(loop.target)) if not isinstance(loop, ast.While) else set()
    statements = [node for node in ast.walk(loop) if isinstance(node, (ast.Assign, ast.AugAssign))]
    for statement in sorted(statements, key=lambda s: s.lineno):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        made = [name for target in targets for name in _named(target)]
        taken = _handed_on(statement.value) | (set(made) if isinstance(statement, ast.AugAssign) else set())
        for name in made:
            added = isinstance(statement, ast.AugAssign) or isinstance(statement.value, ast.BinOp)
            # a counter or a log of losses is carried too, but not used in computations
            if (
                name in taken
                and name not in given
                and (not added or (len(taken) > 1 and _is_read(loop, statement, name)))
            ):
                yield statement, name
        given |= set(made)


def _is_read(loop: ast.AST, excluded: ast.stmt, name: str) -> bool:
    """Some other statement of the loop uses the value, apart from print."""
    return any(
        name in set(_named(node))
        for node in ast.walk(loop)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)) and node is not excluded
        if not (isinstance(node.value, ast.Call) and isinstance(node, ast.Expr) and called_name(node.value) == "print")
    )


def _carrying_attributes(source: Source) -> Iterator[tuple[ast.stmt, str]]:
    """`self.hidden = f(x, self.hidden)`, anywhere in the file."""
    for statement in ast.walk(source.tree):
        if isinstance(statement, ast.Assign):
            for name in (name for target in statement.targets for name in _named(target)):
                if name in _handed_on(statement.value):
                    yield statement, name


def _named(node: ast.AST) -> Iterator[str]:
    """Names and attributes in a node, as written: `hidden`, `self.hidden`."""
    if isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        yield ast.unparse(node)
        yield from _named(node.value) if isinstance(node, ast.Attribute) else ()
    else:
        for child in ast.iter_child_nodes(node):
            yield from _named(child)


def _handed_on(value: ast.expr) -> set[str]:
    """The names whose graph an expression uses: arguments of calls and operators, not detached values."""
    if isinstance(value, ast.Call):
        if called_name(value) in _CUTS:
            return set()
        parts = [*value.args, *(keyword.value for keyword in value.keywords)]
        parts += [value.func.value] if isinstance(value.func, ast.Attribute) else []
        return {name for part in parts for name in _handed_on(part)}
    if isinstance(value, (ast.Name, ast.Attribute)):
        return {ast.unparse(value)}
    return {name for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr) for name in _handed_on(child)}
