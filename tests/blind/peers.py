"""The blind rounds under the peers: found by cause, and twins flagged.

    TRUELOOP_DATA=dir python -m tests.blind.peers [--only torcheck ...] [--count 10]

The first pairs of rounds 3, 4 and 5 by name, each side unmodified, each peer applied by its adapter in
`benchmarks/peers/adapters` (environments: `make peers`). What they said is kept in `build/peers/rounds.json`: a run of
one peer renews only that one. Which alarm names a cause is written down in `peer_causes.toml`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.blind.run import SIDES, pairs_of, staged

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
KEPT: Final = ROOT / "build" / "peers" / "rounds.json"
PEERS: Final = ("torch-audit", "torchtest2", "guardtower", "torcheck")
ROUNDS: Final = ("r3", "r4", "r5")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=PEERS, help="these peers; none: only the table")
    parser.add_argument("--count", type=int, default=10, help="pairs of each round")
    options = parser.parse_args()
    pairs = [pair for name in ROUNDS for pair in pairs_of(HERE / "rounds" / name)[: options.count]]
    kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folders = {pair: stack.enter_context(staged(pair)) for pair in pairs} if options.only else {}
        for peer in options.only:
            kept[peer] = answers(peer, folders)
            KEPT.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    print(table(kept, len(pairs)))
    return 0


def answers(peer: str, folders: dict[Path, Path]) -> list[dict[str, Any]]:
    """What one peer says of both sides of every pair."""
    runs = [
        {
            "pair": f"{pair.parent.name}/{pair.name}",
            "side": side,
            "folder": str(folder),
            "words": ["train.py", side] if (pair / "train.py").exists() else [f"{side}.py"],
        }
        for pair, folder in folders.items()
        for side in SIDES
    ]
    said = []
    with tempfile.TemporaryDirectory() as room:
        listed = Path(room) / "runs.json"
        listed.write_text(json.dumps(runs), encoding="utf-8")
        python = ROOT / ".venv-peers" / peer / "bin" / "python"
        command = [str(python), str(HERE / "peer_stage.py"), peer, str(listed)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
            assert running.stdout is not None
            for line in running.stdout:
                said.append(json.loads(line))
                print(peer, line.rstrip()[:300], flush=True)
    return said


def table(kept: dict[str, list[dict[str, Any]]], count: int) -> str:
    causes: dict[str, dict[str, str]] = tomllib.loads((HERE / "peer_causes.toml").read_text(encoding="utf-8"))
    lines = ["| tool | found by cause | twins flagged | could not be applied (bug, twin) |", "|---|---|---|---|"]
    for peer, said in kept.items():
        bugs, twins = ([each for each in said if each["side"] == side] for side in SIDES)
        named = causes.get(peer, {})
        found = sum(names_cause(named.get(each["pair"]), each["alarms"]) for each in bugs)
        alarmed = sum(bool(each["alarms"]) for each in twins)
        missing = ", ".join(str(sum(bool(each["failed"]) for each in side)) for side in (bugs, twins))
        lines.append(f"| {peer} | {found} of {count} | {alarmed} of {count} | {missing} |")
    return "\n".join(lines)


def names_cause(pattern: str | None, alarms: list[str]) -> bool:
    return pattern is not None and any(re.search(pattern, alarm) for alarm in alarms)


if __name__ == "__main__":
    raise SystemExit(main())
