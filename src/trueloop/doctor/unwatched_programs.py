"""Python programs that a script started and that could not be watched: those of a different Python, or with -I, -E, -S.

Each command that starts a Python file or module is written down, and each program that is watched writes down its own.
What is left over has run unseen; it is of interest only if nobody has seen a training. This file imports no torch.
"""

import os
import pickle
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

__all__ = ["note_seen", "note_started", "unwatched_programs"]

PYTHON: Final = re.compile(r"python(\d+(\.\d+)?)?(\.exe)?")
BETWEEN: Final = re.compile(r"[();<>|&]+")  # what ends a command in a line of a shell
VALUES: Final = ("-W", "-X", "--check-hash-based-pycs")  # options of Python whose value is the next word


def note_started(folder: str, given: Any, *, shell: bool = False) -> None:
    """`given`: what Popen was given, or a line for a shell. Never raises: the run must not change."""
    with suppress(Exception):
        for command in _commands(given, shell=shell):
            _write(folder, "started", command)


def note_seen(folder: str) -> None:
    """This program is watched, or needs no watching."""
    with suppress(OSError):
        _write(folder, "seen", list(sys.orig_argv))


def unwatched_programs(folder: str) -> tuple[str, ...]:
    """The commands that were started and never seen."""
    seen = [_arguments(command) for command in _read(folder, "seen")]
    started = [command for command in _read(folder, "started") if _arguments(command) not in seen]
    return tuple(dict.fromkeys(map(shlex.join, started)))


def _commands(given: Any, *, shell: bool) -> Iterator[list[str]]:
    """The commands in it that run a file or a module by Python, from the word `python` on."""
    if isinstance(given, (str, os.PathLike)) and not shell:
        return  # a program without arguments
    lines = [list(map(os.fsdecode, given))] if not isinstance(given, str) else _split(given)
    for words in lines:
        at = next((place for place, word in enumerate(words) if PYTHON.fullmatch(os.path.basename(word))), None)
        if at is not None and _runs_a_file(words[at + 1 :]):
            yield words[at:]


def _split(line: str) -> list[list[str]]:
    """A line of a shell as its commands."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if BETWEEN.fullmatch(word):
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _runs_a_file(words: Sequence[str]) -> bool:
    """A .py file, or a module that is not one of Python's own or pip. Not `-c`: that is mostly a question."""
    rest = iter(words)
    for word in rest:
        if word in VALUES:
            next(rest, "")
        elif word.startswith("-m"):
            module = (word[2:] or next(rest, "")).partition(".")[0]
            return bool(module) and module not in sys.stdlib_module_names and module not in ("pip", "trueloop")
        elif word == "-c" or not word.startswith("-"):
            return word.endswith(".py")
    return False


def _arguments(command: Sequence[str]) -> list[str]:
    return list(command[1:])


def _write(folder: str, kind: str, command: list[str]) -> None:
    name = f"{os.getpid()}-{time.monotonic_ns()}"
    (Path(folder) / f"{name}.aside").write_bytes(pickle.dumps(command))
    (Path(folder) / f"{name}.aside").replace(Path(folder) / f"{name}.{kind}")


def _read(folder: str, kind: str) -> list[list[str]]:
    return [pickle.loads(file.read_bytes()) for file in sorted(Path(folder).glob(f"*.{kind}"))]
