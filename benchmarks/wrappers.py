"""The same small jobs through Lightning, Accelerate, HF Trainer, Ignite of today and trueloop: who is right?

    python benchmarks/wrappers.py [--write] [--only lightning,trueloop_engine]

`make frameworks` makes the environment they live in (.venv-frameworks). Each job is written as the wrapper's own pages
recommend (benchmarks/wrapped/NAME.py) and runs in a process of its own. What happened is noted by the network and by
hooks of torch's optimizer, the same for everybody; a row says what was measured in this run. Where a wrapper's pages
offer a better way that one has to know and ask for, that way is measured too, and shown after the semicolon; so is a
way of ours that does less than the first (SIGTERM from Python).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"
RESULTS = Path(__file__).parent / "wrappers-results.md"
JOBS = ("tokens", "partial", "whole", "killed", "again", "validation", "nan", "sigterm", "damage", "damaged", "schedule",  # noqa: E501
        "schedule_accumulated", "metric")  # fmt: skip
SUFFIXES = (".ckpt", ".pt", ".safetensors", ".bin")
SAVED_AT, EPOCH, TOTAL = 5, 10, 20
"""Steps: of the checkpoint, of an epoch, of the run that is resumed."""


@dataclass(frozen=True)
class Wrapper:
    name: str
    module: str
    package: str
    more: tuple[str, ...] = ()
    """Jobs besides, in the better way that one has to ask for."""
    asked: dict[str, str] = field(default_factory=dict)
    """Row -> what is asked for; its job is the row's with the suffix that `more` has."""


WRAPPERS = (
    Wrapper("Lightning", "lightning", "lightning", ("schedule_per_step",), {"schedule": 'interval="step"'}),
    Wrapper("Accelerate", "accelerate", "accelerate", ("tokens_by_hand", "whole_seedable", "killed_seedable", "again_seedable"),  # noqa: E501
            {"tokens": "counted by hand", "resume": "use_seedable_sampler"}),
    Wrapper("HF Trainer", "hf_trainer", "transformers", ("tokens_asked", "sigterm_asked"),
            {"tokens": "compute_loss_func", "sigterm": "enable_jit_checkpoint"}),
    Wrapper("Ignite", "ignite", "pytorch-ignite", ("nan_asked", "whole_deterministic", "killed_deterministic", "again_deterministic"),  # noqa: E501
            {"nan": "TerminateOnNan", "resume": "deterministic=True"}),
    Wrapper("trueloop", "trueloop_engine", "", ("sigterm_python",), {"sigterm": "trueloop.train from Python"}),
)  # fmt: skip


@dataclass(frozen=True)
class Answers:
    """What the jobs of one wrapper left."""

    folder: Path

    def of(self, job: str) -> dict[str, Any]:
        file = self.folder / f"{job}.json"
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}

    def code(self, job: str) -> int | None:
        file = self.folder / f"{job}.code"
        return int(file.read_text(encoding="utf-8")) if file.is_file() else None


Said = tuple[str, bool]
"""What was measured, and is it right?"""


def tokens(found: Answers, job: str = "tokens") -> Said:
    answer = found.of(job)
    return (
        (f"update {answer['ratio']:.2f}x the right one", answer["error"] < 1e-4)
        if "ratio" in answer
        else _other(answer)
    )


def partial(found: Answers) -> Said:
    answer = found.of("partial")
    if "ratio" in answer:
        return f"its update {answer['ratio']:.2f}x the right one", abs(answer["ratio"] - 1) < 1e-4
    if "at" in answer:
        return "no update: its gradient leaks into the next epoch", False
    return _other(answer)


def resume(found: Answers, suffix: str = "") -> Said:
    whole, again = found.of(f"whole{suffix}"), found.of(f"again{suffix}")
    left = found.folder / f"resume{suffix}" / "killed.json"
    if "seen" not in again or "seen" not in whole or not left.is_file():
        return _other(again or whole)
    first = json.loads(left.read_text(encoding="utf-8"))["seen"][:SAVED_AT]
    batches = (first + again["seen"])[:EPOCH]
    came = [number for batch in batches for number in batch]
    replayed, never = (
        len(came) - len(set(came)),
        len({number for batch in whole["seen"][:EPOCH] for number in batch} - set(came)),
    )
    difference = max(abs(a - b) for a, b in zip(whole["weights"], again["weights"], strict=True))
    same = difference == 0 and again["steps"] == TOTAL - SAVED_AT
    counted = f"{replayed} of 40 samples replayed, {never} never seen" if replayed or never else "right samples"
    return f"{counted}; weights {'bit-identical' if same else f'off by {difference:.2g}'}", same


def validation(found: Answers) -> Said:
    answer = found.of("validation")
    if "difference" not in answer:
        return _other(answer)
    off = answer["difference"]
    return ("changes nothing" if off == 0 else f"weights differ by {off:.2g}"), off == 0


def nan(found: Answers, job: str = "nan") -> Said:
    answer = found.of(job)
    if "nan" not in answer:
        return _other(answer)
    poisoned = f"{answer['nan']:.0%} of the weights NaN"
    if job != "nan":
        return f"stops, {poisoned}", answer["nan"] == 0
    return (
        (poisoned + ", no error", False)
        if answer["nan"]
        else ("weights whole; stopped and the batch named", bool(answer.get("said")))
    )


def sigterm(found: Answers, job: str = "sigterm") -> Said:
    code, folder = found.code(job), found.folder / job
    kept = any(path.suffix in SUFFIXES for path in folder.rglob("*"))
    if code is None:
        return "not measured", False
    left = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return f"{left}, {'a checkpoint' if kept else 'no checkpoint'}", kept and code != 0


def damaged(found: Answers) -> Said:
    answer = found.of("damaged")
    if "resumed" in answer:
        return f"goes on from the whole one before it ({answer['resumed']})", answer["resumed"] == "5 steps"
    return f"chosen all the same: {answer['raised'].split(':')[0]}" if "raised" in answer else "not measured", False


def schedule(found: Answers, job: str = "schedule") -> Said:
    rates = found.of(job).get("rates", [])
    if len(rates) != TOTAL:
        return (f"{len(rates)} steps instead of {TOTAL}" if rates else _other(found.of(job))[0]), False
    return f"{rates[-1]:.3f}", abs(rates[-1] - 0.145) < 1e-6


def schedule_accumulated(found: Answers) -> Said:
    return schedule(found, "schedule_accumulated")


def metric(found: Answers) -> Said:
    value = found.of("metric").get("value")
    return (f"{value:.3f}", abs(value - 1.0) < 1e-6) if value is not None else _other(found.of("metric"))


def schedule_on_ranks(found: Answers) -> Said:
    rates = found.of("ranks").get("rates", [])
    if len(rates) != EPOCH:
        return (f"{len(rates)} steps instead of {EPOCH}" if rates else _other(found.of("ranks"))[0]), False
    return f"{rates[-1]:.3f}", abs(rates[-1] - 0.19) < 1e-6


def metric_on_ranks(found: Answers) -> Said:
    value = found.of("ranks").get("value")
    return (f"{value:.3f}", abs(value - 3.0) < 1e-6) if value is not None else _other(found.of("ranks"))


def frames(found: Answers) -> Said:
    count = found.of("schedule").get("frames")
    return ("not measured", False) if count is None else (str(count), count <= 3)


def _other(answer: dict[str, Any]) -> Said:
    return str(answer.get("raised", "not measured")).split(":")[0], False


ROWS: tuple[tuple[str, str, Callable[..., Said], str], ...] = (
    ("tokens", "accumulation over 1, 2, 4 and 32 valid tokens", tokens, "{}_by_hand,{}_asked"),
    ("partial", "5 batches, accumulate 4: the last window", partial, ""),
    ("resume", "killed in mid-epoch, resumed", resume, "_seedable,_deterministic"),
    ("validation", "with validation, and without", validation, ""),
    ("nan", "one batch holds a NaN", nan, "{}_asked"),
    ("sigterm", "SIGTERM", sigterm, "{}_asked,{}_python"),
    ("damaged", "the newest checkpoint is half written", damaged, ""),
    ("schedule", "rate of the last step of a 20-step decay (right: 0.145)", schedule, "{}_per_step"),
    ("schedule_accumulated", "the same with accumulate 2", schedule_accumulated, ""),
    (
        "schedule_on_ranks",
        "2 processes: rate of the last step of a 10-step decay (right: 0.190)",
        schedule_on_ranks,
        "",
    ),
    ("metric", "mean over batches of 4 and 1 (right: 1.000)", metric, ""),
    ("metric_on_ranks", "2 processes: mean of 5 samples (right: 3.000)", metric_on_ranks, ""),
    ("frames", "library frames from the user's call to the model", frames, ""),
)
"""Row, what it says, its judge, and the jobs in which the better way may have been measured."""


def ran(wrapper: Wrapper, folder: Path) -> Answers:
    """All jobs of a wrapper: one process that forks for each, and two processes for the job of the ranks."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",  # noqa: E501
                   "CUDA_VISIBLE_DEVICES": ""}  # fmt: skip
    module = f"benchmarks.wrapped.{wrapper.module}"
    with (folder / "printed.txt").open("w", encoding="utf-8") as printed:
        common: dict[str, Any] = {"cwd": folder, "env": environment, "stdout": printed, "stderr": printed}
        subprocess.run([PYTHON, "-m", module, folder, *JOBS, *wrapper.more], check=False, **common)
        launch = [
            PYTHON,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            "-m",
            module,
            folder,
            "ranks",
        ]
        subprocess.run(launch, check=False, timeout=300, **common)
    return Answers(folder)


def cell(wrapper: Wrapper, found: Answers, row: str, judge: Callable[..., Said], better: str) -> str:
    said, right = judge(found)
    text = f"**{said}**" if right else said
    if row in wrapper.asked:
        for pattern in better.split(","):
            job = pattern.format(row)
            if any(each.endswith(job) for each in wrapper.more):
                said, right = judge(found, job)
                text += f"; {wrapper.asked[row]}: {f'**{said}**' if right else said}"
    return text


def table(found: dict[str, Answers]) -> str:
    wrappers = [wrapper for wrapper in WRAPPERS if wrapper.name in found]
    lines = [f"| | {' | '.join(_titled(wrapper) for wrapper in wrappers)} |", "|---" * (len(wrappers) + 1) + "|"]
    for row, words, judge, better in ROWS:
        cells = (cell(wrapper, found[wrapper.name], row, judge, better) for wrapper in wrappers)
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _titled(wrapper: Wrapper) -> str:
    if not wrapper.package:
        return wrapper.name
    command = [PYTHON, "-c", f"import importlib.metadata as m; print(m.version({wrapper.package!r}))"]
    return f"{wrapper.name} {subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help=f"also into {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--only", default="", help="some of: " + ", ".join(wrapper.module for wrapper in WRAPPERS))
    parser.add_argument("--keep", type=Path, help="a folder that is not there yet, for what the jobs leave")
    options = parser.parse_args()
    if not PYTHON.exists():
        print("There is no .venv-frameworks. Nothing was run: make frameworks", file=sys.stderr)
        return 4
    chosen = [wrapper for wrapper in WRAPPERS if not options.only or wrapper.module in options.only.split(",")]
    with tempfile.TemporaryDirectory() as aside:
        folder = options.keep or Path(aside)
        folder.mkdir(parents=True, exist_ok=True)
        found = {}
        for wrapper in chosen:
            print(f"{wrapper.name} ...", file=sys.stderr, flush=True)
            found[wrapper.name] = ran(wrapper, folder.absolute() / wrapper.module)
        written = (
            f"Bold is right. Measured with torch {importlib.metadata.version('torch')} on a CPU.\n\n{table(found)}"
        )
        wrong = [words for _, words, judge, _ in ROWS if "trueloop" in found and not judge(found["trueloop"])[1]]
    print(written)
    if options.write:
        RESULTS.write_text(f"# The same small jobs through the wrappers: who is right\n\n{written}", encoding="utf-8")
    for words in wrong:
        print(f"trueloop is wrong: {words}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
