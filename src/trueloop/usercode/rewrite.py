"""Reads and edits the user's loop: which statement trains, which variable is the model, and edits that move a line.

Every function returns None, '' or no edits where the code is not simple enough for a mechanical change.
"""

import ast
import builtins
from collections.abc import Iterator

from trueloop.event import Place
from trueloop.usercode.source import Edit, Loop, Source, called_name, calls_in, diff, is_self_attribute, source_of

__all__ = ["after", "before", "block_of", "end_of", "imports_torch", "indent_under", "loops_around", "model_called"]
__all__ += ["move_statement", "owns_its_lines", "shuffle_diff", "sole_call", "trains"]
__all__ += ["wrap_loop_in_no_grad"]


def trains(node: ast.AST) -> bool:
    """Does it contain a backward or a step?"""
    return any(called_name(call) in ("backward", "step") for call in calls_in(node))


def imports_torch(source: Source) -> bool:
    """Is `torch` a name of the file?"""
    imports = (node for node in ast.walk(source.tree) if isinstance(node, ast.Import))
    return any((alias.asname or alias.name.split(".")[0]) == "torch" for node in imports for alias in node.names)


def loops_around(source: Source, statement: ast.stmt) -> list[Loop]:
    """The loops around a statement inside its function, innermost first."""
    found: list[Loop] = []
    for parent in source.parents(statement):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            break
        if isinstance(parent, Loop):
            found.append(parent)
    return found


def block_of(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """The list of statements that contains it."""
    parent = next(source.parents(statement), None)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return []


def end_of(block: list[ast.stmt]) -> ast.stmt | None:
    """The last statement of a block, if another could follow it; None after a return, break, continue or raise."""
    return None if not block or isinstance(block[-1], (ast.Return, ast.Break, ast.Continue, ast.Raise)) else block[-1]


def sole_call(source: Source, place: Place | None, method: str) -> tuple[ast.Expr, str] | None:
    """The statement at a place, if it is just `receiver.method(…)` on its own lines, and the receiver as written."""
    statement = source.statement(place.line) if place is not None and place.path == source.path else None
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    function = statement.value.func
    if not isinstance(function, ast.Attribute) or function.attr != method or not owns_its_lines(source, statement):
        return None
    return statement, source.text(function.value)


def owns_its_lines(source: Source, statement: ast.stmt) -> bool:
    """No other statement shares a line with it (`a(); b()`, `if x: a()`)."""
    last = statement.end_lineno or statement.lineno
    ahead = source.lines[statement.lineno - 1].encode()[: statement.col_offset].decode()
    behind = source.lines[last - 1].encode()[statement.end_col_offset or 0 :].decode().strip()
    return not ahead.strip() and (not behind or behind.startswith("#"))


def before(source: Source, statement: ast.stmt, text: str) -> Edit:
    """Inserts a line before a statement, above its decorators."""
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    return Edit(first, first - 1, (f"{source.indent(first)}{text}",))


def after(source: Source, statement: ast.stmt, text: str) -> Edit:
    """Inserts a line after a statement."""
    last = statement.end_lineno or statement.lineno
    return Edit(last + 1, last, (f"{source.indent(statement.lineno)}{text}",))


def move_statement(source: Source, statement: ast.stmt, behind: ast.stmt) -> list[Edit]:
    """Moves a one-line statement after another statement; no edits if its block would become empty."""
    if statement.lineno != statement.end_lineno or len(block_of(source, statement)) < 2 or statement is behind:
        return []
    text = source.lines[statement.lineno - 1].strip()
    return [Edit(statement.lineno, statement.lineno, ()), after(source, behind, text)]


def indent_under(source: Source, statement: ast.stmt, head: str) -> Edit | None:
    """Puts a statement under a new header (`with torch.no_grad():`); None if that would change a multi-line string."""
    texts = (node for node in ast.walk(statement) if isinstance(node, (ast.Constant, ast.JoinedStr)))
    if any(node.lineno != node.end_lineno for node in texts) or not owns_its_lines(source, statement):
        return None
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    unit = source.indent_unit()
    lines = [line.rstrip("\n") for line in source.lines[first - 1 : last]]
    inner = (f"{unit}{line}" if line.strip() else line for line in lines)
    return Edit(first, last, (f"{source.indent(first)}{head}", *inner))


def wrap_loop_in_no_grad(source: Source, place: Place) -> Edit | None:
    """`with torch.no_grad():` around the innermost loop at a place; None if that loop trains."""
    statement = source.statement(place.line)
    loops = [] if statement is None else loops_around(source, statement)
    if not loops or trains(loops[0]) or not imports_torch(source):
        return None
    return indent_under(source, loops[0], "with torch.no_grad():")


def shuffle_diff(place: Place | None) -> str:
    """Adds `shuffle=True` to the one DataLoader created on a line; empty if it has a sampler or starred arguments."""
    if place is None:
        return ""
    source = source_of(place.path)
    calls = source.calls(place.line, "DataLoader")
    if len(calls) != 1 or len(calls[0].args) > 2 or any(isinstance(part, ast.Starred) for part in calls[0].args):
        return ""
    call, keywords = calls[0], {keyword.arg: keyword.value for keyword in calls[0].keywords}
    if None in keywords or keywords.keys() & {"sampler", "batch_sampler"} or call.lineno != call.end_lineno:
        return ""
    if (shuffle := keywords.get("shuffle")) is not None:
        return diff(place.path, [source.replacing(shuffle, "True")]) if isinstance(shuffle, ast.Constant) else ""
    text = source.text(call).removesuffix(")").rstrip().removesuffix(",")
    return diff(place.path, [source.replacing(call, f"{text}, shuffle=True)")])


def model_called(source: Source, place: Place | None) -> str:
    """The variable or attribute of self that the statement at a place calls as a model; '' if that is ambiguous."""
    statement = source.statement(place.line) if place is not None and place.path == source.path else None
    if statement is None:
        return ""
    head: ast.AST = statement
    if isinstance(statement, (ast.If, ast.While, ast.For)):
        head = statement.iter if isinstance(statement, ast.For) else statement.test
    written = _other_callables(source)
    called = [call.func for call in calls_in(head)]
    found = {source.text(f) for f in called if isinstance(f, ast.Name) and f.id not in written}
    of_self = [f for f in called if isinstance(f, ast.Attribute) and is_self_attribute(f, f.attr)]
    found |= {source.text(f) for f in of_self if f.attr not in written}
    return found.pop() if len(found) == 1 else ""


def _other_callables(source: Source) -> set[str]:
    """Functions, classes, imported names, built-ins, and variables that hold a loss."""
    names = set(dir(builtins))
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {name for target in node.targets for name in _losses(target, node.value)}
    return names | {"criterion", "loss_fn", "loss_func", "loss_function", "metric"}


def _losses(target: ast.expr, value: ast.expr) -> Iterator[str]:
    """The variable or attribute that is assigned a loss, a function of torch.nn.functional, or a lambda."""
    loss = isinstance(value, ast.Call) and called_name(value).endswith("Loss")
    function = isinstance(value, ast.Lambda) or ast.unparse(value).startswith(("F.", "torch.", "nn."))
    if loss or (function and not isinstance(value, ast.Call)):
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Attribute):
            yield target.attr
