"""The speed rules on constructed events: each threshold from both sides, and what a device would say on machines that
have none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from trueloop.event import (
    BatchesAwaited,
    BatchesCopied,
    CompilerRan,
    DeviceReads,
    DeviceWorked,
    Event,
    GraphBreak,
    LoaderSeen,
    ModelMoved,
    ModelSeen,
    Place,
    ReadLine,
    Recompilation,
    RunEnded,
    UpdatePath,
)
from trueloop.finding import Finding, Severity
from trueloop.rules.checker import Checker
from trueloop.rules.rule import Rule
from trueloop.rules.speed.dataloader_bottleneck import (
    ASLEEP,
    IDLE,
    SHARE,
    SHARE_ON_CPU,
    STEPS,
    WAIT_MS,
    WAIT_MS_ON_CPU,
    DataloaderBottleneck,
)
from trueloop.rules.speed.gpu_sync_every_step import WORTH, GpuSyncEveryStep
from trueloop.rules.speed.graph_breaks_or_recompilations import AGAIN, GraphBreaksOrRecompilations
from trueloop.rules.speed.memory_not_pinned import MEGABYTES, MemoryNotPinned
from trueloop.rules.speed.model_moved_every_step import ModelMovedEveryStep
from trueloop.rules.speed.more_workers_than_cores import MoreWorkersThanCores
from trueloop.rules.speed.optimizer_foreach_disabled import MANY, OptimizerForeachDisabled
from trueloop.rules.speed.timed_without_synchronize import TimedWithoutSynchronize

HERE = Place("gone.py", 7, "train")
THERE = Place("gone.py", 9, "train")
LOADER = LoaderSeen(step=0, place=HERE, loader=0, workers=0, cores=8, batch_size=32, pinned=False, stream=False)
ON_CPU = BatchesAwaited(
    step=40, place=THERE, loader=0, device="cpu", steps=STEPS, step_ms=40.0, waited_ms=30.0, computed_ms=1.0, idle=None,
)  # fmt: skip
ON_CUDA = replace(ON_CPU, device="cuda", step_ms=20.0, waited_ms=10.0, computed_ms=10.0, idle=1.0)
LINE = ReadLine(HERE, ("item",), 11, 3.0)
READS = DeviceReads(step=16, place=None, device="cuda", steps=11, step_ms=10.0, waited_ms=3.0, lines=(LINE,))
COPIED = BatchesCopied(step=7, place=None, loader=0, steps=3, megabytes=MEGABYTES, copies=2)
COMPILED = CompilerRan(
    step=9, place=None, graphs=3, breaks=(GraphBreak(HERE, "a branch", on_purpose=False),), recompilations=()
)
AGAINST = Recompilation(THERE, "forward", AGAIN, ("self.calls == 0", "self.calls == 1"))
PATH = UpdatePath(
    step=0, place=HERE, optimizer=0, name="AdamW", device="cuda", tensors=40, one_by_one=MANY, differentiable=False
)
MOVED = ModelMoved(
    step=4, place=HERE, model=0, name="Net", function="to", moves=4, changed=True, tensors=9, took_ms=1.5
)
MODEL = ModelSeen(
    step=0, place=HERE, model=0, name="Net", parameters=9, dropouts=0, batch_norms=0, compiled=False, defined=None
)
END = RunEnded(step=99, place=None, reason="finished", epochs=0, forwards=0, unwatched_steps=0)


def judged(rule: type[Rule], *events: Event) -> list[Finding]:
    checker = Checker([rule])
    for event in events:
        checker.check(event)
    assert not checker.failures, checker.failures
    return checker.findings()


def unjudged(rule: type[Rule], events: Iterable[Event]) -> str:
    checker = Checker([rule])
    for event in events:
        checker.check(event)
    return "".join(because for _, because in checker.not_applicable())


def written(folder: Path, text: str, name: str = "train.py") -> str:
    """A script of the user's, for what a rule reads in it."""
    script = folder / name
    script.write_text(text, encoding="utf-8")
    return str(script)


# -- SPD101 --


@pytest.mark.parametrize(
    ("spoken", "awaited", "loader"),
    [
        (True, ON_CPU, LOADER),
        (False, replace(ON_CPU, steps=STEPS - 1), LOADER),
        (True, replace(ON_CPU, waited_ms=WAIT_MS_ON_CPU), LOADER),
        (False, replace(ON_CPU, step_ms=30.0, waited_ms=WAIT_MS_ON_CPU - 0.1), LOADER),
        (False, replace(ON_CPU, step_ms=100.0, waited_ms=100 * SHARE_ON_CPU - 0.1), LOADER),
        (True, replace(ON_CPU, computed_ms=30 * ASLEEP), LOADER),
        (False, replace(ON_CPU, computed_ms=30 * ASLEEP + 0.1), LOADER),
        (False, ON_CPU, replace(LOADER, workers=1)),
        (True, ON_CUDA, LOADER),
        (True, ON_CUDA, replace(LOADER, workers=8)),
        (True, replace(ON_CUDA, idle=IDLE), LOADER),
        (False, replace(ON_CUDA, idle=IDLE - 0.01), LOADER),
        (False, replace(ON_CUDA, idle=None), LOADER),
        (True, replace(ON_CUDA, step_ms=100.0, waited_ms=100 * SHARE), LOADER),
        (False, replace(ON_CUDA, step_ms=100.0, waited_ms=100 * SHARE - 0.1), LOADER),
        (False, replace(ON_CUDA, step_ms=6.0, waited_ms=WAIT_MS - 0.1), LOADER),
        (False, replace(ON_CUDA, steps=STEPS - 1), LOADER),
    ],
)
def test_a_loader_starves_only_beyond_each_threshold(spoken: bool, awaited: BatchesAwaited, loader: LoaderSeen) -> None:
    findings = judged(DataloaderBottleneck, loader, awaited)
    assert bool(findings) == spoken
    assert all(finding.place == HERE for finding in findings)


def test_the_advice_fits_the_loader() -> None:
    (none,) = judged(DataloaderBottleneck, LOADER, ON_CPU)
    assert "num_workers=3" in none.fix  # 30 ms of loading for 10 ms of computing
    (stream,) = judged(DataloaderBottleneck, replace(LOADER, stream=True), ON_CPU)
    assert "get_worker_info" in stream.fix
    (all_cores,) = judged(DataloaderBottleneck, replace(LOADER, workers=8), ON_CUDA)
    assert "cheaper" in all_cores.fix
    assert all_cores.evidence["ms_per_sample"] == 8 * 20 / 32


def test_a_short_run_is_not_judged() -> None:
    assert (
        unjudged(DataloaderBottleneck, [LOADER, replace(ON_CPU, steps=3)]) == "no loader fed enough steps to time them"
    )
    assert unjudged(DataloaderBottleneck, [LOADER, ON_CPU]) == ""
    assert unjudged(DataloaderBottleneck, []) == "no loader was used"


# -- SPD102 --


def test_a_line_that_reads_in_every_row_is_told_once() -> None:
    (finding,) = judged(GpuSyncEveryStep, READS, READS, END)
    assert (finding.place, finding.severity) == (HERE, Severity.WARNING)
    assert ".item()" in finding.message


def test_lines_that_stop_reading_are_no_habit() -> None:
    assert not judged(GpuSyncEveryStep, READS, replace(READS, lines=()), END)
    assert not judged(GpuSyncEveryStep, replace(READS, lines=()), READS, END)
    assert not judged(GpuSyncEveryStep, READS, replace(READS, lines=(replace(LINE, place=THERE),)), END)
    assert not judged(GpuSyncEveryStep, END)


@pytest.mark.parametrize(
    ("waited", "severity"),
    [
        (10 * WORTH, Severity.WARNING),
        (10 * WORTH - 0.01, Severity.ADVICE),  # the device was idle anyway: the program is the slower of the two
        (10 - 10 * WORTH, Severity.WARNING),
        (10 - 10 * WORTH + 0.01, Severity.ADVICE),  # the device is never idle for long
    ],
)
def test_it_is_a_warning_where_a_share_of_the_step_could_be_won(waited: float, severity: Severity) -> None:
    (finding,) = judged(GpuSyncEveryStep, replace(READS, waited_ms=waited), END)
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("spoken", "line"),
    [
        (False, "state, reward, *rest = env.step(action.item())"),
        (False, "state = self.envs.step(action.cpu().numpy())"),
        (True, "scaler.step(optimizer)"),
        (True, "scheduler.step(loss.item())"),
        (True, "env.step()"),
    ],
)
def test_files_that_act_in_an_environment_need_their_values_at_once(tmp_path: Path, spoken: bool, line: str) -> None:
    place = Place(written(tmp_path, line + "\n"), 1, "")
    assert bool(judged(GpuSyncEveryStep, replace(READS, lines=(replace(LINE, place=place),)), END)) == spoken


# -- SPD103 --

STEP = """\
{imports}
def train_step(model, x):
    return model(x)
class Meter:
    def update(self, value):
        return value.item()
def train(model, optimizer, loader, log):
    for x in loader:
        start = {clock}
        out = model(x)
{body}
"""
TIMED = [
    (True, "        elapsed = {clock} - start"),
    (True, "        end = {clock}\n        out.mean().backward()\n        print(end - start)"),
    (True, "        optimizer.zero_grad()\n        log.append({clock} - start)\n        log.append(out.item())"),
    (True, "        if step % 10 == 0:\n            print(step, {clock} - start)"),
    (True, "        print({clock} - start, out.item())"),
    (False, "        torch.cuda.synchronize()\n        elapsed = {clock} - start"),
    (False, "        total += out.item()\n        elapsed = {clock} - start"),
    (False, "        print(out.item(), {clock} - start)"),
    (False, "        print(f'{{loss:.2f}} {{{clock} - start}}')"),
    (False, "        if loss > 3:\n            break\n        elapsed = {clock} - start"),
    (False, "        if step % 10 == 0:\n            value = out.item()\n            print(value, {clock} - start)"),
    (False, "        evaluate(out)\n        elapsed = {clock} - start"),
    (False, "        start = {clock}\n        log.append({clock} - start)"),
    (False, "        elapsed = other - start"),
    (False, "        elapsed = x.time() - start"),
]


@pytest.mark.parametrize("clock", ["time.perf_counter()", "time.time()", "perf_counter()"])
@pytest.mark.parametrize(("spoken", "body"), TIMED)
def test_a_clock_is_wrong_only_if_nothing_waits_before_it(tmp_path: Path, spoken: bool, body: str, clock: str) -> None:
    imports = "import torch, time; from time import perf_counter; from metrics import evaluate"
    text = STEP.format(imports=imports, clock=clock, body=body.format(clock=clock))
    compile(text, "train.py", "exec")
    path = written(tmp_path, text)
    line = text.splitlines().index("        out = model(x)") + 1
    findings = judged(TimedWithoutSynchronize, DeviceWorked(9, None, "cuda", (Place(path, line, "train"),)))
    assert bool(findings) == spoken
    for finding in findings:
        assert finding.place is not None
        assert clock in text.splitlines()[finding.place.line - 1]


def test_work_in_functions_of_the_file_counts_and_so_do_their_waits(tmp_path: Path) -> None:
    text = """\
import time
import torch
def step(model, x):
    return forward(model, x)
def forward(model, x):
    return model(x)
def waiting(model, x):
    return model(x).item()
def one(model, x):
    start = time.time()
    forward(model, x)
    return time.time() - start
def two(model, x):
    start = time.time()
    waiting(model, x)
    return time.time() - start
def epoch(model, loader):
    start = time.time()
    for x in loader:
        forward(model, x)
    return time.time() - start
"""
    path = written(tmp_path, text)
    worked = DeviceWorked(9, None, "cuda", (Place(path, 6, "forward"), Place(path, 8, "waiting")))
    (finding,) = judged(TimedWithoutSynchronize, worked)
    assert finding.place is not None
    assert finding.place.line == 12
    assert finding.diff.count("+    torch.cuda.synchronize()") == 2


def test_work_elsewhere_is_not_what_was_timed(tmp_path: Path) -> None:
    text = "import time\nstart = time.time()\ndata = load()\nprint(time.time() - start)\nmodel(data)\n"
    worked = DeviceWorked(9, None, "cuda", (Place(written(tmp_path, text), 5, ""),))
    assert not judged(TimedWithoutSynchronize, worked)


# -- SPD104 --


@pytest.mark.parametrize(("workers", "cores", "spoken"), [(9, 8, True), (8, 8, False), (0, 1, False), (2, 1, True)])
def test_more_workers_than_cores(workers: int, cores: int, spoken: bool) -> None:
    findings = judged(MoreWorkersThanCores, replace(LOADER, workers=workers, cores=cores))
    assert bool(findings) == spoken
    assert all(finding.severity is Severity.ADVICE for finding in findings)


# -- SPD105 --


@pytest.mark.parametrize(
    ("spoken", "copied", "loader"),
    [
        (True, COPIED, LOADER),
        (False, replace(COPIED, megabytes=MEGABYTES - 0.01), LOADER),
        (False, COPIED, replace(LOADER, pinned=True)),
        (False, replace(COPIED, loader=1), LOADER),
    ],
)
def test_copies_are_told_from_a_megabyte_on(spoken: bool, copied: BatchesCopied, loader: LoaderSeen) -> None:
    assert bool(judged(MemoryNotPinned, loader, copied)) == spoken


@pytest.mark.parametrize(
    ("built", "mended"),
    [
        ("loader = DataLoader(data, batch_size=8)", "loader = DataLoader(data, batch_size=8, pin_memory=True)"),
        (
            "loader = data.DataLoader(rows, 8, num_workers=2,)",
            "loader = data.DataLoader(rows, 8, num_workers=2, pin_memory=True)",
        ),
        ("loader = DataLoader(data, **settings)", ""),
        ("loader = DataLoader(data, pin_memory=use_cuda)", ""),
        ("loader = DataLoader(\n    data)", ""),
        ("loader = build(data)", ""),
    ],
)
def test_the_loader_gets_pinned_memory_where_it_is_built(tmp_path: Path, built: str, mended: str) -> None:
    place = Place(written(tmp_path, built + "\n"), 1, "")
    (finding,) = judged(MemoryNotPinned, replace(LOADER, place=place), COPIED)
    assert finding.place == place
    assert [line[1:] for line in finding.diff.splitlines() if line.startswith("+") and not line.startswith("+++")] == (
        [mended] if mended else []
    )


def test_without_copies_there_is_nothing_to_judge() -> None:
    assert unjudged(MemoryNotPinned, [LOADER]) == "no batch was copied to a GPU"
    assert unjudged(MemoryNotPinned, [replace(LOADER, pinned=True)]) == ""
    assert unjudged(MemoryNotPinned, []) == "no loader was used"


# -- SPD106 --


def test_each_cut_and_each_habit_of_compiling_again_is_told() -> None:
    assert [f.place for f in judged(GraphBreaksOrRecompilations, COMPILED)] == [HERE]
    assert not judged(
        GraphBreaksOrRecompilations, replace(COMPILED, breaks=(GraphBreak(HERE, "asked for", on_purpose=True),))
    )
    assert [
        f.place for f in judged(GraphBreaksOrRecompilations, replace(COMPILED, breaks=(), recompilations=(AGAINST,)))
    ] == [THERE]
    assert not judged(
        GraphBreaksOrRecompilations, replace(COMPILED, breaks=(), recompilations=(replace(AGAINST, times=AGAIN - 1),))
    )
    assert unjudged(GraphBreaksOrRecompilations, [END]) == "torch.compile was not used"


# -- SPD107 --


@pytest.mark.parametrize(
    ("spoken", "path"),
    [
        (True, PATH),
        (False, replace(PATH, one_by_one=MANY - 1)),
        (False, replace(PATH, differentiable=True)),
        (False, replace(PATH, device="mps")),
    ],
)
def test_many_tensors_one_by_one(spoken: bool, path: UpdatePath) -> None:
    assert bool(judged(OptimizerForeachDisabled, path)) == spoken


def test_foreach_is_given_back_its_default(tmp_path: Path) -> None:
    place = Place(
        written(tmp_path, "optimizer = torch.optim.AdamW(model.parameters(), foreach=False, lr=1e-3)\n"), 1, ""
    )
    (finding,) = judged(OptimizerForeachDisabled, replace(PATH, place=place))
    assert "+optimizer = torch.optim.AdamW(model.parameters(), foreach=None, lr=1e-3)" in finding.diff
    place = Place(
        written(tmp_path, "optimizer = torch.optim.AdamW(model.parameters(), **settings)\n", "other.py"), 1, ""
    )
    assert not judged(OptimizerForeachDisabled, replace(PATH, place=place))[0].diff


# -- SPD108 --


def test_a_move_that_changes_nothing_is_advice() -> None:
    (moved,) = judged(ModelMovedEveryStep, MODEL, MOVED)
    (stayed,) = judged(ModelMovedEveryStep, MODEL, replace(MOVED, changed=False))
    assert (moved.severity, stayed.severity) == (Severity.WARNING, Severity.ADVICE)
    assert not judged(ModelMovedEveryStep, MODEL)
    assert unjudged(ModelMovedEveryStep, [MODEL]) == ""
