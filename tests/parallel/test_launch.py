"""What is launched, as a value; how it is run, with scripts that need no torch; and what it says to a cluster."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import in_child
from tests.parallel.launching import losses, recipe_in, trueloop
from trueloop.errors import Misuse
from trueloop.parallel.answer import ANSWERS, LAUNCH, LOST, answers, is_rank, launch_name, leave_answer
from trueloop.parallel.elastic import execute
from trueloop.parallel.launch import Machine, Plan, Rendezvous, planned, processes, rendezvous_of
from trueloop.parallel.submit import TARGETS, Job, written_for

DIGITS = ("-m", "trueloop", "train", "digits")
SMALL = Machine(cores=2)
LARGE = Machine(cores=64, gpus=8)


# -- the plan --


@pytest.mark.parametrize(
    ("word", "machine", "number"),
    [
        ("1", SMALL, 1),
        ("2", SMALL, 2),
        ("auto", SMALL, 2),
        ("cpu", SMALL, 2),
        ("auto", LARGE, 8),
        ("gpu", LARGE, 8),
        ("cpu", LARGE, 64),
        ("8", LARGE, 8),
        ("4", SMALL, 4),
    ],
)
def test_a_word_or_a_number_says_how_many_processes(word: str, machine: Machine, number: int) -> None:
    assert processes(word, machine) == number


@pytest.mark.parametrize(
    ("word", "machine", "todo"),
    [
        ("0", SMALL, "at least one process is needed"),
        ("-1", SMALL, "auto, gpu, cpu"),
        ("two", SMALL, "a number, or auto"),
        ("gpus", SMALL, "Did you mean gpu?"),
        ("gpu", SMALL, "type --nproc cpu"),
        ("9", LARGE, "type --nproc 8"),
        ("2", Machine(4, gpus=1), "this machine has 1 GPU"),
    ],
)
def test_a_wrong_number_of_processes_is_refused_with_what_to_type(word: str, machine: Machine, todo: str) -> None:
    with pytest.raises(Misuse, match=re.escape(todo)) as refusal:
        processes(word, machine)
    assert "othing was run" in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("node0:29500", "node0", 29500), ("10.0.0.1:1", "10.0.0.1", 1), ("[fe80::1]:65535", "fe80::1", 65535)],
)
def test_a_rendezvous_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert rendezvous_of(text) == Rendezvous(host, port)
    assert str(Rendezvous(host, port)) == text


@pytest.mark.parametrize("text", ["node0", "node0:", ":29500", "node0:http", "fe80::1:29500", ""])
def test_a_rendezvous_without_a_port_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Misuse, match="node0:29500"):
        rendezvous_of(text)


@pytest.mark.parametrize("port", ["0", "65536"])
def test_a_port_that_does_not_exist_is_refused(port: str) -> None:
    with pytest.raises(Misuse, match=f"{port} is not a valid port"):
        rendezvous_of(f"node0:{port}")


@pytest.mark.parametrize(
    ("options", "todo"),
    [
        ({"nnodes": 0}, "1 or more"),
        ({"restarts": -1}, "0 or more"),
        ({"wait": 0}, "default 300"),
        ({"nnodes": 2, "rendezvous": "a:1"}, "type --node-rank 0 on the first node, up to 1"),
        ({"nnodes": 2, "node_rank": 2, "rendezvous": "a:1"}, "There is no node 2 of 2"),
        ({"nnodes": 2, "node_rank": -1, "rendezvous": "a:1"}, "There is no node -1 of 2"),
        ({"nnodes": 2, "node_rank": 0}, "type --rendezvous HOST:PORT"),
        ({"node_rank": 1}, "type --nnodes 2 or more"),
    ],
)
def test_a_launch_that_cannot_be_is_refused_with_what_to_type(options: dict[str, object], todo: str) -> None:
    with pytest.raises(Misuse, match=re.escape(todo)) as refusal:
        planned(DIGITS, SMALL, nproc="1", **options)  # type: ignore[arg-type]
    assert "Nothing was run" in str(refusal.value)


def test_the_cores_are_shared_out_and_it_is_said() -> None:
    plan = planned(DIGITS, Machine(cores=12), nproc="4")
    assert plan.environment == {"OMP_NUM_THREADS": "3"}
    assert "OMP_NUM_THREADS=3 each (12 cores)" in plan.line()


def test_each_process_has_at_least_one_thread_and_too_many_are_told() -> None:
    plan = planned(DIGITS, SMALL, nproc="5")
    assert plan.environment["OMP_NUM_THREADS"] == "1"
    assert "5 processes share 2 cores" in plan.line()
    assert "share" not in planned(DIGITS, SMALL, nproc="2").line()
    assert "share" not in planned(DIGITS, Machine(cores=2, gpus=8), nproc="8").line()


def test_the_users_own_number_of_threads_stays() -> None:
    plan = planned(DIGITS, SMALL, nproc="2", environment={"OMP_NUM_THREADS": "7", "HOME": "/"})
    assert plan.environment == {}
    assert "OMP_NUM_THREADS=7 as you set it" in plan.line()


def test_processes_for_cores_do_not_see_the_gpus() -> None:
    assert planned(DIGITS, LARGE, nproc="cpu").environment["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in planned(DIGITS, LARGE, nproc="gpu").environment
    assert "CUDA_VISIBLE_DEVICES" not in planned(DIGITS, SMALL, nproc="cpu").environment


def test_the_line_says_what_is_launched_where_and_how_often() -> None:
    one = planned(DIGITS, SMALL, nproc="2").line()
    assert one.startswith("launch: trueloop train digits as 2 processes on this machine, on a free port; ")
    two = planned(DIGITS, SMALL, nproc="1", nnodes=3, node_rank=2, rendezvous="node0:29500", restarts=2).line()
    assert "1 process on node 2 of 3, meeting at node0:29500, up to 2 restarts; " in two
    assert "\n" not in one + two


def test_a_script_is_named_as_one_would_type_it() -> None:
    assert Plan(("my train.py", "--lr", "1"), 1).program == "python 'my train.py' --lr 1"
    assert Plan(("-m", "package.train"), 1).program == "python -m package.train"


def test_the_ranks_of_a_node_follow_its_number() -> None:
    plan = planned(DIGITS, LARGE, nproc="4", nnodes=3, node_rank=2, rendezvous="node0:29500")
    assert list(plan.ranks) == [8, 9, 10, 11]
    assert plan.world == 12
    assert "ranks        8 to 11" in plan.described()
    assert "processes    4 here, 12 in all" in plan.described()


def test_a_plan_needs_no_torch() -> None:
    modules = "trueloop.parallel.launch, trueloop.parallel.submit, trueloop.parallel.answer"
    code = f"import sys, {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# -- what a process leaves for its launcher --


def test_a_run_that_has_ended_leaves_its_code_and_is_no_failure(tmp_path: Path) -> None:
    environment = {"RANK": "1", "WORLD_SIZE": "2", ANSWERS: str(tmp_path)}
    assert leave_answer(5, environment) == 0
    assert leave_answer(1, {**environment, "RANK": "0"}) == 0
    assert answers(tmp_path) == {0: 1, 1: 5}


def test_a_signal_stays_one_so_that_who_was_preempted_is_started_again(tmp_path: Path) -> None:
    assert leave_answer(143, {"RANK": "0", "WORLD_SIZE": "2", ANSWERS: str(tmp_path)}) == 143
    assert answers(tmp_path) == {0: 143}


def test_under_torchrun_or_alone_the_code_is_the_process_own(tmp_path: Path) -> None:
    assert leave_answer(5, {"RANK": "0", "WORLD_SIZE": "2"}) == 5
    assert leave_answer(5, {ANSWERS: str(tmp_path)}) == 5
    assert answers(tmp_path) == {}


def test_only_what_a_launcher_started_is_a_rank() -> None:
    assert is_rank({"RANK": "0", "WORLD_SIZE": "1"})
    assert not is_rank({"WORLD_SIZE": "4"})
    assert launch_name({LAUNCH: "slurm-7"}) == "slurm-7"
    assert launch_name({}) == ""


# -- the executor, with scripts that need no torch --


def run_script(folder: Path, text: str, *arguments: str, **options: object) -> tuple[int, list[str]]:
    """The exit code, and what the launcher says."""
    (folder / "script.py").write_text(
        f"import os, signal, sys, time\nrank = int(os.environ['RANK'])\n{text}", encoding="utf-8"
    )
    plan = replace(Plan((str(folder / "script.py"), *arguments), nproc=2), **options)  # type: ignore[arg-type]
    said: list[str] = []

    def work() -> tuple[int, list[str]]:
        os.dup2(os.open(folder / "shown.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        return execute(plan, said.append), said

    answer: tuple[int, list[str]] = in_child(work)
    return answer


def test_every_process_knows_its_place(tmp_path: Path) -> None:
    text = "names = 'RANK LOCAL_RANK WORLD_SIZE TRUELOOP_LAUNCH OMP_NUM_THREADS'.split()\n"
    text += "open(sys.argv[1] + os.environ['RANK'], 'w').write(' '.join(os.environ[name] for name in names))"
    code, said = run_script(tmp_path, text, f"{tmp_path}/seen", environment={"OMP_NUM_THREADS": "3"})
    assert (code, said) == (0, [])
    seen = [(tmp_path / f"seen{rank}").read_text(encoding="utf-8").split() for rank in (0, 1)]
    assert [words[:3] for words in seen] == [["0", "0", "2"], ["1", "1", "2"]]
    assert seen[0][3] == seen[1][3]
    assert seen[0][4] == "3"


def test_one_process_speaks_for_all_unless_all_are_asked_for(tmp_path: Path) -> None:
    text = "os.write(1, f'hello from {rank}\\n'.encode())"  # at once: two that print at the same moment mix their lines
    assert run_script(tmp_path, text) == (0, [])
    assert (tmp_path / "shown.txt").read_text(encoding="utf-8") == "hello from 0\n"
    assert run_script(tmp_path, text, every_rank=True) == (0, [])
    assert sorted((tmp_path / "shown.txt").read_text(encoding="utf-8").splitlines()) == ["hello from 0", "hello from 1"]


def test_a_process_that_fails_ends_all_and_its_error_is_said_once(tmp_path: Path) -> None:
    code, said = run_script(tmp_path, "if rank == 1:\n    sys.exit('no such luck')\ntime.sleep(60)")
    assert code == 1
    assert said == ["rank 1 failed with exit code 1; the other here was ended. It said:\n    no such luck"]
    assert (tmp_path / "shown.txt").read_text(encoding="utf-8") == ""


def test_what_the_first_process_said_is_not_said_again(tmp_path: Path) -> None:
    code, said = run_script(tmp_path, "if rank == 0:\n    sys.exit('no such luck')\ntime.sleep(60)")
    assert code == 1
    assert said == ["rank 0 failed with exit code 1 (what it said stands above); the other here was ended."]
    assert (tmp_path / "shown.txt").read_text(encoding="utf-8") == "no such luck\n"


def test_the_exit_code_is_that_of_the_process_to_blame(tmp_path: Path) -> None:
    ready = f"os.path.exists('{tmp_path}/ready')"
    # Rank 1 exits with its own code after rank 0 has left: the launcher asks it to end.
    text = "signal.signal(signal.SIGTERM, lambda *_: os._exit(17))\n"
    text += f"if rank == 0:\n    while not {ready}:\n        time.sleep(0.01)\n    sys.exit({LOST})\n"
    text += f"open('{tmp_path}/ready', 'w').close()\nwhile True:\n    time.sleep(60)"
    code, said = run_script(tmp_path, text)
    assert code == 17
    assert said == ["rank 1 failed with exit code 17, and said nothing; the other here was ended."]


def test_a_process_that_is_killed_is_told_by_the_signals_name(tmp_path: Path) -> None:
    code, said = run_script(tmp_path, "if rank == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)")
    assert code == 128 + signal.SIGKILL
    assert said == [
        "rank 1 was killed by SIGKILL (memory may have run out), and said nothing; the other here was ended."
    ]


def test_of_a_long_error_the_end_is_shown_and_the_rest_is_kept(tmp_path: Path) -> None:
    _, [said] = run_script(
        tmp_path, "if rank == 1:\n    sys.exit('\\n'.join(f'line {i}' for i in range(100)))\ntime.sleep(60)"
    )
    lines = said.splitlines()
    assert lines[1:] == [f"    line {i}" for i in range(60, 100)]
    kept = re.search(r"the last 40 lines; all: (.*)\)", lines[0])
    assert kept is not None
    assert len(Path(kept[1]).read_text(encoding="utf-8").splitlines()) == 100


def test_processes_are_started_again_as_often_as_asked(tmp_path: Path) -> None:
    text = "print('attempt', os.environ['TORCHELASTIC_RESTART_COUNT'], flush=True)\n"
    text += "if rank == 1 and os.environ['TORCHELASTIC_RESTART_COUNT'] != '1':\n    sys.exit(9)\n"
    code, [said] = run_script(tmp_path, text, restarts=1)
    assert code == 0
    assert said.startswith("it took 1 restart; the earlier output of the other processes is in ")
    assert "attempt 1" in (tmp_path / "shown.txt").read_text(encoding="utf-8")


def test_an_end_of_its_own_is_not_started_again(tmp_path: Path) -> None:
    text = (
        f"open('{tmp_path}/starts', 'a').write('x')\nopen(os.path.join(os.environ['{ANSWERS}'], str(rank)), "
        "'w').write('5')"
    )
    assert run_script(tmp_path, text, restarts=3) == (5, [])
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "xx"


def test_a_signal_to_the_launcher_reaches_all_and_is_its_exit_code(tmp_path: Path) -> None:
    text = f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nopen('{tmp_path}/ready' + str(rank), 'w').close()\n"
    text += f"try:\n    while rank == 0 and not os.path.exists('{tmp_path}/ready1'):\n        time.sleep(0.01)\n"
    text += "    if rank == 0:\n        os.kill(os.getppid(), signal.SIGTERM)\n    time.sleep(60)\nfinally:\n"
    text += f"    open('{tmp_path}/told' + str(rank), 'w').close()\n"
    assert run_script(tmp_path, text) == (143, [])
    assert {path.name for path in tmp_path.glob("told*")} == {"told0", "told1"}


def test_the_launcher_leaves_environment_signals_and_logs_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("", encoding="utf-8")

    def work() -> list[bool]:
        before = dict(os.environ), signal.getsignal(signal.SIGTERM), logging.root.manager.disable
        execute(Plan((str(tmp_path / "script.py"),), 2, environment={"OMP_NUM_THREADS": "9"}), print)
        after = dict(os.environ), signal.getsignal(signal.SIGTERM), logging.root.manager.disable
        return [one == other for one, other in zip(before, after, strict=True)]

    assert in_child(work) == [True, True, True]


def test_a_name_that_a_cluster_gave_the_launch_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAUNCH, "slurm-7")
    code, _ = run_script(tmp_path, f"print(os.environ['{LAUNCH}'])")
    assert code == 0
    assert (tmp_path / "shown.txt").read_text(encoding="utf-8") == "slurm-7\n"


def test_inside_a_rank_nothing_is_launched(tmp_path: Path) -> None:
    def work() -> str:
        os.environ["RANK"] = "0"
        with pytest.raises(Misuse, match="already belongs to a launch") as refusal:
            execute(Plan(("script.py",), 2), print)
        return str(refusal.value)

    assert "Nothing was run" in in_child(work)


def test_nodes_that_do_not_meet_are_told_within_a_bounded_time(tmp_path: Path) -> None:
    plan = {"nnodes": 2, "node_rank": 1, "rendezvous": Rendezvous("127.0.0.1", 1), "wait": 1}
    code, [said] = run_script(tmp_path, "", **plan)
    assert code == 4
    assert said.startswith("the 2 nodes did not connect at 127.0.0.1:1 within 1 s (")
    assert "check that --node-rank 0 runs" in said


# -- files to submit --


JOBS = [
    Job(DIGITS, "auto"),
    Job(DIGITS, "8", nnodes=2, restarts=3),
    Job(("train it.py", "--note", 'it\'s a $HOME "quoted" note'), "cpu", nnodes=2),
]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
@pytest.mark.parametrize("target", ["slurm", "torchrun"])
def test_a_script_to_submit_is_whole_bash(target: str, job: Job) -> None:
    text = written_for(target, job)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True, timeout=60)
    assert text.startswith("#!/bin/bash\n")
    assert "FILL_IN" in text


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_slurm_starts_one_launcher_a_node_with_the_words_as_they_were(job: Job, tmp_path: Path) -> None:
    """Run for real, with a cluster that is two small scripts."""
    for name, text in {
        "scontrol": "echo node0; echo node1",
        "srun": 'shift; SLURM_NODEID=1 exec "$@"',
        "trueloop": "printf '%s\\n' \"$@\"",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "1234567", "SLURM_JOB_NODELIST": "node[0-1]"}
    done = subprocess.run(
        ["bash"],
        input=written_for("slurm", job),
        env=environment,
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    words = done.stdout.splitlines()
    assert words[0] == "launch"
    assert words[words.index("--") + 1 :] == list(job.command[2:] if job.command[0] == "-m" else job.command)
    if job.nnodes > 1:
        assert words[words.index("--node-rank") + 1] == "1"
        assert rendezvous_of(words[words.index("--rendezvous") + 1]) == Rendezvous("node0", 20000 + 1234567 % 40000)
    directives = [line for line in written_for("slurm", job).splitlines() if line.startswith("#SBATCH")]
    assert f"#SBATCH --nodes={job.nnodes}" in directives
    assert not any("=FILL_IN" in line for line in directives), "Slurm would read it"


def documents(text: str) -> list[Any]:
    """The YAML that we write: maps, lists, scalars; comments after two spaces. PyYAML reads it too, where it is
    installed."""
    parts = [
        [line for line in part.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        for part in text.split("\n---\n")
    ]
    return [_block(lines)[0] for lines in parts]


def _block(lines: list[str]) -> tuple[object, list[str]]:
    depth = len(lines[0]) - len(lines[0].lstrip())
    if lines[0].lstrip().startswith("- "):
        items = []
        while lines and len(lines[0]) - len(lines[0].lstrip()) == depth and lines[0].lstrip().startswith("- "):
            rest = lines[0][depth + 2 :]
            if rest.startswith('"'):
                items.append(json.loads(rest))
                lines = lines[1:]
                continue
            item, lines = _block([" " * (depth + 2) + rest, *lines[1:]])
            items.append(item)
        return items, lines
    found: dict[str, object] = {}
    while lines and len(lines[0]) - len(lines[0].lstrip()) == depth and not lines[0].lstrip().startswith("- "):
        name, colon, value = lines[0].strip().partition("  #")[0].partition(":")
        assert colon, lines[0]
        assert name not in found, lines[0]
        lines = lines[1:]
        if value.strip():
            found[name] = json.loads(value) if value.strip()[0] in '[{"' else value.strip()
        else:
            assert lines[0].startswith(" " * (depth + 2)), lines[0]
            found[name], lines = _block(lines)
    return found, lines


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_kubernetes_gets_a_headless_service_and_an_indexed_job(job: Job) -> None:
    text = written_for("kubernetes", job)
    service, work = documents(text)
    assert (service["kind"], work["kind"], work["apiVersion"]) == ("Service", "Job", "batch/v1")
    spec = work["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == (
        "Indexed",
        str(job.nnodes),
        str(job.nnodes),
    )
    assert spec["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    container = spec["template"]["spec"]["containers"][0]
    words = shlex.split(container["args"][0])
    assert words[:3] == ["exec", "trueloop", "launch"]
    assert words[words.index("--") + 1 :] == list(job.command[2:] if job.command[0] == "-m" else job.command)
    if job.nnodes > 1:
        assert str(rendezvous_of(words[words.index("--rendezvous") + 1])) == f"{job.name}-0.{job.name}:29500"


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_kubernetes_is_read_by_a_parser_of_yaml_with_numbers_as_numbers_and_words_as_words(job: Job) -> None:
    import yaml  # here: where it is missing, this test fails, and no other

    text = written_for("kubernetes", job)
    service, work = yaml.safe_load_all(text)
    assert (service["apiVersion"], service["kind"], service["spec"]["clusterIP"]) == ("v1", "Service", "None")
    assert (work["apiVersion"], work["kind"], work["spec"]["completionMode"]) == ("batch/v1", "Job", "Indexed")
    assert (work["spec"]["completions"], work["spec"]["parallelism"]) == (job.nnodes, job.nnodes)
    (container,) = work["spec"]["template"]["spec"]["containers"]
    assert all(isinstance(word, str) for word in (*container["command"], *container["args"]))
    assert shlex.split(container["args"][0])[:3] == ["exec", "trueloop", "launch"]
    for variable in container.get("env", ()):
        assert isinstance(variable["name"], str)
        assert isinstance(variable.get("value", ""), str), "Kubernetes refuses a number there"
    assert _as_words([service, work]) == documents(text), "the small reader of these tests reads the same"


def _as_words(value: Any) -> Any:
    """Scalars as they are written: the small reader knows no numbers outside of JSON."""
    if isinstance(value, dict):
        return {key: _as_words(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_words(item) for item in value]
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_names_are_those_that_kubernetes_takes(job: Job) -> None:
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", job.name)
    assert len(job.name) <= 40


def test_gpus_are_asked_for_only_where_they_are_used() -> None:
    assert "--gpus-per-node=8" in written_for("slurm", JOBS[1])
    assert "nvidia.com/gpu: 8 " in written_for("kubernetes", JOBS[1])
    for target in ("slurm", "kubernetes"):
        assert "gpu" not in written_for(target, JOBS[2]).replace("GPUs", "")


def test_each_target_says_how_it_is_submitted() -> None:
    said = {target: JOBS[0].how_to_submit(target, "job") for target in TARGETS}
    assert {target: words.rpartition(": ")[2].split()[0] for target, words in said.items()} == {
        "slurm": "sbatch",
        "kubernetes": "kubectl",
        "skypilot": "sky",
        "torchrun": "bash",
    }


@pytest.mark.parametrize(("nproc", "nnodes", "restarts"), [("0", 1, 0), ("many", 1, 0), ("1", 0, 0), ("1", 1, -1)])
def test_a_job_that_cannot_be_is_not_written(nproc: str, nnodes: int, restarts: int) -> None:
    with pytest.raises(Misuse, match="Nothing was written"):
        Job(DIGITS, nproc, nnodes, restarts)


def test_torchrun_on_several_nodes_asks_for_what_it_must_know() -> None:
    text = written_for("torchrun", JOBS[1])
    done = subprocess.run(
        ["bash"], input=text, env={"PATH": "/usr/bin:/bin"}, text=True, capture_output=True, timeout=60
    )
    assert done.returncode != 0
    assert "NODE_RANK=0 on the first, up to 1" in done.stderr


@pytest.mark.long
def test_the_torchrun_script_trains(tmp_path: Path) -> None:
    """Two processes under plain torchrun, started by the file that `--print` writes."""
    recipe_in(tmp_path)
    assert (
        trueloop(
            tmp_path, "launch", "--print", "torchrun", "--nproc", "2", "--output", "job.sh", "--", "train", "shared.py"
        ).code
        == 0
    )
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        ["bash", "job.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished") == 1
    assert len(losses(tmp_path, "shared")) == 20
