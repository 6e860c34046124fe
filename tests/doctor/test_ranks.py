"""Several ranks: one report of all, nobody waits for the dead, and no collective is used to find out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import in_child
from tests.waiting import until
from trueloop.doctor import ranks
from trueloop.doctor.ranks import (
    Rank,
    is_first,
    mark_reported,
    merge_reports,
    merge_verdicts,
    own_folder,
    register_rank,
)
from trueloop.event import Place
from trueloop.finding import Finding, Severity
from trueloop.report import render
from trueloop.results.check import NotApplicable, Outcome, Verdict, Watched


def _finding(code: str, line: int, severity: Severity = Severity.ERROR, count: int = 1) -> Finding:
    return Finding(
        code, code.lower(), severity, Place("/train.py", line), f"It is {code}.", "why", "fix", {"n": 1}, count=count
    )


def _verdict(*findings: Finding, reason: str = "finished", code: int = 0, unjudged: tuple[str, ...] = ()) -> Verdict:
    watched = Watched("train.py", 1, 1, 1, 1, ("Net",), ("SGD",), 3)
    return Verdict(findings, watched, tuple(NotApplicable(c, "nothing") for c in unjudged), Outcome(reason, code))  # type: ignore[arg-type]


# -- one verdict of many --


def test_what_several_ranks_found_at_one_place_is_one_finding() -> None:
    here, there = _finding("GRD101", 3, count=2), _finding("LOS101", 9, Severity.WARNING)
    both = merge_verdicts(_verdict(here), {0: _verdict(here), 1: _verdict(there, here), 2: _verdict(there)}, {})
    assert [(f.code, f.message, f.count, f.evidence) for f in both.findings] == [
        ("GRD101", "It is GRD101 (on ranks 0 and 1).", 4, {"n": 1, "ranks": [0, 1]}),
        ("LOS101", "It is LOS101 (on ranks 1 and 2).", 2, {"n": 1, "ranks": [1, 2]}),
    ]
    assert (
        merge_verdicts(_verdict(here), {0: _verdict(here), 1: _verdict(here)}, {}).findings[0].message
        == "It is GRD101 (on all 2 ranks)."
    )
    assert (
        merge_verdicts(_verdict(), {0: _verdict(), 1: _verdict(here)}, {}).findings[0].message
        == "It is GRD101 (on rank 1)."
    )
    assert merge_verdicts(_verdict(), {0: _verdict(), 1: _verdict(here)}, {}).worst() is Severity.ERROR


def test_what_one_rank_could_judge_has_been_judged() -> None:
    both = merge_verdicts(
        _verdict(), {0: _verdict(unjudged=("GRD101", "LOS101")), 1: _verdict(unjudged=("LOS101", "OPT106"))}, {}
    )
    assert [one.code for one in both.not_applicable] == ["LOS101"]


def test_a_missing_report_and_a_failure_say_whose_they_are() -> None:
    both = merge_verdicts(
        _verdict(), {0: _verdict(), 2: replace(_verdict(), failures=("observer broke",))}, {1: "its process died"}
    )
    assert both.failures == ("on rank 2: observer broke",)
    assert both.notes == ("the report of rank 1 is missing: its process died",)
    assert "note  the report of rank 1 is missing: its process died" in render(both)


# -- meeting --


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has three ranks of a run."""
    for name, value in {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "3",
        "TORCHELASTIC_RUN_ID": "none",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getppid", lambda: 7)  # the children of this test have one torchrun for a parent
    monkeypatch.setattr(ranks, "PATIENCE", 0.3)
    monkeypatch.setattr(ranks, "LATE", 0.6)


def _start(number: int, verdict: Verdict | None, *, after: float = 0.0) -> int:
    """A rank in a process of its own: it announces itself, works, and ends with the verdict; or dies without a word."""
    child = os.fork()
    if child == 0:
        os.environ.update(RANK=str(number), LOCAL_RANK=str(number))
        register_rank()
        time.sleep(after)
        code = 9
        if verdict is not None:
            answer = merge_reports(verdict)
            code = 1 if answer.reported_elsewhere else 2
            if code == 2:
                mark_reported()
        os._exit(code)
    return child


def _ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.usefixtures("three")
def test_the_first_rank_tells_for_all_and_the_folder_is_gone(tmp_path: Path) -> None:
    register_rank()
    children = [_start(1, _verdict(_finding("GRD101", 3)), after=0.1), _start(2, _verdict())]
    answer = merge_reports(_verdict())
    assert not answer.reported_elsewhere
    assert answer.notes == ()
    assert [f.message for f in answer.findings] == ["It is GRD101 (on rank 1)."]
    assert all(os.waitpid(child, os.WNOHANG)[0] == 0 for child in children), "they wait until it has been told"
    mark_reported()
    assert [_ended(child) for child in children] == [1, 1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("three")
def test_nobody_waits_for_the_dead_for_the_late_or_for_those_who_never_began(tmp_path: Path) -> None:
    register_rank()
    dead, late = _start(1, None), _start(2, _verdict(), after=30)
    _ended(dead)
    until(lambda: list(tmp_path.glob("*/2.pid")), "the late rank has begun")
    assert merge_reports(_verdict()).notes == (
        "the report of rank 1 is missing: its process died",
        "the report of rank 2 is missing: it was still running 1 s later",
    )
    mark_reported()
    os.kill(late, 9)
    _ended(late)
    register_rank()
    notes = merge_reports(_verdict()).notes
    assert notes[0] == "the report of rank 1 is missing: it never started"
    mark_reported()


@pytest.mark.usefixtures("three")
def test_a_rank_that_failed_tells_itself_if_the_first_one_hangs() -> None:
    def work() -> tuple[bool, list[str], tuple[str, ...]]:
        os.environ.update(RANK="1", LOCAL_RANK="1")
        register_rank()
        answer = merge_reports(_verdict(_finding("GRD101", 3), reason="exception", code=1))
        mark_reported()
        return answer.reported_elsewhere, [f.code for f in answer.findings], answer.notes

    hanging = _start(0, _verdict(), after=30)
    other = _start(2, _verdict())
    elsewhere, codes, notes = in_child(work)
    assert not elsewhere
    assert codes == ["GRD101"]
    assert notes == ("the report of rank 0 is missing: it was still running",)
    assert _ended(other) == 1
    assert merge_reports(_verdict()).reported_elsewhere, "whoever comes when it has been told is quiet"
    os.kill(hanging, 9)
    _ended(hanging)


@pytest.mark.usefixtures("three")
def test_a_folder_of_somebody_else_is_not_trusted(tmp_path: Path) -> None:
    me = Rank.here()
    assert me is not None
    me.folder.mkdir(mode=0o777)
    me.folder.chmod(0o777)
    verdict = _verdict(_finding("GRD101", 3))
    assert merge_reports(verdict) is verdict


def test_alone_there_is_nobody_to_meet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    assert Rank.here() is None
    assert is_first()
    assert own_folder(tmp_path) == tmp_path
    verdict = _verdict()
    assert merge_reports(verdict) is verdict


@pytest.mark.usefixtures("three")
def test_the_other_ranks_record_beside_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert own_folder(tmp_path) == tmp_path
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert own_folder(tmp_path) == tmp_path / "rank-2"


# -- for real --

TRAIN = """
import os
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    if rank == 0:
        optimizer.zero_grad()
    F.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 2, (6,))).backward()
    optimizer.step()
print(f"rank {rank} is through", flush=True)
dist.destroy_process_group()
"""


def test_torchrun_on_two_ranks_gives_one_report(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    words = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "trueloop",
        "check",
        "--fail-on",
        "never",
        "train.py",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=180, env=environment
    )
    assert done.returncode == 0, done.stderr
    # Two processes share the pipe: their lines may arrive as one, but nothing else may be there.
    assert sorted(done.stdout.replace("\n", "").split("rank ")) == ["", "0 is through", "1 is through"]
    assert done.stderr.count(" applied; checking added ") == 1, done.stderr
    assert "(on rank 1)" in done.stderr
    assert done.stderr.count("error GRD101") == 1
    assert not list(tmp_path.glob("trueloop-*"))
