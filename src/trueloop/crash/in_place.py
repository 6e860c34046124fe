"""An in-place change overwrote a tensor that backward needs, or changed a leaf that requires grad."""

import ast
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from trueloop.crash.explanation import Explanation, described, spot
from trueloop.crash.scene import MISSING, Scene, Step
from trueloop.event import Place
from trueloop.measure.graph import LEAF, node_name, nodes, through_views
from trueloop.torch_private.autograd import saved, saved_names
from trueloop.usercode.ownership import class_source, methods_of
from trueloop.usercode.source import Edit, Source, called_name, calls_in, diff, source_of

__all__ = ["explain"]

_CHANGED: Final = re.compile(
    r"modified by an inplace operation: (?P<what>\[[\w.]+ \[(?P<shape>[\d, ]*)\]\]"
    r"(?:, which is output \d+ of (?P<by>\w+),)? is at version (?P<now>\d+); expected version (?P<then>\d+))"
)  # The tensor, the operation that wrote it last, and its versions
_LEAF: Final = re.compile(r"a (view of a )?leaf Variable that requires grad is being used in an in-place operation")
_OPERATORS: Final = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.Pow: "Pow", ast.MatMult: "Mm"}
"""Operators of augmented assignments -> their names in the graph."""
_SYMBOLS: Final = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Pow": "**", "Mm": "@"}
_HARMLESS: Final = frozenset({"requires_grad_", "clip_grad_norm_", "clip_grad_value_", "share_memory_", "detach_"})
"""Methods with a trailing underscore that do not change values."""


class _Saved(NamedTuple):
    """The saved tensor that backward needs."""

    node: Any
    slot: str  # `mat1`, `result`, `weight` ..
    operation: str  # `Relu`


class _Change(NamedTuple):
    """A statement in the user's code that changes a tensor in place."""

    place: Place
    text: str
    operation: str
    variable: str
    fix: str
    statement: ast.stmt | None = None


def explain(scene: Scene) -> Explanation | None:
    if _LEAF.search(scene.message):
        return _leaf(scene)
    found = _CHANGED.search(scene.message)
    root = scene.backward_root
    needed = None if found is None or root is None else _find(root, found["what"])
    if found is None or needed is None:
        return None
    weight = _weight(needed, found["shape"])
    stepped = _stepped(scene, weight, found) if weight is not None else None
    by_hand = _changed_by_hand(scene, weight, found) if weight is not None else None
    return stepped or by_hand or _overwritten(scene, needed, found)


def _find(root: Tensor, what: str) -> _Saved | None:
    """The node whose saved tensor cannot be read: reading it raises what backward raised."""
    for node in nodes(root.grad_fn) if root.grad_fn is not None else ():
        for name in saved_names(node):
            try:
                saved(node, name)
            except RuntimeError as error:
                if what in str(error):
                    return _Saved(node, name, re.sub(r"Backward\d*$", "", node_name(node)))
    return None


# -- a weight that an optimizer changed --


def _weight(saved: _Saved, shape: str) -> Tensor | None:
    """The parameter that was saved, if one was: a leaf behind the node in that slot, perhaps transposed."""
    sizes = sorted(int(part) for part in shape.split(",") if part.strip())
    position = {("Mul", "self"): 0, ("Mul", "other"): 1}.get((saved.operation, saved.slot))
    behind = [following for following, _ in saved.node.next_functions]
    if position is not None:
        behind = behind[position : position + 1]
    elif saved.slot not in ("mat2", "weight"):
        return None
    for following in behind:
        for node in through_views(following):
            leaf = getattr(node, "variable", None) if node_name(node).endswith(LEAF) else None
            if isinstance(leaf, Tensor) and sorted(leaf.shape) == sizes:
                return leaf
    return None


def _stepped(scene: Scene, weight: Tensor, found: re.Match[str]) -> Explanation | None:
    name = _parameter_name(scene, weight)
    for step in scene.users:
        for variable, optimizer in list(step.locals.items()):
            groups = optimizer.param_groups if isinstance(optimizer, Optimizer) else ()
            held = any(parameter is weight for group in groups for parameter in group["params"])
            call = _last_call(step, variable) if held else None
            if call is not None and _has_run(scene, step, call, optimizer, weight):
                where = step.source.place(call)
                why = f"which needs the old value (version {found['then']}, now {found['now']})"
                changed = f"{variable}.step() at {spot(where)} changed `{name}` between the forward and this backward"
                detail = f"`{name}` is {described(weight)} and belongs to `{variable}` ({type(optimizer).__name__})."
                before = f"Call every backward through `{name}` before {variable}.step()"
                fix = f"{before}, or run the forward again after the step."
                return scene.explanation(f"{changed}, {why}.", (detail,), fix, where)
    return None


def _last_call(step: Step, variable: str) -> ast.Call | None:
    """`variable.step(…)`: the last call before the crash; else the last of all, from an earlier iteration."""
    calls = [call for call in calls_in(step.source.tree) if ast.unparse(call.func) == f"{variable}.step"]
    calls.sort(key=lambda call: (call.lineno < step.line, call.lineno))
    return calls[-1] if calls else None


def _has_run(scene: Scene, step: Step, call: ast.Call, optimizer: Optimizer, weight: Tensor) -> bool:
    """Can this step() have changed the weight? Most optimizers keep a state for it. Without one (plain SGD), the call
    stands before the crash or in a loop around it, and no statement of the user's changes parameters."""
    if optimizer.state.get(weight):
        return True
    settings = optimizer.param_groups[0]
    keeps_none = isinstance(optimizer, SGD) and not settings.get("momentum")
    loops = (node for node in ast.walk(step.source.tree) if isinstance(node, (ast.For, ast.While)))
    around = any(
        node.lineno <= min(call.lineno, step.line) <= max(call.lineno, step.line) <= (node.end_lineno or 0)
        for node in loops
    )
    by_hand = any(_is_parameter(scene, change.variable) for change in _changes(scene))
    return keeps_none and (call.lineno < step.line or around) and not by_hand


def _changed_by_hand(scene: Scene, weight: Tensor, found: re.Match[str]) -> Explanation | None:
    """A statement of the user's changes parameters between forward and backward."""
    changes = [change for change in _changes(scene) if _is_parameter(scene, change.variable)]
    if len(changes) != 1:
        return None
    only, name = changes[0], _parameter_name(scene, weight)
    why = f"which needs the old value (version {found['then']}, now {found['now']})"
    message = f"{only.text} at {spot(only.place)} changed `{name}` between the forward and this backward, {why}."
    fix = "Change parameters only after backward has run, or run the forward again after the change."
    return scene.explanation(message, (f"`{name}` is {described(weight)}.",), fix, only.place)


def _is_parameter(scene: Scene, variable: str) -> bool:
    try:
        node = ast.parse(variable, mode="eval").body
    except SyntaxError:
        return False
    return any(isinstance(step.value(node), nn.Parameter) for step in scene.users)


def _parameter_name(scene: Scene, weight: Tensor) -> str:
    for variable, module in scene.modules():
        for path, parameter in module.named_parameters():
            if parameter is weight:
                return f"{variable}.{path}"
    variables = ((name, value) for step in scene.users for name, value in list(step.locals.items()))
    return next((name for name, value in variables if value is weight), "a parameter")


# -- an activation that a statement overwrote --


def _overwritten(scene: Scene, saved: _Saved, found: re.Match[str]) -> Explanation:
    layer = _layer_of(scene, saved.node)
    which = "its output" if saved.slot.startswith(("result", "output")) else "its input"
    times = int(found["now"]) - int(found["then"])
    changed = "an in-place change" if times == 1 else f"{times} in-place changes"
    every = sorted(_changes(scene), key=lambda change: (change.place.path, change.place.line))
    changes = _narrowed(every, saved, found["by"] or "", times)
    operation = f"{saved.operation.lower()}{f' ({layer})' if layer else ''}"
    who = layer.removeprefix("in ") if layer.startswith("in ") else operation
    message = f"{who} saved {which} [{found['shape']}] for backward, and {changed} overwrote it before backward ran."
    if len(changes) == 1:
        only = changes[0]
        certain, likely = "The in-place statement is at", "The only in-place statement found is at"
        detail = f"{likely if changes is every else certain} {spot(only.place)}: {only.text}"
        return scene.explanation(message, (detail,), only.fix, only.place, _patch(only))
    details = tuple(f"In place at {spot(change.place)}: {change.text}" for change in changes[:4])
    unknown = "Find the operation whose name ends in _ (or x += …, x[i] = …, inplace=True) and write it out of place."
    fix = changes[0].fix if changes else unknown
    return scene.explanation(message, details, fix, changes[0].place if changes else scene.place)


def _layer_of(scene: Scene, node: Any) -> str:
    """The layer whose weights are inputs of a node, or of a node close behind it."""
    names = {id(parameter): path for _, module in scene.modules() for path, parameter in module.named_parameters()}
    level, words = [node], "in"
    for _ in range(4):
        for candidate in level:
            for following, _ in candidate.next_functions:
                inner = list(through_views(following)) if following is not None else []
                leaf = getattr(inner[-1], "variable", None) if inner else None
                if leaf is not None and id(leaf) in names:
                    return f"{words} `{names[id(leaf)].rpartition('.')[0] or names[id(leaf)]}`"
        level = [following for node in level for following, _ in node.next_functions if following is not None]
        words = "after"
    return ""


def _narrowed(changes: list[_Change], saved: _Saved, by: str, times: int) -> list[_Change]:
    """The changes that fit torch's message, which names the last operation, or, for a saved output, the first."""
    by = re.sub(r"Backward\d*$", "", by)
    if saved.slot.startswith(("result", "output")):
        fitting = [change for change in changes if _is_output_of(change, saved.operation)]
    else:
        fitting = [change for change in changes if change.operation.lower() == by.lower()]
    return fitting if len(fitting) >= times else changes


def _is_output_of(change: _Change, operation: str) -> bool:
    """Does the source assign the output of this operation to the variable that is changed?"""
    source = source_of(change.place.path)
    function = source.enclosing_function(change.place.line) or source.tree
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            assigned = any(isinstance(target, ast.Name) and target.id == change.variable for target in node.targets)
            if assigned and called_name(node.value).lower().startswith(operation.lower()):
                return True
    return False


def _changes(scene: Scene) -> Iterator[_Change]:
    """In-place statements in the user's forwards and in the frames that led to backward."""
    seen: set[tuple[str, int]] = set()
    for source, function, step in _functions(scene):
        for node in _within(function):
            change = _change(source, node, function, step)
            if change is not None and (change.place.path, change.place.line) not in seen:
                seen.add((change.place.path, change.place.line))
                yield change
    for variable, model in scene.modules():
        for path, module in model.named_modules():
            if getattr(module, "inplace", False) is True and variable != "self":
                name, fix = type(module).__name__, f"Build `{path}` with inplace=False."
                place = _built_at(model, path) or scene.place
                yield _Change(place, f"`{path}` is {name}(inplace=True)", name, path, fix)


def _within(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a function or a file executes itself, without the functions that it defines."""
    waiting = [function]
    while waiting:
        node = waiting.pop()
        yield node
        definitions = (ast.FunctionDef, ast.ClassDef, ast.Lambda)
        waiting.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, definitions))


def _built_at(model: nn.Module, path: str) -> Place | None:
    owner_path, _, attribute = path.rpartition(".")
    owner = type(model.get_submodule(owner_path))
    found = class_source(owner)
    statement = found[0].assignment_to_self(owner.__name__, attribute) if found is not None else None
    return found[0].place(statement) if found is not None and statement is not None else None


def _functions(scene: Scene) -> Iterator[tuple[Source, ast.AST, Step | None]]:
    for step in scene.users:
        function = step.source.enclosing_function(step.line)
        known = function is None or function.name == step.function
        yield step.source, function or step.source.tree, step if known else None
    for cls in dict.fromkeys(type(inner) for _, model in scene.modules() for inner in model.modules()):
        found = class_source(cls)
        if found is not None:
            yield from ((found[0], method, None) for method in methods_of(cls) if method.name != "__init__")


def _change(source: Source, node: ast.AST, function: ast.AST, step: Step | None) -> _Change | None:
    """The in-place change that a statement makes, if it makes one."""
    if isinstance(node, ast.AugAssign) and type(node.op) in _OPERATORS:
        if not _may_be_tensor(node, function, step):
            return None
        name, operation = source.text(node.target), _OPERATORS[type(node.op)]
        place = source.place(node)
        fix = f"Write {name} = {name} {_SYMBOLS[operation]} … at {spot(place)}, which creates a new tensor."
        return _Change(place, source.text(node), operation, name, fix, node)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        target = node.targets[0]
        if step is not None and not isinstance(step.value(target.value), Tensor):
            return None
        name = source.text(target.value)
        copy = f"{name} = {name}.clone()"
        fix = f"Collect the parts and join them with torch.stack or torch.cat, or write to a copy: {copy}."
        return _Change(source.place(node), source.text(node), "CopySlices", name, fix, node)
    if isinstance(node, ast.Call):
        return _call_change(source, node)
    return None


def _call_change(source: Source, node: ast.Call) -> _Change | None:
    name = called_name(node)
    asked = any(k.arg == "inplace" and ast.unparse(k.value) == "True" for k in node.keywords)
    trailing = name.endswith("_") and not name.endswith("__") and name not in _HARMLESS
    if not asked and not trailing:
        return None
    changed = node.args[0] if node.args else node.func
    if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in ("F", "torch", "nn.functional"):
        changed = node.func.value
    call = f"{name.rstrip('_')}{'(…, inplace=False)' if asked else '(…)'}"
    fix = f"Write {call} at {spot(source.place(node))} and use its result."
    operation = {"relu": "Relu"}.get(name.rstrip("_"), name.rstrip("_").title().replace("_", ""))
    return _Change(source.place(node), source.text(node), operation, source.text(changed), fix)


def _may_be_tensor(node: ast.AugAssign, function: ast.AST, step: Step | None) -> bool:
    """False for counters and sums of numbers."""
    if step is not None and isinstance(node.target, ast.Name):
        value = step.value(node.target)
        return value is MISSING or isinstance(value, Tensor)
    if any(called_name(call) in ("item", "size", "len") for call in calls_in(node.value)):
        return False
    name, assignments = ast.unparse(node.target), (one for one in ast.walk(function) if isinstance(one, ast.Assign))
    starts = [one.value for one in assignments if name in map(ast.unparse, one.targets)]
    return not starts or not all(isinstance(value, ast.Constant) for value in starts)


def _patch(change: _Change) -> str:
    node = change.statement
    if not isinstance(node, ast.AugAssign) or not isinstance(node.target, ast.Name) or node.lineno != node.end_lineno:
        return ""
    source = source_of(change.place.path)
    value = source.text(node.value)
    simple = isinstance(node.value, (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript))
    line = source.lines[node.lineno - 1].rstrip("\n")
    new = f"{node.target.id} = {node.target.id} {_SYMBOLS[change.operation]} {value if simple else f'({value})'}"
    return diff(change.place.path, [Edit(node.lineno, node.lineno, (line.replace(change.text, new, 1),))])


# -- a leaf --


def _leaf(scene: Scene) -> Explanation | None:
    node = scene.crash.statement
    leaf = next((pair for pair in scene.tensors() if pair[1].is_leaf and pair[1].requires_grad), None)
    if node is None:
        return None
    if leaf is None:
        who = "A leaf tensor that requires grad"
    else:
        kind = "a parameter" if isinstance(leaf[1], nn.Parameter) else "a leaf"
        who = f"`{scene.crash.text(leaf[0])}`, {described(leaf[1])}, {kind} that requires grad,"
    lost = "autograd would lose the value whose gradient it computes"
    fix = "Wrap an update or an initialization in `with torch.no_grad():`. To compute with it, write x = x + …."
    return scene.explanation(f"{who} is changed in place by `{scene.crash.text(node)}`: {lost}.", (), fix)
