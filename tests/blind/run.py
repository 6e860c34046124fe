"""Blind rounds: scripts by writers who have seen neither rules nor pages; each with a silent bug and a healthy twin.

    python -m tests.blind.run ROUND --write results.json

A pair is a folder with `case.json` and either `bug.py` and `ok.py`, or one `train.py` that is given the folder `bug` or
`ok` (the cause is in its files). Findings of the bug are shown beside its description: whether they name the cause is
for a reader to judge, once, before anything is changed. A finding on a twin is a false alarm, always.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

SIDES: Final = ("bug", "ok")
LIMIT: Final = 600  # seconds for one script


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("round", type=Path)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument(
        "--side", choices=("bug", "ok", "both"), default="both", help="check only the bugs, or only the twins"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    pairs = sorted(file.parent for file in options.round.glob("*/case.json"))
    pairs = [pair for pair in pairs if not options.only or any(word in pair.name for word in options.only)]
    sides = SIDES if options.side == "both" else (options.side,)
    examine = partial(examine_pair, sides=sides)
    results: dict[str, Any] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for pair, result in zip(pairs, pool.map(examine, pairs), strict=True):
            results[pair.name] = result
            print(shown(pair.name, result), flush=True)
            if options.write:
                options.write.write_text(json.dumps(results, indent=1), encoding="utf-8")
    silent = sum(not result["bug"] for result in results.values())
    alarms = sum(bool(result["ok"]) for result in results.values())
    print(f"{len(results)} pairs: something was said on {len(results) - silent}; {alarms} twins flagged")
    return 1 if alarms else 0


def examine_pair(pair: Path, sides: tuple[str, ...] = SIDES) -> dict[str, Any]:
    case = json.loads((pair / "case.json").read_text(encoding="utf-8"))
    home = (pair / "train.py").exists()
    words = {side: ["train.py", side] if home else [f"{side}.py"] for side in sides}
    found = {side: findings(pair, words[side]) if side in sides else [] for side in SIDES}
    return {"kind": "home" if home else "code", "case": case, **found}


def findings(pair: Path, words: list[str]) -> list[dict[str, Any]]:
    """What `check` reports; an entry with the code FAILED if it could not run."""
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
    return [
        {key: finding.get(key) for key in ("code", "name", "severity", "line", "message")}
        | {"line": (finding.get("place") or {}).get("line", finding.get("line"))}
        for finding in report["findings"]
    ]


def shown(name: str, result: dict[str, Any]) -> str:
    lines = [f"## {name} ({result['kind']}): {result['case'].get('bug')} @ {result['case'].get('where')}"]
    for side in SIDES:
        lines += [f"   {side}: {f['code']} {f.get('name')}:{f.get('line')} {f['message']}" for f in result[side]]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
