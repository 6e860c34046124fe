"""A stranger's artifact is opened in a confined process first: parsers of runtimes are native code, with faults.

What crashes, grows without end, takes too long or names other files there is never opened in the process that serves.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

from trueloop.errors import BadArtifact
from trueloop.results.artifact import Artifact
from trueloop.trust.artifacts import CARRY_CODE, is_own
from trueloop.trust.confine.client import LIMITS, Refused, read_confined
from trueloop.trust.confine.limits import Limits
from trueloop.trust.files import open_regular
from trueloop.trust.made_here import is_trusted

__all__ = ["answer_opened", "open_confined"]

MEMORY: Final = 4 << 30  # Bytes: a runtime optimizes the graph while it opens it
SECONDS: Final = 300.0
DONE: Final = b"opened"


def open_confined(artifact: Artifact) -> None:
    """Raises BadArtifact, or Refused with the runtime's own error. Does nothing for own and trusted artifacts, for
    code (which only --trust opens), and for weights alone: those are plain numbers."""
    if artifact.target in CARRY_CODE or artifact.target not in _OPENERS or is_trusted() or is_own(artifact):
        return
    with open_regular(artifact.file) as file:
        limits = Limits.of(os.fstat(file.fileno()).st_size, memory=MEMORY, seconds=SECONDS)
        what = {"target": artifact.target, "shown": str(artifact.file)}
        try:
            read_confined(f"{__name__}:answer_opened", file.fileno(), limits, len(DONE), **what)
        except Refused as error:
            if error.kind == "BadArtifact":
                raise BadArtifact(str(error)) from None
            if error.kind in LIMITS:
                raise BadArtifact(f"{artifact.file} was refused: {error}. Nothing was run.") from None
            raise


# -- in the confined process --


def answer_opened(file: BinaryIO, out: BinaryIO, target: str, shown: str) -> None:
    _OPENERS[target](file, Path(shown))
    out.write(DONE)


def _open_graph(file: BinaryIO, shown: Path) -> None:
    import torch

    from trueloop.export.safety import safe_graph

    torch.export.load(safe_graph(shown, file)).module()


def _open_onnx(file: BinaryIO, _: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime.InferenceSession(file.read(), options, providers=["CPUExecutionProvider"])


def _open_executorch(file: BinaryIO, _: Path) -> None:
    from executorch.runtime import Runtime, Verification

    program = Runtime.get().load_program(file.read(), verification=Verification.InternalConsistency)
    program.load_method("forward")


_OPENERS: Final[dict[str, Callable[[BinaryIO, Path], Any]]] = {
    "pt2": _open_graph,
    "onnx": _open_onnx,
    "executorch": _open_executorch,
}
