"""Contents of hostile text files, for every JSON file of a run: name -> bytes, or a way to put something else there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEEP = b'{"a":' * 100_000
STEER = "\x1b[2J\x1b]0;evil\x07\u202e"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def folder(path: Path) -> None:
    path.mkdir()


def secret(path: Path) -> None:
    """A link to a file that its owner can read."""
    path.symlink_to("/etc/passwd")


def endless(path: Path) -> None:
    """4 TB that take no place on disk."""
    with path.open("wb") as file:
        file.truncate(1 << 42)


SPECIAL: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (pipe, zeros, loop, folder, secret, endless)
}

TEXTS: dict[str, bytes] = {
    "deep": DEEP,
    "deep list": b"[" * 200_000,
    "empty": b"",
    "null": b"null",
    "number": b"1",
    "list": b"[]",
    "object": b"{}",
    "not text": bytes(range(128, 256)) * 10,
    "nul": b"\x00" * 1000,
    "long line": b'{"a": "' + b"x" * (8 << 20) + b'"}',
    "long number": b'{"kind": "train", "step": ' + b"9" * 100_000 + b"}",
    "huge float": b'{"kind": "train", "step": 1e999, "epoch": 1e999}',
    "nan": b'{"kind": "train", "step": NaN, "epoch": NaN, "loss": NaN}',
    "twice": b'{"kind": "check", "kind": "train", "name": ["x"], "recipe": 3, "step": "x"}',
    "surrogate": b'{"kind": "train", "name": "\\ud800", "step": 1}',
    "steering": json.dumps({"kind": "train", "name": STEER, STEER: STEER}).encode(),
    "bom": b'\xef\xbb\xbf{"kind": "train"}',
}


def mutations(plain: dict[str, Any]) -> dict[str, bytes]:
    """Each field, one at a time, as something else."""
    found: dict[str, bytes] = {}
    for name, value in plain.items():
        for word, other in (("null", None), ("list", [1]), ("text", STEER), ("object", {"a": {}}), ("huge", 10**400)):
            if type(other) is not type(value):
                found[f"{name} is {word}"] = json.dumps({**plain, name: other}).encode()
    return found
