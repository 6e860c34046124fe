"""CKP101 whole-model-pickled: the file contains the model as a pickled Python object, not its weights.

What it sees
------------
A line of your code passes a module with weights to `torch.save`, alone or inside a dictionary or list, and writes it to
a file.

Why it hurts
------------
Pickle stores the import path of the class, not its code. Only a program with the same classes at the same import paths
can load the file: a renamed module, a moved file or a newer PyTorch makes it unreadable, or loads it with a forward
that no longer fits the weights. Loading it also requires `weights_only=False`, which lets the file execute code.

Evidence
--------
The pickled class, its key in the saved value, and the file.

Use instead
-----------
    torch.save(model.state_dict(), path)

    model = Net()
    model.load_state_dict(torch.load(path))

When it is fine
---------------
Not reported: state dicts, tensors, configurations and datasets; modules without weights (a criterion, a transform);
scripted and traced modules, which contain their code; copies through a buffer in memory; files that a library writes.

The diff also changes the line that loads the file, if it follows in the same function. If another line of the script
might read the file, there is no diff.
"""

import ast
from typing import Final

from trueloop.event import FileWritten, Place
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import Edit, Source, called_name, calls_in, diff, shown_path, source_of

__all__ = ["WholeModelPickled"]

FILE: Final = 1  # The position of the file among the arguments of torch.save


class WholeModelPickled(Rule, code="CKP101", severity=Severity.WARNING):
    not_applicable = "`torch.save` was not called"

    def on_file_written(self, event: FileWritten) -> Findings:
        modules = event.contents.modules
        if not modules or not event.file or not event.direct:
            return
        key, kind = modules[0]
        under = f" under {key!r}" if key else ""
        yield self.finding(
            event,
            f"`torch.save` pickled the {kind}{under} as a Python object to {shown_path(event.file)}: only the same "
            "code can load it.",
            fix="Save `model.state_dict()` and load it with `model.load_state_dict(torch.load(path))`.",
            evidence={
                "pickled": [f"{name or 'the saved value'}: {cls}" for name, cls in modules],
                "file": shown_path(event.file),
            },
            diff="" if event.place is None else _save_state_dict(event.place, tuple(name for name, _ in modules)),
        )


def _save_state_dict(place: Place, keys: tuple[str, ...]) -> str:
    """`.state_dict()` after each module in the call, and the matching change of the line that loads the file."""
    source = source_of(place.path)
    calls = source.calls(place.line, "save")
    if len(calls) != 1 or len(calls[0].args) <= FILE:
        return ""
    modules = [node for key in keys if (node := _saved(calls[0].args[0], key)) is not None]
    reading = _reading(source, calls[0])
    if len(modules) != len(keys) or reading is None:
        return ""
    return diff(place.path, [*_followed(source, modules, ".state_dict()"), *reading])


def _followed(source: Source, nodes: list[ast.expr], text: str) -> list[Edit]:
    """The lines of the expressions, with the text inserted after each expression."""
    lines: dict[int, bytes] = {}
    for node in sorted(nodes, key=lambda node: node.end_col_offset or 0, reverse=True):
        number = node.end_lineno or node.lineno
        line, end = lines.get(number, source.lines[number - 1].rstrip("\n").encode()), node.end_col_offset or 0
        lines[number] = line[:end] + text.encode() + line[end:]
    return [Edit(number, number, (line.decode(),)) for number, line in lines.items()]


def _saved(argument: ast.expr, key: str) -> ast.expr | None:
    """The expression of the saved module: the argument itself, or an entry of a dictionary literal."""
    found: ast.expr | None = None if key else argument
    if key and isinstance(argument, ast.Dict):
        entries = zip(argument.keys, argument.values, strict=True)
        found = next((value for name, value in entries if isinstance(name, ast.Constant) and name.value == key), None)
    return found if isinstance(found, (ast.Name, ast.Attribute)) else None


def _reading(source: Source, save: ast.Call) -> list[Edit] | None:
    """The change of the line that loads the file; empty if nothing loads it; None if it cannot be changed safely."""
    file = source.text(save.args[FILE])
    written = isinstance(save.args[FILE], ast.Constant)
    names = _names_of_load(source)
    loads = [call for call in calls_in(source.tree) if called_name(call) == "load" and source.text(call.func) in names]
    others = [call for call in loads if written and call.args and isinstance(call.args[0], ast.Constant)]
    mine = [call for call in loads if call not in others or source.text(call.args[0]) == file]
    if not mine:
        return []
    call = mine[0]
    statement, model = next(source.parents(call), None), save.args[0]
    if len(mine) != 1 or not isinstance(statement, ast.Assign) or not isinstance(model, ast.Name):
        return None
    same = [source.text(target) for target in statement.targets] == [model.id]
    near = source.enclosing_function(statement.lineno) is source.enclosing_function(save.lineno)
    behind = statement.lineno > save.lineno
    if not (same and near and behind and call.args and source.text(call.args[0]) == file):
        return None
    arguments = [source.text(node) for node in call.args]
    arguments += [f"{k.arg}={source.text(k.value)}" for k in call.keywords if k.arg != "weights_only"]
    text = f"{model.id}.load_state_dict({source.text(call.func)}({', '.join(arguments)}))"
    return [source.replacing(statement, text)]


def _names_of_load(source: Source) -> set[str]:
    """`torch.load`, `load`, and `t.load` where torch is imported as t."""
    imports = [alias for node in ast.walk(source.tree) if isinstance(node, ast.Import) for alias in node.names]
    return {"load", *(f"{alias.asname or 'torch'}.load" for alias in imports if alias.name.split(".")[0] == "torch")}
