"""MDL118 result-discarded: a call returns a new tensor, and the line throws it away.

What it sees
------------
A line that ran consists of one call that changes nothing in place (`scores.masked_fill(seen, -1e9)`, `x.to(device)`,
`torch.clamp(x, 0, 1)`, `hidden.detach()`) and its result is assigned to nothing; or of the call of one activation
layer (`self.relu(x)`). Lines outside of the recorded steps are read from the source: there only calls that no object
but a tensor or NumPy has.

Why it hurts
------------
The line reads as if it changed the tensor, and it does nothing: masked items stay in the ranking, values stay out of
range, the graph stays attached, a network without its activations is a linear model.

Evidence
--------
The function.

Use instead
-----------
    scores = scores.masked_fill(seen, -1e9)       # or in place: scores.masked_fill_(seen, -1e9)

When it is fine
---------------
Not reported: functions that end in `_`, `out=`, `inplace=True`, calls that returned their own argument (`x.to(device)`
on the same device), lines in a `try`, which may only test if the call works, and calls of layers with hooks or of
layers that hold other layers (a forward that only fills a cache or a list).
"""

import ast
from collections.abc import Iterator
from typing import Final

from trueloop.event import Operation, Place, StepProgram
from trueloop.event.operation_names import SHAPES
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity, statement_at
from trueloop.usercode.source import Source, called_name, source_of

__all__ = ["ResultDiscarded"]

_TENSOR_ONLY: Final = frozenset({
    "masked_fill", "clamp", "clamp_min", "clamp_max", "nan_to_num", "unsqueeze", "index_fill", "masked_scatter",
    "log_softmax", "type_as", "scatter_add", "index_add", "index_copy", "logical_not",
})  # fmt: skip
"""Methods of tensors that hardly anything else has."""
_VIEWS: Final = SHAPES | {
    "detach", "transpose", "permute", "t", "expand", "swapaxes", "movedim", "narrow",
}  # fmt: skip
_ACTIVATIONS: Final = frozenset({
    "relu", "relu6", "gelu", "silu", "mish", "leaky_relu", "elu", "selu", "celu", "prelu", "rrelu", "glu", "sigmoid",
    "tanh", "softplus", "softsign", "hardtanh", "hardswish", "hardsigmoid", "logsigmoid", "softmax", "softmin",
})  # fmt: skip
_PURE: Final = _TENSOR_ONLY | _VIEWS | _ACTIVATIONS | {
    "to", "float", "double", "half", "bfloat16", "long", "int", "bool", "cpu", "cuda", "clip", "fill", "abs", "add",
    "sub", "mul", "div", "pow", "exp", "log", "sqrt", "neg", "round", "floor", "ceil", "sign", "normalize",
    "dropout", "contiguous", "flip", "roll", "scatter", "where", "sort", "gather",
    "cumsum", "repeat", "masked_select", "zero", "tril", "triu", "fliplr", "flipud", "rot90", "renorm", "lerp",
    "addcmul", "pad", "interpolate", "layer_norm", "index_select", "diff", "square", "rsqrt", "reciprocal",
    "true_divide", "subtract", "multiply", "divide", "maximum", "minimum", "bitwise_not", "one_hot", "remainder",
}  # fmt: skip
"""Functions that compute a tensor and do nothing else."""
_NUMPY: Final = frozenset({
    "clip", "nan_to_num", "where", "sort", "flip", "roll", "squeeze", "transpose", "expand_dims", "concatenate",
    "append", "reshape", "log1p", "swapaxes", "moveaxis", "round", "delete", "tile", "repeat", "divide", "subtract",
    "fliplr", "flipud", "rot90", "pad", "stack", "vstack", "hstack", "insert", "rollaxis", "ravel", "unique", "cumsum",
    "exp", "log", "sqrt", "square", "abs", "absolute", "maximum", "minimum", "multiply", "add", "power", "tril", "triu",
})  # fmt: skip
"""Functions of NumPy that return a new array."""


class ResultDiscarded(Rule, code="MDL118", severity=Severity.ERROR):
    not_applicable = "no training step or evaluation was recorded"

    def __init__(self) -> None:
        self._read: set[str] = set()

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name in _PURE and operation.direct and _changes_nothing(view, operation):
                source, statement = statement_at(operation.place)
                call = _bare_call(source, statement)
                if call is not None and called_name(call) == operation.name and _is_from_elsewhere(view, operation):
                    yield self._discarded(event, source, call)
            elif operation.name in _ACTIVATIONS and _is_unread_layer(view, operation):
                source, statement = statement_at(operation.place)
                call = _bare_call(source, statement)
                if call is not None and len(call.args) == 1 and "forward_hook" not in "".join(source.lines):
                    yield self._discarded(event, source, call)
        for path in {o.place.path for o in event.operations if o.place is not None} - self._read:
            self._read.add(path)
            source = source_of(path)
            for call in _certain(source):
                yield self._discarded(event, source, call)

    def _discarded(self, event: StepProgram, source: Source, call: ast.Call) -> Finding:
        name = called_name(call)
        changed = call.func.value if isinstance(call.func, ast.Attribute) else call
        layer = name not in _PURE | _NUMPY  # self.act(x)
        if call.args and (layer or (isinstance(changed, ast.Name) and changed.id in (*_modules(source), "F"))):
            changed = call.args[0]
        target = source.text(changed) if isinstance(changed, (ast.Name, ast.Attribute, ast.Subscript)) else "x"
        return self.finding(
            event,
            f"`{name or source.text(call.func)}` returns a new tensor and changes nothing in place; this line does not "
            f"keep it, so `{target}` stays as it was.",
            fix=f"Assign the result: `{target} = {' '.join(source.text(call).split())}`.",
            evidence={"function": name},
            place=Place(source.path, call.lineno),
        )


def _changes_nothing(view: ProgramView, operation: Operation) -> bool:
    """It made a new tensor or a view. One that returned its argument wrote into it, or kept it as it was."""
    made, given = ({view.values[index].memory for index in side} for side in (operation.outputs, operation.inputs))
    return bool(made and given) and (operation.name in _VIEWS or not made & given)


def _is_unread_layer(view: ProgramView, operation: Operation) -> bool:
    """An activation layer that a model's forward calls: alone on its line, and nothing reads the result."""
    if operation.model < 0 or operation.direct or not _changes_nothing(view, operation):
        return False
    if any(view.readers.get(index) or index in view.predictions for index in operation.outputs):
        return False
    return all(other.name == operation.name for other in view.operations if other.place == operation.place)


def _is_from_elsewhere(view: ProgramView, operation: Operation) -> bool:
    """It was computed from a tensor of another line: `torch.zeros(1).cuda()` only wakes the device."""
    waiting = list(operation.inputs)
    while waiting:
        maker = view.maker(waiting.pop())
        if maker is None or maker.place != operation.place:
            return True
        waiting += maker.inputs
    return False


def _bare_call(source: Source, statement: ast.stmt | None) -> ast.Call | None:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    if any(isinstance(parent, ast.Try) for parent in source.parents(statement)):
        return None
    given = {keyword.arg for keyword in statement.value.keywords}
    return None if given & {"out", "inplace", "copy"} else statement.value


def _certain(source: Source) -> Iterator[ast.Call]:
    """Calls on lines of their own, of what only tensors and NumPy have, in code that is used."""
    modules, own = _modules(source), {n.name for n in ast.walk(source.tree) if isinstance(n, ast.FunctionDef)}
    used = {n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name)}
    used |= {n.attr for n in ast.walk(source.tree) if isinstance(n, ast.Attribute)}
    for statement in ast.walk(source.tree):
        call = _bare_call(source, statement) if isinstance(statement, ast.Expr) else None
        if call is None or not isinstance(call.func, ast.Attribute):
            continue
        name, owner = call.func.attr, call.func.value
        module = modules.get(owner.id) if isinstance(owner, ast.Name) else None
        if name in own or (module == "numpy" and name not in _NUMPY) or (module is None and name not in _TENSOR_ONLY):
            continue
        if module == "torch" and name not in _TENSOR_ONLY | {"where"}:
            continue
        function = source.enclosing_function(call.lineno)
        if function is None or function.name in used or function.name.startswith("__") or function.name == "forward":
            yield call


def _modules(source: Source) -> dict[str, str]:
    """The names under which the file has imported torch and NumPy."""
    imports = [alias for node in ast.walk(source.tree) if isinstance(node, ast.Import) for alias in node.names]
    return {alias.asname or alias.name: alias.name for alias in imports if alias.name in ("torch", "numpy")}
