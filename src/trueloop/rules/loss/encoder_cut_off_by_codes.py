"""LOS172 encoder-cut-off-by-codes: a decoder reads codes that were looked up, and no gradient passes the lookup.

What it sees
------------
In a recorded training step, `argmin` (or `argmax`, `topk`) picks the entry of a table that is nearest to an output of
an encoder, and other layers compute a term of the loss from the entry. No gradient of that term reaches the encoder: it
gets gradients only from terms that compare its output with the table, such as a commitment loss.

Why it hurts
------------
The encoder is not trained to keep what the decoder needs. It only learns to stay near the entries that it has, so the
reconstruction stays poor and few entries are used.

Evidence
--------
The lookup, the table, the line of the term without a gradient, and the terms that do train the encoder.

Use instead
-----------
    codes = table[index]
    codes = z + (codes - z).detach()        # straight-through: the gradient of the codes is passed on to z
    output = decoder(codes)

When it is fine
---------------
Not reported: straight-through and soft assignments, an encoder that has a task of its own (a classifier on its output,
or on its distances to the table), an encoder that is frozen, and lookups in tables that are not weights or buffers.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["EncoderCutOffByCodes"]

STEPS: Final = 2  # recorded steps that must show it
_NEAREST: Final = ("argmin", "argmax", "min", "max", "topk")


class _Lookup(NamedTuple):
    operation: Operation
    table: int
    codes: int
    encoded: int


class EncoderCutOffByCodes(Rule, code="LOS172", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses or not event.complete:
            return
        view = ProgramView(event)
        for lookup in _lookups(view):
            cut = _cut_term(view, lookup)
            if cut is None or self.count(lookup.operation.place) != STEPS:
                continue
            table = view.values[lookup.table]
            yield self.finding(
                event,
                f"`{lookup.operation.name}` picks entries of `{table.name}` for the output of an encoder, and the "
                "layers behind them send no gradient back to it: only its distance to the table trains the encoder.",
                fix="Pass the gradient on: `codes = z + (codes - z).detach()` before the decoder.",
                evidence={"table": table.name, "entries": list(table.shape), "term_at": view.place_of(cut)},
                place=view.place_of(lookup.codes),
            )


def _lookups(view: ProgramView) -> Iterator[_Lookup]:
    for operation in view.operations:
        if operation.name not in _NEAREST or not operation.inputs:
            continue
        sources = list(view.behind(operation.inputs[0]))
        tables = [i for i in sources if view.values[i].origin in ("parameter", "buffer")]
        for output in operation.outputs:
            if "int" not in view.values[output].dtype:
                continue
            for table, codes in _picked(view, output):
                encoded = _encoded(view, sources, table)
                if table in tables and encoded is not None:
                    yield _Lookup(operation, table, codes, encoded)


def _picked(view: ProgramView, index: int) -> Iterator[tuple[int, int]]:
    """The tables that are read at an index, and what was read."""
    waiting = [index]
    for _ in range(8):
        if not waiting:
            return
        index = waiting.pop(0)
        for reader in view.readers.get(index, []):
            if not reader.outputs:
                continue
            if reader.name in ("__getitem__", "index_select") and index in reader.inputs[1:]:
                yield view.through_views(reader.inputs[0]), reader.outputs[0]
            elif reader.name == "embedding" and len(reader.inputs) > 1 and reader.inputs[0] == index:
                yield view.through_views(reader.inputs[1]), reader.outputs[0]
            elif reader.name in VIEWS and reader.inputs[0] == index:
                waiting.append(reader.outputs[0])


def _encoded(view: ProgramView, sources: list[int], table: int) -> int | None:
    """What is compared with the table: the nearest value that data and other weights made, and that can be trained."""
    for index in sources:
        value = view.values[index]
        if value.grad and index in view.from_data and value.origin == "operation" and table not in view.behind(index):
            return view.through_views(index)
    return None


def _cut_term(view: ProgramView, lookup: _Lookup) -> int | None:
    """The term of the loss that reads the codes by other weights and does not train the encoder, which is trained by
    nothing but terms of its own and the table's weights."""

    @cache
    def trained(value: int) -> frozenset[int]:
        return frozenset(_graph(view, value))

    encoder = _weights(view, trained(lookup.encoded))
    cut, others = None, False
    for term in (term for loss in view.program.losses for term in view.terms(loss)):
        weights = _weights(view, trained(term)) - encoder - {lookup.table}
        if lookup.encoded in trained(term):
            others = True
            if weights or not _data(view, term) <= _data(view, lookup.encoded):
                return None  # a task of its own, with targets
        elif weights and _reads(view, term, lookup, weights):
            cut = term
    return cut if others and encoder else None


def _reads(view: ProgramView, term: int, lookup: _Lookup, weights: frozenset[int]) -> bool:
    """Other weights were applied to the codes."""
    behind = set(view.behind(term))
    following = {lookup.codes}
    for operation in view.operations:
        if following.isdisjoint(operation.inputs):
            continue
        following.update(output for output in operation.outputs if output in behind)
        if not weights.isdisjoint(operation.inputs) and not behind.isdisjoint(operation.outputs):
            return True
    return False


def _graph(view: ProgramView, value: int) -> Iterator[int]:
    """The values to which a gradient is sent."""
    seen, waiting = {value}, [value]
    while waiting:
        index = waiting.pop()
        yield index
        maker = view.maker(index)
        new = [i for i in (() if maker is None else maker.inputs) if view.values[i].grad and i not in seen]
        seen.update(new)
        waiting += new


def _weights(view: ProgramView, values: frozenset[int]) -> frozenset[int]:
    return frozenset(index for index in values if view.values[index].origin == "parameter")


def _data(view: ProgramView, value: int) -> frozenset[int]:
    return frozenset(index for index in view.behind(value) if view.values[index].origin in ("batch", "outside"))
