"""Files of arrays that were not written to their end: at the end of the run they are read once more."""

import os
from time import thread_time
from typing import Final

from trueloop.event import Place, RowsNeverWritten
from trueloop.measure.empty_rows import empty_rows
from trueloop.measure.tables import Table, read_tables
from trueloop.measure.unpacked import LARGEST_UNPACKED, unpacked_size
from trueloop.observers.observer import Observer
from trueloop.taps.calls import FileOpened, RunEnd

__all__ = ["EmptyRowsObserver"]

MOST_FILES: Final = 16
LARGEST: Final = 2**24
MOST_BYTES: Final = 2**25  # of all files
SECONDS: Final = 1.5
_ARRAYS: Final = (".npy", ".npz", ".pt", ".pth")


class EmptyRowsObserver(Observer):
    emits = (RowsNeverWritten,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._places: dict[str, Place] = {}
        self._written: set[str] = set()

    def file_opened(self, opened: FileOpened) -> None:
        if opened.writing:
            if self.bus.step:  # before that, a script makes its data
                self._written.add(opened.path)
        elif opened.path not in self._written and len(self._places) < MOST_FILES:
            self._places.setdefault(opened.path, opened.place)

    def run_ended(self, end: RunEnd) -> None:
        if not any(path.endswith(_ARRAYS) for path in self._places):
            return
        began, left, tables = thread_time(), MOST_BYTES, list[Table]()
        for path in self._places:
            size = os.path.getsize(path) if os.path.isfile(path) else LARGEST + 1
            if size <= min(LARGEST, left) and unpacked_size(path) <= LARGEST_UNPACKED:
                left -= size
                tables += read_tables(path)
            if thread_time() - began > SECONDS:
                return
        for table in tables:
            if table.path.endswith(_ARRAYS) and thread_time() - began < SECONDS:
                found = empty_rows(table, [other for other in tables if other is not table])
                if found is not None:
                    name, beside = os.path.basename(table.path), os.path.basename(found.beside)
                    self.emit(RowsNeverWritten, self._places[table.path], name, found.array, found.rows, found.empty,
                              found.first, found.value, beside)  # fmt: skip
