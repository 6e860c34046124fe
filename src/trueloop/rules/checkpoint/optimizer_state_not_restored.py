"""CKP102 optimizer-state-not-restored: training resumes from a checkpoint with a new optimizer state.

What it sees
------------
A model that had not been trained in this run gets all its weights from a file, by a line of your code, and is then
trained by an optimizer with state (momentum, Adam's averages) that had none before the first step. And one of these:

- the file contains the state of an optimizer for the same parameters, and the script resumes from it: the settings are
  the same, or the script reads the counter in the file (`start = checkpoint["epoch"]`), or it writes the same file
  again;
- the script writes the same file again, with a counter that continues from the one it read, and never saves an
  optimizer state.

Why it hurts
------------
Adam without its averages takes its first steps as at the start of training: full learning rate for every parameter,
whatever the gradient size, without warm-up. Momentum is lost. The loss jumps, and results depend on how often the run
was interrupted.

Evidence
--------
The file, the optimizer, the number of parameters with a saved state, the number of steps before, and its key in the
file.

Use instead
-----------
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)

    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])

When it is fine
---------------
Not reported: inference and evaluation; fine-tuning from weights (a file without an optimizer state, a new head, a part
of a model, different settings); optimizers without state (SGD without momentum); weights restored into a model that was
trained in this run (the best ones, another stage); files that a library reads.

Not detected: a checkpoint with model and optimizer in two files of which only one is read; it looks like a weights
file. If a restart with a new optimizer and the same settings is intended, allow it: `# trueloop:
allow[optimizer-state-not-restored]`.
"""

import ast

from trueloop.event import FileWritten, Place, Resumed, SavedCounter
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts, plural
from trueloop.usercode.rewrite import after, block_of, owns_its_lines, sole_call
from trueloop.usercode.source import Source, called_name, diff, shown_path, source_of

__all__ = ["OptimizerStateNotRestored"]


class OptimizerStateNotRestored(Rule, code="CKP102", severity=Severity.ERROR):
    not_applicable = "no training resumed from a file"

    def __init__(self) -> None:
        self._doubtful: dict[str, Resumed] = {}
        """By file: loads that may start a new training, unless the same file is written again."""

    def on_resumed(self, event: Resumed) -> Findings:
        if not event.fresh or not event.stateful:
            return
        if event.key and (event.same_settings or _reads_counter(event)):
            yield self._not_loaded(event)
        elif event.file and (event.key or not event.contents.optimizers):
            self._doubtful[event.file] = event

    def on_file_written(self, event: FileWritten) -> Findings:
        resumed = self._doubtful.get(event.file)
        if resumed is None or not event.contents.weights:
            return
        del self._doubtful[event.file]
        if resumed.key:
            yield self._not_loaded(resumed)
            return
        counter = _increased(resumed.contents.counters, event.contents.counters)
        if counter is not None and not event.contents.optimizers:
            yield self._not_saved(event, resumed, counter)

    def _not_loaded(self, event: Resumed) -> Finding:
        file = shown_path(event.file) if event.file else "a checkpoint"
        key = "".join(f"[{word!r}]" for word in event.key)
        after_steps = f" after {plural(event.steps_before, 'step')}" if event.steps_before else ""
        return self.finding(
            event,
            f"{event.model} resumes from {file} with a new {event.name} state. The file contains the state of "
            f"{plural(event.parameters_with_state, 'parameter')}{after_steps} under {key}.",
            fix=f"Load it after the model: `optimizer.load_state_dict(checkpoint{key})`.",
            evidence=facts(
                event,
                "file optimizer=name parameters_with_state steps_before saved_under same_settings",
                file=file,
                saved_under=key,
            ),
            diff=_load_state(event),
        )

    def _not_saved(self, event: FileWritten, resumed: Resumed, counter: SavedCounter) -> Finding:
        file = shown_path(event.file)
        read = next(loaded.value for loaded in resumed.contents.counters if loaded.name == counter.name)
        return self.finding(
            event,
            f"{file} is saved for the next resume with the model and {counter.name} = {counter.value}, "
            f"but without the state of {resumed.name}, which is lost at each restart.",
            fix="Save `optimizer.state_dict()` with the model, and load it with `optimizer.load_state_dict(...)`.",
            evidence={
                "file": file,
                "optimizer": resumed.name,
                "counter": {"name": counter.name, "read": read, "written": counter.value},
                "loaded": resumed.place,
            },
        )


def _increased(before: tuple[SavedCounter, ...], now: tuple[SavedCounter, ...]) -> SavedCounter | None:
    """A counter that continues from the loaded file: the first file written after the load has a larger value."""
    old = {counter.name: counter.value for counter in before}
    return next((counter for counter in now if counter.name in old and counter.value > old[counter.name]), None)


def _reads_counter(event: Resumed) -> bool:
    """Does the script read a counter of the file into a variable or a loop header? Printing it does not count."""
    if event.place is None:
        return False
    source, names = source_of(event.place.path), {counter.name for counter in event.contents.counters}
    reads = [node for node in ast.walk(source.tree) if isinstance(node, ast.expr) and _is_read(node, names)]
    return any(_is_used(source, node) for node in reads)


def _is_read(node: ast.expr, names: set[str]) -> bool:
    """`checkpoint["epoch"]`, `checkpoint.get("epoch", 0)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return isinstance(node.slice, ast.Constant) and node.slice.value in names
    if not isinstance(node, ast.Call) or called_name(node) not in ("get", "pop") or not node.args:
        return False
    return isinstance(node.args[0], ast.Constant) and node.args[0].value in names


def _is_used(source: Source, node: ast.expr) -> bool:
    for parent in source.parents(node):
        if isinstance(parent, ast.JoinedStr):
            return False
        if isinstance(parent, ast.stmt):
            return isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.While, ast.Return))
    return False


def _load_state(event: Resumed) -> str:
    """`optimizer.load_state_dict(checkpoint["optimizer"])` after the model is loaded and the optimizer created."""
    place, created = event.place, event.optimizer_place
    if place is None or created is None or created.path != place.path or len(event.key) != 1:
        return ""
    source = source_of(place.path)
    load, optimizer = sole_call(source, place, "load_state_dict"), _variable(source, created)
    checkpoint = _checkpoint(load[0]) if load is not None else ""
    built = source.statement(created.line)
    if load is None or built is None or not optimizer or not checkpoint:
        return ""
    block = block_of(source, load[0])
    if built not in block or not owns_its_lines(source, built):
        return ""
    text = f'{optimizer}.load_state_dict({checkpoint}["{event.key[0]}"])'
    return diff(source.path, [after(source, max(load[0], built, key=block.index), text)])


def _variable(source: Source, place: Place) -> str:
    """The variable of the optimizer created on the line."""
    statement = source.statement(place.line)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return ""
    names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return names[0] if len(names) == len(statement.targets) == 1 else ""


def _checkpoint(load: ast.Expr) -> str:
    """`checkpoint` of `model.load_state_dict(checkpoint["model"])`."""
    call = load.value
    state = call.args[0] if isinstance(call, ast.Call) and call.args else None
    return state.value.id if isinstance(state, ast.Subscript) and isinstance(state.value, ast.Name) else ""
