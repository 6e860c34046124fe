"""Where a value came from: the statement that set a variable, the caller that passed it, the line that built a layer.

Read from the source, so only certain facts are reported: a variable that a branch or a later line of the loop may have
set has no known origin.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from torch import nn

from trueloop.crash.explanation import spot
from trueloop.crash.scene import MISSING, Layer, Scene, Step
from trueloop.event import Place
from trueloop.torch_private.modules import own_modules
from trueloop.usercode.ownership import class_source
from trueloop.usercode.source import called_name, calls_in, is_self_attribute, source_of

__all__ = ["Built", "Origin", "bound_in", "built", "head", "layer_input", "origin", "origins", "setter"]

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While


class Origin(NamedTuple):
    """How a variable got its value."""

    lines: tuple[str, ...]  # One sentence per hop, for the report
    statement: ast.stmt | None = None  # The statement that set it; None if that is not certain
    step: Step | None = None  # The frame of that statement

    @property
    def place(self) -> Place | None:
        return self.step.source.place(self.statement) if self.step is not None and self.statement is not None else None


class Built(NamedTuple):
    """The line that builds a layer."""

    place: Place
    text: str
    name: str

    @property
    def line(self) -> str:
        return f"`{self.name}` is built at {spot(self.place)}: {self.text}"


def bound_in(node: ast.AST, name: str) -> bool:
    """Does this node assign to the name?"""
    names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name) and inner.id == name)
    return any(isinstance(inner.ctx, ast.Store) for inner in names)


def setter(step: Step, name: str) -> ast.stmt | None:
    """The statement that certainly set the variable before the step's line; the function itself for an argument."""
    current: ast.AST | None = step.statement
    for parent in step.source.parents(current) if current is not None else ():
        assert current is not None
        block = _block_of(parent, current)
        position = next((index for index, sibling in enumerate(block) if sibling is current), 0)
        found, sure = _last_in(block[:position], name)
        if found is not None or not sure:
            return found
        match parent:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return parent if name in _parameters(parent) else None
            case ast.For() | ast.AsyncFor() if bound_in(parent.target, name):
                return parent
            case ast.For() | ast.AsyncFor() | ast.While() if any(bound_in(inner, name) for inner in parent.body):
                return None  # a later line of the loop set it, in an earlier iteration
            case ast.With() | ast.AsyncWith() if any(bound_in(item, name) for item in parent.items):
                return parent
        current = parent
    return None


def _block_of(parent: ast.AST, child: ast.AST) -> list[ast.stmt]:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and child in block:
            return block
    return []


def _last_in(statements: list[ast.stmt], name: str) -> tuple[ast.stmt | None, bool]:
    """The last of these that certainly sets the name, and whether the search may end here."""
    for statement in reversed(statements):
        if not bound_in(statement, name):
            continue
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            found, sure = _last_in(statement.body, name)
            return (found or statement, True) if sure else (None, False)
        simple = isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr))
        return (statement, True) if simple else (None, False)
    return None, True


def _parameters(function: Function) -> list[str]:
    arguments = function.args
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def head(step: Step, statement: ast.stmt) -> str:
    """The source of a statement; of a loop or a with block, its first line without a comment."""
    match statement:
        case ast.For(target=target, iter=over) | ast.AsyncFor(target=target, iter=over):
            return f"for {step.text(target)} in {step.text(over)}:"
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return f"with {', '.join(step.source.text(item.context_expr) for item in items)}:"
        case _:
            return step.text(statement)


def origin(scene: Scene, step: Step, node: ast.AST | None) -> Origin:
    """Where the value of a variable came from, followed through arguments of the user's functions."""
    lines: list[str] = []
    while isinstance(node, ast.Name):
        statement = setter(step, node.id)
        if statement is None:
            return Origin(tuple(lines))
        if not isinstance(statement, Function):
            lines.append(f"`{node.id}` is set at {spot(step.source.place(statement))}: {head(step, statement)}")
            return Origin(tuple(lines), statement, step)
        passed = _passed(scene, step, statement, node.id)
        if passed is None:
            return Origin((*lines, f"`{node.id}` is an argument of `{statement.name}`."))
        caller, argument = passed
        lines.append(f"`{node.id}` is what {spot(caller.place)} passes as `{caller.text(argument)}`.")
        step, node = caller, argument
    return Origin(tuple(lines))


def _passed(scene: Scene, step: Step, function: Function, name: str) -> tuple[Step, ast.expr] | None:
    """The caller, and the argument of its call that became the parameter."""
    outer = [other for other in scene.steps[: scene.steps.index(step)] if other.is_users]
    call = outer[-1].node if outer else None
    if not isinstance(call, ast.Call) or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    parameters = _parameters(function)
    positional = parameters[1:] if parameters[:1] == ["self"] else parameters
    by_name = {keyword.arg: keyword.value for keyword in call.keywords}
    position = positional.index(name) if name in positional else len(call.args)
    argument = by_name.get(name) or (call.args[position] if position < len(call.args) else None)
    if argument is None:
        return None
    value = outer[-1].value(argument)
    return (outer[-1], argument) if value is MISSING or value is step.locals.get(name) else None


def origins(scene: Scene, *nodes: ast.AST | None) -> tuple[str, ...]:
    """Where the values of some expressions of the crashing line came from, one sentence per hop."""
    return tuple(line for node in nodes for line in origin(scene, scene.crash, node).lines)


def layer_input(scene: Scene, layer: Layer) -> tuple[str, Origin]:
    """The input of a layer as the user would name it, and where it came from."""
    if layer.before:
        return f"the output of {layer.before}", Origin(())
    argument = scene.argument() if layer.direct else None
    if argument is None:
        return "its input", Origin(())
    return f"`{scene.crash.text(argument)}`", origin(scene, scene.crash, argument)


# -- layers --


def built(scene: Scene, layer: Layer) -> Built | None:
    """The user's line that builds a layer."""
    path = next((path for path, inner in layer.model.named_modules() if inner is layer.module), "")
    owner_path, _, attribute = path.rpartition(".")
    owner = layer.model.get_submodule(owner_path) if path else None
    if isinstance(owner, nn.Sequential):
        position = list(own_modules(owner)).index(attribute)
        candidates = _element_calls(scene, layer, owner, owner_path, position)
    else:
        candidates = _variable_calls(scene, layer.module) if owner is None else _attribute_calls(owner, attribute)
    for file, call in candidates:
        if called_name(call) == type(layer.module).__name__:
            source = source_of(file)
            return Built(source.place(call), " ".join(source.text(call).split()), layer.name)
    return None


def _attribute_calls(owner: nn.Module, attribute: str) -> Iterator[tuple[str, ast.Call]]:
    """`Linear(…)` in `self.fc = nn.Linear(…)`."""
    for source, tree in filter(None, map(class_source, type(owner).__mro__)):
        for node in ast.walk(tree):
            assigns = isinstance(node, ast.Assign) and any(is_self_attribute(t, attribute) for t in node.targets)
            if assigns and isinstance(call := getattr(node, "value", None), ast.Call):
                yield source.path, call


def _variable_calls(scene: Scene, module: nn.Module) -> Iterator[tuple[str, ast.Call]]:
    """`Linear(…)` in `model = nn.Linear(…)`, also inside `.to(device)`."""
    for step in scene.users:
        names = {name for name, value in list(step.locals.items()) if value is module}
        for node in ast.walk(step.source.tree):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in names for t in node.targets):
                yield from ((step.place.path, call) for call in calls_in(node.value))


def _element_calls(
    scene: Scene, layer: Layer, owner: nn.Module, path: str, position: int
) -> Iterator[tuple[str, ast.Call]]:
    """The n-th argument of `nn.Sequential(…)`."""
    outer_path, _, attribute = path.rpartition(".")
    outer = layer.model.get_submodule(outer_path)
    containers = _attribute_calls(outer, attribute) if path else _variable_calls(scene, owner)
    for file, call in containers:
        plain = called_name(call) == "Sequential" and not any(isinstance(a, ast.Starred) for a in call.args)
        element = call.args[position] if plain and position < len(call.args) else None
        if isinstance(element, ast.Call):
            yield file, element
