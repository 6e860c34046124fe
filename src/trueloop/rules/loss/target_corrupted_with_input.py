"""LOS153 target-corrupted-with-input: the target of a denoising or masked model is the corrupted input itself.

What it sees
------------
In recorded training steps noise or a random mask is applied to data before they enter the model, and the loss compares
the output with the very same corrupted numbers. Either they were changed in place, so that the name of the clean data
and the name of the input are one tensor; or the input is given as the target in a script whose names speak of
denoising. The clean data reach the loss in no other way.

Why it hurts
------------
The model learns to reproduce its input, noise and holes included. The loss falls, and nothing is learned about the
clean data: the identity is the best answer.

Evidence
--------
The line that corrupts the data, the line of the loss, the shape, and the number of recorded steps that show it.

Use instead
-----------
    noisy = x + 0.3 * torch.randn_like(x)       # a new tensor; or: masked = tokens.clone()
    loss = F.mse_loss(model(noisy), x)          # the clean data

When it is fine
---------------
Not reported: autoencoders without noise, noise that is the target (diffusion), augmented inputs that are reconstructed
under one name, targets that are cloned before the data are changed, random crops and flips of input and target, and
losses that the clean data reach as well.
"""

import ast
import re
from typing import Final

from trueloop.event import ModelUse, Operation, Place, StepProgram
from trueloop.event.operation_names import ADDITIONS, LOSSES, MAGNITUDES, PRODUCTS, RANDOM, SHAPES, SUBTRACTIONS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line, statement_at
from trueloop.usercode.source import calls_in

__all__ = ["TargetCorruptedWithInput"]

SAMPLED: Final = 2  # recorded steps that must show it
_WRITES: Final = frozenset({
    "__setitem__", "masked_fill_", "add_", "__iadd__", "mul_", "__imul__", "masked_scatter_", "index_fill_",
})  # fmt: skip
_COMBINATIONS: Final = ADDITIONS | PRODUCTS | {"masked_fill", "where", "lerp"}
_COPIES: Final = SHAPES | {
    "contiguous", "to", "float", "long", "cpu", "detach", "transpose", "permute",
}  # fmt: skip
_DENOISING: Final = re.compile("denois|corrupt|inpaint", re.IGNORECASE)


class TargetCorruptedWithInput(Rule, code="LOS153", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses or not event.complete:
            return
        view = ProgramView(event)
        for operation in view.operations:
            pair = _compared(view, operation)
            corruption = None if pair is None else _corruption(view, operation, *pair)
            if corruption is None or pair is None or self.count(operation.place) != SAMPLED:
                continue
            yield self.finding(
                event,
                f"The target {list(view.values[pair[1]].shape)} is the corrupted input of the model"
                f"{on_line(corruption.place, operation.place)}: the clean data never reach the loss.",
                fix="Corrupt a copy (`x.clone()`, `x + noise`), and give the clean data as the target.",
                evidence={"corrupted": corruption.place, "loss": operation.place, "sampled_steps": SAMPLED,
                          "shape": list(view.values[pair[1]].shape)},
                place=operation.place,
            )  # fmt: skip


def _compared(view: ProgramView, operation: Operation) -> tuple[int, int] | None:
    """The prediction and the target of a loss function, or of a difference that is squared."""
    if view.in_model(operation) or len(operation.inputs) < 2 or not operation.outputs:
        return None
    squared = operation.name in SUBTRACTIONS and any(
        reader.name in MAGNITUDES for reader in view.readers.get(operation.outputs[0], [])
    )
    if not (squared or operation.name in LOSSES) or operation.outputs[0] not in view.on_loss_path:
        return None
    one, other = operation.inputs[:2]
    if (one in view.learned) == (other in view.learned):
        return None
    return (one, other) if one in view.learned else (other, one)


def _corruption(view: ProgramView, loss: Operation, prediction: int, target: int) -> Operation | None:
    """The operation that corrupts what is both input and target."""
    root = _source(view, target)
    behind = set(view.behind(prediction))
    for use in view.program.models:
        given = next((index for index in use.inputs if _source(view, index) == root), None)
        if not use.grad or given is None or behind.isdisjoint(use.outputs):
            continue
        written = _written_in_place(view, root, use)
        inline = _is_inline(view, target, loss.place) and _is_inline(view, given, use.place)
        if written is not None and inline and _has_two_names(loss.place, use.place):
            return written
        made = view.maker(root)
        if made is not None and _corrupts(view, made) and _names_denoising(loss.place):
            return made if _reach_only_through(view, made) else None
    return None


def _source(view: ProgramView, value: int) -> int:
    """The value behind reshapes and casts; a clone is a new one."""
    while (maker := view.maker(value)) is not None and maker.name in _COPIES and maker.inputs:
        value = maker.inputs[0]
    return value


def _is_inline(view: ProgramView, value: int, place: Place | None) -> bool:
    """Is it reshaped at this line only? Then the name at this line is that of the tensor which was written."""
    while (maker := view.maker(value)) is not None and maker.name in _COPIES and maker.inputs:
        if maker.place != place:
            return False
        value = maker.inputs[0]
    return True


def _is_drawn(view: ProgramView, value: int) -> bool:
    makers = (view.maker(index) for index in view.contents(value))
    return any(maker is not None and maker.name in RANDOM for maker in makers)


def _written_in_place(view: ProgramView, value: int, use: ModelUse) -> Operation | None:
    """A random write into the value, of which no copy was made before that reaches the loss."""
    memory, before = view.values[value].memory, set[int]()
    for operation in view.operations:
        mine = any(view.values[index].memory == memory for index in operation.inputs)
        if not mine or operation.model == use.model:
            continue
        if operation.name in _WRITES and view.values[operation.inputs[0]].memory == memory:
            drawn = [index for index in operation.inputs[1:] if _is_drawn(view, index)]
            for index in drawn:
                before -= set(view.behind(index))
            return operation if drawn and before.isdisjoint(view.on_loss_path) else None
        before.update(index for index in operation.outputs if view.values[index].memory != memory)
    return None


def _corrupts(view: ProgramView, operation: Operation) -> bool:
    """Data combined with a draw of the same shape, element by element."""
    if operation.name not in _COMBINATIONS or operation.model >= 0:
        return False
    shape = view.values[operation.outputs[0]].shape
    same = [index for index in operation.inputs if view.values[index].shape == shape and len(shape) > 1]
    drawn = [index for index in same if _is_drawn(view, index)]
    return bool(drawn) and any(index not in drawn and view.is_data(index) for index in same)


def _reach_only_through(view: ProgramView, corruption: Operation) -> bool:
    """Do the inputs of the corruption reach the loss through nothing else?"""
    sources = {index for given in corruption.inputs for index in (given, _source(view, given))}
    others = [o for index in sources for o in view.readers.get(index, []) if o is not corruption]
    outputs = {index for o in others for index in o.outputs} - set(view.behind(corruption.outputs[0]))
    return view.on_loss_path.isdisjoint(outputs)


# -- what the source says --


def _has_two_names(loss: Place | None, call: Place | None) -> bool:
    """Is the target written under a name that the call of the model, in the same function, does not read? Two arguments
    of a function may be one tensor on purpose."""
    source, compared = statement_at(loss)
    _, called = statement_at(call)
    if loss is None or call is None or compared is None or called is None or loss.function != call.function:
        return False
    function = source.enclosing_function(loss.line)
    given = set() if function is None else {argument.arg for argument in function.args.args}
    pairs = [c.args[:2] for c in calls_in(compared) if len(c.args) >= 2]
    pairs += [[n.left, n.right] for n in ast.walk(compared) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub)]
    for first, target in pairs:
        read, names = _arguments(first if compared is called else called), _names(target)
        if read and names and names.isdisjoint(read) and not (names & given and read & given):
            return True
    return False


def _arguments(node: ast.AST) -> set[str]:
    """The names in the arguments of the calls in an expression."""
    return {name for call in calls_in(node) for argument in call.args for name in _names(argument)}


def _names(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def _names_denoising(place: Place | None) -> bool:
    source, _ = statement_at(place)
    words = (getattr(node, "id", "") or getattr(node, "name", "") or "" for node in ast.walk(source.tree))
    return any(_DENOISING.search(word) for word in words if isinstance(word, str))
