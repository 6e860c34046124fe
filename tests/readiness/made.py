"""A run's folder made by hand, in which all is well; each test changes one thing of it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from trueloop.checkpoint.store import Folder
from trueloop.claims.catalogue import ORDER
from trueloop.readiness.gather import readiness_of
from trueloop.recipe.recipe import Recipe, describe
from trueloop.results.proof import Proof, Proofs, write_proofs
from trueloop.results.readiness import Readiness, Statement

__all__ = ["CLAIMS", "changed", "line", "made", "readiness"]

CLAIMS = ORDER

RECIPE: dict[str, Any] = {
    **describe(Recipe("mine", lambda: None, lambda _: None, epochs=2, clip=1.0)),
    "model": "net",
    "data": "read",
}
ABOUT: dict[str, Any] = {
    "format": 1,
    "kind": "train",
    "name": "mine",
    "started": 1000.0,
    "recipe": RECIPE,
    "origin": {"recipe": "mine.py", "arguments": {}, "settings": {"lr": "0.1"}},
    "data": None,
    "machine": {"trueloop": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "cpus": 2, "cuda": None},
    "status": "finished",
    "total_steps": 20,
    "metric": "accuracy",
    "higher_is_better": True,
    "step": 20,
    "message": "",
    "best": 0.9,
    "best_step": 20,
    "test": {"accuracy": 0.88},
}
FACTS: dict[str, Any] = {
    "format": 1,
    "model": {"class": "Net", "parameters": 120, "trained": 100, "frozen": 20},
    "loss": {"name": "cross entropy", "own": False, "task": "multiclass"},
    "optimizer": {
        "class": "AdamW",
        "held": 100,
        "groups": [{"parameters": 100, "lr": 0.001, "weight_decay": 0.0}],
        "count": 1,
    },
    "device": {"name": "cpu", "precision": "fp32", "compile": "off", "processes": 1, "memory": 8_000_000_000},
    "validation": {"modules": 4, "in_train_mode": 0, "graphs": False, "weights": "model"},
    "inputs": {
        "kind": "numbers",
        "samples": 8,
        "values": 64,
        "not_finite": 0,
        "mean": 0.1,
        "std": 1.1,
        "min": -2.0,
        "max": 3.0,
    },
    "data": {
        "train": 800,
        "valid": 200,
        "test": 100,
        "bytes": 1_000_000,
        "where": "resident",
        "workers": 0,
        "steps_per_epoch": 10,
    },
    "leakage": {"train_valid": {"repeated": 0, "compared": 200, "against": 800}},
    "samples": {"train": {"read": 800, "digest": "ab"}, "valid": {"read": 200, "digest": "cd"}},
    "classes": {"train": {"0": 300, "1": 500}, "valid": {"0": 80, "1": 120}},
    "baseline": {"metric": "accuracy", "answer": "always '1'", "value": 0.6, "train": 800, "valid": 200},
    "missing": {},
    "seconds": 0.01,
}
SPEED: dict[str, Any] = {"samples_per_second": 400.0, "data_wait": 0.02, "memory_mb": 300.0}
ROWS: list[dict[str, Any]] = [
    *(
        {"kind": "train", "step": step, "epoch": 1.0, "loss": 1.0, "gradient_norm": 0.5, **SPEED}
        for step in (4, 8, 12, 16, 20)
    ),
    {"kind": "valid", "step": 20, "epoch": 2.0, "best": True, "accuracy": 0.9, "loss": 0.3},
    {"kind": "test", "step": 20, "epoch": 2.0, "accuracy": 0.88, "loss": 0.4},
]
REPORT: dict[str, Any] = {
    "version": 1,
    "findings": [],
    "watched": {"rules": 15, "steps": 20, "allowed": 0, "failures": []},
    "not_applicable": [],
}
FILES: dict[str, Any] = {"run.json": ABOUT, "facts.json": FACTS, "metrics.jsonl": ROWS, "report.json": REPORT}


def made(folder: Path, name: str = "mine", **files: Any) -> Path:
    """runs/NAME. `files`: other contents, by the file's stem; None: without the file."""
    path = folder / "runs" / name
    path.mkdir(parents=True)
    for file, usual in FILES.items():
        told = files.get(Path(file).stem, usual)
        if told is not None:
            lines = file.endswith(".jsonl")
            (path / file).write_text(
                "".join(json.dumps(row) + "\n" for row in told) if lines else json.dumps(told), encoding="utf-8"
            )
    if files.get("checkpoints", True):
        training: dict[str, Any] = {part: {} for part in ("state", "optimizer", "precision", "guard", "random")}
        written = {
            "model.safetensors": lambda out: out.write(save({"weight": torch.zeros(2)})),
            "training.pt": lambda out: torch.save(training, out),
        }
        Folder(path / "checkpoints").write("step-00000020", {"step": 20, "best_step": 20}, written)
    proofs = files.get(
        "proofs", [Proof(claim, "holds", f"seen {number} times", "seen") for number, claim in enumerate(CLAIMS)]
    )
    if proofs is not None:
        write_proofs(path, Proofs(str(path), tuple(proofs)))
    return path


def changed(file: str, **values: Any) -> Any:
    """The contents of a file with other values: changed('facts.json', data__valid=None); in rows, every row that has
    the name."""
    told = copy.deepcopy(FILES[file])
    for name, value in values.items():
        *way, last = name.split("__")
        for row in told if isinstance(told, list) else [told]:
            at = row
            for key in way:
                at = at[key]
            if not isinstance(told, list) or last in at:
                at[last] = value
    return told


def readiness(path: Path, baseline: Path | None = None) -> Readiness:
    return readiness_of(path, CLAIMS, baseline)


def line(read: Readiness, text: str) -> Statement:
    """The one statement with this text in it."""
    (found,) = (each for each in read.statements if text in each.text)
    return found
