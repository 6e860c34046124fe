"""CKP101 whole-model-pickled: the file holds the model as a Python object, not its weights.

What it sees
------------
A line of the user's gives a whole module with weights to `torch.save`, alone or inside a dictionary or a list, and
writes it to a file.

Why it hurts
------------
Pickle writes down where the class lives, not what it does. The file can be opened only by a program that has the same
classes at the same import paths, with the attributes they had then: a renamed module, a moved file or a newer PyTorch
makes it unreadable, or worse, readable with a forward that no longer fits the weights. To read it at all one must allow
the file to run any code (`weights_only=False`).

Evidence
--------
The class that was pickled, where in the saved value it stands, and the file.

Use instead
-----------
    torch.save(model.state_dict(), path)

    model = Net()
    model.load_state_dict(torch.load(path))

When it is fine
---------------
Not reported: state dicts, tensors, configurations and datasets; modules without weights (a criterion, a transform);
scripted and traced modules, which bring their code along; copies through a buffer in memory; files that a library
writes on the user's behalf.

The diff changes the line that loads the file back, too, where that line stands behind it in the same function. Where
another line of the script might read the file, there is no diff.
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import FileWritten, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Edit, Source, called_name, calls_in, diff, shown_path, source_of

__all__ = ["WholeModelPickled"]

FILE: Final = 1
"""Which argument of torch.save is the file."""


@final
class WholeModelPickled(Rule):
    code = "CKP101"
    name = "whole-model-pickled"
    severity = Severity.WARNING
    not_applicable = "nothing was saved by torch.save"

    def on_file_written(self, event: FileWritten) -> Findings:
        modules = event.contents.modules
        if not modules or not event.file or not event.direct:
            return
        key, kind = modules[0]
        what = f"the {kind} itself" if not key else f"the {kind} under {key!r} itself"
        yield self.finding(
            event,
            f"torch.save wrote {what} to {shown_path(event.file)}, as a pickled object that only this code can read, not its weights.",
            fix="Save model.state_dict(), and load it into a model that the code builds.",
            evidence={
                "pickled": [f"{name or 'the value'}: {cls}" for name, cls in modules],
                "file": shown_path(event.file),
            },
            diff="" if event.place is None else _weights_instead(event.place, tuple(name for name, _ in modules)),
        )


def _weights_instead(place: Place, keys: tuple[str, ...]) -> str:
    """`.state_dict()` after each module in the call, and the line that reads the file back changed with it."""
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
    """The lines of some expressions, with a text after each of them."""
    lines: dict[int, bytes] = {}
    for node in sorted(nodes, key=lambda node: node.end_col_offset or 0, reverse=True):
        number = node.end_lineno or node.lineno
        line, end = lines.get(number, source.lines[number - 1].rstrip("\n").encode()), node.end_col_offset or 0
        lines[number] = line[:end] + text.encode() + line[end:]
    return [Edit(number, number, (line.decode(),)) for number, line in lines.items()]


def _saved(argument: ast.expr, key: str) -> ast.expr | None:
    """The expression of the module in what is saved: the argument itself, or an entry of the dictionary that is written
    there."""
    found: ast.expr | None = None if key else argument
    if key and isinstance(argument, ast.Dict):
        entries = zip(argument.keys, argument.values, strict=True)
        found = next((value for name, value in entries if isinstance(name, ast.Constant) and name.value == key), None)
    return found if isinstance(found, (ast.Name, ast.Attribute)) else None


def _reading(source: Source, save: ast.Call) -> list[Edit] | None:
    """The change of the line that reads the file back; none if nothing reads it; None if it cannot be changed
    safely."""
    file = source.text(save.args[FILE])
    written = isinstance(save.args[FILE], ast.Constant)
    loads = [
        call
        for call in calls_in(source.tree)
        if called_name(call) == "load" and source.text(call.func) in _names_of_load(source)
    ]
    mine = [call for call in loads if not (written and call.args and _is_other_constant(call.args[0], source, file))]
    if not mine:
        return []
    call = mine[0]
    statement = next(source.parents(call), None)
    if (
        len(mine) != 1
        or not isinstance(statement, ast.Assign)
        or len(statement.targets) != 1
        or not isinstance(save.args[0], ast.Name)
    ):
        return None
    same = source.text(statement.targets[0]) == save.args[0].id and call.args and source.text(call.args[0]) == file
    near = (
        source.enclosing_function(statement.lineno) is source.enclosing_function(save.lineno)
        and statement.lineno > save.lineno
    )
    if not same or not near:
        return None
    kept = [source.text(node) for node in call.args] + [
        f"{k.arg}={source.text(k.value)}" for k in call.keywords if k.arg != "weights_only"
    ]
    return [
        source.replacing(statement, f"{save.args[0].id}.load_state_dict({source.text(call.func)}({', '.join(kept)}))")
    ]


def _is_other_constant(node: ast.expr, source: Source, file: str) -> bool:
    return isinstance(node, ast.Constant) and source.text(node) != file


def _names_of_load(source: Source) -> set[str]:
    """`torch.load`, `load`, and `t.load` where torch is imported as t."""
    imports = [alias for node in ast.walk(source.tree) if isinstance(node, ast.Import) for alias in node.names]
    return {"load", *(f"{alias.asname or 'torch'}.load" for alias in imports if alias.name.split(".")[0] == "torch")}
