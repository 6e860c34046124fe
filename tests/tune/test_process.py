"""Trials for real, each in its own process: measured and proved; and whatever ends one is a result in a sentence."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Literal

import pytest

from tests.tune.worlds import FILE, recipe
from tests.waiting import until
from trueloop.tune.agreement import Evidence, agreement_of
from trueloop.tune.process import Process, TrialFailed, TrialSpec
from trueloop.tune.process_measurer import ProcessMeasurer, free_memory, median_gain
from trueloop.tune.trial import full_replays

SOON = 120.0
PLENTY = 1 << 40


@pytest.fixture
def file(tmp_path: Path) -> str:
    made = tmp_path / "small.py"
    made.write_text(FILE, encoding="utf-8")
    return str(made)


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    made: list[Process] = []
    yield made
    for process in made:
        process.end()


def broken(tmp_path: Path, code: str) -> str:
    """The recipe, with this in its model's forward."""
    made = tmp_path / "broken.py"
    inside = "".join(f"        {line}\n" for line in code.splitlines())
    forward = f"class Net(nn.Linear):\n    def forward(self, x):\n{inside}        return super().forward(x)\n\n\n"
    forward += "def network():\n    return Net(16, 4)\n"
    start, end = FILE.index("def network"), FILE.index("def read")
    made.write_text(f"import os, sys, time\n{FILE[:start]}{forward}\n\n{FILE[end:]}", encoding="utf-8")
    return str(made)


def outcome(word: str, memory: int = PLENTY, seconds: float = SOON) -> str:
    """What became of a trial that does not come as far as being ready."""
    process = Process(TrialSpec(word, log_every=4), memory)
    with pytest.raises(TrialFailed) as failed:
        process.listen(monotonic() + seconds)
    return str(failed.value)


def test_a_trial_trains_in_turns_and_proves_what_it_computes(file: str, processes: list[Process]) -> None:
    process = Process(TrialSpec(file, changes={"accumulate": 2}), PLENTY)
    processes.append(process)
    ready = process.listen(monotonic() + SOON)["ready"]
    assert ready["samples"] == 32
    assert ready["every"] >= 1
    turns = [process.ask({"do": "window", "seconds": 0.02}, monotonic() + SOON) for _ in range(2)]
    assert all(turn["window"] and min(turn["window"]) > 0 and turn["peak"] > 0 for turn in turns)
    order = {"steps": 12, "seeds": 2}
    ours = Evidence.of(process.ask({"do": "prove", "order": order}, monotonic() + SOON)["proof"])
    plain = Process(TrialSpec(file, log_every=4), PLENTY)
    processes.append(plain)
    plain.listen(monotonic() + SOON)
    theirs = Evidence.of(
        plain.ask({"do": "prove", "order": {**order, "moved": 1, "gradients": False}}, monotonic() + SOON)["proof"]
    )
    same = agreement_of(theirs, ours)
    assert same.same, same.failures
    assert same.steps == 12
    assert same.cosine > 0.999
    assert len(same.measured) == 2
    assert process.ask({"do": "window", "seconds": 0.02}, monotonic() + SOON)[
        "window"
    ]  # and it goes on after its proof


def test_an_error_of_the_recipe_is_told_in_its_own_words(tmp_path: Path) -> None:
    assert outcome(broken(tmp_path, "raise ValueError('this layer is tired')")) == "ValueError: this layer is tired"


def test_a_recipe_that_cannot_be_trained_so_is_told_by_its_mistake(file: str, processes: list[Process]) -> None:
    process = Process(TrialSpec(file, changes={"program": "cuda_graphs"}), PLENTY)
    processes.append(process)
    with pytest.raises(
        TrialFailed, match="The recipe 'small' cannot be trained: - program=cuda_graphs needs a CUDA device"
    ):
        process.listen(monotonic() + SOON)


def test_a_process_that_ends_itself_is_told_with_its_last_line(tmp_path: Path) -> None:
    said = outcome(broken(tmp_path, "print('I give up', file=sys.stderr, flush=True)\nos._exit(3)"))
    assert said == "exit code 3: I give up"


@pytest.mark.long
def test_a_process_that_is_killed_is_a_result(tmp_path: Path) -> None:
    said = outcome(broken(tmp_path, "os.kill(os.getpid(), 9)"))
    assert said.startswith("killed, most likely because the machine ran out of memory")


@pytest.mark.long
def test_a_process_that_crashes_is_told_by_its_signal(tmp_path: Path) -> None:
    assert outcome(broken(tmp_path, "os.kill(os.getpid(), 11)")).startswith("killed by SIGSEGV")


@pytest.mark.long
def test_memory_that_torch_cannot_have_is_told_as_such(tmp_path: Path) -> None:
    said = outcome(broken(tmp_path, "torch.empty(1 << 50)"))
    assert said.startswith("out of memory: RuntimeError")


def test_a_process_that_takes_too_much_is_ended(tmp_path: Path) -> None:
    code = "kept = torch.ones(1 << 28)\ntime.sleep(60)"
    said = outcome(broken(tmp_path, code), memory=9 * 10**8)
    assert said.startswith("out of memory at ")
    assert said.endswith("only 0.9 GB are available for a trial")


@pytest.mark.long
def test_a_process_that_hangs_is_ended_in_time(tmp_path: Path) -> None:
    said = outcome(broken(tmp_path, "time.sleep(600)"), seconds=8.0)
    assert said == "not done after 8 s, and no time was left"


@pytest.mark.long
def test_what_a_recipe_prints_is_no_answer(tmp_path: Path, processes: list[Process]) -> None:
    process = Process(TrialSpec(broken(tmp_path, 'print(\'{"ready": "no"}\', flush=True)'), log_every=4), PLENTY)
    processes.append(process)
    assert process.listen(monotonic() + SOON)["ready"]["every"] == 4


@pytest.mark.long
def test_files_of_the_user_do_not_take_the_place_of_pythons(
    file: str, processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(file).parent)
    Path("statistics.py").write_text("raise SystemExit('not the real one')\n", encoding="utf-8")
    process = Process(TrialSpec("digits", log_every=4), PLENTY)
    processes.append(process)
    assert process.listen(monotonic() + SOON)["ready"]


@pytest.mark.long
def test_nothing_is_left_of_a_process_that_was_ended(tmp_path: Path, file: str) -> None:
    left = tmp_path / "pid"
    code = f"open({str(left)!r}, 'w').write(str(os.getpid()))"
    process = Process(TrialSpec(broken(tmp_path, code), log_every=4), PLENTY)
    process.listen(monotonic() + SOON)
    process.end()
    with pytest.raises(ProcessLookupError):
        os.kill(int(left.read_text()), 0)


def test_a_trial_whose_master_is_gone_goes_too(file: str) -> None:
    process = Process(TrialSpec(file, log_every=4), PLENTY)
    process.listen(monotonic() + SOON)
    assert process._child.stdin is not None
    process._child.stdin.close()
    try:
        assert process._child.wait(SOON) == 0
    finally:
        process.end()


# -- the bench --


@pytest.mark.long
def test_the_bench_measures_in_turns_proves_and_forgets(file: str) -> None:
    bench = ProcessMeasurer(TrialSpec(file), seconds=SOON, seeds=1)
    try:
        first = bench.pace({}, None)
        assert first.faster == 1.0
        assert first.pace.samples_per_second > 0
        other = bench.pace({"accumulate": 2}, {})
        assert other.faster > 0
        assert other.pace.peak_bytes > 0
        assert bench.agreement({"accumulate": 2}).same
        assert len(bench._alive) == 2
        bench.keep({})
        assert list(bench._alive) == ["{}"]
        with pytest.raises(TrialFailed, match="cannot be trained"):
            bench.pace({"program": "cuda_graphs"}, {})
        assert list(bench._alive) == ["{}"]
    finally:
        bench.close()
    assert not bench._alive


@pytest.mark.long
def test_the_best_is_started_again_when_it_is_gone(file: str) -> None:
    bench = ProcessMeasurer(TrialSpec(file), seconds=SOON, seeds=1)
    try:
        bench.pace({}, None)
        os.killpg(bench._alive["{}"]._child.pid, signal.SIGKILL)
        until(lambda: bench._alive["{}"]._child.poll() is not None, "the trial is gone")
        assert bench.pace({"accumulate": 2}, {}).faster > 0
    finally:
        bench.close()


def test_a_bench_whose_budget_is_spent_ends_a_trial_at_once(file: str) -> None:
    now = [0.0]
    bench = ProcessMeasurer(TrialSpec(file), seconds=10.0, seeds=1, clock=lambda: now[0])
    assert bench.left() == 10.0
    now[0] = 11.0
    with pytest.raises(TrialFailed) as failed:
        bench.pace({}, None)
    assert failed.value.out_of_time
    assert not bench._alive


@pytest.mark.parametrize(
    ("ratios", "gain", "sure"),
    [
        ([1.5, 1.6, 1.4, 1.5, 1.5], 1.5, True),
        ([1.5, 0.7, 1.4, 0.6, 1.5], 1.4, False),
        ([0.5, 0.6, 0.5, 0.5, 0.4], 0.5, True),
        ([0.9, 1.2, 0.8, 1.3, 0.9], 0.9, False),
        ([1.2], 1.2, True),
    ],
)
def test_turns_that_do_not_agree_are_not_sure(ratios: list[float], gain: float, sure: bool) -> None:
    assert median_gain(ratios) == (gain, sure)


def test_this_machine_has_memory() -> None:
    assert free_memory() > 10**7


@pytest.mark.parametrize(
    ("program", "every", "own", "found"),
    [("eager", 6, 50, 6), ("cuda_graphs", 6, 50, 16), ("cuda_graphs", 20, 50, 32), ("cuda_graphs", 50, 50, 50)],
)
def test_an_interval_holds_whole_replays(
    program: Literal["eager", "cuda_graphs"], every: int, own: int, found: int
) -> None:
    assert full_replays(every, recipe(program=program, log_every=own, steps_per_replay=16)) == found
