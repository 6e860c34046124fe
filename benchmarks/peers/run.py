"""Ten classic bugs and three healthy scripts: `trueloop check` beside the peers.

    python -m benchmarks.peers.run [--install] [--only trueloop torchtest2 ...] [--scripts missing_zero_grad ...]
    [--repeat 3]

`--install` makes one environment per peer under .venv-peers. What each tool printed is kept under build/peers, and so
is what came of it: a run of some tools or scripts renews only those, and RESULTS.md shows every tool that has seen all
scripts. What counts as a catch is written down in causes.toml.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.peers import environments

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KEPT = ROOT / "build" / "peers"
CAUSES: dict[str, dict[str, str]] = tomllib.loads((HERE / "causes.toml").read_text(encoding="utf-8"))

TIMEOUT: Final = 900
"""Seconds; the slowest peer traces every call of a run and needs minutes."""
NO_DEPENDENCIES: Final = {"torcheck": "it asks for torch < 2.0"}
"""Peers that are installed against their own word, so that they get a chance."""
WARNS: Final = re.compile(r"^\S+:\d+: \w*Warning: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One script, and what must be found in it."""

    path: Path
    expected: dict[str, set[int]]
    """Rule name -> lines, any of which is right."""

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def healthy(self) -> bool:
        return not self.expected


@dataclass(frozen=True)
class Outcome:
    caught: bool = False
    right_line: bool = False
    alarms: tuple[str, ...] = ()
    """Everything the tool complained of, for ours: everything but the cause."""
    ratio: float = 0.0
    """CPU time beyond importing torch, to that of the plain script."""
    failed: str = ""


@dataclass
class Tool:
    name: str
    python: Path
    judge: Callable[[Tool, Case, Clock], Outcome]
    version: str = ""
    outcomes: dict[str, Outcome] = field(default_factory=dict)


@dataclass(frozen=True)
class Clock:
    """CPU seconds that importing torch and the plain script take, and how often a run is repeated to find its
    fastest."""

    start: float
    plain: float
    repeat: int

    def ratio(self, seconds: float) -> float:
        return (seconds - self.start) / (self.plain - self.start)


def cases(names: list[str]) -> list[Case]:
    found = []
    for path in sorted((HERE / "scripts").glob("*.py"), key=lambda p: (p.stem.startswith("healthy"), p.stem)):
        expected: dict[str, set[int]] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := re.search(r"#\s*expect:\s*([\w-]+)", line):
                expected.setdefault(match[1], set()).add(number)
        if not names or path.stem in names:
            found.append(Case(path, expected))
    return found


# -- running --


def timed(command: list[str | Path], cwd: Path) -> tuple[int, str, float]:
    """Exit code, everything printed, and CPU seconds of the process and its children."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    before = os.times()
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
        code, printed = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        shown = late.stdout or b""
        code, printed = 124, (shown.decode() if isinstance(shown, bytes) else shown) + f"\nnot done after {TIMEOUT} s"
    after = os.times()
    return code, printed, after.children_user + after.children_system - before.children_user - before.children_system


def work_folder(tool: Tool, case: Case) -> Path:
    folder = KEPT / tool.name / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def keep(folder: Path, printed: str) -> None:
    (folder / "printed.txt").write_text(printed, encoding="utf-8")


def judge_ours(tool: Tool, case: Case, clock: Clock) -> Outcome:
    folder = work_folder(tool, case)
    report = folder / "report.json"
    command = [
        tool.python,
        "-m",
        "trueloop",
        "check",
        "--fail-on",
        "never",
        "--format",
        "json",
        "--output",
        report,
        case.path,
    ]
    runs = [timed(command, folder) for _ in range(clock.repeat)]
    code, printed, _ = runs[0]
    keep(folder, printed)
    if code or not report.exists():
        return Outcome(failed=last_line(printed) or f"exit code {code}")
    findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
    hits = [f for f in findings if f["name"] in case.expected]
    others = [
        f"{f['severity']} {f['name']} line {f['line']}: {f['message']}"
        for f in findings
        if f["name"] not in case.expected
    ]
    right = any(f["line"] in case.expected[f["name"]] for f in hits)
    return Outcome(bool(hits), right, tuple(others), clock.ratio(min(r[2] for r in runs)))


def judge_warnings(tool: Tool, case: Case, clock: Clock) -> Outcome:
    folder = work_folder(tool, case)
    runs = [timed([tool.python, "-W", "always", case.path], folder) for _ in range(clock.repeat)]
    keep(folder, runs[0][1])
    alarms = tuple(dict.fromkeys(WARNS.findall(runs[0][1])))
    return judged(tool, case, alarms, clock.ratio(min(r[2] for r in runs)))


def judge_peer(tool: Tool, case: Case, clock: Clock) -> Outcome:
    folder = work_folder(tool, case)
    code, printed, seconds = timed(
        [tool.python, HERE / "stage.py", tool.name.replace("-", "_"), case.path, folder], folder
    )
    keep(folder, printed)
    alarms = tuple(line.removeprefix("@alarm ") for line in printed.splitlines() if line.startswith("@alarm "))
    if code and not alarms:
        return Outcome(failed=last_line(printed) or f"exit code {code}")
    return judged(tool, case, alarms, clock.ratio(seconds))


def judged(tool: Tool, case: Case, alarms: tuple[str, ...], ratio: float) -> Outcome:
    cause = CAUSES.get(tool.name, {}).get(case.name)
    caught = cause is not None and any(re.search(cause, alarm) for alarm in alarms)
    return Outcome(caught, False, alarms, ratio)


def last_line(printed: str) -> str:
    lines = [line for line in printed.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


# -- tools --


def install(name: str) -> str:
    """Torch first and alone, so that nothing pulls another build. Returns why it failed, or nothing."""
    constrained = ("-c", ROOT / "constraints.txt")
    more = ["--no-deps"] if name in NO_DEPENDENCIES else []
    return environments.install(name, [*constrained, "torch", "numpy"], [*constrained, *more, name])


def tools(only: list[str], may_install: bool) -> list[Tool]:
    ours = Path(sys.executable)
    made = [
        Tool("trueloop", ours, judge_ours, version=version("trueloop")),
        Tool("warnings", ours, judge_warnings, version=f"torch {version('torch')}"),
    ]
    for name in ("torch-audit", "torchtest2", "guardtower", "torcheck", "traincheck"):
        if only and name not in only:
            continue
        problem = install(name) if may_install else ""
        python = environments.program(name)
        if problem or not python.exists():
            print(f"{name} is left out: {problem or 'not installed; --install makes its environment'}", file=sys.stderr)
            continue
        said = subprocess.run(
            [python, "-c", f"import importlib.metadata as m; print(m.version('{name}'))"],
            text=True,
            stdout=subprocess.PIPE,
            check=True,
        )
        made.append(Tool(name, python, judge_peer, version=said.stdout.strip()))
    return [tool for tool in made if not only or tool.name in only]


# -- showing --


def cell(tool: Tool, case: Case) -> str:
    outcome = tool.outcomes[case.name]
    if outcome.failed:
        return "did not run"
    if case.healthy:
        return f"{len(outcome.alarms)} false" if outcome.alarms else "silent"
    if tool.name != "trueloop":
        return "caught" if outcome.caught else "no"
    others = f", {len(outcome.alarms)} other" if outcome.alarms else ""
    return ("caught" if outcome.right_line else "caught, other line" if outcome.caught else "no") + others


def totals(tool: Tool, chosen: list[Case]) -> tuple[str, str, str]:
    broken = [c for c in chosen if not c.healthy]
    healthy = [c for c in chosen if c.healthy]
    caught = sum(tool.outcomes[c.name].caught for c in broken)
    false = sum(len(tool.outcomes[c.name].alarms) for c in (chosen if tool.name == "trueloop" else healthy))
    ratios = [outcome.ratio for outcome in tool.outcomes.values() if not outcome.failed]
    return f"{caught} of {len(broken)}", str(false), f"{median(ratios):.2f}x" if ratios else "-"


def table(shown: list[Tool], chosen: list[Case]) -> str:
    head = ["script", *(t.name for t in shown)]
    rows = [[c.name, *(cell(t, c) for t in shown)] for c in chosen]
    sums = [totals(t, chosen) for t in shown]
    for at, title in enumerate(("**caught**", "**false alarms**", "**time, to the plain run**")):
        rows.append([title, *(s[at] for s in sums)])
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def results(shown: list[Tool], chosen: list[Case]) -> str:
    versions = ", ".join(f"{t.name} {t.version}" for t in shown)
    failures = [
        f"- {t.name} on {c.name}: `{t.outcomes[c.name].failed}`"
        for t in shown
        for c in chosen
        if t.outcomes[c.name].failed
    ]
    unsupported = [
        f"- {name} was installed with `--no-deps`: {why}."
        for name, why in NO_DEPENDENCIES.items()
        if name in {t.name for t in shown}
    ]
    return f"""# Ten classic bugs, three healthy scripts

Made by `make peers` (`python -m benchmarks.peers.run --install`) on {datetime.now(UTC):%Y-%m-%d}; torch {version("torch")},
Python {sys.version.split()[0]}, one thread. Versions: {versions}.

{table(shown, chosen)}

The scripts are in `scripts/`; each has exactly one bug or none. *warnings* are PyTorch's own, with `-W always`. A peer is applied as
its README recommends, by the adapters in `adapters/`; *caught* means that an alarm names the cause or points at it unmistakably (the
patterns are in `causes.toml`). For trueloop, *caught* also means the right line, and every other finding, on any script, counts as a
false alarm; for the peers only alarms on the healthy scripts do. Time is CPU time beyond importing torch, the median over the scripts;
TrainCheck's is that of tracing and checking ten steps against 240 of the plain run.

{chr(10).join([*failures, *unsupported])}
"""  # noqa: E501


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="make the peers' environments first")
    parser.add_argument("--only", nargs="*", default=[], help="these tools")
    parser.add_argument("--scripts", nargs="*", default=[], help="these scripts")
    parser.add_argument(
        "--repeat", type=int, default=1, help="runs of trueloop and of the plain script; the fastest counts"
    )
    options = parser.parse_args()
    chosen, shown = cases(options.scripts), tools(options.only, options.install)
    python = Path(sys.executable)
    start = min(timed([python, "-c", "import torch"], ROOT)[2] for _ in range(3))
    for case in chosen:
        clock = Clock(start, min(timed([python, case.path], ROOT)[2] for _ in range(options.repeat)), options.repeat)
        for tool in shown:
            tool.outcomes[case.name] = outcome = tool.judge(tool, case, clock)
            store(tool, case)
            print(f"{case.name:36} {tool.name:12} {cell(tool, case)}", file=sys.stderr)
            if tool.name == "trueloop":
                print(*(f"    {alarm}\n" for alarm in outcome.alarms), sep="", end="", file=sys.stderr)
    print(table(shown, chosen))
    known = [recalled(tool) for tool in tools([], False)]
    complete = [tool for tool in known if len(tool.outcomes) == len(cases([]))]
    (HERE / "RESULTS.md").write_text(results(complete, cases([])), encoding="utf-8")
    return int(
        any(
            tool.name == "trueloop" and not as_it_should(tool.outcomes[case.name], case)
            for tool in shown
            for case in chosen
        )
    )


def as_it_should(ours: Outcome, case: Case) -> bool:
    return not ours.failed and not ours.alarms and ours.right_line is not case.healthy


def store(tool: Tool, case: Case) -> None:
    (KEPT / tool.name / case.name / "outcome.json").write_text(
        json.dumps(asdict(tool.outcomes[case.name])), encoding="utf-8"
    )


def recalled(tool: Tool) -> Tool:
    """With what came of its runs, of this and of earlier ones. Whether an alarm names the cause is judged anew."""
    for case in cases([]):
        kept = KEPT / tool.name / case.name / "outcome.json"
        if not kept.exists():
            continue
        outcome = Outcome(**json.loads(kept.read_text(encoding="utf-8")))
        if tool.name != "trueloop" and not outcome.failed:
            outcome = judged(tool, case, outcome.alarms, outcome.ratio)
        tool.outcomes[case.name] = outcome
    return tool


if __name__ == "__main__":
    sys.exit(main())
