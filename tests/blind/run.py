"""Blind rounds: scripts by writers who have seen neither rules nor pages; each with a silent bug and a healthy twin.

    python -m tests.blind.run ROUND ... --write results.json

A pair is a folder with `case.json` and either `bug.py` and `ok.py`, or one `train.py` that is given the folder `bug` or
`ok` (the cause is in its files, which `make.py` writes), or that starts in that folder (`"starts_in": "files"`). Every
pair runs in a temporary copy.

Findings of the bug are shown beside its description: whether they name the cause is for a reader to judge, once, before
anything is changed. What that reader found is then written into `case.json` as `expected`: the rule that names the
cause, or null where none does. A warning or an error on a twin is a false alarm, always.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

SIDES: Final = ("bug", "ok")
LIMIT: Final = 600  # seconds for one script
DATA: Final = "TRUELOOP_DATA"  # the folder of small data sets that some of the scripts read


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=Path, nargs="+", metavar="ROUND", help="a folder of pairs")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument(
        "--side", choices=("bug", "ok", "both"), default="both", help="check only the bugs, or only the twins"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    pairs = [pair for folder in options.rounds for pair in pairs_of(folder)]
    pairs = [pair for pair in pairs if not options.only or any(word in pair.name for word in options.only)]
    sides = SIDES if options.side == "both" else (options.side,)
    several = len(options.rounds) > 1
    results: dict[str, Any] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for pair, result in zip(pairs, pool.map(partial(examine_pair, sides=sides), pairs), strict=True):
            name = f"{pair.parent.name}/{pair.name}" if several else pair.name
            results[name] = result
            print(shown(name, result), flush=True)
            if options.write:
                options.write.write_text(json.dumps(results, indent=1), encoding="utf-8")
    rounds = list(dict.fromkeys(pair.parent.name for pair in pairs))
    for each in rounds:
        of_round = [result for name, result in results.items() if not several or name.startswith(f"{each}/")]
        print(summary(each, of_round, sides))
    return int(any(flagged(result) or ("bug" in sides and lost(result)) for result in results.values()))


def pairs_of(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob("*/case.json"))


def examine_pair(pair: Path, sides: tuple[str, ...] = SIDES) -> dict[str, Any]:
    case = json.loads((pair / "case.json").read_text(encoding="utf-8"))
    home = (pair / "train.py").exists()
    result = {"kind": "home" if home else "code", "case": case, "skipped": "", **{side: [] for side in SIDES}}
    if needs_data(pair) and not os.environ.get(DATA):
        return result | {"skipped": f"{DATA} is not set"}
    with staged(pair) as folder:
        inside = case.get("starts_in") == "files"  # the script reads its files from the current folder
        said = {side: findings(*_started(folder, side, home=home, inside=inside)) for side in sides}
    return result | said


def _started(folder: Path, side: str, *, home: bool, inside: bool) -> tuple[Path, list[str]]:
    """Where a script starts, and its command line."""
    if inside:
        return folder / side, ["../train.py"]
    return folder, ["train.py", side] if home else [f"{side}.py"]


def needs_data(pair: Path) -> bool:
    return any(DATA in file.read_text(encoding="utf-8") for file in pair.glob("*.py"))


@contextmanager
def staged(pair: Path) -> Iterator[Path]:
    """A copy of the pair in which its files are made."""
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room) / pair.name
        shutil.copytree(pair, folder)
        if (folder / "make.py").exists() and not (folder / "bug").exists():
            for side in SIDES:
                (folder / side).mkdir()
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run([sys.executable, "make.py"], cwd=folder, check=True, env=environment, capture_output=True)
        yield folder


def findings(pair: Path, words: list[str]) -> list[dict[str, Any]]:
    """What `check` reports; an entry with the code FAILED if it could not run, or a part of it failed."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        command = [sys.executable, "-m", "trueloop", "check", "--fail-on", "never", "--format", "json"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                [*command, "--output", str(output), *words],
                cwd=pair, capture_output=True, text=True, timeout=LIMIT, env=environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [{"code": "FAILED", "message": f"no end after {LIMIT} s"}]
        if not output.exists():
            return [{"code": "FAILED", "message": done.stderr[-400:]}]
        report = json.loads(output.read_text(encoding="utf-8"))
    broken = [{"code": "FAILED", "message": failure[-400:]} for failure in report["watched"]["failures"]]
    return broken + [
        {key: finding.get(key) for key in ("code", "name", "severity", "line", "message")}
        | {"line": (finding.get("place") or {}).get("line", finding.get("line"))}
        for finding in report["findings"]
    ]


def serious(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Warnings, errors and failed runs: advice counts on neither side."""
    return [finding for finding in found if finding.get("severity") in ("warning", "error", None)]


def flagged(result: dict[str, Any]) -> bool:
    return bool(serious(result["ok"]))


def found(result: dict[str, Any]) -> bool:
    """Whether the rule that names the cause spoke."""
    expected = result["case"].get("expected")
    return expected is not None and any(finding.get("name") == expected for finding in serious(result["bug"]))


def lost(result: dict[str, Any]) -> bool:
    """Whether a cause that was named once is not named now."""
    return result["case"].get("expected") is not None and not result["skipped"] and not found(result)


def summary(name: str, results: list[dict[str, Any]], sides: tuple[str, ...]) -> str:
    ran = [result for result in results if not result["skipped"]]
    parts = [f"{len(ran)} pairs"]
    if "bug" in sides and any("expected" in result["case"] for result in ran):
        parts.append(f"cause named in {sum(map(found, ran))}, no longer named in {sum(map(lost, ran))}")
    elif "bug" in sides:
        parts.append(f"something was said on {sum(bool(serious(result['bug'])) for result in ran)}")
    if "ok" in sides:
        parts.append(f"{sum(map(flagged, ran))} twins flagged")
    if len(ran) < len(results):
        parts.append(f"{len(results) - len(ran)} skipped ({DATA} is not set)")
    return f"{name}: " + "; ".join(parts)


def shown(name: str, result: dict[str, Any]) -> str:
    lines = [f"## {name} ({result['kind']}): {result['case'].get('bug')} @ {result['case'].get('where')}"]
    if result["skipped"]:
        lines.append(f"   skipped: {result['skipped']}")
    for side in SIDES:
        lines += [f"   {side}: {f['code']} {f.get('name')}:{f.get('line')} {f['message']}" for f in result[side]]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
