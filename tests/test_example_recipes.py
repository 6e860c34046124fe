"""Every example recipe reaches the score that docs/training/examples.md states, in a run without findings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trueloop.session.folder import read_about

EXAMPLES = Path(__file__).parent.parent / "examples"

SCORES = {
    "gan": ("covered", 0.85),
    "ppo": ("reward", 400.0),
    "dqn": ("reward", 200.0),
    "diffusion": ("distance", 0.12),
    "distillation": ("student", 0.95),
    "segmentation": ("iou", 0.8),
}


def trained(recipe: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "trueloop", "train", recipe, "--quiet"]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    about: dict[str, Any] = read_about(next(each for each in (folder / "runs").iterdir() if each.is_dir()))
    return about


@pytest.mark.long
@pytest.mark.parametrize("example", SCORES)
def test_it_reaches_its_score(example: str, tmp_path: Path) -> None:
    metric, score = SCORES[example]
    about = trained(str(EXAMPLES / f"{example}.py"), tmp_path)
    assert about["metric"] == metric
    assert about["best"] >= score if about["higher_is_better"] else about["best"] <= score
    assert '"findings": []' in (tmp_path / "runs" / example / "report.json").read_text(encoding="utf-8")


@pytest.mark.long
def test_fine_tuning_beats_the_same_labels_alone(tmp_path: Path) -> None:
    trained("digits", tmp_path)
    known = _test_accuracy(tmp_path, "runs/digits")
    alone = _test_accuracy(tmp_path, "")
    assert known >= 0.95
    assert known > alone


@pytest.mark.long
def test_lora_starts_from_local_weights_and_saves_an_adapter(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    _python(tmp_path, "lora.py")
    trained(str(EXAMPLES / "lora.py"), tmp_path)
    about = read_about(tmp_path / "runs" / "lora")
    assert about["test"]["accuracy"] >= 0.93
    assert '"findings": []' in (tmp_path / "runs" / "lora" / "report.json").read_text(encoding="utf-8")
    _python(tmp_path, "lora.py", "runs/lora")
    assert (tmp_path / "runs/lora/adapter/adapter_model.safetensors").stat().st_size < 50_000


def _python(folder: Path, example: str, *words: str) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / example), *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _test_accuracy(folder: Path, weights: str) -> float:
    name = "known" if weights else "alone"
    settings = ["--set", f"weights={weights}"] + ([] if weights else ["--set", "start_map=none"])
    command = [sys.executable, "-m", "trueloop", "train", str(EXAMPLES / "fine_tune.py"), "--name", name, *settings]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return float(read_about(folder / "runs" / name)["test"]["accuracy"])
