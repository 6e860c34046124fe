"""Metrics for TensorBoard: `tensorboard --logdir runs` draws all runs.

Written in tensorboard's own record format, one event per row, without a thread: rows are rare. A resumed run opens
a new file whose first event voids the earlier ones after the checkpoint's step.
"""

import time
from pathlib import Path
from typing import Any, Final, final

from trueloop.hook import Ending, Hook, Row, Start

__all__ = ["TensorBoard"]

FOLDER: Final = "tensorboard"
VERSION: Final = "brain.Event:2"  # From this version, readers void everything at or after the step of a session's start


@final
class TensorBoard(Hook):
    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self.folder = folder / FOLDER
        self._events, self._summaries, self._records = event_pb2, summary_pb2, RecordWriter
        self._writer: Any = None
        self._reached: dict[str, int] = {}
        """The last step of each kind of row: a run that returns to a checkpoint logs steps again."""

    def started(self, start: Start) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # Readers take the files in the order of their names: the time in seconds, then a number.
        number = len(list(self.folder.iterdir()))
        path = self.folder / f"events.out.tfevents.{int(time.time()):010d}.{number:04d}"
        self._writer = self._records(path.open("wb", buffering=0))
        self._write(file_version=VERSION)
        if number:
            self._void_from(start.from_step + 1)

    def logged(self, row: Row) -> None:
        if row.step <= self._reached.get(row.kind, -1):
            self._void_from(row.step)
            self._reached.clear()
        self._reached[row.kind] = row.step
        values = [
            self._summaries.Summary.Value(tag=f"{row.kind}/{name}", simple_value=value)
            for name, value in row.values.items()
        ]
        self._write(step=row.step, summary=self._summaries.Summary(value=values))

    def ended(self, ending: Ending) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _void_from(self, step: int) -> None:
        self._write(step=step, session_log=self._events.SessionLog(status=self._events.SessionLog.START))

    def _write(self, **what: Any) -> None:
        if self._writer is not None:
            self._writer.write(self._events.Event(wall_time=time.time(), **what).SerializeToString())
