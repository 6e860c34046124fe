"""A recipe or a script run again and again in processes of its own, each in the same way but for what a proof wants to
vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from trueloop.claims.subject import RecipeSubject, ScriptSubject, python
from trueloop.claims.trace import OPERATIONS, Start, Trace, read_trace
from trueloop.event import Place
from trueloop.usercode.source import full_path

__all__ = ["START", "found_at", "short_words", "traced_recipe", "traced_script", "words_with"]

START: Final[Mapping[str, Start]] = {
    "first": Start(1, 1, 1),
    "second": Start(2, 2, 2),
    "python": Start(2, 1, 2),
    "numpy": Start(2, 2, 1),
    "hashes": Start(2, 2, 2),
}
"""Of each run: the second differs from the first in all that the outside gives a process; the others share one thing
with the first."""
HASH_SEED: Final[Mapping[str, str]] = {"first": "1", "hashes": "1"}
"""PYTHONHASHSEED, "2" for the others: unless told otherwise, Python gives every process another one."""
TWO: Final = ("first", "second")


# -- what to type --


def words_with(words: Sequence[str], settings: Mapping[str, object]) -> tuple[str, ...]:
    """The words of a recipe, with other values for some fields; what they said of these before is taken out."""
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--set" and rest:
            setting = rest.pop(0)
            kept += [] if setting.partition("=")[0].strip().replace("-", "_") in settings else [word, setting]
        else:
            kept.append(word)
    return (
        *kept,
        *(word for name, value in settings.items() if value is not None for word in ("--set", f"{name}={value}")),
    )


def short_words(subject: RecipeSubject, steps: int, **more: object) -> tuple[str, ...]:
    """The recipe for so many steps, every one logged, told to nobody, and never ended early."""
    settings: dict[str, object] = {
        "epochs": None,
        "steps": steps,
        "log_every": 1,
        "trackers": "none",
        "patience": "none",
        **more,
    }
    if subject.recipe.warmup >= steps:
        settings["warmup"] = steps // 4
    return (*words_with(subject.words, settings), *(["--download"] if subject.request.download else []))


def found_at(finding: Mapping[str, Any]) -> Place | None:
    """The line of a finding of `trueloop check`."""
    return Place(full_path(finding["path"]), finding["line"]) if finding["path"] else None


# -- traces --


def traced_recipe(subject: RecipeSubject, steps: int, runs: Sequence[str] = TWO) -> tuple[list[Trace], str]:
    """Of each run; and what one of them said that came to nothing. They train side by side, each into a folder of its
    own."""
    words = short_words(subject, steps)

    def traced(name: str) -> tuple[Trace | None, str]:
        folder = subject.scratch / f"traced-{name}"
        return _traced(folder, 0, OPERATIONS, ("-m", "trueloop", "train", *words, "--runs", str(folder / "runs")), name)

    with ThreadPoolExecutor(len(runs)) as pool:
        done = list(pool.map(traced, runs))
    return [trace for trace, _ in done if trace is not None and trace.steps], next(
        (said for trace, said in done if not trace), ""
    )


def traced_script(subject: ScriptSubject, runs: Sequence[str] = TWO) -> tuple[list[Trace], str]:
    """As above; one after the other, for a script writes where it likes. Kept in the subject's folder: several claims
    read them."""
    traces, said = _script_traces(subject, OPERATIONS, runs)
    if len(traces) < len(
        runs
    ):  # what does not bear being looked into (compiled code of some kinds) may still be looked at
        traces, said = _script_traces(subject, 0, runs)
    return traces, said


def _script_traces(subject: ScriptSubject, operations: int, runs: Sequence[str]) -> tuple[list[Trace], str]:
    folders = {name: subject.scratch / f"traced-{name}-{operations}" for name in runs}
    done = [_traced(folder, subject.steps or 0, operations, subject.command, name) for name, folder in folders.items()]
    return [trace for trace, _ in done if trace is not None], next((said for trace, said in done if not trace), "")


def _traced(folder: Path, steps: int, operations: int, command: Sequence[str], name: str) -> tuple[Trace | None, str]:
    """None: it ended by an error, whose last words come with it."""
    out = folder / "trace.json"
    said = ""
    if not out.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        start = ":".join(map(str, (START[name].torch, START[name].python, START[name].numpy)))
        options = (str(out), str(steps), str(operations), start)
        done = python("-m", "trueloop.claims.trace", *options, *command, PYTHONHASHSEED=HASH_SEED.get(name, "2"))
        said = next(reversed(done.stderr.strip().splitlines()), "")
    trace = read_trace(out) if out.is_file() else None
    return (None, said) if trace is None or trace.ended == "exception" else (trace, said)
