"""Are the verdicts of `trueloop profile` right, and its predictions true? A workload of each kind, profiled, changed,
measured again.

    python benchmarks/verdicts.py [--only data,launch] [--rounds 3] [--markdown]

Each workload is a script of its own (`benchmarks/verdicts/`). It is profiled as it stands; then the first advice is
applied, which the script does when it is given the advice's name; and plain and changed runs are timed in turns, each
in a process of its own. The gain is the ratio of their medians. A row is good if the kind is the one that the workload
was built to be, and the gain was predicted within a factor of 1.5. Workloads that need a CUDA device are left out where
there is none. Exits with 1 if a row is not good.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

SCRIPTS = Path(__file__).parent / "verdicts"
WITHIN = 1.5
NEIGHBOURS = 2
"""Cores that a workload beside a device runs on: the loop, and the thread that goes backward."""
PATIENCE = 600


@dataclass(frozen=True)
class Workload:
    kind: str
    """What it was built to be."""
    script: str
    cuda: bool = False
    ranks: int = 1
    threads: int = 1

    @property
    def name(self) -> str:
        return self.script.removesuffix(".py")

    def command(self, *words: str) -> list[str]:
        if self.ranks == 1:
            return [sys.executable, *words]
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}", *words]


WORKLOADS = (
    Workload("data", "data_sleepy.py"),
    Workload("data", "data_computed.py"),
    Workload("python", "python_between.py"),
    Workload("compute", "compute_products.py"),
    Workload("memory", "memory_elementwise.py"),
    Workload("launch", "launch_tiny.py"),
    Workload("communication", "communication_gradients.py", ranks=2),
    Workload("copy", "copy_pageable.py", cuda=True),
    Workload("launch", "launch_kernels.py", cuda=True),
    Workload("compute", "compute_device.py", cuda=True),
)


@dataclass(frozen=True)
class Row:
    workload: Workload
    kind: str
    change: str
    predicted: float
    measured: float

    @property
    def near(self) -> bool:
        return 1 / WITHIN <= self.predicted / self.measured <= WITHIN

    @property
    def good(self) -> bool:
        return self.kind == self.workload.kind and self.near


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names or kinds of workloads, with commas between them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    import torch

    wanted = set(filter(None, options.only.split(",")))
    chosen = [each for each in WORKLOADS if not wanted or {each.kind, each.name} & wanted]
    rows = []
    for workload in chosen:
        if workload.cuda and not torch.cuda.is_available():
            print(f"{workload.name}: left out, no CUDA device", file=sys.stderr)
            continue
        rows.append(_row(workload, options.rounds))
        print(f"{workload.name}: {rows[-1]}", file=sys.stderr)
    _show(rows, markdown=options.markdown)
    return 0 if all(row.good for row in rows) else 1


def _row(workload: Workload, rounds: int) -> Row:
    """Each round profiles, and runs plain and changed: what else the machine does meets all three alike."""
    profiles = [_profile(workload)]
    key = profiles[0]["advice"][0]["key"] if profiles[0]["advice"] else ""
    plain, changed = [], []
    for turn in range(rounds):
        if turn:
            profiles.append(_profile(workload))
        plain.append(_seconds(workload, ""))
        changed.append(_seconds(workload, key))
    kinds = Counter(profile["verdict"]["kind"] for profile in profiles)
    gains = [advice["gain"] for profile in profiles for advice in profile["advice"] if advice["key"] == key]
    _explain(profiles[-1])
    for told, seconds in (
        ("profiled", [profile["steps"]["seconds"] for profile in profiles]),
        ("plain", plain),
        (key, changed),
    ):
        print(
            f"    {told}: {', '.join(f'{each * 1e3:.4g}' for each in seconds)} ms a "
            f"{'step' if told == 'profiled' else 'sample'}",
            file=sys.stderr,
        )
    return Row(workload, kinds.most_common(1)[0][0], key, median(gains or [1.0]), median(plain) / median(changed))


def _explain(profile: dict[str, Any]) -> None:
    print(f"  {profile['verdict']['sentence']}", file=sys.stderr)
    for advice in profile["advice"]:
        print(f"    {advice['key']} {advice['gain']:.2f}x: {advice['computed_from']}", file=sys.stderr)


def _run(workload: Workload, *words: str) -> subprocess.CompletedProcess[str]:
    """Those beside a device always on the same cores: which part of the memory a batch lies in decides how fast it is
    copied, by a factor of two."""
    cores = sorted(os.sched_getaffinity(0))[:NEIGHBOURS] if workload.cuda else os.sched_getaffinity(0)
    return subprocess.run(
        workload.command(*words),
        check=True,
        timeout=PATIENCE,
        env={**os.environ, "OMP_NUM_THREADS": str(workload.threads)},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )


def _profile(workload: Workload) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "profile.json"
        words = (
            "-m",
            "trueloop",
            "profile",
            "--format",
            "json",
            "--output",
            str(report),
            str(SCRIPTS / workload.script),
        )
        _run(workload, *words)
        made: dict[str, Any] = json.loads(report.read_text())
        return made


def _seconds(workload: Workload, change: str) -> float:
    """For one sample: the script's last word, of the first rank."""
    done = _run(workload, str(SCRIPTS / workload.script), *([change] if change else []))
    return float(
        next(line for line in reversed(done.stdout.splitlines()) if line.startswith("seconds per sample")).split()[-1]
    )


def _show(rows: list[Row], *, markdown: bool) -> None:
    cells = [("workload", "kind", "right", "first advice", "predicted", "measured", f"within {WITHIN}x")]
    for row in rows:
        right = "yes" if row.kind == row.workload.kind else f"no ({row.workload.kind})"
        cells.append(
            (
                row.workload.name,
                row.kind,
                right,
                row.change,
                f"{row.predicted:.2f}x",
                f"{row.measured:.2f}x",
                "yes" if row.near else "no",
            )
        )
    if markdown:
        cells.insert(1, ("---",) * len(cells[0]))
        print("\n".join(f"| {' | '.join(row)} |" for row in cells))
        return
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    print("\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in cells))


if __name__ == "__main__":
    sys.exit(main())
