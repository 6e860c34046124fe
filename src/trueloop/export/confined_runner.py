"""A stranger's artifact is opened and computed in a confined process: parsers and kernels are native code, with faults.

    runner = ConfinedRunner(artifact)      # a process without network, home or write access; arrays go over a pipe
    runner.run([images])                   # raises BadArtifact where that process failed or has ended

A batch whose process crashed is tried in a second one; after one that took too long, the next call starts it again.
What comes back is checked: plain numbers of a known type, whose shape fits their bytes.
"""

import json
import math
import os
import re
import struct
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, final

import numpy as np

from trueloop.errors import BadArtifact
from trueloop.export.exporter import Array, Runner
from trueloop.results.artifact import Artifact
from trueloop.trust.artifacts import is_own
from trueloop.trust.confine.client import LIMITS, Refused
from trueloop.trust.confine.limits import Limits
from trueloop.trust.confine.session import Session, conversation
from trueloop.trust.files import open_regular
from trueloop.trust.made_here import is_trusted

__all__ = ["CONFINED", "ConfinedRunner", "answer_batches", "check_device", "is_confined", "pack", "unpack"]

CONFINED: Final = frozenset({"pt2", "onnx", "executorch"})
"""Of the others, code is opened only with --trust, and weights alone are plain numbers."""
MEMORY: Final = 4 << 30  # Bytes, and 4 times the file's size
SECONDS: Final = 300.0  # To open it; a runtime optimizes the graph
CALL: Final = 300.0  # Seconds for one batch
TRUST: Final = "If you trust its author, add --trust."
READER: Final = f"{__name__}:answer_batches"
_DTYPE: Final = re.compile(r"[<|][biufc](1|2|4|8|16|32)")
_ALIGNED: Final = 16  # Bytes: arrays are read where they lie
_SIZE: Final = struct.Struct("<Q")


def is_confined(artifact: Artifact) -> bool:
    return artifact.target in CONFINED and not is_trusted() and not is_own(artifact)


def check_device(artifact: Artifact, device: str) -> None:
    """Raises BadArtifact: the driver of a GPU is no fence."""
    if device != "cpu" and is_confined(artifact):
        why = f"{artifact.folder} was not exported by you on this machine, so it runs in a confined process without GPU"
        raise BadArtifact(f"{why}, not on {device}. Nothing was run: use --device cpu. {TRUST}")


@final
class ConfinedRunner(Runner):
    def __init__(self, artifact: Artifact) -> None:
        """Raises BadArtifact, or Refused with the runtime's own error."""
        self.artifact = artifact
        self.lost: Callable[[str], object] = lambda _: None  # Called with a sentence when its process has crashed
        with open_regular(artifact.file) as file:
            self.handle = os.dup(file.fileno())  # kept: a new export may take its place before a second process
        self._close = weakref.finalize(self, os.close, self.handle)
        try:
            self.session = self._start()
        except Refused as error:
            self._close()
            if error.kind == "BadArtifact":
                raise BadArtifact(str(error)) from None
            if error.kind in LIMITS:
                raise BadArtifact(f"{artifact.file} was refused: {error}. Nothing was run.") from None
            raise

    def _start(self) -> Session:
        handle, artifact = self.handle, self.artifact
        os.lseek(handle, 0, os.SEEK_SET)
        limits = Limits.of(os.fstat(handle).st_size, memory=MEMORY)
        about = {"target": artifact.target, "shown": str(artifact.file), "outputs": len(artifact.outputs)}
        return Session(READER, handle, limits, SECONDS, **about)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Raises BadArtifact."""
        try:
            return unpack(self._ask(pack(inputs)), len(self.artifact.outputs))
        except Refused as error:
            sizes = " and ".join(str(list(array.shape)) for array in inputs)
            failed = f"{self.artifact.file} could not compute a batch of shape {sizes}: "
            if error.kind in LIMITS:
                raise BadArtifact(f"{failed}{error}. There is no output for it. {TRUST}") from None
            raise BadArtifact(f"{failed}{error.kind}: {error}. There is no output for it.") from None
        except _NotArrays as error:
            failed = f"{self.artifact.file} was refused: its confined process answered with {error}"
            raise BadArtifact(f"{failed}. There is no output for this batch. {TRUST}") from None

    def _ask(self, batch: Sequence[bytes | memoryview]) -> memoryview:
        if self.session.ended:
            self.session = self._start()
        try:
            return self.session.ask(batch, CALL)
        except Refused as error:
            if error.kind != "Crash":
                raise
            self.lost(f"{self.artifact.file}: {error}. Starting it again.")
            self.session.close()
            self.session = self._start()
            return self.session.ask(batch, CALL)

    def close(self) -> None:
        self.session.close()
        self._close()


# -- arrays as bytes --


class _NotArrays(ValueError):
    """The text: what it is instead."""


def pack(arrays: Sequence[Array]) -> list[bytes | memoryview]:
    """The size of a table, the table (type and shape of each array), and their bytes, each aligned."""
    for array in arrays:
        if not _DTYPE.fullmatch(array.dtype.str):
            raise _NotArrays(f"values of type {array.dtype}")
    table = json.dumps([[array.dtype.str, list(array.shape)] for array in arrays]).encode()
    table += b" " * (-(_SIZE.size + len(table)) % _ALIGNED)
    parts: list[bytes | memoryview] = [_SIZE.pack(len(table)) + table]
    for array in arrays:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        parts += [memoryview(data), bytes(-data.nbytes % _ALIGNED)]
    return parts


def unpack(data: memoryview, most: int) -> list[Array]:
    """At most so many arrays, which share the bytes. Raises ValueError for bytes that `pack` did not write."""
    try:
        (size,) = _SIZE.unpack(data[: _SIZE.size])
        table, at, arrays = json.loads(bytes(data[_SIZE.size : _SIZE.size + size])), _SIZE.size + size, []
        if len(table) > most:
            raise _NotArrays(f"{len(table):,} arrays instead of {most}")
        for name, shape in table:
            if not _DTYPE.fullmatch(name) or not all(type(each) is int and each >= 0 for each in shape):
                raise _NotArrays("values that are not numbers")
            dtype, count = np.dtype(name), math.prod(shape)
            array = np.frombuffer(data, dtype, count, at) if count else np.empty(0, dtype)
            arrays.append(array.reshape(shape))
            at += array.nbytes + -array.nbytes % _ALIGNED
    except _NotArrays:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, struct.error):
        raise _NotArrays("something that is not arrays") from None
    return arrays


# -- in the confined process --


def answer_batches(file: BinaryIO, out: Any, questions: BinaryIO, target: str, shown: str, outputs: int) -> None:
    from trueloop.export.catalogue import find_exporter

    runner, most = find_exporter(target).open_confined(file, Path(shown)), 1 << 16
    conversation(questions, out, lambda asked: pack(runner.run(unpack(asked, most))[:outputs]))
