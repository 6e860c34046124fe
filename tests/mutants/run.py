"""Mutants of our own code: one operator or constant changed at a time, in random places outside `rules/`.

    python -m tests.mutants.run --count 100 --seed 0 --jobs 2

Each mutant lives in a copy of `src` of its own; the tests that touch its file run against that copy, nearest first, until
one fails. A file that fails on the unchanged code too (a package or a device that is not here) kills nothing: it is
named, and left out. Survivors are listed: each is a missing test, dead code, or a change that makes no difference.
"""  # noqa: E501

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from tests.mutants.places import Mutant, mutants_of

ROOT: Final = Path(__file__).parent.parent.parent
SOURCE: Final = ROOT / "src" / "trueloop"
NOT_HERE: Final = ("tests/gpu", "tests/mutants", "tests/frameworks", "tests/ecosystem", "tests/test_wheel.py")


class Outcome(NamedTuple):
    mutant: Mutant
    killer: str
    """The test file that failed; empty: it survived."""
    tried: int
    seconds: float
    in_time: bool = True
    """False: the time was over before all tests had run, so that nothing is known."""

    @property
    def state(self) -> str:
        return f"killed by {self.killer}" if self.killer else "SURVIVED" if self.in_time else "OUT OF TIME"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300, help="limit for the tests of one mutant")
    parser.add_argument(
        "--only", type=int, nargs="+", metavar="NUMBER", help="of the sample, as an earlier run counted"
    )
    parser.add_argument("--write", type=Path, help="the table of outcomes, as Markdown")
    parser.add_argument("--list", action="store_true", help="only show the places and their tests")
    options = parser.parse_args()
    drawn = dict(enumerate(sample(options.count, options.seed), 1))
    mutants = {number: drawn[number] for number in options.only or drawn}
    tests = Tests()
    if options.list:
        for mutant in mutants.values():
            print(mutant, *tests.touching(mutant.path)[:6], sep="\n    ")
        return 0
    unchanged = Unchanged()
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = [
            pool.submit(outcome_of, mutant, tests.touching(mutant.path), options.seconds, unchanged)
            for mutant in mutants.values()
        ]
        outcomes = []
        for number, job in zip(mutants, jobs, strict=True):
            outcomes.append(job.result())
            print(f"{number:3} {_line(outcomes[-1])}", flush=True)
    killed = sum(bool(outcome.killer) for outcome in outcomes)
    print(f"{killed} of {len(outcomes)} mutants killed (seed {options.seed})")
    if left_out := unchanged.failing():
        print(f"left out, because they fail on the unchanged code: {', '.join(left_out)}")
    if options.write:
        rows = [f"| `{_short(o.mutant)}` | {o.killer or f'**{o.state.lower()}**'} |" for o in outcomes]
        table = ["| mutant | killed by |", "|---|---|", *rows]
        title = f"# Mutants of our own code\n\n{killed} of {len(outcomes)} killed, seed {options.seed}.\n"
        options.write.write_text("\n".join([title, *table, ""]), encoding="utf-8")
    return 0 if killed >= 0.92 * len(outcomes) else 1


def sample(count: int, seed: int) -> list[Mutant]:
    """Places drawn evenly from all of them, so that a long file has more."""
    files = sorted(file for file in SOURCE.rglob("*.py") if "rules" not in file.relative_to(SOURCE).parts)
    everything = [mutant for file in files for mutant in mutants_of(file)]
    return random.Random(seed).sample(everything, count)


class Tests:
    """Which test files touch which source file: by name, by import, by room, by who imports it; nearest first."""

    def __init__(self) -> None:
        files = sorted((ROOT / "tests").rglob("test_*.py"))
        self.texts = {
            str(file.relative_to(ROOT)): file.read_text(encoding="utf-8")
            for file in files
            if not str(file.relative_to(ROOT)).startswith(NOT_HERE)
        }
        self.imports = {_module(file): set(_imported(file)) for file in SOURCE.rglob("*.py")}

    def touching(self, path: Path) -> list[str]:
        module, room = _module(path), path.relative_to(SOURCE).parts[0]
        importers = {name for name, imported in self.imports.items() if module in imported}
        farther = {name for name, imported in self.imports.items() if importers & imported} - importers
        names = list(self.texts)
        nearest = [name for name in names if path.stem in name or Path(name).stem.removeprefix("test_") in path.stem]
        found = [name for name in nearest if f"/{room}/" in name]
        found += [name for name, text in self.texts.items() if module in text]
        found += self._pages(path)
        found += [name for name in names if name.startswith(f"tests/{room}/")]
        found += nearest
        found += [name for name, text in self.texts.items() if any(each in text for each in importers)]
        rooms = {name.split(".")[1] for name in importers | farther if "." in name}
        found += [name for name in names if name.split("/")[1] in rooms]
        return list(dict.fromkeys(found))

    def _pages(self, path: Path) -> list[str]:
        """The pages of the rules that read what this file, or those that import it, tell in events."""
        if path.relative_to(SOURCE).parts[0] not in ("observers", "taps", "event", "measure", "usercode"):
            return []
        events = set(_events(path))
        for file in SOURCE.glob("observers/*.py"):
            if _module(path) in self.imports[_module(file)]:
                events |= set(_events(file))
        rules = [file for file in SOURCE.glob("rules/*/*.py") if events & set(_events(file))]
        return (
            [f"tests/rules/test_pages.py -k {' or '.join(sorted(file.stem for file in rules)[:12])}"] if rules else []
        )


class Unchanged:
    """Which test files fail here on the unchanged code; each is tried once, when it seems to kill its first mutant."""

    def __init__(self) -> None:
        self._fails: dict[str, bool] = {}
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)

    def fails(self, test: str) -> bool:
        with self._locks[test]:
            if test not in self._fails:
                with tempfile.TemporaryDirectory(prefix="unchanged") as folder:
                    self._fails[test] = bool(_killer([test], ROOT / "src", Path(folder), 600))
            return self._fails[test]

    def failing(self) -> list[str]:
        return sorted(test for test, fails in self._fails.items() if fails)


def outcome_of(mutant: Mutant, tests: list[str], seconds: float, unchanged: Unchanged) -> Outcome:
    begun = time.monotonic()
    tried = 0
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)  # compiled modules too: they keep their times, and only the mutant's is old
        (copy / mutant.path.relative_to(ROOT / "src")).write_text(mutant.text, encoding="utf-8")
        for files in _groups(tests):
            tried += len(files)
            while files and (left := seconds - (time.monotonic() - begun)) > 0:
                if not (killer := _killer(files, copy, Path(folder), left)):
                    break
                if not unchanged.fails(killer):
                    return Outcome(mutant, killer, tried, time.monotonic() - begun)
                files = [file for file in files if file != killer]
    passed = time.monotonic() - begun
    return Outcome(mutant, "", tried, passed, passed < seconds)


def _groups(tests: list[str]) -> Iterator[list[str]]:
    """The nearest file alone, then more of them in one process: most mutants die early, and starts cost seconds."""
    chosen = [test for test in tests if " -k " in test]
    whole = [test for test in tests if " -k " not in test]
    size, begin = 1, 0
    while begin < len(whole):
        yield whole[begin : begin + size]
        if chosen and begin == 0:
            yield from ([test] for test in chosen)
        begin, size = begin + size, 2 * size + 1


def _killer(tests: list[str], source: Path, folder: Path, seconds: float) -> str:
    """The test file that fails, or nothing. Where the time is over, nothing has failed."""
    environment = os.environ | {
        "PYTHONPATH": f"{source}{os.pathsep}{ROOT}",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not long and not gpu"]
    if " -k " in tests[0]:
        file, _, chosen = tests[0].partition(" -k ")
        command += [file, "-k", chosen]
    else:
        command += tests
    with (folder / "out").open("w+b") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out, start_new_session=True)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return ""
        out.seek(0)
        failed = re.search(r"^(?:FAILED|ERROR) ([^\s:]+)", out.read().decode(errors="replace"), re.MULTILINE)
    if code in (0, 5):
        return ""
    return tests[0] if " -k " in tests[0] or not failed else failed[1]


def _module(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(file: Path) -> list[str]:
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]


def _events(file: Path) -> list[str]:
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    found = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "trueloop.event"]
    return [alias.name for node in found for alias in node.names if alias.name not in ("Place", "Event")]


def _short(mutant: Mutant) -> str:
    return f"{mutant.path.relative_to(SOURCE)}:{mutant.line}: {mutant.before} -> {mutant.after}".replace("|", "\\|")


def _line(outcome: Outcome) -> str:
    return f"{outcome.state:60} {_short(outcome.mutant)[:200]} ({outcome.tried} files, {outcome.seconds:.0f} s)"


if __name__ == "__main__":
    sys.exit(main())
