"""The order in which data files were opened: are two kinds of files read in turn, each in an order of its own?"""

import os
from typing import Final

from trueloop.event import Place, RowsOutOfStep
from trueloop.measure.file_pairs import files_out_of_step
from trueloop.observers.observer import Observer
from trueloop.taps.calls import FileOpened, RunEnd

__all__ = ["PairedFilesObserver"]

MOST: Final = 8192  # files that are opened


class PairedFilesObserver(Observer):
    emits = (RowsOutOfStep,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._opened: list[str] = []
        self._places: dict[str, Place] = {}

    def file_opened(self, opened: FileOpened) -> None:
        if not opened.writing and len(self._opened) < MOST:
            self._opened.append(opened.path)
            self._places.setdefault(opened.path, opened.place)

    def run_ended(self, end: RunEnd) -> None:
        found = files_out_of_step(self._opened)
        if found is not None:
            file, other = (os.path.basename(path) for path in (found.file, found.other))
            self.emit(RowsOutOfStep, self._places[found.other], "files", file, other, found.pairs, found.wrong)
