"""The pages of every rule, ours beside the peers: the first broken and the first healthy script of each.

    python -m benchmarks.peers.pages [--only trueloop torcheck ...]

Writes PAGES.md. What came of a tool is kept under build/peers, so that --only renews some and the page still shows all.
A peer is counted generously: it *spoke* on a broken script if it raised there an alarm that it raises on none of the
healthy scripts, whether or not that alarm names the bug. trueloop is counted strictly: the right rule, at the marked
line. TrainCheck, which needs minutes for each script, is left to the ten scripts of `run.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.peers.environments import ENVIRONMENTS, program
from benchmarks.peers.run import HERE
from tests.conftest import check_script, in_child
from tests.pages import EXAMPLES, Example
from trueloop.finding import Severity

PEERS = ("torch-audit", "torchtest2", "guardtower", "torcheck")


KEPT = Path("build") / "peers"


@dataclass
class Score:
    """What became of one tool."""

    caught: list[str] = field(default_factory=list)
    alarmed: list[str] = field(default_factory=list)
    """Healthy scripts on which it raised an alarm."""
    ran: int = 0
    refused: int = 0
    """Scripts to which it could not be applied, or that it broke."""

    def keep(self, name: str) -> None:
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / f"{name}.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


def kept(name: str) -> Score | None:
    file = KEPT / f"{name}.json"
    told = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    return None if told is None else Score(told["caught"], told["alarmed"], told["ran"], told["refused"])


def chosen() -> list[Example]:
    """One broken and one healthy script for each page, of those that a single process without a GPU can run."""
    first: dict[tuple[str, bool], Example] = {}
    for example in EXAMPLES:
        if not example.cuda and example.ranks == 1:
            first.setdefault((example.rule, example.broken), example)
    return list(first.values())


def alarms_of(python: Path, tool: str, examples: list[Example]) -> Iterator[tuple[Example, dict[str, object]]]:
    with TemporaryDirectory() as folder:
        cases = Path(folder) / "cases.json"
        cases.write_text(json.dumps({example.name: example.text for example in examples}), encoding="utf-8")
        command = [python, HERE / "stage_pages.py", tool, cases]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE)
    said = {answer["case"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    yield from ((example, said[example.name]) for example in examples)


def kind_of(alarm: str) -> str:
    """An alarm without its numbers and names of layers: what sort of alarm it is."""
    return re.sub(r"[-+]?\d[\d.e+-]*|'[^']*'|`[^`]*`", "_", alarm)[:80]


def judge_peer(name: str, examples: list[Example]) -> Score:
    score = Score()
    answers = list(alarms_of(program(name), name, examples))
    usual: set[str] = set()
    for example, answer in answers:
        alarms = answer["alarms"]
        assert isinstance(alarms, list)
        if answer["failed"] and not alarms:
            score.refused += 1
            continue
        score.ran += 1
        if not example.broken:
            usual |= {kind_of(alarm) for alarm in alarms}
            score.alarmed += [example.name] if alarms else []
    for example, answer in answers:
        alarms = answer["alarms"]
        assert isinstance(alarms, list)
        if example.broken and any(kind_of(alarm) not in usual for alarm in alarms):
            score.caught.append(example.name)
    return score


def judge_ours(examples: list[Example]) -> Score:
    score = Score()
    for example in examples:
        with TemporaryDirectory() as folder:

            def work(example: Example = example, folder: str = folder) -> set[tuple[str, int]]:
                checked = check_script(Path(folder), example.text)
                return {
                    (f.name, f.place.line if f.place else 0) for f in checked.findings if f.severity >= Severity.ADVICE
                }

            found = in_child(work)
        score.ran += 1
        if example.broken and {pair for pair in example.expected() if pair[0] == example.rule} <= found:
            score.caught.append(example.name)
        if not example.broken and found:
            score.alarmed.append(example.name)
    return score


def page(scores: dict[str, Score], examples: list[Example]) -> str:
    broken, healthy = sum(e.broken for e in examples), sum(not e.broken for e in examples)
    rows = "\n".join(
        f"| {name} | {len(s.caught)} of {broken} | {len(s.alarmed)} of {healthy} | {s.refused} |"
        for name, s in scores.items()
    )
    missing = [name for name in PEERS if name not in scores]
    left = f"\nNot run on them yet: {', '.join(missing)}.\n" if missing else ""
    return f"""# The rules' own pages, ours beside the peers

Made by `python -m benchmarks.peers.pages`: the first broken and the first healthy script of every rule's page that one process
without a GPU can run.

| tool | spoke on broken scripts | raised an alarm on healthy scripts | could not be applied |
|---|---|---|---|
{rows}
{left}
For trueloop *spoke* means the right rule at the marked line, and every finding on a healthy script, advice included, is an alarm. For the
peers it means any alarm that they raise on no healthy script: an upper bound of what they catch. They are applied by the adapters in
`adapters/`, where the script starts to train. The pages were written for trueloop's rules, so this table shows coverage of that
catalogue, no more; the ten classic bugs of `RESULTS.md` are the fairer comparison. TrainCheck, and what each tool costs, are measured only
there: these scripts are so tiny that their times are set-up.
"""  # noqa: E501


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="*", default=[], choices=("trueloop", *PEERS), metavar="TOOL", help="these tools"
    )
    options = parser.parse_args()
    examples = chosen()
    for name in options.only or ("trueloop", *PEERS):
        if name != "trueloop" and not (ENVIRONMENTS / name / "ready").exists():
            print(f"{name} is left out: `make peers` makes its environment", file=sys.stderr)
            continue
        score = judge_ours(examples) if name == "trueloop" else judge_peer(name, examples)
        score.keep(name)
        print(
            f"{name}: {len(score.caught)} caught, {len(score.alarmed)} false, {score.refused} refused", file=sys.stderr
        )
    scores = {name: score for name in ("trueloop", *PEERS) if (score := kept(name)) is not None}
    text = page(scores, examples)
    print(text)
    (HERE / "PAGES.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
