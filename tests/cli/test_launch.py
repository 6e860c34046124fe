"""`trueloop launch`, and `--nproc` of train and resume: two processes and two nodes, really started, from the command
to the exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from tests.parallel.launching import Ended, about, begun, losses, recipe_in, trueloop, wait_for
from tests.several_ranks import free_port
from trueloop.cli import rank
from trueloop.cli.failure import report_user_errors
from trueloop.cli.main import main
from trueloop.cli.processes import batch_rule
from trueloop.cli.rank import agree_exit_code, find_launched_run, is_speaker, leave_exit_code, rank_peers
from trueloop.cli.train import without_nproc
from trueloop.errors import BadData, CannotSave
from trueloop.parallel.answer import ANSWERS, LAUNCH, LOST
from trueloop.parallel.peers import Alone
from trueloop.recipe.recipe import Recipe
from trueloop.results.check import ExitCode

Captured = pytest.CaptureFixture[str]


def ranked(patch: pytest.MonkeyPatch, number: int = 0, world: int = 1, **more: str) -> None:
    """This process is one that a launcher has started."""
    for name, value in {"RANK": str(number), "WORLD_SIZE": str(world), **more}.items():
        patch.setenv(name, value)


# -- what is refused, and what is only shown --


@pytest.mark.parametrize(
    ("words", "todo"),
    [
        (["launch"], "type `trueloop launch --nproc 2 -- train digits`"),
        (["launch", "--", "tarin", "digits"], "Did you mean train?"),
        (["launch", "--", "nowhere.py"], "There is no script nowhere.py"),
        (["launch", "--", "-m"], "-m package.train"),
        (["launch", "--nproc", "0", "--", "train", "digits"], "at least one process is needed"),
        (["launch", "--nproc", "gpu", "--", "train", "digits"], "type --nproc cpu"),
        (
            ["launch", "--nnodes", "2", "--node-rank", "0", "--rendezvous", "here", "--", "train", "digits"],
            "has no port",
        ),
        (
            ["launch", "--nnodes", "2", "--node-rank", "2", "--rendezvous", "here:1", "--", "train", "digits"],
            "There is no node 2 of 2",
        ),
        (["launch", "--nnodes", "two", "--", "train", "digits"], "trueloop launch --help"),
        (["launch", "--restart", "2", "--", "train", "digits"], "Did you mean --restarts?"),
        (["launch", "--nproc", "2", "--", "train"], "Which recipe?"),
        (["launch", "--nproc", "2", "--", "train", "digits", "--set", "batch=0"], "batch"),
        (["launch", "--nproc", "2", "--", "resume", "runs/nothing"], "holds no run"),
        (["launch", "--output", "job.sh", "--", "train", "digits"], "add --print"),
        (["launch", "--print", "pbs", "--", "train", "digits"], "Known: slurm, kubernetes, skypilot, torchrun"),
        (["launch", "--print", "slurm", "--nproc", "0", "--", "train", "digits"], "Nothing was written"),
        (["train", "digits", "--nproc", "0"], "at least one process is needed"),
        (["train", "digits", "--nproc", "2", "--set", "epocs=1"], "epochs"),
        (["train", "digits", "--nproc"], "--nproc"),
        (["resume", "runs/nothing", "--nproc", "2"], "holds no run"),
    ],
)
def test_a_wrong_command_is_refused_once_before_any_process_is_started(
    words: list[str], todo: str, capsys: Captured
) -> None:
    assert main(words) == 4
    printed = capsys.readouterr()
    assert todo in printed.err
    assert "launch: " not in printed.err
    assert printed.out == ""


def test_under_torchrun_a_process_launches_no_others(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    ranked(monkeypatch)
    assert main(["train", "digits", "--nproc", "2"]) == 4
    assert main(["launch", "--", "train", "digits"]) == 4
    assert capsys.readouterr().err.count("leave --nproc out under torchrun") == 2


def test_a_dry_run_prints_the_plan_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    words = ["--nnodes", "2", "--node-rank", "1", "--rendezvous", "node0:29500", "--nproc", "2", "--restarts", "3"]
    assert main(["launch", "--dry-run", *words, "--", "train", "digits", "--set", "lr=0.1"]) == 0
    printed = capsys.readouterr()
    rows = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in printed.out.splitlines())
    assert rows["command"] == "python -m trueloop train digits --set lr=0.1"
    assert rows["ranks"] == "2 to 3"
    assert rows["rendezvous"] == "node0:29500 (waits 300 s)"
    assert rows["restarts"] == "3"
    assert rows["environment"].startswith("OMP_NUM_THREADS=")
    assert "is split over all 4 processes" in printed.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["-m", "package.train", "--lr", "1"], "python -m package.train --lr 1"),
        (["--", "-m", "package.train"], "python -m package.train"),
        (["--", "script.py", "--nproc", "9"], "python script.py --nproc 9"),
        (["--", "check", "script.py"], "python -m trueloop check script.py"),
    ],
)
def test_what_follows_the_options_belongs_to_the_program(
    words: list[str], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("", encoding="utf-8")
    assert main(["launch", "--dry-run", "--nproc", "1", *words]) == 0
    printed = capsys.readouterr()
    assert f"command      {command}\n" in printed.out
    assert printed.err == "", "only a recipe has a batch of ours"


def test_an_option_of_ours_after_the_script_goes_to_the_script_and_a_hint_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("", encoding="utf-8")
    assert main(["launch", "--dry-run", "script.py", "--nproc", "9"]) == 0
    printed = capsys.readouterr()
    assert "command      python script.py --nproc 9\n" in printed.out
    assert "type `trueloop launch --dry-run --nproc 9 script.py`" in printed.err


def test_show_shows_and_launches_nothing(capsys: Captured) -> None:
    assert main(["train", "digits", "--show", "--nproc", "2"]) == 0
    printed = capsys.readouterr()
    assert "launch" not in printed.err
    assert "batch" in printed.out


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["digits", "--nproc", "2"], ["digits"]),
        (["--nproc=2", "digits", "--set", "lr=1"], ["digits", "--set", "lr=1"]),
        (["--nproc", "2", "digits", "--nproc=3", "--name", "a"], ["digits", "--name", "a"]),
        (["digits"], ["digits"]),
    ],
)
def test_the_processes_get_the_words_without_nproc(words: list[str], left: list[str]) -> None:
    assert without_nproc(words) == left


@pytest.mark.parametrize("target", ["slurm", "kubernetes", "torchrun"])
def test_a_file_to_submit_goes_to_stdout_or_where_asked(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["launch", "--print", target, "--nproc", "4", "--nnodes", "2"]
    assert main([*words, "--", "train", "digits"]) == 0
    text = capsys.readouterr().out
    assert main([*words, "--output", "job", "--", "train", "digits"]) == 0
    printed = capsys.readouterr()
    assert (tmp_path / "job").read_text(encoding="utf-8") == text
    assert printed.out == ""
    assert printed.err.startswith("job is written. Look for FILL_IN, then: ")
    assert main([*words, "--output", "no/such/folder", "--", "train", "digits"]) == 5


def test_a_file_may_be_printed_for_gpus_that_are_not_here(capsys: Captured) -> None:
    assert main(["launch", "--print", "slurm", "--nproc", "gpu", "--nnodes", "64", "--", "train", "digits"]) == 0
    assert "--nproc gpu" in capsys.readouterr().out


# -- the rule for the learning rate --


def a_recipe(**settings: Any) -> Recipe:
    recipe = Recipe(name="r", model=lambda: nn.Linear(1, 1), data=lambda _: None, epochs=1, batch=64)
    return replace(recipe, **settings)


def test_more_processes_scale_nothing_and_it_is_said() -> None:
    said = batch_rule(a_recipe(), 4)
    assert "batch=64 is split over all 4 processes, 16 samples each" in said
    assert "nothing is scaled" in said
    assert "21 or 22 samples each" in batch_rule(a_recipe(), 3)
    assert "batch=64 is computed by all 4 processes together (parallel=pp)" in batch_rule(a_recipe(parallel="pp"), 4)


@pytest.mark.parametrize(
    ("optimizer", "rule"),
    [("sgd", "lr times k, with warmup"), ("adamw", "square root of k"), ("adam", "square root of k")],
)
def test_the_rule_offered_for_larger_batches_is_that_of_the_optimizer(optimizer: str, rule: str) -> None:
    assert rule in batch_rule(a_recipe(optimizer=optimizer), 2)


# -- the manners of a rank --


def _as_rank(work: Callable[[], int]) -> int:
    """As `main` runs a verb."""
    try:
        return leave_exit_code(work())
    except Exception as error:
        return report_user_errors(error)


def test_alone_the_work_is_done_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(rank, "COURTESY", 1e9)
    assert _as_rank(lambda: 5) == 5
    with rank_peers() as peers:
        assert peers.world == 1
        assert agree_exit_code(peers, 5) == 5
    assert _as_rank(_refuse) == ExitCode.MISUSE


def _refuse() -> int:
    raise BadData("no rows")


def _lose() -> int:
    code = compile(
        "raise RuntimeError('[pair.cc:1] Connection closed by peer [::1]:5. Good luck\\nmore')",
        "x/torch/distributed/c.py",
        "exec",
    )
    exec(code)
    return 0


def _fail_elsewhere() -> int:
    raise RuntimeError("not in a collective")


def test_who_has_lost_the_others_waits_to_be_ended_then_says_so_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    ranked(monkeypatch, 1, 2)
    waited: list[float] = []
    monkeypatch.setattr("trueloop.cli.rank.time.sleep", waited.append)
    assert _as_rank(_lose) == LOST
    assert waited == [rank.PATIENCE]
    said = capsys.readouterr().err
    assert said == "trueloop: rank 1 cannot continue: another process has ended (Connection closed by peer [::1]:5).\n"


def test_an_error_of_ours_is_not_taken_for_a_lost_peer(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    ranked(monkeypatch)
    monkeypatch.setattr("trueloop.cli.failure.is_user_error", lambda _: False)
    assert _as_rank(_fail_elsewhere) == ExitCode.TRUELOOP_FAILED
    said = capsys.readouterr().err
    assert "RuntimeError: not in a collective" in said
    assert "cannot continue" not in said


@pytest.mark.parametrize(("number", "courtesy"), [(0, []), (1, [rank.COURTESY])])
def test_of_those_that_fail_alike_the_first_goes_first(
    number: int, courtesy: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked(monkeypatch, number, 2)
    waited: list[float] = []
    monkeypatch.setattr("trueloop.cli.rank.time.sleep", waited.append)
    assert _as_rank(lambda: 1) == 1
    assert _as_rank(_refuse) == 4
    assert waited == courtesy * 2
    assert _as_rank(lambda: 143) == 143
    assert _as_rank(lambda: 0) == 0
    assert waited == courtesy * 2, "who was told to stop, or has finished, leaves at once"
    assert _as_rank(_cannot_save) == ExitCode.STOPPED


def _cannot_save() -> int:
    raise CannotSave("the disk is full")


def test_a_refusal_is_the_launchs_answer_and_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    ranked(monkeypatch, 0, 2, **{ANSWERS: str(tmp_path)})
    assert _as_rank(_refuse) == 0
    assert (tmp_path / "0").read_text(encoding="utf-8") == "4"
    assert capsys.readouterr().err == "trueloop: no rows\n"


def test_the_end_of_a_run_is_left_for_the_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranked(monkeypatch, 0, 1, **{ANSWERS: str(tmp_path)})
    with rank_peers() as peers:
        code = agree_exit_code(peers, 5)
    assert leave_exit_code(code) == 0
    assert (tmp_path / "0").read_text(encoding="utf-8") == "5"


def test_only_the_first_rank_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert is_speaker()
    ranked(monkeypatch, 1, 2)
    assert not is_speaker()


def test_a_launch_goes_on_with_the_newest_run_of_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, launch, started in (
        ("old", "mine", 1.0),
        ("new", "mine", 2.0),
        ("other", "theirs", 3.0),
        ("plain", None, 4.0),
    ):
        (tmp_path / name).mkdir()
        origin = None if launch is None else {"launch": launch}
        (tmp_path / name / "run.json").write_text(
            json.dumps({"kind": "train", "origin": origin, "started": started}), encoding="utf-8"
        )
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text("{", encoding="utf-8")
    monkeypatch.setenv(LAUNCH, "mine")
    assert find_launched_run(Alone(), tmp_path) == tmp_path / "new"
    monkeypatch.setenv(LAUNCH, "nobody's")
    assert find_launched_run(Alone(), tmp_path) is None
    monkeypatch.delenv(LAUNCH)
    assert find_launched_run(Alone(), tmp_path) is None
    monkeypatch.setenv(LAUNCH, "mine")
    assert find_launched_run(Alone(), tmp_path / "nowhere") is None


def test_a_train_that_a_cluster_starts_again_goes_on_with_its_run_and_ends_once(tmp_path: Path) -> None:
    """As after a requeue: the same words, and the same name of the launch."""
    recipe_in(tmp_path, "seen == 10 and os.kill(os.getpid(), signal.SIGTERM)")
    ranks = {"RANK": "0", "WORLD_SIZE": "1", LAUNCH: "slurm-7"}
    stopped = trueloop(tmp_path, "train", "shared.py", GUILTY="0", **ranks)
    assert stopped.code == 143
    again = trueloop(tmp_path, "train", "shared.py", **ranks)
    assert again.code == 0
    assert "note: started again; runs/shared continues from its newest valid checkpoint." in again.err
    assert "resumed at step 10" in again.out
    third = trueloop(tmp_path, "train", "shared.py", **ranks)
    assert (third.code, third.out) == (0, "")
    assert "runs/shared has finished: nothing is left to do." in third.err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["shared"]
    other = trueloop(tmp_path, "train", "shared.py", RANK="0", WORLD_SIZE="1", **{LAUNCH: "slurm-8"})
    assert other.code == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"shared", "shared-2"}
    assert losses(tmp_path, "shared") == losses(tmp_path, "shared-2")


# -- for real --


def same_losses(folder: Path, name: str) -> None:
    """As one process has them, trained here."""
    alone = trueloop(folder, "train", "shared.py", "--name", "alone")
    assert alone.code == 0, alone.err
    assert losses(folder, name) == pytest.approx(losses(folder, "alone"), rel=1e-5)


def one_voice(ended: Ended) -> None:
    assert ended.out.count("finished ") == 1
    assert ended.out.count("step 20/20") == 1
    assert ended.err.count("launch: trueloop train shared.py") == 1
    assert ended.err.count("nothing is scaled") == 1
    assert "Warning" not in ended.err
    assert "torch" not in ended.err


def test_two_processes_train_one_run_to_the_losses_of_one(tmp_path: Path) -> None:
    recipe_in(tmp_path)
    ended = trueloop(tmp_path, "train", "shared.py", "--nproc", "2", "--name", "two")
    assert ended.code == 0, ended.err
    one_voice(ended)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["two"]
    same_losses(tmp_path, "two")


def test_a_rank_that_fails_ends_all_and_its_error_is_said_once(tmp_path: Path) -> None:
    recipe_in(tmp_path, "if seen == 7: raise ValueError('my own mistake')")
    ended = trueloop(tmp_path, "train", "shared.py", "--nproc", "2", GUILTY="1")
    assert ended.code == 1
    assert ended.err.count("ValueError: my own mistake") == 1
    assert ended.err.count("Traceback") == 1
    assert "trueloop: rank 1 failed with exit code 1; the other here was ended. It said:" in ended.err
    assert "itself failed" not in ended.err
    assert "gloo" not in ended.err + ended.out


@pytest.mark.long
def test_sigterm_to_the_launcher_is_agreed_saved_and_resumed_on_two_processes(tmp_path: Path) -> None:
    recipe_in(tmp_path)
    words = ("train", "shared.py", "--nproc", "2", "--name", "stopped", "--set", "epochs=200")
    with begun(tmp_path, *words, SLOW="1") as (process, end):
        wait_for(tmp_path / "stdout.txt", "step   12/")
        os.kill(process, signal.SIGTERM)
        ended = end()
    assert ended.code == 143
    assert "trueloop resume runs/stopped" in ended.out
    assert about(tmp_path, "stopped")["status"] == "signal"
    step = about(tmp_path, "stopped")["step"]
    assert isinstance(step, int)
    resumed = trueloop(tmp_path, "resume", "runs/stopped", "--nproc", "2", "--set", f"steps={step + 5}")
    assert resumed.code == 0, resumed.err
    assert f"resumed at step {step}" in resumed.out
    assert resumed.err.count("launch: trueloop resume runs/stopped") == 1
    assert max(losses(tmp_path, "stopped")) == step + 5


@pytest.mark.long
def test_two_nodes_meet_and_train_one_run(tmp_path: Path) -> None:
    recipe_in(tmp_path)
    words = ("launch", "--nproc", "1", "--nnodes", "2", "--rendezvous", f"127.0.0.1:{free_port()}", "--wait", "100")
    rest = ("--", "train", "shared.py", "--name", "nodes")
    with (
        begun(tmp_path, *words, "--node-rank", "1", *rest, name="1") as (_, second),
        begun(tmp_path, *words, "--node-rank", "0", *rest, name="0") as (_, first),
    ):
        ended, other = first(), second()
    assert (ended.code, other.code) == (0, 0), ended.err + other.err
    one_voice(ended)
    assert other.out == "", "the first process of all speaks, on its node"
    assert "1 process on node 1 of 2, meeting at 127.0.0.1:" in other.err
    same_losses(tmp_path, "nodes")


@pytest.mark.long
def test_ctrl_c_saves_on_all_and_ends_with_its_code(tmp_path: Path) -> None:
    recipe_in(tmp_path)
    with begun(tmp_path, "train", "shared.py", "--nproc", "2", "--set", "epochs=200", SLOW="1") as (process, end):
        wait_for(tmp_path / "stdout.txt", "step   12/")
        os.kill(process, signal.SIGINT)
        ended = end()
    assert ended.code == 130
    assert about(tmp_path, "shared")["status"] == "signal"


@pytest.mark.long
def test_a_rank_that_is_killed_is_started_again_and_the_run_ends_with_the_losses_of_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    recipe_in(
        tmp_path,
        "if seen == 11 and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0': os.kill(os.getpid(), signal.SIGKILL)",
    )
    ended = trueloop(tmp_path, "launch", "--nproc", "2", "--restarts", "1", "--", "train", "shared.py", GUILTY="1")
    assert ended.code == 0, ended.err
    assert "note: started again; runs/shared continues from its newest valid checkpoint." in ended.err
    assert "trueloop: it took 1 restart" in ended.err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["shared"]
    same_losses(tmp_path, "shared")


@pytest.mark.long
@pytest.mark.parametrize("guilty", ["0", "1"])
def test_a_node_that_fails_is_told_there_and_the_other_ends_too(guilty: str, tmp_path: Path) -> None:
    recipe_in(tmp_path, "if seen == 7: raise ValueError('my own mistake')")
    words = ("launch", "--nproc", "1", "--nnodes", "2", "--rendezvous", f"127.0.0.1:{free_port()}", "--wait", "100")
    rest = ("--", "train", "shared.py")
    with (
        begun(tmp_path, *words, "--node-rank", "1", *rest, name="1", GUILTY=guilty) as (_, second),
        begun(tmp_path, *words, "--node-rank", "0", *rest, name="0", GUILTY=guilty) as (_, first),
    ):
        ended = {"0": first(), "1": second()}
    victim = ended["1" if guilty == "0" else "0"]
    assert ended[guilty].code == 1
    assert ended[guilty].err.count("ValueError: my own mistake") == 1
    assert victim.code == LOST
    assert "another process has ended" in victim.err
    assert "Traceback" not in victim.err


@pytest.mark.long
def test_a_refusal_on_all_processes_is_said_once(tmp_path: Path) -> None:
    recipe_in(tmp_path)
    (tmp_path / "runs" / "taken").mkdir(parents=True)
    (tmp_path / "runs" / "taken" / "run.json").write_text('{"kind": "train"}', encoding="utf-8")
    ended = trueloop(
        tmp_path, "launch", "--nproc", "2", "--restarts", "2", "--", "train", "shared.py", "--name", "taken"
    )
    assert ended.code == 4
    assert ended.err.count("already holds a run") == 1
    assert "restart" not in ended.err.replace("up to 2 restarts", "")


def test_any_script_is_launched_with_the_same_manners(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import os, sys\nprint('rank', os.environ['RANK'], sys.argv[1:])\nsys.exit(17)\n", encoding="utf-8"
    )
    ended = trueloop(tmp_path, "launch", "--nproc", "2", "--", "script.py", "--nproc", "7")
    assert ended.code == 17
    assert ended.out == "rank 0 ['--nproc', '7']\n"
    assert ended.err.startswith(
        "launch: python script.py --nproc 7 as 2 processes on this machine, on a free port; OMP_NUM_THREADS=1 as you "
        "set it\n"
    )
    assert ended.err.count("\n") == 2


def test_help_names_the_ways_to_launch(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as left:
        sys.exit(main(["launch", "--help"]))
    assert left.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(
        word in said for word in ("--nnodes", "--rendezvous", "--restarts", "--print", "slurm | kubernetes | skypilot")
    )
