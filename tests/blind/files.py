"""The comparison of data files alone, over the home-ground pairs of the blind rounds: no training, seconds for all.

    python -m tests.blind.files tests/blind/rounds/r1 ... --keep FOLDER [--only NAME ...]

The files that a pair's `make.py` writes are made once, under `--keep`, and then every file of a side counts as opened
by its script. `check` itself sees only the files that the script really opens, so a finding here is a candidate: run
the pair with `python -m tests.blind.run` before its `case.json` gets the rule as `expected`. A finding on a twin is a
false alarm in both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import patch

from tests.blind.run import DATA, SIDES, needs_data, pairs_of, staged
from trueloop.event import Event, Place, RunEnded
from trueloop.event import files as file_events
from trueloop.finding import Finding
from trueloop.observers import data_files
from trueloop.observers.data_files import DataFilesObserver
from trueloop.observers.run_objects import RunObjects
from trueloop.rules.catalogue import all_rules
from trueloop.rules.checker import Checker, method_name
from trueloop.rules.rule import Rule
from trueloop.taps.bus import Bus
from trueloop.taps.calls import FileOpened, RunEnd

READS = ("open(", "load", "read")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=Path, nargs="+", metavar="ROUND", help="a folder of pairs")
    parser.add_argument("--keep", type=Path, required=True, help="where the files of the pairs are made, once")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    pairs = [pair for folder in options.rounds for pair in pairs_of(folder) if (pair / "train.py").exists()]
    pairs = [pair for pair in pairs if not options.only or any(word in pair.name for word in options.only)]
    pairs = [pair for pair in pairs if os.environ.get(DATA) or not needs_data(pair)]
    named = flagged = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for pair, result in zip(pairs, pool.map(partial(compare_pair, keep=options.keep), pairs), strict=True):
            named += bool(result["bug"])
            flagged += bool(result["ok"])
            case = json.loads((pair / "case.json").read_text(encoding="utf-8"))
            if result["bug"] or result["ok"] or options.only:
                print(f"## {pair.parent.name}/{pair.name} ({case.get('expected')}): {case['bug']}")
                for side in SIDES:
                    print("".join(f"   {side}: {line}\n" for line in result[side]), end="", flush=True)
    print(f"{len(pairs)} pairs: findings on {named} bugs; {flagged} twins flagged")
    return int(flagged > 0)


def compare_pair(pair: Path, keep: Path) -> dict[str, list[str]]:
    made = keep / pair.parent.name / pair.name
    if not made.exists():
        with staged(pair) as folder:
            shutil.copytree(folder, made)
    return {side: [_line(finding) for finding in file_findings(made / "train.py", made / side)] for side in SIDES}


def file_findings(script: Path, data: Path) -> list[Finding]:
    """What the rules that read data files say if the script opens every file of a folder."""
    events: list[Event] = []
    bus = Bus(events.append)
    observer = DataFilesObserver(bus, RunObjects(bus))
    line = next((n for n, text in enumerate(script.read_text().splitlines(), 1) if any(w in text for w in READS)), 1)
    place = Place(str(script), line, "")
    for file in _files(script, data):
        observer.file_opened(FileOpened(str(file), False, place))
    with patch.object(data_files, "users_modules", lambda path: (path,)):  # not those of this program
        observer.run_ended(RunEnd("finished"))
    checker = Checker(_readers())
    for event in events:
        checker.check(event)
    checker.check(RunEnded(0, None, "finished", 1, 1, 0))
    assert not checker.failures, checker.failures
    return checker.findings()


def _files(script: Path, data: Path) -> list[Path]:
    """Those of a side, and those of the small data sets whose folders the script names."""
    text = script.read_text(encoding="utf-8")
    sets = Path(os.environ[DATA]).iterdir() if DATA in os.environ and DATA in text else ()
    folders = [data, *(folder for folder in sets if folder.name in text)]
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


def _readers() -> Iterator[type[Rule]]:
    """Rules that read an event about data files."""
    methods = [method_name(getattr(file_events, name)) for name in file_events.__all__]
    return (rule for rule in all_rules() if any(hasattr(rule, method) for method in methods))


def _line(finding: Finding) -> str:
    return f"{finding.code} {finding.name}: {finding.message}"


if __name__ == "__main__":
    raise SystemExit(main())
