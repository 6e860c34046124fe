"""In the confined process: opens an artifact, and computes batch after batch."""

from pathlib import Path
from typing import Any, BinaryIO, Final

from trueloop.export.array_bytes import pack, unpack
from trueloop.export.catalogue import find_exporter
from trueloop.trust.confine.session import conversation

__all__ = ["answer_batches"]

MOST: Final = 1 << 16  # Inputs


def answer_batches(file: BinaryIO, out: Any, questions: BinaryIO, target: str, shown: str, outputs: int) -> None:
    """`shown`: the file's path, for error messages. `outputs`: how many are described; others are left out."""
    runner = find_exporter(target).open_confined(file, Path(shown))
    conversation(questions, out, lambda asked: pack(runner.run(unpack(asked, MOST))[:outputs]))
