"""Verbs, called as a user would, with what every answer must be: one sentence, no traceback, no canary."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trueloop.checkpoint.store import MANIFEST, seal_json, unseal_json
from trueloop.cli.main import main

PATIENCE = 240  # Seconds, on a busy machine
ADVICE = ("`weights_only` set to `False`", "weights_only=False", "allow_pickle", "safe_globals", "trusted source")
"""Of torch's and numpy's own messages: whoever follows them executes the file."""
STEERING = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202e]|\x1b(?!\[[0-9;]*m)")


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class TooLong(BaseException):
    """A verb hangs. Not an Exception: nothing may catch it."""


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def call(*words: str | Path) -> Said:
    """What a verb prints, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with within(PATIENCE), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    said = Said(code, out.getvalue(), err.getvalue())
    for wrong in ("Traceback", "trueloop itself failed", "This is a bug", *ADVICE):
        assert wrong not in said.text, said.text[-3000:]
    assert not STEERING.search(said.text), said.text[-3000:]
    return said


def refused(said: Said, words: str = "") -> None:
    """Exit code 4, and one sentence about it."""
    assert said.code == 4, said
    assert len(said.err.strip().splitlines()) <= 2, said.err
    assert re.search(words, said.err), said.err


def reseal(checkpoint: Path, **changes: Any) -> None:
    """The manifest as its author would have written it: the hashes fit, and no stamp of this machine."""
    manifest = unseal_json((checkpoint / MANIFEST).read_bytes(), "it")
    files = {}
    for name in manifest["files"]:
        if (checkpoint / name).is_file() and not (checkpoint / name).is_symlink():
            data = (checkpoint / name).read_bytes()
            files[name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        else:
            files[name] = manifest["files"][name]
    (checkpoint / MANIFEST).write_bytes(seal_json({**manifest, "files": files, "made_here": "", **changes}))
