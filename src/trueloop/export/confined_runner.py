"""A stranger's artifact is opened and computed in a confined process: parsers and kernels are native code, with faults.

    runner = ConfinedRunner(artifact)      # a process without network, home or write access; arrays go over a pipe
    runner.run([images])                   # raises BadArtifact where that process failed or has ended

A batch whose process crashed is tried in a second one; after one that took too long, the next call starts it again.
What comes back is checked: plain numbers of a known type, whose shape fits their bytes.
"""

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Final, final

from trueloop.errors import BadArtifact
from trueloop.export.array_bytes import NotArrays, pack, unpack
from trueloop.export.exporter import Array, Runner
from trueloop.results.artifact import Artifact
from trueloop.trust.artifacts import is_own
from trueloop.trust.confine.client import LIMITS, Refused
from trueloop.trust.confine.limits import Limits
from trueloop.trust.confine.session import Session
from trueloop.trust.files import open_regular
from trueloop.trust.made_here import is_trusted

__all__ = ["CONFINED", "ConfinedRunner", "check_device", "is_confined"]

CONFINED: Final = frozenset({"pt2", "onnx", "executorch"})
"""Of the others, code is opened only with --trust, and weights alone are plain numbers."""
MEMORY: Final = 4 << 30  # Bytes, and 4 times the file's size
SECONDS: Final = 300.0  # To open it; a runtime optimizes the graph
CALL: Final = 300.0  # Seconds for one batch
TRUST: Final = "If you trust its author, add --trust."
READER: Final = "trueloop.export.confined_reader:answer_batches"


def is_confined(artifact: Artifact) -> bool:
    return artifact.target in CONFINED and not is_trusted() and not is_own(artifact)


def check_device(artifact: Artifact, device: str) -> None:
    """Raises BadArtifact: the driver of a GPU is not a fence."""
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
        batch = pack(inputs)
        try:
            return unpack(self._ask(batch), len(self.artifact.outputs))
        except Refused as error:
            sizes = " and ".join(str(list(array.shape)) for array in inputs)
            failed = f"{self.artifact.file} could not compute a batch of shape {sizes}: "
            if error.kind in LIMITS:
                raise BadArtifact(f"{failed}{error}. There is no output for it. {TRUST}") from None
            raise BadArtifact(f"{failed}{error.kind}: {error}. There is no output for it.") from None
        except NotArrays as error:
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
