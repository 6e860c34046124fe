"""A runtime that a malformed model has taken over: what runs in the confined process in place of the real reader."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tests.trust.readers import attempts
from trueloop.export.array_bytes import pack, unpack
from trueloop.export.exporter import Array
from trueloop.trust.confine.session import conversation


def answer_attempts(file: BinaryIO, out: Any, questions: BinaryIO, target: str, shown: str, outputs: int) -> None:
    """For each batch: what it tried, as text. Beside the artifact lies a file of the user's."""

    def answer(_: memoryview) -> list[Any]:
        told = io.BytesIO()
        folder = Path(shown).parent
        attempts(file, told, str(folder / "secret"), str(folder), os.getppid())
        return list(pack([np.frombuffer(told.getvalue(), np.uint8)]))

    conversation(questions, out, answer)


def answer_shades(file: BinaryIO, out: Any, questions: BinaryIO, target: str, shown: str, outputs: int) -> None:
    """A model whose process ends at a 7, hangs at an 8, and answers a 9 with more arrays than it has outputs."""

    def answer(asked: memoryview) -> list[Any]:
        (rows,) = unpack(asked, 1)
        if (rows == 7).any():
            os.kill(os.getpid(), signal.SIGKILL)
        if (rows == 8).any():
            signal.pause()
        return list(pack([_scores(rows)] * (2 if (rows == 9).any() else 1)))

    conversation(questions, out, answer)


def _scores(rows: Array) -> Array:
    return np.stack([rows.reshape(len(rows), -1).mean(1)] * 3, 1).astype(np.float32)
