"""Public scripts, run plain and under `trueloop check`: the same ending, the same numbers, no finding that is not
explained.

    python -m tests.ecosystem.run --mirror FOLDER [--install] [--only NAME ...] [--list] [--write docs/ecosystem.md]

FOLDER holds checkouts as owner+name (see checkout.py); TRUELOOP_DATA names the folder of data sets. Nothing of either
is kept: each script runs in a temporary copy. What came of it is kept under build/ecosystem: a run of some scripts
renews only those in the table, and all are judged by what scripts.toml says today. `--install` makes .venv-ecosystem,
with torchvision and what else the scripts import. Which scripts, how, and what is expected of them is written in
scripts.toml.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.ecosystem.checkout import NotMirrored, check_out
from tests.ecosystem.compare import first_difference
from tests.ecosystem.data import prepare
from tests.site.figures import measured_line

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
HOME = ROOT / ".venv-ecosystem"
KEPT = ROOT / "build" / "ecosystem"
"""What each run printed, and its report."""
PACKAGES: Final = (
    "numpy", "pillow", "matplotlib", "scipy", "requests", "six", "gymnasium", "tyro", "tensorboard", "rich", "tqdm", "scikit-learn", "seaborn",  # noqa: E501
    "accelerate", "datasets", "evaluate", "lightning", "pytorch-ignite", "timm", "torch_geometric", "torchmetrics", "transformers",  # noqa: E501
)  # fmt: skip
TORCHVISION: Final = "torchvision==0.28.0"
"""The version that goes with the torch of constraints.txt."""


@dataclass(frozen=True)
class Script:
    name: str
    repository: str
    commit: str
    path: str
    folder: str
    """What of the repository is needed."""
    arguments: tuple[str, ...]
    cwd: str
    data: tuple[Mapping[str, Any], ...]
    """kind, into (relative to cwd), train, test. Kind 'repository': the files of another one, its `folder` at `commit`,
    as `into`."""
    changes: tuple[tuple[str, str, str], ...]
    """Mechanical changes (sizes, folders, numbers of epochs): file, what stands there, what takes its place."""
    before: tuple[tuple[str, ...], ...]
    """Python commands to run first."""
    environment: Mapping[str, str]
    steps: int | None
    """End both runs after so many optimizer steps; None: to the script's own end."""
    timeout: int
    expected: tuple[Mapping[str, Any], ...]
    """rule, line or lines of which at least one must be reported, reason, and whether it is a bug of the script's."""

    def expectations(self) -> list[set[tuple[str, int]]]:
        """For each expected finding, what it may look like."""
        return [
            {(e["rule"], line) for line in (e["line"] if isinstance(e["line"], list) else [e["line"]])}
            for e in self.expected
        ]


@dataclass(frozen=True)
class Ending:
    code: int
    printed: str
    errors: str
    seconds: float
    """CPU time."""


@dataclass(frozen=True)
class Answer:
    script: Script
    problems: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    """Every finding, with a mark before those that nobody expected."""
    unexpected: int = 0
    ratio: float | None = None
    skipped: str = ""

    @property
    def good(self) -> bool:
        return not self.problems and not self.unexpected


def read_scripts(only: list[str]) -> list[Script]:
    whole = tomllib.loads((HERE / "scripts.toml").read_text(encoding="utf-8"))
    commits = whole["commit"]
    found = []
    for entry in whole["script"]:
        path = entry["path"]
        script = Script(
            name=entry["name"],
            repository=entry["repository"],
            commit=commits[entry["repository"]],
            path=path,
            folder=entry.get("folder", os.path.dirname(path) or "."),
            arguments=tuple(entry.get("arguments", ())),
            cwd=entry.get("cwd", os.path.dirname(path)),
            data=tuple(entry.get("data", ())),
            changes=tuple((file, old, new) for file, old, new in entry.get("changes", ())),
            before=tuple(tuple(command) for command in entry.get("before", ())),
            environment=entry.get("environment", {}),
            steps=entry.get("steps"),
            timeout=entry.get("timeout", 300),
            expected=tuple(entry.get("expected", ())),
        )
        if not only or any(word in script.name for word in only):
            found.append(script)
    return found


# -- running --


def install() -> None:
    """torch first and alone, so that nothing pulls another build of it."""
    if (HOME / "ready").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    pip: list[str | Path] = [
        HOME / "bin" / "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-c",
        ROOT / "constraints.txt",
    ]
    subprocess.run([*pip, "torch"], check=True)
    subprocess.run([*pip, *PACKAGES], check=True)
    subprocess.run([*pip, "--no-deps", TORCHVISION], check=True)
    subprocess.run([*pip, "--no-deps", "-e", ROOT], check=True)
    (HOME / "ready").touch()


def environment(script: Script, work: Path) -> dict[str, str]:
    more = {name: value.replace("{root}", str(work)) for name, value in script.environment.items()}
    paths = [str(HERE / "shim"), more.pop("PYTHONPATH", "")]
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "PYTHONHASHSEED": "0",
        "PATH": f"{HERE / 'shim' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        **more,
    }


def execute(command: list[str | Path], script: Script, work: Path) -> Ending:
    before = os.times()
    try:
        done = subprocess.run(
            command,
            cwd=work / script.cwd,
            env=environment(script, work),
            capture_output=True,
            timeout=script.timeout,
            check=False,
        )
        code, out, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        code, out, errors = (
            124,
            late.stdout or b"",
            (late.stderr or b"") + f"\nnot done after {script.timeout} s".encode(),
        )
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return Ending(code, out.decode(errors="replace"), errors.decode(errors="replace"), seconds)


def set_up(script: Script, mirror: Path, data: Path, work: Path, python: Path) -> str:
    """A fresh copy of the script and its data. Returns why it cannot be made, or nothing."""
    check_out(mirror, script.repository, script.commit, script.folder, work)
    (work / script.cwd).mkdir(parents=True, exist_ok=True)
    for wanted in script.data:
        into = work / script.cwd / wanted["into"]
        if wanted["kind"] == "repository":
            check_out(mirror, wanted["repository"], wanted["commit"], wanted["folder"], into.parent)
            (into.parent / wanted["folder"]).rename(into)
            continue
        prepare(wanted["kind"], data, into, wanted.get("train", 0), wanted.get("test", 0))
    for file, old, new in script.changes:
        path = work / file
        text = path.read_text(encoding="utf-8")
        if old not in text:
            return f"{file} does not hold {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")
    for command in script.before:
        ending = execute([python, *command], script, work)
        if ending.code:
            return f"{' '.join(command)} ended with {ending.code}: {last_line(ending.errors)}"
    return ""


def examine(script: Script, mirror: Path, data: Path, python: Path) -> Answer:
    kept = KEPT / script.name.replace("/", "-")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="trueloop-ecosystem-") as folder:
        endings = []
        for way in ("plain", "checked"):
            work = Path(folder) / way
            try:
                problem = set_up(script, mirror, data, work, python)
            except (NotMirrored, FileNotFoundError) as error:
                return Answer(script, skipped=str(error))
            if problem:
                return Answer(script, skipped=problem)
            program = [str(work / script.path), *script.arguments]
            if way == "checked":
                steps: list[str] = [] if script.steps is None else ["--steps", str(script.steps)]
                watched = [
                    "-m",
                    "trueloop",
                    "check",
                    "--fail-on",
                    "never",
                    "--format",
                    "json",
                    "--output",
                    str(kept / "report.json"),
                    *steps,
                ]
                ending = execute([python, *watched, *program], script, work)
            else:
                cut: list[str | Path] = [] if script.steps is None else [HERE / "plain.py", str(script.steps)]
                ending = execute([python, *cut, *program], script, work)
            (kept / f"{way}.out").write_text(ending.printed, encoding="utf-8")
            (kept / f"{way}.err").write_text(ending.errors, encoding="utf-8")
            endings.append(ending)
    (kept / "endings.json").write_text(
        json.dumps([[ending.code, ending.seconds] for ending in endings]), encoding="utf-8"
    )
    return judge(script, endings[0], endings[1], kept / "report.json")


def recalled(script: Script) -> Answer | None:
    """What came of its last run; None if it was never run, or did not come to an end."""
    kept = KEPT / script.name.replace("/", "-")
    if not (kept / "endings.json").is_file():
        return None
    numbers = json.loads((kept / "endings.json").read_text(encoding="utf-8"))
    endings = []
    for way, (code, seconds) in zip(("plain", "checked"), numbers, strict=True):
        printed, errors = ((kept / f"{way}.{kind}").read_text(encoding="utf-8") for kind in ("out", "err"))
        endings.append(Ending(code, printed, errors, seconds))
    return judge(script, endings[0], endings[1], kept / "report.json")


# -- judging --


def judge(script: Script, plain: Ending, checked: Ending, report: Path) -> Answer:
    if plain.code:
        return Answer(script, skipped=f"fails by itself with {plain.code}: {last_line(plain.errors)}")
    problems = []
    if checked.code != plain.code:
        problems.append(f"exit code {plain.code} became {checked.code}: {last_line(checked.errors)}")
    if difference := first_difference(plain.printed, checked.printed, cut=script.steps is not None):
        problems.append(f"printed otherwise, {difference}")
    found: list[str] = []
    unexpected = 0
    if report.is_file():
        told = json.loads(report.read_text(encoding="utf-8"))
        problems += [f"trueloop broke: {last_line(failure)}" for failure in told["watched"]["failures"]]
        for finding in told["findings"]:
            known = any((finding["name"], finding["line"]) in one for one in script.expectations())
            loud = finding["severity"] != "advice" and not known
            unexpected += loud
            mark = "unexpected " if loud else "expected " if known else ""
            found.append(
                f"{mark}{finding['severity']} {finding['code']} {finding['name']} {finding['path']}:{finding['line']}: "
                f"{finding['message']}"
            )
        seen = {(finding["name"], finding["line"]) for finding in told["findings"]}
        problems += [f"expected and not found: {sorted(one)}" for one in script.expectations() if not one & seen]
    elif not problems:
        problems.append("no report was written")
    return Answer(script, tuple(problems), tuple(found), unexpected, checked.seconds / max(plain.seconds, 1e-3))


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def show(answer: Answer) -> None:
    ratio = "" if answer.ratio is None else f"{answer.ratio:.2f}x"
    state = "skipped" if answer.skipped else "ok" if answer.good else "FAILED"
    print(f"{answer.script.name:38} {state:8} {ratio:>6}  {answer.skipped}", flush=True)
    for line in (*answer.problems, *answer.findings):
        print(f"    {line}", flush=True)


def page(answers: list[Answer], part: str) -> str:
    """The table as a page of the documentation; `part` says which rows are of this run, if not all."""
    rows = []
    for answer in answers:
        if not answer.skipped:
            loud = "<br>".join(f"{e['rule']}, line {e['line']}: {e['reason']}" for e in answer.script.expected)
            numbers = "the same" if answer.good else "; ".join(answer.problems) or "unexpected finding"
            rows.append(f"| {answer.script.name} | {numbers} | {loud or 'none'} | {answer.ratio or 0:.2f}x |")
    skipped = [f"- {answer.script.name}: {answer.skipped}" for answer in answers if answer.skipped]
    ran = [answer for answer in answers if not answer.skipped]
    repositories = {answer.script.repository for answer in ran}
    return (
        "# Public scripts under `trueloop check`\n\nWritten by `make ecosystem MIRROR=folder`: each script runs plain "
        "and checked, as it "
        "stands in its repository (sizes, folders and numbers of epochs changed where `scripts.toml` says so), on "
        "small data.\nExit code and every printed number must be the same, and no finding "
        "may appear that "
        "is not explained here. "
        "Advice is not listed.\n\n"
        f"{len(ran)} scripts of {len(repositories)} repositories, {sum(a.good for a in ran)} as expected, "
        f"{sum(a.unexpected for a in ran)} unexpected findings. Time is CPU time of the whole process, checked to "
        "plain.\n\n"
        "| script | exit code and numbers | errors and warnings, and why they are right | time |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + f"\n\n{measured_line('make ecosystem', part)}\n"
        + ("\nNot run:\n\n" + "\n".join(skipped) + "\n" if skipped else "")
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", type=Path, help="the folder of checkouts")
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("TRUELOOP_DATA"), help="the folder of data sets (TRUELOOP_DATA)"
    )
    parser.add_argument("--install", action="store_true", help="make .venv-ecosystem first")
    parser.add_argument("--only", nargs="*", default=[], help="scripts whose name holds one of these words")
    parser.add_argument("--list", action="store_true", help="show the scripts and run none")
    parser.add_argument("--write", type=Path, help="write the table there")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="scripts at a time")
    options = parser.parse_args()
    scripts = read_scripts(options.only)
    if options.list:
        for script in scripts:
            print(f"{script.name:38} {script.repository}/{script.path}")
        return 0
    if options.mirror is None or options.data is None:
        parser.error("--mirror and --data (or TRUELOOP_DATA) are needed. Nothing was run.")
    if options.install:
        install()
    python = HOME / "bin" / "python"
    if not python.exists():
        parser.error("there is no .venv-ecosystem. Nothing was run: --install makes it.")
    answers = []
    mirror, data = options.mirror.resolve(), Path(options.data).resolve()
    with ProcessPoolExecutor(
        options.processes
    ) as pool:  # processes, because each counts the CPU time of its own children
        for future in [pool.submit(examine, script, mirror, data, python) for script in scripts]:
            answers.append(future.result())
            show(answers[-1])
    if options.write:
        known = [recalled(script) for script in read_scripts([])]
        part = f"rows named {' or '.join(options.only)}; the others are older" if options.only else ""
        options.write.write_text(page([answer for answer in known if answer is not None], part), encoding="utf-8")
    ran = [answer for answer in answers if not answer.skipped]
    bad = [answer for answer in ran if not answer.good]
    unexpected = sum(answer.unexpected for answer in ran)
    print(
        f"\n{len(ran)} of {len(answers)} scripts ran, {len(ran) - len(bad)} as expected, {unexpected} unexpected "
        "findings"
    )
    return int(bool(bad) or not ran)


if __name__ == "__main__":
    sys.exit(main())
