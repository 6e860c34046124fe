"""GRD111 backward-through-earlier-steps: each backward walks through the graphs of all steps before it.

What it sees
------------
The graph of a backward holds operations that earlier backwards had walked through already, before optimizer steps were
taken; at each look it reaches back further and holds more operations. A hidden state, or a running sum, is carried from
step to step with its graph.

Why it hurts
------------
Step 100 computes gradients through a hundred steps: time and memory grow with every step, and most of what is computed
belongs to weights that no longer exist. `retain_graph=True`, which silences PyTorch's error here, is what lets it
happen.

Evidence
--------
How many optimizer steps the graph reaches back, how many operations it had at the first and at the last look, and
whether it was retained.

Use instead
-----------
    hidden = hidden.detach()           # at the start of each step: the value is carried on, the graph is not
    output, hidden = rnn(x, hidden)
    loss.backward()                    # without retain_graph=True

When it is fine
---------------
A graph of bounded depth is not reported: a GAN's generator output that is used before and after the discriminator's
step, unrolled optimisation, truncated windows that are detached every few steps, several backwards through one graph
within a step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, final

from trueloop.event import Backward, Place, RunEnded
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Source, called_name, source_of

__all__ = ["BackwardThroughEarlierSteps"]

DEEP: Final = 64
"""Steps that no window kept on purpose spans: reported at once."""
DEEP_AT_THE_END: Final = 5
"""The same at the end of a short run, having grown at every look: unrolling by design is rarely deeper, and it starts
over."""

_CUTS: Final = ("detach", "item", "tolist", "numpy", "size", "numel", "len", "float", "int", "str")
"""Calls whose result has no graph."""


class _Chain:
    """What the looks at one place's backwards have seen."""

    def __init__(self, first: Backward) -> None:
        self.first = self.last = first
        self.unbroken = True

    def add(self, event: Backward) -> None:
        assert event.nodes is not None
        assert event.spanned_steps is not None
        grew = event.spanned_steps > (self.last.spanned_steps or 0) and event.nodes > (self.last.nodes or 0)
        self.unbroken = self.unbroken and grew
        self.last = event


@final
class BackwardThroughEarlierSteps(Rule):
    code = "GRD111"
    name = "backward-through-earlier-steps"
    severity = Severity.WARNING
    not_applicable = "no backward was seen"

    def __init__(self) -> None:
        self._chains: dict[Place | None, _Chain] = {}
        self._spoken: set[Place | None] = set()

    def on_backward(self, event: Backward) -> Findings | None:
        return None if event.spanned_steps is None or event.nodes is None else self._look(event, event.spanned_steps)

    def _look(self, event: Backward, spanned: int) -> Findings:
        chain = self._chains.get(event.place)
        if chain is None:
            self._chains[event.place] = _Chain(event)
        elif event.step > chain.last.step:
            chain.add(event)
            if chain.unbroken and spanned >= DEEP:
                yield from self._speak(chain)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for chain in self._chains.values():
            if chain.unbroken and (chain.last.spanned_steps or 0) >= DEEP_AT_THE_END:
                yield from self._speak(chain)

    def _speak(self, chain: _Chain) -> Findings:
        first, last = chain.first, chain.last
        if last.place in self._spoken:
            return
        self._spoken.add(last.place)
        carried = _carried_at(last.place) if last.place else None
        what = "what is carried" if carried is None else carried[1]
        yield self.finding(
            last,
            f"The backward of step {last.step + 1} walks back over {last.spanned_steps} optimizer steps: its graph has grown "
            f"from {first.nodes} to {last.nodes} operations.",
            fix=f"Detach {what} from the graph of the step before, and backward without retain_graph=True.",
            evidence={
                "spanned_steps": last.spanned_steps,
                "operations_first": first.nodes,
                "operations_last": last.nodes,
                "retain_graph": last.retained,
                "carried": None if carried is None else carried[1],
            },
            place=None if carried is None else carried[0],
        )


def _carried_at(place: Place) -> tuple[Place, str] | None:
    """The statement that makes a value from its own value of the step before, and the name of that value."""
    source = source_of(place.path)
    loop = source.enclosing_loop(place.line)
    inside = [] if loop is None else list(_carrying(loop))
    by_self = [pair for pair in _carrying_attributes(source) if pair[1].startswith("self.")]
    found = inside or by_self
    return (source.place(found[0][0], place.function), found[0][1]) if len(found) == 1 or inside else None


def _carrying(loop: ast.For | ast.While | ast.AsyncFor) -> Iterator[tuple[ast.stmt, str]]:
    """In the loop around a backward: statements that read a value before anything in this turn has set it, and set
    it."""
    given = set(_named(loop.target)) if not isinstance(loop, ast.While) else set()
    statements = [node for node in ast.walk(loop) if isinstance(node, (ast.Assign, ast.AugAssign))]
    for statement in sorted(statements, key=lambda s: s.lineno):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        made = [name for target in targets for name in _named(target)]
        taken = _handed_on(statement.value) | (set(made) if isinstance(statement, ast.AugAssign) else set())
        for name in made:
            added = isinstance(statement, ast.AugAssign) or isinstance(statement.value, ast.BinOp)
            # a counter or a log of losses is carried too, but nothing is computed from it
            if (
                name in taken
                and name not in given
                and (not added or (len(taken) > 1 and _is_read(loop, statement, name)))
            ):
                yield statement, name
        given |= set(made)


def _is_read(loop: ast.AST, apart_from: ast.stmt, name: str) -> bool:
    """Some other statement of the loop computes with the value."""
    simple = [
        node
        for node in ast.walk(loop)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)) and node is not apart_from
    ]
    printed = [
        node
        for node in simple
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and called_name(node.value) == "print"
    ]
    return any(name in set(_named(node)) for node in simple if node not in printed)


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
    """What an expression takes in with its graph: the arguments of calls and operators; not what it detaches."""
    if isinstance(value, ast.Call):
        if called_name(value) in _CUTS:
            return set()
        parts = [*value.args, *(keyword.value for keyword in value.keywords)]
        parts += [value.func.value] if isinstance(value.func, ast.Attribute) else []
        return {name for part in parts for name in _handed_on(part)}
    if isinstance(value, (ast.Name, ast.Attribute)):
        return {ast.unparse(value)}
    return {name for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr) for name in _handed_on(child)}
