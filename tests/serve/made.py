"""Artifacts without files, models that are plain functions, and servers of them that are real processes on a port of
their own."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from trueloop.errors import BadArtifact
from trueloop.export.exporter import Array, FakeRunner
from trueloop.results.artifact import Artifact, Port
from trueloop.serve.limits import Limits

if TYPE_CHECKING:
    from trueloop.serve.grpc_server import GrpcServer
    from trueloop.serve.model import Source
    from trueloop.serve.service import Service

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 30.0
"""Seconds that a process may take on a machine that does much else."""
IMAGE: dict[str, Any] = {
    "kind": "image",
    "size": [3, 4],
    "channels": 1,
    "dtype": "uint8",
    "range": [0, 255],
    "inside": True,
}
TEXT: dict[str, Any] = {"kind": "tokens", "dtype": "int64", "tokens": 256, "encoding": "bytes", "inside": True}
TABLE: dict[str, Any] = {
    "kind": "table",
    "dtype": "float32",
    "inside": True,
    "columns": [
        {"name": "length", "kind": "number", "mean": 2.0, "spread": 4.0},
        {"name": "colour", "kind": "category", "categories": ["blue", "red"]},
    ],
}
PORTS: dict[str, tuple[Port, ...]] = {
    "image": (Port("input", "uint8", (None, 1, 3, 4)),),
    "tokens": (Port("input", "int64", (None, None), (None, 16)),),
    "letters": (Port("input", "int64", (None, None), (None, 4096)),),
    "table": (Port("input", "float32", (None, 4)),),
    "tensors": (Port("left", "float32", (None, 2)), Port("right", "int64", (None, 1))),
}


def artifact(kind: str = "image", **fields: Any) -> Artifact:
    told = {
        "image": IMAGE,
        "tokens": TEXT,
        "letters": TEXT,
        "table": TABLE,
        "tensors": {"kind": "tensors", "inside": True},
    }[kind]
    return Artifact(
        **{
            "folder": Path("nowhere"),
            "name": "shades",
            "target": "onnx",
            "files": {"model.onnx": {"bytes": 3, "sha256": "00"}},
            "versions": {"trueloop": "0", "python": "3", "torch": "2.13.0+cpu"},
            "runtime": {"package": "onnxruntime", "version": "1.2.3", "match": "major", "machine": ""},
            "inputs": PORTS[kind],
            "outputs": (Port("output", "float32", (None, 3)),),
            "task": "multiclass",
            "classes": ("dark", "grey", "light"),
            "preprocessing": told,
            "run": {},
            **fields,
        }
    )


# -- models --


def shade(*inputs: Array) -> list[Array]:
    """Three scores of each sample's mean."""
    means = inputs[0].reshape(len(inputs[0]), -1).astype(np.float64).mean(1)
    return [np.stack([-means / 100, np.zeros_like(means), (means - 128) / 50], 1).astype(np.float32)]


def half(*inputs: Array) -> list[Array]:
    """Another version of it."""
    return [scores / 2 for scores in shade(*inputs)]


def slow(*inputs: Array) -> list[Array]:
    time.sleep(0.3)
    return shade(*inputs)


def stuck(*inputs: Array) -> list[Array]:
    """Computes its first samples, which warm it up, and then takes for ever."""
    if inputs[0].any():
        time.sleep(3600)
    return shade(*inputs)


def picky(*inputs: Array) -> list[Array]:
    """Raises at the number 7."""
    if (inputs[0] == 7).any():
        raise IndexError("7 is out of range")
    return shade(*inputs)


def infinite(*inputs: Array) -> list[Array]:
    return [np.full((len(inputs[0]), 3), np.inf if inputs[0].any() else 0.0, np.float32)]


def broken(*inputs: Array) -> list[Array]:
    """Works until it is asked anything, and never again."""
    if inputs[0].any() or broken.asked:  # type: ignore[attr-defined]
        broken.asked = True  # type: ignore[attr-defined]
        raise RuntimeError("no memory")
    return shade(*inputs)


broken.asked = False  # type: ignore[attr-defined]


def deadly(*inputs: Array) -> list[Array]:
    """The number 7 ends its process, as a fault of a runtime would."""
    if (inputs[0] == 7).any():
        os.kill(os.getpid(), signal.SIGKILL)
    return shade(*inputs)


MODELS = {model.__name__: model for model in (shade, half, slow, stuck, picky, infinite, broken, deadly)}


# -- servers --


def opened(model: str) -> FakeRunner:
    return FakeRunner(MODELS[model])


def _source(asked: dict[str, Any], typed: str) -> Source:
    """`typed`: NAME, or NAME:VERSION=MODEL."""
    from trueloop.serve.model import Source

    which, _, model = typed.partition("=")
    name, _, version = which.partition(":")
    return Source(partial(_read, asked, model or asked["model"]), name, int(version or 0))


def _read(asked: dict[str, Any], model: str) -> tuple[Artifact, Callable[[], FakeRunner]]:
    """`change`: a file whose text is the name of the model, or an error; read at each reload."""
    told = Path(asked["change"]).read_text(encoding="utf-8") if asked["change"] else model
    if told not in MODELS:
        raise BadArtifact(told)
    return artifact(asked["kind"]), partial(opened, told)


def child(told: str) -> None:
    """The process of a test's server."""
    from trueloop.serve.server import listen, run
    from trueloop.serve.service import Service

    asked = {"key": "", "workers": 0, "names": [""], "change": "", "grpc": False} | json.loads(told)
    service = Service(
        [_source(asked, typed) for typed in asked["names"]],
        Limits(**asked["limits"]),
        key=asked["key"],
        workers=asked["workers"],
    )
    door = listen("127.0.0.1", 0)
    print(door.getsockname()[1], flush=True)
    run(service, door, lambda line: print(line, flush=True), beside=_grpc(service) if asked["grpc"] else None)


def _grpc(service: Service) -> GrpcServer:
    from trueloop.serve.grpc_server import GrpcServer
    from trueloop.serve.server import listen

    with listen("127.0.0.1", 0) as door:
        port = door.getsockname()[1]
    print(port, flush=True)
    return GrpcServer(service, "127.0.0.1", port)


@dataclass
class Served:
    """A running server."""

    port: int
    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)
    grpc: int = 0  # The port of gRPC

    def ask(
        self,
        body: bytes = b"",
        kind: str = "application/json",
        *,
        method: str = "POST",
        path: str = "/predict",
        **headers: str,
    ) -> tuple[int, Any]:
        """Status and JSON, or text."""
        status, told, _ = self.reply(body, kind, method=method, path=path, **headers)
        return status, told

    def reply(
        self,
        body: bytes = b"",
        kind: str = "application/json",
        *,
        method: str = "POST",
        path: str = "/predict",
        **headers: str,
    ) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, ({"Content-Type": kind} if kind else {}) | shown)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        told = json.loads(data) if answer.headers.get_content_type() == "application/json" else data.decode()
        return answer.status, told, {name.lower(): value for name, value in answer.getheaders()}

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return self.ask(b"", "", method="GET", path=path, **headers)

    def json(self, value: Any) -> tuple[int, Any]:
        return self.ask(json.dumps(value).encode())

    def raw(self, data: bytes) -> bytes:
        """All that comes back for these bytes, until the server closes the connection; what it does not read is no
        error."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as door:
            with suppress(ConnectionError):  # the server has said what it had to
                door.sendall(data)
            return _read_all(door)

    def end(self, number: int = signal.SIGTERM) -> int:
        """The exit code."""
        self.process.send_signal(number)
        self.said += self.process.communicate(timeout=PATIENCE)[0].splitlines()
        return self.process.returncode


def _read_all(door: socket.socket) -> bytes:
    read = b""
    try:
        while piece := door.recv(2**16):
            read += piece
    except ConnectionError:
        pass  # closed with a reset: nothing more comes
    return read


@contextmanager
def served(
    kind: str = "image",
    model: str = "shade",
    key: str = "",
    workers: int = 0,
    names: Sequence[str] = ("",),
    change: str = "",
    grpc: bool = False,
    **limits: Any,
) -> Iterator[Served]:
    asked = {"kind": kind, "model": model, "limits": limits, "key": key, "workers": workers, "names": names}
    told = json.dumps(asked | {"change": change, "grpc": grpc})
    code = "import sys; from tests.serve.made import child; child(sys.argv[1])"
    with process([sys.executable, "-c", code, told]) as started:
        assert started.stdout is not None
        server = Served(int(started.stdout.readline()), started)
        if grpc:
            server.grpc = int(started.stdout.readline())
        until_ready(server)
        yield server


@contextmanager
def process(words: Sequence[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Ended at the end, whatever happened."""
    started = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=os.environ | environment
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()


def until_ready(server: Served) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if server.get("/ready")[0] == 200:
            return
        time.sleep(0.02)
    raise AssertionError("the server was never ready")


# -- what is sent --


def points(value: int = 200) -> list[list[list[int]]]:
    """A picture of one shade."""
    return [[[value] * 4] * 3]


def png(value: int = 200, size: tuple[int, int] = (4, 3), form: str = "PNG", mode: str = "L") -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, value if mode == "L" else (value,) * len(mode)).save(file, form)
    return file.getvalue()
