"""A tensor that backward needs was changed in place after it had been saved, or a leaf that requires grad was changed
in place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.crash.explanation import Explanation, described, spot
from trueloop.crash.scene import MISSING, Scene, Step
from trueloop.event import Place
from trueloop.measure.graph import LEAF, node_name, nodes, through_views
from trueloop.taps.place import is_users
from trueloop.torch_private.autograd import saved, saved_names
from trueloop.usercode.source import Edit, Source, called_name, diff, source_of

__all__ = ["explain"]

_CHANGED: Final = re.compile(
    r"modified by an inplace operation: (?P<what>\[[\w.]+ \[(?P<shape>[\d, ]*)\]\](?:, which is output \d+ of (?P<by>\w+),)?"
    r" is at version (?P<now>\d+); expected version (?P<then>\d+))"
)
"""How torch says it: the tensor, what made it last, and its versions."""
_LEAF: Final = re.compile(r"a (view of a )?leaf Variable that requires grad is being used in an in-place operation")
"""How torch says it of a leaf, or of a view of one."""
_OPERATORS: Final = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.Pow: "Pow", ast.MatMult: "Mm"}
"""What an operator of an augmented assignment is called in a graph."""
_SYMBOLS: Final = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Pow": "**", "Mm": "@"}
"""And how it is written."""
_HARMLESS: Final = frozenset({"requires_grad_", "clip_grad_norm_", "clip_grad_value_", "share_memory_", "detach_"})
"""Methods with a trailing underscore that change no values, or only gradients."""


@dataclass(frozen=True, slots=True)
class _Saved:
    """What backward wanted back."""

    node: Any
    slot: str
    """`mat1`, `result`, `weight` ..."""
    operation: str
    """`Relu`"""


@dataclass(frozen=True, slots=True)
class _Change:
    """A statement of the user's that changes a tensor in place."""

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
    root = scene.library_local(("backward",), "self") if found else MISSING
    if root is MISSING and found:
        roots = scene.library_local(("backward", "grad"), "tensors")
        root = roots[0] if isinstance(roots, (tuple, list)) and roots else roots
    if found is None or not isinstance(root, Tensor) or root.grad_fn is None:
        return None
    saved = _find(root, found["what"])
    if saved is None:
        return None
    weight = _weight(saved, found["shape"])
    stepped = _stepped(scene, weight, found) if weight is not None else None
    return stepped or _overwritten(scene, saved, found)


def _find(root: Tensor, what: str) -> _Saved | None:
    """The node whose saved tensor cannot be handed back: asking for it raises what backward raised."""
    for node in nodes(root.grad_fn):
        for name in saved_names(node):
            try:
                saved(node, name)
            except RuntimeError as error:
                if what in str(error):
                    return _Saved(node, name, _plain(node))
    return None


def _plain(node: Any) -> str:
    return re.sub(r"Backward\d*$", "", node_name(node))


# -- a weight that an optimizer changed --


def _weight(saved: _Saved, shape: str) -> Tensor | None:
    """The parameter that was saved, if a parameter was: a leaf behind the node in that slot, only turned on its
    side."""
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
            if not isinstance(optimizer, Optimizer) or not any(
                p is weight for group in optimizer.param_groups for p in group["params"]
            ):
                continue
            call = _last_call(step, variable)
            if call is not None:
                where = step.source.place(call)
                return Explanation(
                    "in-place",
                    f"`{name}` was changed by {variable}.step() at {spot(where)} between the forward and this backward, "
                    f"which needs its old value (version {found['then']}, it is now {found['now']}).",
                    (f"`{name}` is {described(weight)} and belongs to `{variable}` ({type(optimizer).__name__}).",),
                    f"Call every backward that goes through `{name}` before {variable}.step(), or run its forward again after the step.",
                    where,
                )
    return None


def _last_call(step: Step, variable: str) -> ast.Call | None:
    """`variable.step(…)`: the last one before the crash, or the last of all, in an earlier round of the loop."""
    calls = [
        node
        for node in ast.walk(step.source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"
        and isinstance(node.func.value, ast.Name) and node.func.value.id == variable
    ]  # fmt: skip
    calls.sort(key=lambda call: (call.lineno < step.line, call.lineno))
    return calls[-1] if calls else None


def _parameter_name(scene: Scene, weight: Tensor) -> str:
    for variable, module in scene.modules():
        for path, parameter in module.named_parameters():
            if parameter is weight:
                return f"{variable}.{path}"
    return next(
        (name for step in scene.users for name, value in list(step.locals.items()) if value is weight), "a parameter"
    )


# -- an activation that a statement overwrote --


def _overwritten(scene: Scene, saved: _Saved, found: re.Match[str]) -> Explanation:
    layer = _layer_of(scene, saved.node)
    which = "its output" if saved.slot.startswith(("result", "output")) else "its input"
    times = int(found["now"]) - int(found["then"])
    changed = "an in-place change" if times == 1 else f"{times} in-place changes"
    every = sorted(_changes(scene), key=lambda change: (change.place.path, change.place.line))
    changes = _narrowed(every, saved, found["by"] or "", times)
    who = (
        layer.removeprefix("in ")
        if layer.startswith("in ")
        else f"{saved.operation.lower()}{f' ({layer})' if layer else ''}"
    )
    message = f"{who} kept {which} [{found['shape']}] for backward, and {changed} overwrote it before backward ran."
    if len(changes) == 1:
        only = changes[0]
        sure = (
            f"The in-place statement at {spot(only.place)} did it"
            if changes is not every
            else f"The one in-place statement found is at {spot(only.place)}"
        )
        return Explanation("in-place", message, (f"{sure}: {only.text}",), only.fix, only.place, _patch(only))
    details = tuple(f"In place at {spot(change.place)}: {change.text}" for change in changes[:4])
    fix = (
        changes[0].fix
        if changes
        else "Find the operation whose name ends in _ (or x += …, x[i] = …, inplace=True) and write it out of place."
    )
    return Explanation("in-place", message, details, fix, changes[0].place if changes else scene.place)


def _layer_of(scene: Scene, node: Any) -> str:
    """The layer whose weights stand at or just behind a node."""
    names = {id(parameter): path for _, module in scene.modules() for path, parameter in module.named_parameters()}
    level, words = [node], "in"
    for _ in range(4):
        for candidate in level:
            for following, _ in candidate.next_functions:
                inner = list(through_views(following)) if following is not None else []
                leaf = getattr(inner[-1], "variable", None) if inner else None
                if leaf is not None and id(leaf) in names:
                    return f"{words} `{names[id(leaf)].rpartition('.')[0] or names[id(leaf)]}`"
        level, words = (
            [following for candidate in level for following, _ in candidate.next_functions if following is not None],
            "after",
        )
    return ""


def _narrowed(changes: list[_Change], saved: _Saved, by: str, times: int) -> list[_Change]:
    """Those that fit what torch says: it names the operation that made the tensor last, or, for a saved output,
    first."""
    by = re.sub(r"Backward\d*$", "", by)
    if saved.slot.startswith(("result", "output")):
        fitting = [change for change in changes if _made_by(change, saved.operation)]
    else:
        fitting = [change for change in changes if change.operation.lower() == by.lower()]
    return fitting if len(fitting) >= times else changes


def _made_by(change: _Change, operation: str) -> bool:
    """Is the variable that is changed the output of this operation, as written?"""
    source = source_of(change.place.path)
    function = source.enclosing_function(change.place.line) or source.tree
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == change.variable for t in node.targets
        ):
            value = node.value
            if isinstance(value, ast.Call) and called_name(value).lower().startswith(operation.lower()):
                return True
    return False


def _changes(scene: Scene) -> Iterator[_Change]:
    """In-place statements in the user's forwards and in the calls that led to backward."""
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
                name = type(module).__name__
                yield _Change(
                    _built_at(model, path) or scene.place,
                    f"`{path}` is {name}(inplace=True)",
                    name,
                    path,
                    f"Build `{path}` with inplace=False.",
                )


def _within(function: ast.AST) -> Iterator[ast.AST]:
    """What a function or a module executes itself, without what it only defines."""
    waiting = [function]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.Lambda))
        )


def _built_at(model: nn.Module, path: str) -> Place | None:
    owner_path, _, attribute = path.rpartition(".")
    owner = type(model.get_submodule(owner_path))
    code: Any = getattr(owner.__init__, "__code__", None)
    if code is None or not is_users(code.co_filename):
        return None
    source = source_of(code.co_filename)
    statement = source.assignment_to_self(owner.__name__, attribute)
    return source.place(statement) if statement is not None else None


def _functions(scene: Scene) -> Iterator[tuple[Source, ast.AST, Step | None]]:
    for step in scene.users:
        function = step.source.enclosing_function(step.line)
        yield (
            step.source,
            function or step.source.tree,
            step if function is None or function.name == step.function else None,
        )
    for module in {type(inner): inner for _, model in scene.modules() for inner in model.modules()}.values():
        forward = getattr(type(module).forward, "__code__", None)
        if forward is not None and is_users(forward.co_filename):
            source = source_of(forward.co_filename)
            function = source.enclosing_function(forward.co_firstlineno + 1)
            owner = source.class_named(type(module).__name__)
            if owner is not None:
                yield from (
                    (source, node, None)
                    for node in owner.body
                    if isinstance(node, ast.FunctionDef) and node.name != "__init__"
                )
            elif function is not None:
                yield source, function, None


def _change(source: Source, node: ast.AST, function: ast.AST, step: Step | None) -> _Change | None:
    """The in-place change that a statement makes, if it makes one."""
    if isinstance(node, ast.AugAssign) and type(node.op) in _OPERATORS:
        if not _may_be_tensor(node, function, step):
            return None
        name, operation = source.text(node.target), _OPERATORS[type(node.op)]
        fix = f"Write {name} = {name} {_SYMBOLS[operation]} … at {spot(source.place(node))}, which makes a new tensor."
        return _Change(source.place(node), source.text(node), operation, name, fix, node)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        target = node.targets[0]
        if step is not None and not isinstance(step.value(target.value), Tensor):
            return None
        name = source.text(target.value)
        fix = f"Collect the parts and join them with torch.stack or torch.cat, or write into a copy: {name} = {name}.clone() first."
        return _Change(source.place(node), source.text(node), "CopySlices", name, fix, node)
    if isinstance(node, ast.Call):
        return _call_change(source, node)
    return None


def _call_change(source: Source, node: ast.Call) -> _Change | None:
    name = called_name(node)
    asked = any(
        k.arg == "inplace" and isinstance(k.value, ast.Constant) and k.value.value is True for k in node.keywords
    )
    trailing = name.endswith("_") and not name.endswith("__") and name not in _HARMLESS
    if not asked and not trailing:
        return None
    is_method = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in (
        "F",
        "torch",
        "nn.functional",
    )
    changed = (
        node.func.value
        if is_method and isinstance(node.func, ast.Attribute)
        else node.args[0]
        if node.args
        else node.func
    )
    fix = f"Write {name.rstrip('_')}{'(…, inplace=False)' if asked else '(…)'} at {spot(source.place(node))} and use what it returns."
    operation = {"relu": "Relu"}.get(name.rstrip("_"), name.rstrip("_").title().replace("_", ""))
    return _Change(source.place(node), source.text(node), operation, source.text(changed), fix)


def _may_be_tensor(node: ast.AugAssign, function: ast.AST, step: Step | None) -> bool:
    """False for counters and sums of numbers."""
    if step is not None and isinstance(node.target, ast.Name):
        value = step.value(node.target)
        return value is MISSING or isinstance(value, Tensor)
    if any(called_name(call) in ("item", "size", "len") for call in ast.walk(node.value) if isinstance(call, ast.Call)):
        return False
    started = [
        other.value for other in ast.walk(function) if isinstance(other, ast.Assign) and _targets(other, node.target)
    ]
    return not started or not all(isinstance(value, ast.Constant) for value in started)


def _targets(assign: ast.Assign, target: ast.expr) -> bool:
    return any(ast.unparse(one) == ast.unparse(target) for one in assign.targets)


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
    tensors = [(name, value) for name, value in scene.operands() if isinstance(value, Tensor)]
    leaf = next((pair for pair in tensors if pair[1].is_leaf and pair[1].requires_grad), None)
    if node is None:
        return None
    text = scene.crash.text(node)
    if leaf is None:
        who = "A leaf tensor that requires grad"
    else:
        kind = "a parameter" if isinstance(leaf[1], nn.Parameter) else "a leaf"
        who = f"`{scene.crash.text(leaf[0])}`, {described(leaf[1])}, {kind} that requires grad,"
    return Explanation(
        "in-place",
        f"{who} is changed in place by `{text}`: autograd would lose the value whose gradient it is to compute.",
        (),
        "Wrap an update or an initialisation in `with torch.no_grad():`; to compute with it, write out of place (x = x + …).",
        scene.place,
    )
