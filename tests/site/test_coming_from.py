"""The side-by-side code runs and learns, where its framework is installed; the table counts today's lines."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import in_child
from tests.docs_blocks import DOCS, python_blocks
from tests.engine.strangers.jobs import Job
from tests.engine.strangers.jobs import table as table_of_all_jobs
from tests.frameworks.running import PYTHON as FRAMEWORKS
from tests.site.ten_jobs import CODE, JOBS, PAGE, VERSIONS, code_page, page_with_table

JOB, PLAIN, LIGHTNING, TRAINER, ACCELERATE, TRUELOOP = python_blocks("coming-from.md")


def write(folder: Path, code: str) -> Path:
    (folder / "job.py").write_text(JOB, encoding="utf-8")
    (folder / "train.py").write_text(code, encoding="utf-8")
    return folder / "train.py"


def accuracy(printed: str) -> float:
    return float(re.findall(r"accuracy ([\d.]+)", printed)[-1])


def python_with(package: str) -> str:
    python = sys.executable if find_spec(package) else str(FRAMEWORKS)
    if not Path(python).is_file():
        pytest.skip(f"{package} is not installed: `make frameworks`")
    return python


@pytest.mark.parametrize("code", [PLAIN, TRUELOOP], ids=["plain", "trueloop"])
def test_the_job_is_learned(code: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = write(tmp_path, code)

    def work() -> None:
        os.chdir(tmp_path)
        sys.path.insert(0, str(tmp_path))
        runpy.run_path(str(script), run_name="__main__")

    in_child(work)
    assert accuracy(capfd.readouterr().out) > 0.9


def test_the_trainer_and_accelerate_run_in_every_ci() -> None:
    """The tests below would otherwise be skipped where CI installs only what `dev` names."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = {re.split(r"\W", need)[0] for need in [*extras["dev"], *extras["peft"]]}
    assert {"transformers", "accelerate"} <= named
    assert "peft" in re.findall(r"\w+", extras["dev"][0])


@pytest.mark.parametrize(
    ("package", "code"),
    [
        pytest.param("lightning", LIGHTNING, marks=pytest.mark.long, id="lightning"),  # has its own environment
        pytest.param("transformers", TRAINER, id="trainer"),
        pytest.param("accelerate", ACCELERATE, id="accelerate"),
    ],
)
def test_the_job_is_learned_in_a_framework(package: str, code: str, tmp_path: Path) -> None:
    python = python_with(package)
    script = write(tmp_path, code)
    done = subprocess.run([python, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert accuracy(done.stdout) > 0.9


LOSSES = """
import importlib, json, multiprocessing, os, sys, tempfile
from transformers import Trainer

def losses(folder):
    os.chdir(tempfile.mkdtemp(dir="."))
    sys.path.insert(0, folder)
    found = {name: importlib.import_module(name).main() for name in ("plain", "trainer_version")}
    return {**found, "saves": os.listdir("out")}

# Importing transformers takes longer than a job: once, and a forked process for each job, whose modules have one name.
with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    print("losses", json.dumps(pool.map(losses, sys.argv[1:], chunksize=1)))
"""


@pytest.mark.parametrize("name", JOBS)
def test_the_version_of_a_job_for_the_trainer_is_python(name: str) -> None:
    file = Job(name).folder / "trainer_version.py"
    compile(file.read_text(encoding="utf-8"), str(file), "exec")


def test_the_losses_of_each_job_in_the_trainer_are_those_of_the_plain_loop(tmp_path: Path) -> None:
    command = [python_with("transformers"), "-c", LOSSES, *(str(Job(name).folder) for name in JOBS)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.rpartition("losses ")[2])
    for name, answer in zip(JOBS, answers, strict=True):
        assert len(answer["plain"]) >= 20, name
        assert answer["trainer_version"] == pytest.approx(answer["plain"], rel=2e-4, abs=1e-5), name
        assert any(save.startswith("checkpoint-") for save in answer["saves"]), name


def test_the_table_counts_the_lines_of_ten_jobs() -> None:
    assert len(JOBS) == 10
    text = PAGE.read_text(encoding="utf-8")
    assert text == page_with_table(text), "run `make docs`"
    assert PAGE.parent == DOCS


def test_the_page_of_ten_jobs_has_the_code_that_the_tests_run() -> None:
    text = CODE.read_text(encoding="utf-8")
    assert text == code_page(), "run `make docs`"
    assert all(text.count(f'=== "{tool}"') == 10 for tool in ("job.py", *VERSIONS.values()))
    assert f"]({CODE.name})" in PAGE.read_text(encoding="utf-8")


def test_the_page_of_all_jobs_counts_their_lines() -> None:
    page = (DOCS / "training" / "beside-lightning.md").read_text(encoding="utf-8")
    assert table_of_all_jobs() in page, "the lines have changed: `python -m tests.engine.strangers.jobs`"
