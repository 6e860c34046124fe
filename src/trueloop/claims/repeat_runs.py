"""A recipe or script run repeatedly in processes of its own, identical but for what a test varies."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Final

from trueloop.claims.operation_trace import OPERATIONS, Start, Trace, read_trace
from trueloop.claims.subject import RecipeSubject, ScriptSubject, last_line, run_python
from trueloop.claims.tensor_digest import digest_of_all
from trueloop.engine.parts import Parts
from trueloop.engine.state import State
from trueloop.event import Place
from trueloop.usercode.source import full_path

__all__ = ["START", "batch_digests", "finding_place", "short_run_words", "trace_recipe", "trace_script"]

# The second run differs from the first in every seed that a new process gets; the others share one with the first.
START: Final[Mapping[str, Start]] = {
    "first": Start(1, 1, 1),
    "second": Start(2, 2, 2),
    "python": Start(2, 1, 2),
    "numpy": Start(2, 2, 1),
    "hashes": Start(2, 2, 2),
}
HASH_SEED: Final[Mapping[str, str]] = {"first": "1", "hashes": "1"}  # PYTHONHASHSEED; "2" for the others
TWO: Final = ("first", "second")
TRACER: Final = "trueloop.claims.operation_trace"
Child = Callable[[tuple[str, ...], str], str]  # options and PYTHONHASHSEED -> stderr


# -- command lines --


def with_settings(words: Sequence[str], settings: Mapping[str, object]) -> tuple[str, ...]:
    """The words of a recipe with these settings instead of its own `--set` of the same fields; None removes one."""
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--set" and rest:
            setting = rest.pop(0)
            kept += [] if setting.partition("=")[0].strip().replace("-", "_") in settings else [word, setting]
        else:
            kept.append(word)
    values = {name: value for name, value in settings.items() if value is not None}
    return (*kept, *(word for name, value in values.items() for word in ("--set", f"{name}={value}")))


def short_run_words(subject: RecipeSubject, steps: int, **more: object) -> tuple[str, ...]:
    """The recipe for this number of steps: each logged, no trackers, no early stopping."""
    settings = {"epochs": None, "steps": steps, "log_every": 1, "trackers": "none", "patience": "none", **more}
    if subject.recipe.warmup >= steps:
        settings["warmup"] = steps // 4
    return (*with_settings(subject.words, settings), *(["--download"] if subject.request.download else []))


def finding_place(finding: Mapping[str, Any]) -> Place | None:
    """The line of a finding of `trueloop check`."""
    return Place(full_path(finding["path"]), finding["line"]) if finding["path"] else None


def batch_digests(parts: Parts, most: int) -> list[list[int]]:
    """Of the first batches of two epochs, prepared and augmented."""
    state, epochs = State(), []
    for epoch in range(2):
        state.epoch, state.batch = epoch, 0  # in place: the loader refers to this object
        digests = []
        for window in islice(parts.batches.windows(state), min(most, parts.batches.steps_per_epoch)):
            digests.append(digest_of_all([tuple(micro) for micro in window.micros]))
            state.batch += 1
        epochs.append(digests)
    return epochs


# -- traces --


def trace_recipe(subject: RecipeSubject, steps: int, runs: Sequence[str] = TWO) -> tuple[list[Trace], str]:
    """The traces, and the error of a run that failed. The runs train in parallel, each into its own folder."""
    words = short_run_words(subject, steps)

    def trace(name: str) -> tuple[Trace | None, str]:
        folder = subject.scratch / f"traced-{name}"
        command = ("-m", "trueloop", "train", *words, "--runs", str(folder / "runs"))

        def child(options: tuple[str, ...], hash_seed: str) -> str:
            return run_python("-m", TRACER, *options, *command, PYTHONHASHSEED=hash_seed).stderr

        return _trace(folder, 0, OPERATIONS, child, name)

    with ThreadPoolExecutor(len(runs)) as pool:
        done = list(pool.map(trace, runs))
    errors = (error for trace, error in done if not trace)
    return [trace for trace, _ in done if trace is not None and trace.steps], next(errors, "")


def trace_script(subject: ScriptSubject, runs: Sequence[str] = TWO) -> tuple[list[Trace], str]:
    """As above, but in sequence, each in its own copy of the folder. The files are reused: several claims need them."""
    traces, error = _trace_script(subject, OPERATIONS, runs)
    if len(traces) < len(runs):  # some compiled code cannot be traced; its weights can still be compared
        traces, error = _trace_script(subject, 0, runs)
    return traces, error


def _trace_script(subject: ScriptSubject, operations: int, runs: Sequence[str]) -> tuple[list[Trace], str]:
    folders = {name: subject.scratch / f"traced-{name}-{operations}" for name in runs}

    def child(options: tuple[str, ...], hash_seed: str) -> str:
        return subject.run(Path(options[0]), TRACER, *options, PYTHONHASHSEED=hash_seed).stderr

    done = [_trace(folder, subject.steps or 0, operations, child, name) for name, folder in folders.items()]
    return [trace for trace, _ in done if trace is not None], next((error for trace, error in done if not trace), "")


def _trace(folder: Path, steps: int, operations: int, child: Child, name: str) -> tuple[Trace | None, str]:
    """None: it ended with an exception; the last line of its stderr comes with it."""
    out = folder / "trace.json"
    error = ""
    if not out.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        start = ":".join(map(str, (START[name].torch, START[name].python, START[name].numpy)))
        options = (str(out), str(steps), str(operations), start)
        error = last_line(child(options, HASH_SEED.get(name, "2")))
    trace = read_trace(out) if out.is_file() else None
    return (None, error) if trace is None or trace.ended == "exception" else (trace, error)
