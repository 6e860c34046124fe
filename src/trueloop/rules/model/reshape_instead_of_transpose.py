"""MDL115 reshape-instead-of-transpose: `view` or `reshape` swaps two dimensions and scrambles the values.

What it sees
------------
In a recorded step, `view` or `reshape` turns a tensor into a shape with the same sizes in a different order, such as
[batch, channels, time] into [batch, time, channels], also with two of them merged: [batch, time, joints, 2] into
[batch, joints * 2, time]. Sizes where such a reshape could also merge whole rows (16 steps of 8 features into 8 of 16)
are a warning. Where the sizes are equal, the line shows it: `n, c, t = x.shape`, then `x.reshape(n, t, c)`, which
changes nothing. Also seen: the output of a convolution, [batch, channels, ...], becomes rows of as many numbers as it
has channels (`reshape(-1, channels)`): a row then holds neighboring pixels of one channel.

Reshapes before the first step, in torch or NumPy, show in the values that enter the model. In samples of shape
[channels, time] or [channels, height, width], numbers are alike at a distance of the number of channels in memory (in
images at that many widths) and not at the distances between: the channels are interleaved, as in data that has them
last. Or in samples of shape [time, channels] each channel is in one piece.

Why it hurts
------------
A reshape keeps the order of the numbers in memory and only cuts them differently. The result has the shape of a
transpose and none of its content: every row holds numbers of several time steps and channels.

Evidence
--------
Both shapes. Of inputs: the correlation of neighbors in memory order, and of neighbors by the shape.

Use instead
-----------
    x = x.transpose(1, 2)            # or x.permute(0, 2, 1)

When it is fine
---------------
Not reported: dimensions of size 1, dimensions of equal size without names that were swapped, tensors without data
(constants, tables), and reshapes that merge whole rows by sizes that the line computes (`x.reshape(n, steps // 2, 2 *
features)`). Of inputs: fewer than 16 samples, noise, and series whose own period is the number of channels (what
repeats exactly is taken away before).
"""

import ast
from math import prod
from typing import Final

from trueloop.event import InputsSummarized, MemoryOrder, Operation, Place, StepProgram
from trueloop.event.operation_names import CONVOLUTIONS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity, statement_at
from trueloop.usercode.source import Source, called_name, calls_in, source_of

__all__ = ["ReshapeInsteadOfTranspose"]

_RESHAPES: Final = ("view", "reshape")
_KEEPS: Final = frozenset({
    "relu", "relu_", "gelu", "silu", "leaky_relu", "elu", "tanh", "sigmoid", "batch_norm", "group_norm", "dropout",
    "instance_norm", "interpolate", "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "contiguous", "clone", "float", "to", "softmax", "log_softmax", "exp", "dropout2d",
    "_adaptive_max_pool2d", "detach", "add", "__add__", "__iadd__", "add_", "mul", "__mul__", "div", "__truediv__",
    "clamp", "softplus", "cpu",
})  # fmt: skip
"""Operations that leave samples in dimension 0 and channels in dimension 1."""

_PLANE: Final = frozenset({"h", "w", "H", "W", "height", "width", "Height", "Width"})
"""Names of equal sizes that may be mixed up without harm: the reshape changes nothing, and both are the side."""


class ReshapeInsteadOfTranspose(Rule, code="MDL115", severity=Severity.ERROR):
    not_applicable = "no reshape was seen in a recorded step"

    def __init__(self) -> None:
        self._reported = False

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in _RESHAPES or not operation.inputs or not operation.outputs:
                continue
            before, after = view.values[operation.inputs[0]], view.values[operation.outputs[0]]
            if _cuts_rows_of_channels(view, operation) and operation.place is not None:
                self._reported = True
                yield self._rows(event, operation)
                continue
            if operation.inputs[0] not in view.from_data or before.constant or operation.place is None:
                continue
            if before.shape == after.shape and (names := _swapped_names(operation.place, before.shape)):
                self._reported = True
                yield self._nothing(event, operation, names)
            merged = _merged_and_swapped(before.shape, after.shape)
            whole = merged and after.shape[2] % before.shape[-1] == 0
            if not merged and not _swapped(before.shape, after.shape):
                continue
            aligned = _is_aligned(before.shape, after.shape)
            if aligned and _computes(operation.place):
                continue
            self._reported = True
            yield self.finding(
                event,
                f"`{operation.name}` turns {list(before.shape)} into {list(after.shape)}: "
                f"{'a merged size and another change places' if merged else 'the same sizes in a different order'}. "
                "The numbers stay in their order in memory, so rows and columns are mixed.",
                fix=f"Use `transpose` or `permute` to swap dimensions{', then merge them' if merged else ''}.",
                evidence={"before": list(before.shape), "after": list(after.shape)},
                place=operation.place,
                severity=Severity.WARNING if aligned or whole else Severity.ERROR,
            )

    def on_inputs_summarized(self, event: InputsSummarized) -> Findings:
        """A reshape in the steps has been reported at its own line."""
        found = event.memory_order
        if found is None or self._reported or self.count(event.model, event.position) > 1:
            return
        sample, stored = list(event.shape[1:]), _shape_in_memory(found, event.shape[1:])
        yield self.finding(
            event,
            f"Samples of shape {sample} enter `{event.name}` with their numbers in the order of {stored}: "
            f"{'interleaved channels' if found.last else 'one channel after the other'}. In that order neighbors "
            f"correlate {found.related:.2f}, in the order of the shape {found.claimed:.2f}: a `reshape` or `view` "
            "stands where the dimensions had to be swapped.",
            fix=f"Reshape to {stored} first, then move the channels: "
            + ("`x.movedim(-1, 1)` (NumPy: `np.moveaxis(x, -1, 1)`)." if found.last else "`x.transpose(1, 2)`."),
            evidence={"shape": sample, "related": round(found.related, 3), "claimed": round(found.claimed, 3)},
            place=_reshape_before(event.place) or event.place,
        )

    def _nothing(self, event: StepProgram, operation: Operation, names: tuple[str, str]) -> Finding:
        shape = list(event.values[operation.inputs[0]].shape)
        return self.finding(
            event,
            f"The tensor has the shape ({names[0]}) = {shape}, and `{operation.name}({names[1]})` gives {shape}: the "
            "sizes are equal, so nothing is swapped, and the next layer reads one dimension as the other.",
            fix="Use `transpose` or `permute` to swap dimensions.",
            evidence={"before": names[0], "after": names[1], "shape": shape},
            place=operation.place,
        )

    def _rows(self, event: StepProgram, operation: Operation) -> Finding:
        before, after = event.values[operation.inputs[0]].shape, event.values[operation.outputs[0]].shape
        return self.finding(
            event,
            f"`{operation.name}` turns {list(before)}, the output of a convolution, into {list(after)}: its "
            f"{before[1]} channels are in dimension 1, so each row holds neighboring positions of one channel.",
            fix=f"Move the channels to the end first: `x.movedim(1, -1).reshape(-1, {before[1]})`.",
            evidence={"before": list(before), "after": list(after)},
            place=operation.place,
        )


def _shape_in_memory(order: MemoryOrder, shape: tuple[int, ...]) -> str:
    """The shape that the numbers in memory have."""
    moved = (*shape[1:], shape[0]) if order.last else (shape[-1], *shape[:-1])
    return str(list(moved))


def _reshape_before(place: Place | None) -> Place | None:
    """The one line of the file that reshapes into three or more dimensions."""
    source = source_of(place.path if place else "")
    lines = {
        call.lineno
        for call in calls_in(source.tree)
        if called_name(call) in _RESHAPES
        and max([len(call.args), *(len(a.elts) for a in call.args if isinstance(a, (ast.Tuple, ast.List)))], default=0)
        > 2
    }
    return Place(source.path, lines.pop()) if len(lines) == 1 else None


def _cuts_rows_of_channels(view: ProgramView, operation: Operation) -> bool:
    """[batch, channels, ...] of a convolution into [..., channels], where nothing moved the channels."""
    before, after = (view.values[v[0]].shape for v in (operation.inputs, operation.outputs))
    if len(before) < 3 or len(after) not in (2, 3) or after[-1] != before[1] or before[1] < 2:
        return False
    tails = {prod(before[start:]) for start in range(2, len(before))}
    if prod(before[2:]) == 1 or before[1] in tails:
        return False  # a row may be meant to be a row or a plane of the image
    whole = (before[0] * prod(before[2:]), before[1])
    if after not in (whole, (before[0], prod(before[2:]), before[1])):
        return False
    value, shape = operation.inputs[0], before
    for _ in range(12):
        maker = view.maker(value)
        if maker is None or not maker.inputs or view.values[value].shape[:2] != shape[:2]:
            return False
        if maker.name in CONVOLUTIONS:
            return len(before) == int(maker.name[-2]) + 2
        if maker.name not in _KEEPS:
            return False
        value = maker.inputs[0]
    return False


def _swapped_names(place: Place, shape: tuple[int, ...]) -> tuple[str, str] | None:
    """`n, c, t = x.shape`, then `x.reshape(n, t, c)`: the sizes as they are called, and in the order of the reshape."""
    source, statement = statement_at(place)
    calls = [c for c in calls_in(statement) if called_name(c) in _RESHAPES] if statement is not None else []
    function = source.enclosing_function(place.line)
    if len(calls) != 1 or statement is None or not isinstance(calls[0].func, ast.Attribute):
        return None
    tensor, wanted = calls[0].func.value, calls[0].args
    if len(wanted) == 1 and isinstance(wanted[0], (ast.Tuple, ast.List)):
        wanted = wanted[0].elts
    if not isinstance(tensor, ast.Name) or len(wanted) != len(shape):
        return None
    inside = function or source.tree
    order = [_size_of(source, inside, tensor.id, item, statement) for item in wanted]
    if None in order or sorted(map(str, order)) != sorted(map(str, range(len(shape)))):
        return None
    texts = [source.text(item) for item in wanted]
    moved = [texts[position] for position, at in enumerate(order) if at != position and shape[position] > 1]
    if not moved or _PLANE.issuperset(moved):
        return None
    return ", ".join(texts[order.index(at)] for at in range(len(shape))), ", ".join(texts)


def _size_of(source: Source, inside: ast.AST, tensor: str, item: ast.expr, before: ast.stmt) -> int | None:
    """Which dimension of the tensor, unchanged since, a size is: `x.size(1)`, `x.shape[1]`, `n` of `n, t = x.shape`."""
    index: ast.expr | None = None
    if isinstance(item, ast.Call) and called_name(item) == "size" and len(item.args) == 1:
        index, owner = item.args[0], getattr(item.func, "value", None)
    elif isinstance(item, ast.Subscript):
        index, owner = item.slice, getattr(item.value, "value", None)
        index = index if isinstance(item.value, ast.Attribute) and item.value.attr == "shape" else None
    if index is not None:
        named = isinstance(owner, ast.Name) and owner.id == tensor and isinstance(index, ast.Constant)
        return int(index.value) if named and isinstance(index, ast.Constant) and type(index.value) is int else None
    if not isinstance(item, ast.Name):
        return None
    stored = [n for n in ast.walk(inside) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    unpacked = [s for n in stored if n.id == item.id and (s := source.statement(n.lineno)) is not None]
    if len(unpacked) != 1 or not isinstance(unpacked[0], ast.Assign) or unpacked[0].lineno >= before.lineno:
        return None
    (one, *_), value = unpacked[0].targets, unpacked[0].value
    whole = value.func if isinstance(value, ast.Call) and called_name(value) == "size" and not value.args else value
    if not isinstance(one, ast.Tuple) or not isinstance(whole, ast.Attribute) or whole.attr not in ("shape", "size"):
        return None
    if not isinstance(whole.value, ast.Name) or whole.value.id != tensor:
        return None
    lines = [n.lineno for n in stored if n.id == tensor]
    if any(unpacked[0].lineno <= line < before.lineno for line in lines):
        return None
    if source.enclosing_loop(unpacked[0].lineno) is not source.enclosing_loop(before.lineno):
        return None
    names = [e.id if isinstance(e, ast.Name) else "" for e in one.elts]
    return names.index(item.id) if names.count(item.id) == 1 else None


def _is_aligned(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """The new shape cuts or merges whole rows of the old one, so that it may be meant."""
    cuts = [[prod(shape[:end]) for end in range(1, len(shape) + 1)] for shape in (before, after)]
    return all(max(a, b) % min(a, b) == 0 for a in cuts[0] for b in cuts[1])


def _computes(place: Place) -> bool:
    """The line has arithmetic in it."""
    _, statement = statement_at(place)
    return statement is None or any(isinstance(node, ast.BinOp) for node in ast.walk(statement))


def _swapped(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """The same sizes, not counting 1, in a different order."""
    one, other = [n for n in before if n > 1], [n for n in after if n > 1]
    return len(one) >= 2 and one != other and sorted(one) == sorted(other)


def _merged_and_swapped(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """[batch, time, joints, 2] into [batch, joints * 2, time], or [batch, height, width, channels] into
    [batch, channels, height * width]. Not where the last size is a product of the last ones before: then complete rows
    are merged."""
    if len(before) < 4 or len(after) != 3 or after[0] != before[0] or after[1] == after[2] or min(after) < 2:
        return False
    if after[2] in {prod(before[start:]) for start in range(1, len(before))}:
        return False
    return after[2] == before[1] or after[1] == before[-1]
