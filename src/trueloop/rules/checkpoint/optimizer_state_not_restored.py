"""CKP102 optimizer-state-not-restored: training goes on from a checkpoint, but its optimizer begins anew.

What it sees
------------
A model that had not been trained in this run gets all its weights from a file, by a line of the user's, and is then
trained by an optimizer that has state (momentum, Adam's averages) and had none before the first step. And one of these:

- the file holds the state of an optimizer for these very parameters, and the script goes on with it: its settings are
the same, or the
  script reads the file's counter (`start = checkpoint["epoch"]`), or it writes the same file again;
- the script writes the same file again, with a counter that goes on from the one it read, and never puts an optimizer's
state into it.

Why it hurts
------------
Adam without its averages takes its first steps as if at the very beginning: full learning rate in every coordinate,
whatever the gradient's size, with no warm-up. Momentum is gone. The loss jumps, and a run that was interrupted three
times is not the run that was not: results depend on when the machine was restarted.

Evidence
--------
The file, the optimizer, for how many parameters the file keeps state, after how many steps, and where it keeps it.

Use instead
-----------
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)

    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])

When it is fine
---------------
Not reported: inference and evaluation; fine-tuning from weights (a file without an optimizer's state, a new head, a
part of a model, other settings); optimizers without state (SGD without momentum); weights put back into a model that
was trained here (the best ones, another stage); files that a library reads.

A checkpoint that keeps model and optimizer in two files, of which only one is read, looks like a file of weights and is
not seen. A restart with a fresh optimizer and the same settings that is meant so can be allowed: `# trueloop:
allow[optimizer-state-not-restored]`.
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import FileWritten, Place, Resumed, SavedCounter
from trueloop.finding import Finding, Severity
from trueloop.results.check import counted
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import after, block_of, owns_its_lines, sole_call
from trueloop.usercode.source import Source, called_name, diff, shown_path, source_of

__all__ = ["OptimizerStateNotRestored"]


@final
class OptimizerStateNotRestored(Rule):
    code = "CKP102"
    name = "optimizer-state-not-restored"
    severity = Severity.ERROR
    not_applicable = "no training went on from a file"

    def __init__(self) -> None:
        self._doubtful: dict[str, Resumed] = {}
        """By file: those that may be a new training, unless the same file is written again."""

    def on_resumed(self, event: Resumed) -> Findings:
        if not event.fresh or not event.stateful:
            return
        if event.key and (event.same_settings or _goes_on(event)):
            yield self._left_behind(event)
        elif event.file and (event.key or not event.contents.optimizers):
            self._doubtful[event.file] = event

    def on_file_written(self, event: FileWritten) -> Findings:
        resumed = self._doubtful.get(event.file)
        if resumed is None or not event.contents.weights:
            return
        del self._doubtful[event.file]
        if resumed.key:
            yield self._left_behind(resumed)
        elif (
            not event.contents.optimizers
            and (counter := _grown(resumed.contents.counters, event.contents.counters)) is not None
        ):
            yield self._never_kept(event, resumed, counter)

    def _left_behind(self, event: Resumed) -> Finding:
        file = shown_path(event.file) if event.file else "a checkpoint"
        key = "".join(f"[{word!r}]" for word in event.key)
        after_steps = f" after {counted(event.steps_before, 'step')}" if event.steps_before else ""
        return self.finding(
            event,
            f"{event.model} goes on from {file} with a fresh {event.name}, though the file keeps the state of one for "
            f"{counted(event.parameters_with_state, 'parameter')}{after_steps}, under {key}.",
            fix="Load the optimizer's state where the model's is loaded: optimizer.load_state_dict(checkpoint[...]).",
            evidence={
                "file": file,
                "optimizer": event.name,
                "parameters_with_state": event.parameters_with_state,
                "steps_before": event.steps_before,
                "kept_under": key,
                "same_settings": event.same_settings,
            },
            diff=_loaded_too(event),
        )

    def _never_kept(self, event: FileWritten, resumed: Resumed, counter: SavedCounter) -> Finding:
        file = shown_path(event.file)
        return self.finding(
            event,
            f"{file} is what this run went on from, and what the next one will: it holds the model and {counter.name} = {counter.value}, "
            f"but not the state of {resumed.name}, which therefore begins anew each time.",
            fix="Save optimizer.state_dict() with the model, and load it again when the run goes on.",
            evidence={
                "file": file,
                "optimizer": resumed.name,
                "counter": {"name": counter.name, "read": _value(resumed, counter.name), "written": counter.value},
                "loaded": "" if resumed.place is None else f"{shown_path(resumed.place.path)}:{resumed.place.line}",
            },
        )


def _value(resumed: Resumed, name: str) -> int:
    return next(counter.value for counter in resumed.contents.counters if counter.name == name)


def _grown(before: tuple[SavedCounter, ...], now: tuple[SavedCounter, ...]) -> SavedCounter | None:
    """A number that goes on from the one in the file: the first file that is written after the load has a larger
    one."""
    old = {counter.name: counter.value for counter in before}
    return next((counter for counter in now if counter.name in old and counter.value > old[counter.name]), None)


def _goes_on(event: Resumed) -> bool:
    """Does the script read a number of the file's into a variable, or into the head of a loop? Words that only print it
    do not count."""
    if event.place is None:
        return False
    source, names = source_of(event.place.path), {counter.name for counter in event.contents.counters}
    return any(
        _is_read(node, names) and _is_used(source, node) for node in ast.walk(source.tree) if isinstance(node, ast.expr)
    )


def _is_read(node: ast.expr, names: set[str]) -> bool:
    """`checkpoint["epoch"]`, `checkpoint.get("epoch", 0)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return isinstance(node.slice, ast.Constant) and node.slice.value in names
    got = isinstance(node, ast.Call) and called_name(node) in ("get", "pop") and bool(node.args)
    return got and isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant) and node.args[0].value in names


def _is_used(source: Source, node: ast.expr) -> bool:
    for parent in source.parents(node):
        if isinstance(parent, ast.JoinedStr):
            return False
        if isinstance(parent, ast.stmt):
            return isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.While, ast.Return))
    return False


def _loaded_too(event: Resumed) -> str:
    """`optimizer.load_state_dict(checkpoint["optimizer"])` behind the lines that load the model and build the
    optimizer."""
    if (
        event.place is None
        or event.optimizer_place is None
        or event.optimizer_place.path != event.place.path
        or len(event.key) != 1
    ):
        return ""
    source = source_of(event.place.path)
    load, optimizer = sole_call(source, event.place, "load_state_dict"), _variable(source, event.optimizer_place)
    checkpoint = _checkpoint(load[0]) if load is not None else ""
    built = source.statement(event.optimizer_place.line)
    if load is None or built is None or not optimizer or not checkpoint:
        return ""
    block = block_of(source, load[0])
    if built not in block or not owns_its_lines(source, built):
        return ""
    return diff(
        source.path,
        [
            after(
                source,
                max(load[0], built, key=block.index),
                f'{optimizer}.load_state_dict({checkpoint}["{event.key[0]}"])',
            )
        ],
    )


def _variable(source: Source, place: Place) -> str:
    """The name that the optimizer built there is given."""
    statement = source.statement(place.line)
    if (
        not isinstance(statement, ast.Assign)
        or len(statement.targets) != 1
        or not isinstance(statement.value, ast.Call)
    ):
        return ""
    return statement.targets[0].id if isinstance(statement.targets[0], ast.Name) else ""


def _checkpoint(load: ast.Expr) -> str:
    """`checkpoint` of `model.load_state_dict(checkpoint["model"])`."""
    call = load.value
    given = call.args[0] if isinstance(call, ast.Call) and call.args else None
    return given.value.id if isinstance(given, ast.Subscript) and isinstance(given.value, ast.Name) else ""
