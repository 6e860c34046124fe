"""A folder of runs as a database: which runs there are, their rows and their columns. What was read is kept while the
files stay as they are."""

import os
import stat
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final, final

from trueloop.errors import NotARun
from trueloop.track.metrics import FILE
from trueloop.ui.bounded_files import mode_of, stamp
from trueloop.ui.metric_columns import MetricColumns, sampled
from trueloop.ui.run_rows import id_of, is_running, run_row

__all__ = ["Library"]

_FILES: Final = ("run.json", FILE, "report.json")
AT_ONCE: Final = 24 << 20
"""Bytes of metrics that a request waits for. More are read in the background, and a sample is shown until then."""
PATIENCE: Final = 1.5  # Seconds from a sample to the reading of everything: the page is drawn first
MOST_BYTES: Final = 1 << 30  # Of metrics files whose columns are kept
MOST_RUNS: Final = 20_000


@final
class Library:
    """`root` is a folder of runs; with `only`, one of them."""

    def __init__(self, root: Path, only: str | None = None) -> None:
        self.root, self.only = root.resolve(), only
        self.editor = "vscode"  # in which lines are opened: a name of `editors.EDITORS`
        self._rows: dict[str, tuple[tuple[object, ...], dict[str, Any]]] = {}
        self._columns: OrderedDict[str, MetricColumns] = OrderedDict()
        self._samples: dict[str, MetricColumns] = {}
        self._readers: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    # -- runs --

    def names(self) -> list[str]:
        """Folders with a run.json; links are listed too, and shown as damaged."""
        if self.only is not None:
            return [self.only]
        try:
            with os.scandir(self.root) as entries:
                found = [each.name for each in entries if each.is_dir() and stamp(Path(each.path), "run.json")[0]]
        except OSError:
            return []
        return sorted(found)[:MOST_RUNS]

    def folder(self, name: str) -> Path:
        """Of a run. Raises NotARun: for a name that is no run of this folder, and for a link."""
        path = self.root / name
        plain = name not in ("", ".", "..") and "/" not in name and self.only in (None, name)
        found = plain and stat.S_ISDIR(mode_of(path))
        if not found:
            raise NotARun(f"There is no run {name[:200]!r} in {self.root}.")
        return path

    def row(self, name: str) -> dict[str, Any]:
        """The run's row in the table of runs."""
        path = self.root / name
        if path.is_symlink():
            about = {"id": id_of(name), "name": name, "status": "damaged", "findings": {}, "spark": [], "fields": {}}
            return {**about, "started": 0.0, "message": "A symbolic link: it is not followed."}
        held = is_running(path)
        key = (held, *(stamp(path, file) for file in _FILES))
        kept = self._rows.get(name)
        if kept is None or kept[0] != key:
            kept = self._rows[name] = key, run_row(path, held=held)
        return kept[1]

    def rows(self) -> list[dict[str, Any]]:
        """Of all runs, newest first."""
        return sorted(map(self.row, self.names()), key=lambda row: -float(row["started"] or 0))

    # -- metrics --

    def columns(self, name: str) -> tuple[MetricColumns, bool]:
        """(the columns of a run, whether they are complete). Of a long file, a sample comes first."""
        path = self.folder(name)
        with self._lock:
            columns = self._columns.setdefault(name, MetricColumns(path))
            self._columns.move_to_end(name)
            self._forget()
        if stamp(path, FILE)[1] - columns.offset <= AT_ONCE:
            with columns.lock:
                columns.refresh()
            return columns, True
        return self._sample(name, path, columns), False

    def _sample(self, name: str, path: Path, columns: MetricColumns) -> MetricColumns:
        sample = self._samples.get(name)
        if sample is None:
            sample = self._samples[name] = sampled(path, 300, 4 << 10)
        with self._lock:
            reader = self._readers.get(name)
            if reader is None or not reader.is_alive():
                reader = self._readers[name] = threading.Thread(target=self._read, args=(name, columns), daemon=True)
                reader.start()
        return sample

    def _read(self, name: str, columns: MetricColumns) -> None:
        time.sleep(PATIENCE)
        with columns.lock:
            columns.refresh(pause=0.001)
        self._samples.pop(name, None)

    def _forget(self) -> None:
        """Columns of runs that were not asked for lately."""
        while len(self._columns) > 1 and sum(each.offset for each in self._columns.values()) > MOST_BYTES:
            self._columns.popitem(last=False)

    # -- live --

    def changes(self, seen: dict[str, tuple[object, ...]]) -> list[str]:
        """Names of runs that changed since `seen`, which is brought up to date; "" stands for a run that is gone."""
        names = self.names()
        gone = [name for name in seen if name not in set(names)]
        for name in gone:
            del seen[name]
        changed = []
        for name in names:
            now = self.state(name)
            if seen.get(name) != now:
                seen[name] = now
                changed.append(name)
        return [*changed, *([""] if gone else [])]

    def state(self, name: str) -> tuple[object, ...]:
        path = self.root / name
        return (is_running(path), *(stamp(path, file) for file in _FILES))
