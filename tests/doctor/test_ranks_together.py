"""Facts of several ranks, judged together: by the one that tells, from recordings, and while the ranks hang."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import Checked, check_script, in_child
from tests.several_ranks import free_port
from trueloop.doctor.cross_rank_rules import CrossRankRules
from trueloop.doctor.ranks import merge_verdicts
from trueloop.doctor.recheck import check_recorded_run
from trueloop.event import CollectivesCalled, Event, Place, StateWritten
from trueloop.finding import Finding, Severity
from trueloop.results.check import NotApplicable, Outcome, Verdict, Watched
from trueloop.rules.catalogue import all_rules, select
from trueloop.usercode.settings import Settings

SAVED = StateWritten(3, Place("/train.py", 9), 0, "/model.pt")
BOTH: list[Event] = [SAVED, replace(SAVED, rank=1)]


def _verdict(*findings: Finding, unjudged: tuple[str, ...] = ()) -> Verdict:
    watched = Watched("train.py", 1, 1, 1, 1, ("Net",), ("SGD",), rules=3)
    return Verdict(findings, watched, tuple(NotApplicable(code, "nothing") for code in unjudged), Outcome("finished"))


# -- one judgement of many --


def test_only_rules_that_compare_ranks_sit_on_the_bench() -> None:
    codes = {rule.code for rule in CrossRankRules(all_rules(), Settings()).rules}
    assert {"PAR101", "PAR103", "PAR105", "PAR106"} <= codes
    assert not codes & {"GRD101", "PAR102", "PAR104"}


def test_what_the_ranks_did_is_judged_together_and_joined_to_what_each_has_found() -> None:
    joint = CrossRankRules(select(("PAR105", "PAR106"), ()), Settings()).check(BOTH)
    own = _verdict(unjudged=("PAR105", "PAR106", "OPT106"))
    both = merge_verdicts(own, {0: own, 1: own}, {}, joint)
    assert [(f.code, f.evidence["ranks"]) for f in both.findings] == [("PAR105", [0, 1])]
    assert "on all" not in both.findings[0].message
    assert [(one.code, one.because) for one in both.not_applicable] == [
        ("OPT106", "nothing"),
        ("PAR106", "the run had one rank"),
    ]
    assert both.watched.rules == 4, "one of those that could not judge alone could judge together"


def test_settings_hold_for_what_is_found_together() -> None:
    settings = Settings(severity={"PAR": Severity.ERROR}, per_file_ignores={"/train.py": ("every-rank-saves",)})
    bench = CrossRankRules(select(("PAR105",), ()), Settings(severity={"PAR": Severity.ERROR}))
    assert bench.check(BOTH).findings[0].severity is Severity.ERROR
    ignored = CrossRankRules(select(("PAR105",), ()), settings).check(BOTH)
    assert (ignored.findings, ignored.allowed) == ((), 1)


def test_a_cause_on_one_rank_explains_what_the_comparison_shows() -> None:
    def found(code: str, name: str) -> Finding:
        return Finding(code, name, Severity.ERROR, Place("/train.py", 4), f"It is {code}.", "why", "fix")

    drift = replace(
        CrossRankRules((), Settings()).check(()), findings=(found("PAR103", "parameters-differ-across-ranks"),)
    )
    alone = _verdict()
    cause = _verdict(found("PAR107", "ddp-bypassed"))
    assert [f.code for f in merge_verdicts(alone, {0: alone, 1: alone}, {}, drift).findings] == ["PAR103"]
    assert [f.code for f in merge_verdicts(alone, {0: alone, 1: cause}, {}, drift).findings] == ["PAR107"]


# -- recordings --

SAVING = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
    print(dist.get_rank(), step, loss.item().hex())
print(sum(parameter.sum() for parameter in model.parameters()).item().hex())
torch.save(model.module.state_dict(), "model.pt")
dist.barrier()
dist.destroy_process_group()
"""


def test_a_recorded_run_of_two_ranks_is_judged_together_again(tmp_path: Path) -> None:
    checked = check_script(tmp_path, SAVING, ranks=2, record=tmp_path / "kept")
    assert checked.names() == {"every-rank-saves"}
    again = check_recorded_run(tmp_path / "kept", select((), ()), Settings())
    assert [finding.name for finding in again.findings] == ["every-rank-saves"]
    assert not {one.code for one in again.not_applicable} & {"PAR101", "PAR103", "PAR106"}


def test_watched_ranks_compute_the_same_numbers(tmp_path: Path) -> None:
    checked = check_script(tmp_path, SAVING, ranks=2)
    plain = [_plain(tmp_path, rank, port) for port in [str(free_port())] for rank in (0, 1)]
    said = [child.communicate(timeout=120)[0] for child in plain]
    assert [child.returncode for child in plain] == [0, 0]
    assert checked.output.split() == "\n".join(said).split()


def _plain(folder: Path, rank: int, port: str) -> subprocess.Popen[str]:
    words = {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
    }
    environment = {**os.environ, **words}
    return subprocess.Popen(
        [sys.executable, "train.py"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )


# -- hanging --

HANGING = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.ones(1)
dist.all_reduce(x)
{between}
dist.all_reduce(x)
"""


def _hang(folder: Path, between: str, **options: Any) -> Checked:
    return check_script(folder, HANGING.format(between=between), ranks=2, hang_after=1.0, select=["PAR"], **options)


def test_a_rank_alone_in_a_barrier_ends_the_run_for_all(tmp_path: Path) -> None:
    checked = _hang(tmp_path, "if rank == 0: dist.barrier()")
    assert checked.at() == {("collective-mismatch", 9)}
    assert checked.verdict.outcome.reason in ("hung", "exception")
    assert checked.verdict.notes == ()
    assert checked.verdict.exit_code(None) == 1


def test_a_rank_whose_process_died_is_named(tmp_path: Path) -> None:
    checked = _hang(tmp_path, "if rank == 1: import os; os._exit(7)")
    (finding,) = checked.findings
    assert "rank 1 never calls it: its process died" in finding.message
    assert "the report of rank 1 is missing: its process died" in checked.verdict.notes


def test_a_rank_that_left_by_exit_is_named(tmp_path: Path) -> None:
    checked = _hang(tmp_path, "if rank == 1: raise SystemExit(0)")
    (finding,) = checked.findings
    assert "rank 1 never calls it: its script called sys.exit" in finding.message
    assert finding.place is not None
    assert finding.place.line == 10


def test_a_run_that_is_cut_short_is_no_hang(tmp_path: Path) -> None:
    """--steps ends each rank by itself; who was a collective further must not be blamed."""
    checked = check_script(tmp_path, SAVING, ranks=2, last_step=2, hang_after=1.0, select=["PAR106"])
    assert checked.verdict.outcome.reason == "cut"
    assert not checked.findings


def test_the_facts_of_a_rank_travel_with_its_verdict(tmp_path: Path) -> None:
    checked = check_script(tmp_path, SAVING, ranks=2)
    (told,) = [fact for fact in checked.verdict.facts if isinstance(fact, CollectivesCalled)]
    assert told.rank == 0
    names = [call.name for call in told.calls]
    assert names[0] == "DistributedDataParallel()"
    assert names.count("backward of DistributedDataParallel") == 4
    assert names[-1] == "barrier"
    assert [call.direct for call in told.calls if call.direct] == [1]


def test_a_single_process_keeps_no_journal_and_tells_no_facts(check: Callable[..., Checked]) -> None:
    checked = check("import torch\ntorch.save(torch.ones(1), 'x.pt')\n")
    assert checked.verdict.facts == ()


def test_the_compiler_still_knows_the_collectives() -> None:
    from torch.distributed import _functional_collectives as functional

    from trueloop.doctor.watch import Watch

    def work() -> tuple[bool, bool, bool]:
        before = dict(functional.traceable_collective_remaps)
        original = torch.distributed.all_reduce
        watch = Watch(script="train.py").start()
        wrapped = torch.distributed.all_reduce
        known = wrapped is not original and functional.traceable_collective_remaps[wrapped] is before[original]
        same = torch.distributed.distributed_c10d.all_reduce is wrapped
        watch.stop()
        return known, same, functional.traceable_collective_remaps == before

    assert in_child(work) == (True, True, True)


# -- for real --


@pytest.mark.long
def test_torchrun_with_ranks_that_hang_gives_one_report_and_ends(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HANGING.format(between="if rank == 0:\n    dist.barrier()"), encoding="utf-8")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "trueloop"]
    words = [sys.executable, *launch, "check", "--hang-after", "1", "train.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("error PAR106") == 1, done.stderr
    assert "Collective 2 of the group differs between ranks" in done.stderr.replace("\n", " ")
    assert not list(tmp_path.glob("trueloop-*"))
