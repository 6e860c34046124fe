"""Two runs give the same bits: what is planted is named, with its line; the healthy twins hold."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, try_recipe, try_script
from trueloop.claims import repeat_runs
from trueloop.claims.catalogue import claims_named
from trueloop.claims.first_difference import Difference, first_difference
from trueloop.claims.operation_trace import Batch, Entry, Start, Step, Trace, tracing
from trueloop.claims.repeat_runs import START, short_run_words, with_settings
from trueloop.claims.runs_are_deterministic import HASHES, NUMPY
from trueloop.claims.subject import RecipeSubject
from trueloop.measure.randomness import fence
from trueloop.recipe.recipe import DataRequest
from trueloop.recipes.catalogue import find_recipe

NAME = "runs-are-deterministic"

SCRIPT = """\
import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
{seed}
name = f"run-{{random.random()}}"
rows = torch.arange(64.0).reshape(16, 4) / 64
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(6):
    {pick}
    for (batch,) in DataLoader(TensorDataset(rows[chosen]), batch_size=4, shuffle=True):
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
"""
SEED = "torch.manual_seed(0)"
ALL = "chosen = torch.arange(16)"


def traced(folder: Path, text: str, start: Start) -> Trace:
    file = folder / "train.py"
    file.write_text(text, encoding="utf-8")
    with fence(), tracing(start) as trace:
        exec(compile(text, str(file), "exec"), {"__name__": "__main__"})
    return trace


def parted(folder: Path, seed: str = SEED, pick: str = ALL) -> Difference | None:
    text = SCRIPT.format(seed=seed, pick=pick)
    return first_difference(traced(folder, text, START["first"]), traced(folder, text, START["second"]))


def test_a_seeded_script_holds_whatever_its_name_is_drawn_from(tmp_path: Path) -> None:
    assert parted(tmp_path) is None


def test_weights_that_are_drawn_without_a_seed(tmp_path: Path) -> None:
    found = parted(tmp_path, seed="")
    assert found is not None
    assert (found.kind, found.operation, found.step) == ("torch", "uniform_", 1)
    assert found.place is not None
    assert found.place.line == 9


@pytest.mark.parametrize(
    ("pick", "kind", "operation"),
    [
        ("chosen = random.sample(range(16), 16)", "python", "random.sample"),
        ("chosen = np.random.permutation(16)", "numpy", "numpy.random.permutation"),
        ("chosen = np.random.default_rng().permutation(16)", "numpy", "numpy.random.default_rng"),
    ],
)
def test_samples_that_are_picked_by_another_generator(tmp_path: Path, pick: str, kind: str, operation: str) -> None:
    found = parted(tmp_path, pick=pick)
    assert found is not None
    suspect = found.suspects[0]
    assert (found.kind, suspect.kind, suspect.function) == ("outside", kind, operation)
    assert suspect.place is not None
    assert suspect.place.line == 12
    text = SCRIPT.format(seed=SEED, pick=pick)
    assert first_difference(traced(tmp_path, text, START["first"]), traced(tmp_path, text, START[kind])) is None
    assert (
        parted(tmp_path, "torch.manual_seed(0); random.seed(0); np.random.seed(0)", pick.replace("rng()", "rng(0)"))
        is None
    )


def test_a_number_that_comes_from_elsewhere(tmp_path: Path) -> None:
    found = parted(
        tmp_path,
        pick="import time; now = time.perf_counter_ns(); chosen = torch.arange(16) * 0 + now % 16; "
        "rows = rows * (1 + now % 9973)",
    )
    assert found is not None
    assert found.kind == "outside"
    assert found.place is not None
    assert found.place.line == 12


def test_memory_that_nobody_has_filled_is_not_taken_for_a_difference(tmp_path: Path) -> None:
    text = SCRIPT.format(
        seed=SEED,
        pick="scrap = torch.empty(5000) * 2; chosen = torch.empty(16, dtype=torch.long).copy_(torch.arange(16))",
    )
    one, other = (traced(tmp_path, text, START[run]) for run in ("first", "second"))
    assert first_difference(one, other) is None
    assert next(entry.raw for entry in one.operations if entry.name == "aten::mul.Tensor")
    assert not any(entry.raw for entry in one.operations if entry.name == "aten::copy_")


def test_the_trace_sees_backwards_batches_and_steps(tmp_path: Path) -> None:
    trace = traced(tmp_path, SCRIPT.format(seed=SEED, pick=ALL), START["first"])
    backward = next(entry for entry in trace.operations if entry.name == "aten::ones_like")
    assert trace.places[backward.place][1] == 15
    assert len(trace.steps) == 24
    assert [(batch.passed, batch.index) for batch in trace.batches[:5]] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert all(batch.order == "drawn" and batch.trained for batch in trace.batches)
    assert random.random.__qualname__ == "Random.random", "what was patched is put back"


def entries(*digests: int, arrived: int = 0, device: str = "cpu", draws: bool = False) -> Trace:
    made = [
        Entry(number, "aten::index_add_", digest, arrived, draws, False, device)
        for number, digest in enumerate(digests)
    ]
    return Trace(operations=made, steps=[Step(len(made), hash(digests))])


@pytest.mark.parametrize(
    ("change", "kind"),
    [({"device": "cuda"}, "device"), ({}, "computed"), ({"arrived": 1}, "outside"), ({"draws": True}, "torch")],
)
def test_what_kind_of_operation_parts(change: dict[str, Any], kind: str) -> None:
    first = {name: value for name, value in change.items() if name != "arrived"}
    found = first_difference(entries(1, 2, 3, **first), entries(1, 5, 6, **change))
    assert found is not None
    assert (found.kind, found.operation, found.compared, found.place) == (
        kind,
        "index_add_",
        0 if kind == "outside" else 1,
        None,
    )


def test_weights_may_part_where_no_operation_was_written_down() -> None:
    one, other = Trace(steps=[Step(1, 7), Step(2, 8)]), Trace(steps=[Step(1, 7), Step(2, 9)])
    assert first_difference(one, other) == Difference(2, "unknown")
    assert first_difference(one, Trace(steps=[Step(1, 7)])) == Difference(2, "length")
    batches = [[Batch(1, 0, 0, 0, digest, "drawn", 0)] for digest in (1, 2)]
    found = first_difference(
        *(
            replace(trace, batches=made, places=[("a.py", 3, "")])
            for trace, made in zip((one, other), batches, strict=True)
        )
    )
    assert found is not None
    assert (found.kind, found.place and found.place.line) == ("loader", 3)


SETS = """\
import torch
from torch import nn
torch.manual_seed(0)
words = {"red", "green", "blue", "black", "white", "grey", "pink", "brown"}
number = {word: float(index) for index, word in enumerate(ORDER)}
rows = torch.tensor([[number[word]] for word in sorted(words)])
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    (model(rows) - torch.arange(8.0)[:, None]).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.long  # four fresh processes, as forks share their order of hashes
def test_a_script_that_goes_by_the_order_of_a_set(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SETS.replace("ORDER", "words"))
    assert proof.result == "fails"
    assert proof.causes == (HASHES,)
    assert proof.place is not None
    assert proof.place.line == 6


@pytest.fixture
def same_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children with the hashes of this process: they need not be started afresh."""
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    monkeypatch.setattr(repeat_runs, "HASH_SEED", {})


@pytest.mark.usefixtures("same_hashes")
def test_its_healthy_twin(tmp_path: Path) -> None:
    assert try_script(NAME, tmp_path, SETS.replace("ORDER", "sorted(words)")).result == "holds"


# -- recipes --


class Drawn(nn.Module):
    """Its first layer is multiplied by numbers of a generator that nobody seeds."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, CLASSES)
        self.register_buffer("scale", torch.from_numpy(np.random.default_rng().normal(size=WIDTH).astype("float32")))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * self.scale)  # type: ignore[no-any-return, operator]


def test_a_recipe_whose_model_draws_by_a_generator_of_its_own(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Drawn)
    assert proof.result == "fails"
    assert proof.causes == (NUMPY,)
    assert proof.place is not None
    assert "default_rng()" in Path(__file__).read_text(encoding="utf-8").splitlines()[proof.place.line - 1]
    assert "default_rng" in proof.measured


def test_a_healthy_recipe(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path)
    assert proof.result == "holds"
    assert proof.evidence["steps"] == 40


RECIPE = """\
import sys
sys.path.insert(0, {root!r})
from tests.claims.subjects import CLASSES, WIDTH, nn, recipe as made, torch


def model():
    for name in {{"red", "green", "blue", "black", "white", "grey", "pink", "brown"}}:
        first = torch.tensor([float(ord(name[0]))])
    head = nn.Linear(WIDTH, CLASSES)
    nn.init.constant_(head.bias, first.item())
    return head


recipe = made(model=model, warmup=100)
"""
ROOT = str(Path(__file__).parents[2])


@pytest.mark.long
def test_a_recipe_in_a_file_is_run_in_processes_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "by_a_set.py"
    file.write_text(RECIPE.format(root=ROOT), encoding="utf-8")
    (claim,) = claims_named([NAME])
    proof = claim.try_recipe(RecipeSubject(find_recipe(str(file), {}), DataRequest(), (str(file),), tmp_path))
    assert proof.result == "fails", proof.measured
    assert proof.causes == (HASHES,)
    assert proof.place is not None
    assert (Path(proof.place.path).name, proof.place.line) == ("by_a_set.py", 8)


def test_the_words_of_a_recipe_for_a_short_run(tmp_path: Path) -> None:
    (tmp_path / "short_one.py").write_text(RECIPE.format(root=ROOT), encoding="utf-8")
    words = (str(tmp_path / "short_one.py"), "--set", "epochs=3", "--set", "lr=0.1")
    subject = RecipeSubject(find_recipe(words[0], {}), DataRequest(), words, tmp_path)
    short = short_run_words(subject, 40)
    assert "epochs=3" not in short
    assert {"steps=40", "lr=0.1", "warmup=10"} <= set(short)
    assert with_settings(("digits", "--set", "batch=8"), {"batch": 16}) == ("digits", "--set", "batch=16")
