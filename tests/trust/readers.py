"""Readers that misbehave, for the tests of the confined worker: each tries something, and answers what came of it."""

from __future__ import annotations

import ctypes
import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO


def echo(file: BinaryIO, out: Any) -> None:
    out.write(file.read())


def torch_version(file: BinaryIO, out: Any) -> None:
    out.write(str(import_module("torch").__version__).encode())


def attempts(file: BinaryIO, out: Any, home: str, folder: str, process: int) -> None:
    """Every line: what was tried, and what it gave."""
    tried: dict[str, Callable[[], object]] = {
        "socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        "unix socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
        "read home": lambda: Path(home).read_bytes(),
        "list home": lambda: os.listdir(Path(home).parent),
        "write folder": lambda: Path(folder, "canary").write_text("x", encoding="utf-8"),
        "write here": lambda: Path("canary").write_text("x", encoding="utf-8"),
        "write tmp": lambda: Path("/tmp/trueloop-canary").write_text("x", encoding="utf-8"),
        "mkdir": lambda: os.mkdir(Path(folder, "canary")),
        "rename": lambda: os.rename(home, home + "2"),
        "unlink": lambda: os.unlink(home),
        "chmod": lambda: os.chmod(home, 0o777),
        "run": lambda: subprocess.run(["/bin/true"], check=True),
        "exec": lambda: os.execv("/bin/true", ["true"]),
        "fork": os.fork,
        "kill": lambda: os.kill(process, 0),
        "kill worker": lambda: os.kill(os.getppid(), signal.SIGTERM),
        "leave group": os.setsid,
        "unshare": lambda: _call("unshare", 0x10000000),
        "mount": lambda: _call("mount", b"none", b"/tmp", b"tmpfs", 0, None),
        "ptrace": lambda: _call("ptrace", 16, process, 0, 0),
        "bpf": lambda: _call("syscall", 280 if os.uname().machine == "aarch64" else 321, 0, 0, 0),
        "environment": lambda: os.environ["TRUELOOP_CANARY"],
        "import from here": lambda: __import__("canary_module"),
    }
    for name, attempt in tried.items():
        try:
            attempt()
            out.write(f"{name}: done\n".encode())
        except (OSError, KeyError, ImportError) as error:
            out.write(f"{name}: {type(error).__name__}\n".encode())


def _call(name: str, *arguments: Any) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def spin(file: BinaryIO, out: Any) -> None:
    while True:
        pass


def wait(file: BinaryIO, out: Any) -> None:
    time.sleep(3600)


def grow(file: BinaryIO, out: Any) -> None:
    kept = [bytearray(1 << 24) for _ in range(1 << 10)]
    out.write(str(len(kept)).encode())


def flood(file: BinaryIO, out: Any) -> None:
    while True:
        out.write(bytes(1 << 20))


def crash(file: BinaryIO, out: Any) -> None:
    ctypes.string_at(0)


def fail(file: BinaryIO, out: Any) -> None:
    raise ValueError("\x1b[2J" + "long" * 10_000)


def leave(file: BinaryIO, out: Any) -> None:
    sys.exit(3)


def lie(file: BinaryIO, out: Any) -> None:
    out.out.write(b"-[[[[")


def remember(file: BinaryIO, out: Any) -> None:
    out.write(str(len(_memory)).encode())
    _memory.append(1)


_memory: list[int] = []


def libraries(file: BinaryIO, out: Any) -> None:
    import torch

    out.write(str(torch.arange(4).sum().item()).encode())


# -- that stay open --


def talk(file: BinaryIO, out: Any, questions: BinaryIO) -> None:
    """Each question is the name of a function of this file, and what it is given as options."""
    from trueloop.trust.confine.session import conversation

    kept = file.read()

    def answer(asked: memoryview) -> list[bytes]:
        name, options = json.loads(bytes(asked))
        held = io.BytesIO()
        globals()[name](io.BytesIO(kept), held, **options)
        return [held.getvalue()]

    conversation(questions, out, answer)


def claim(file: BinaryIO, out: Any, questions: BinaryIO) -> None:
    """An answer of more bytes than any memory has."""
    out.write(b"\xff" * 8)
    out.flush()
    time.sleep(3600)


def deaf(file: BinaryIO, out: Any, questions: BinaryIO) -> None:
    """Says that it is open, and reads nothing."""
    out.write(struct.pack("<Q", 16) + b"+".ljust(16))
    out.flush()
    time.sleep(3600)


def fail_to_open(file: BinaryIO, out: Any, questions: BinaryIO) -> None:
    raise ValueError("it is not a model")
