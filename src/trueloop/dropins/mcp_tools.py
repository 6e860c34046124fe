"""The tools of `trueloop mcp`: each runs the command line in a process of its own, within a time limit.

A tool never runs training code in the server: a script that crashes, hangs or prints cannot disturb the protocol.
"""

import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypedDict

from trueloop.usercode.child_python import child_python

__all__ = ["TOOLS", "Answer", "run_command"]

TAIL: Final = 4_000  # characters of the output that are kept
LIMIT: Final = 600.0  # seconds, by default
MEANING: Final = {
    0: "no problem",
    1: "findings, a claim that fails, or a script that failed by itself: see the report",
    3: "a part of trueloop failed, or a package is missing",
    4: "the command is wrong; nothing was run",
    5: "the run stopped itself",
}


class Answer(TypedDict):
    """The result of a tool."""

    command: str  # what was run; the same line works in a terminal
    exit_code: int | None  # None: the time limit ended it
    meaning: str
    report: dict[str, Any] | None  # the JSON report of the verb; None: it wrote none
    output: str  # the end of what was printed, by the script too


def run_command(words: list[str], folder: str, seconds: float, *, json_report: bool = True) -> Answer:
    """Run `trueloop WORDS`; `words` begin with the verb, after which options may stand."""
    place = Path(folder).expanduser()
    shown = shlex.join(["trueloop", *words])
    if not place.is_dir():
        return Answer(command=shown, exit_code=4, meaning=f"There is no folder {folder}.", report=None, output="")
    with tempfile.TemporaryDirectory() as aside:
        file = Path(aside) / "report.json"
        options = ["--format", "json", "--output", str(file)] if json_report else []
        command = child_python("-m", "trueloop", words[0], *options, *words[1:])
        code, output = _finished(command, place, seconds)
        report = json.loads(file.read_text(encoding="utf-8")) if file.is_file() and file.stat().st_size else None
    if code is None:
        meaning = f"ended by the limit of {seconds:g} seconds: give `steps`, or more `seconds`"
    else:
        meaning = MEANING.get(code, "the exit code of the script itself, or of a signal")
    return Answer(command=shown, exit_code=code, meaning=meaning, report=report, output=output[-TAIL:])


def _finished(command: list[str], folder: Path, seconds: float) -> tuple[int | None, str]:
    """The exit code and what was printed; None if the time limit ended it, with all processes that it started."""
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,  # the server's own stdin is the protocol
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, output
        return process.returncode, output


def _steps(steps: int | None) -> list[str]:
    return [] if steps is None else ["--steps", str(steps)]


def check(
    script: str, arguments: list[str] | None = None, steps: int | None = None, folder: str = ".", seconds: float = LIMIT
) -> Answer:
    """Run a PyTorch training script, unmodified, and report its silent training bugs with line, evidence and fix.

    `steps` ends the run after so many optimizer steps; 200 are often enough. `folder` is the working directory.
    Each finding of the report has code, path, line, message, evidence, fix and, where it can be written, a diff.
    """
    return run_command(["check", *_steps(steps), script, *(arguments or [])], folder, seconds)


def explain(rule: str) -> Answer:
    """What a rule detects, why it matters, what to write instead: by code (GRD101), by name, or by a search word."""
    return run_command(["explain", rule], ".", 60.0, json_report=False)


def try_change(
    script: str,
    changes: list[str],
    arguments: list[str] | None = None,
    seeds: int = 1,
    steps: int | None = None,
    folder: str = ".",
    seconds: float = LIMIT,
) -> Answer:
    """Run a script without and with a change, in copies of its folder, and compare loss, metrics and findings.

    Each change is 'OLD => NEW', where OLD occurs once in the script. `seeds` above 1 measures the noise. Exit code 0:
    the change helps.
    """
    options = [word for change in changes for word in ("--change", change)]
    words = ["try", *options, "--seeds", str(seeds), *_steps(steps), script, *(arguments or [])]
    return run_command(words, folder, seconds)


def fix(
    script: str,
    arguments: list[str] | None = None,
    unsafe: bool = False,
    write: bool = False,
    steps: int | None = None,
    folder: str = ".",
    seconds: float = LIMIT,
) -> Answer:
    """Show the diff of the fixes that can be written mechanically; `write` puts them into the files and checks again.

    `unsafe` adds fixes that change the trained weights on purpose: a missing `zero_grad()`, a softmax too many.
    """
    options = [*(["--unsafe"] if unsafe else []), *([] if write else ["--diff"]), *_steps(steps)]
    return run_command(["fix", *options, script, *(arguments or [])], folder, seconds, json_report=False)


def probe(
    subject: str, claims: list[str] | None = None, steps: int | None = None, folder: str = ".", seconds: float = LIMIT
) -> Answer:
    """Test claims about a script, a recipe or a run: it learns one batch, it resumes exactly, it is deterministic ...

    Without `claims` all are tested. If one fails, the report lists the likely causes in order.
    """
    return run_command(["probe", subject, *(claims or []), *_steps(steps)], folder, seconds)


def profile(
    script: str, arguments: list[str] | None = None, steps: int | None = None, folder: str = ".", seconds: float = LIMIT
) -> Answer:
    """Measure where time and memory of a training go, what bounds it, and up to three changes with predicted gains."""
    return run_command(["profile", *_steps(steps), script, *(arguments or [])], folder, seconds)


def compare(runs: list[str], folder: str = ".") -> Answer:
    """What differs between runs (runs/NAME): settings, results, and the first step at which the losses differ."""
    return run_command(["compare", *runs], folder, 60.0)


TOOLS: Final[dict[str, Callable[..., Answer]]] = {
    "check": check,
    "explain": explain,
    "try": try_change,
    "fix": fix,
    "probe": probe,
    "profile": profile,
    "compare": compare,
}
"""Name of the tool -> function; its docstring is what the agent reads."""
