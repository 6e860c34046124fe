"""Nothing growth_of from step to step: planted leaks with who holds them, and healthy look-alikes that fill up or are
emptied."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import net, try_recipe, try_script
from trueloop.claims import memory_watch
from trueloop.claims.memory_watch import MemoryLog
from trueloop.claims.no_memory_growth import (
    KEEPS_CHAIN,
    KEEPS_GRAPHS,
    KEEPS_HOOKS,
    KEEPS_MEMORY,
    KEEPS_TENSORS,
    NoMemoryGrowth,
    growth_of,
    read_log,
)
from trueloop.results.proof import Proof

NAME = "no-memory-growth"

SCRIPT = """\
import collections, numpy, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
x = torch.randn(64, 4)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
kept, total, cache, recent = [], 0.0, {{}}, collections.deque(maxlen={bound})
def train():
    global total
    for epoch in range({epochs}):
        for a, b in torch.utils.data.DataLoader(data, batch_size={batch}):
            optimizer.zero_grad()
            output = model(a)
            loss = nn.functional.mse_loss(output, b)
            loss.backward()
            optimizer.step()
            {each}
        {after}
train()
"""


def written(each: str, after: str = "pass", *, bound: int = 8, epochs: int = 5, batch: int = 8) -> str:
    return SCRIPT.format(each=each, after=after, bound=bound, epochs=epochs, batch=batch)


def tried(scratch: Path, text: str, *options: str, steps: int = 40) -> Proof | MemoryLog:
    """As the claim's child does it, but forked from this warm process: a tenth of the time. MemoryLog: the claim asks for
    the lines, too."""  # noqa: E501
    (scratch / "train.py").write_text(text, encoding="utf-8")
    child = os.fork()
    if child == 0:
        try:
            memory_watch.main(str(scratch / "out.json"), str(steps), *options, str(scratch / "train.py"))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    told = json.loads((scratch / "out.json").read_text(encoding="utf-8"))
    assert told["taken"] == steps
    seen = read_log(told)
    return NoMemoryGrowth().result(seen) or seen


def proof_of(scratch: Path, text: str, **options: Any) -> Proof:
    proof = tried(scratch, text, **options)
    assert isinstance(proof, Proof)
    return proof


@pytest.mark.parametrize(
    ("each", "holder", "cause"),
    [
        ("kept.append(loss)", "the list `kept` of the script", KEEPS_GRAPHS),
        pytest.param(
            "kept.append(output.detach())", "the list `kept` of the script", KEEPS_TENSORS, marks=pytest.mark.long
        ),
        pytest.param(
            "cache.setdefault(epoch, []).append(output)",
            "the dict `cache` of the script",
            KEEPS_GRAPHS,
            marks=pytest.mark.long,
        ),
        ("total = total + loss", "the variable `total` of the script", KEEPS_CHAIN),
        pytest.param(
            "model[0].register_forward_hook(lambda *_: None)",
            "the module or tensor they were registered on",
            KEEPS_HOOKS,
            marks=pytest.mark.long,
        ),
    ],
    ids=["losses", "outputs", "lists in a dict", "sum", "hooks"],
)
def test_a_script_that_leaks(tmp_path: Path, each: str, holder: str, cause: Any) -> None:
    proof = proof_of(tmp_path, written(each))
    assert proof.result == "fails", proof.measured
    assert proof.place is not None
    assert proof.place.line == 18
    assert holder in proof.measured
    assert proof.causes[0] is cause


def test_what_leaks_is_told_with_the_line_that_makes_it(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, written("kept.append(loss)"), steps=30)
    assert "grow by 1 a step" in proof.measured
    assert "shape [], float32 with their graphs" in proof.measured
    assert str(proof.evidence["created_at"]).endswith("train.py:15")
    assert str(proof.evidence["stored_at"]).endswith("train.py:18")


@pytest.mark.long
def test_arrays_that_no_tensor_stands_behind(tmp_path: Path) -> None:
    text = written("kept.append(numpy.ones(200_000))")
    seen, again = tried(tmp_path, text), tried(tmp_path, text, "--lines")
    assert isinstance(seen, MemoryLog)
    assert isinstance(again, MemoryLog)
    proof = NoMemoryGrowth().by_lines(seen, again)
    assert proof.result == "fails", proof.measured
    assert proof.place is not None
    assert proof.place.line == 18
    assert proof.causes[0] is KEEPS_MEMORY
    assert float(str(proof.evidence["megabytes_per_step"])) == pytest.approx(1.53, rel=0.3)
    assert NoMemoryGrowth().by_lines(seen, replace(again, lines=[])).result == "unproved"


@pytest.mark.long
def test_a_list_that_may_be_emptied_at_the_end_of_the_pass(tmp_path: Path) -> None:
    proof = proof_of(tmp_path, written("kept.append(output.detach())", batch=2), steps=30)
    assert proof.result == "unproved"
    assert "one pass over the loader" in proof.measured
    assert "the list `kept`" in proof.measured


@pytest.mark.parametrize(
    ("each", "after"),
    [
        ("kept.append(loss.item())", "pass"),
        pytest.param("kept.append(output.detach())", "kept.clear()", marks=pytest.mark.long),
        ("cache[len(cache) % 6] = output.detach()", "pass"),
        pytest.param("recent.append(output.detach())", "pass", marks=pytest.mark.long),
        pytest.param("kept.append(loss.detach())", "pass", marks=pytest.mark.long),
        ("pass", "kept.append(output.detach())"),
        pytest.param("model[0].register_forward_hook(lambda *_: None).remove()", "pass", marks=pytest.mark.long),
    ],
    ids=["numbers", "emptied", "cache", "buffer", "log", "one in a pass", "removed hook"],
)
def test_a_script_that_does_not(tmp_path: Path, each: str, after: str) -> None:
    assert proof_of(tmp_path, written(each, after)).result == "holds"


def test_a_buffer_that_is_bounded_and_not_full_yet(tmp_path: Path) -> None:
    proof = proof_of(tmp_path, written("recent.append(output.detach())", bound=1000))
    assert proof.result == "holds", proof.measured
    assert "the deque `recent` of the script fills up, and is bounded" in proof.measured


def test_a_script_with_too_few_steps(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, written("pass", epochs=1), steps=30)  # ends by itself
    assert proof.result == "unproved"
    assert "8 optimizer steps" in proof.measured


class Remembers(nn.Module):
    """Keeps what it has answered."""

    def __init__(self, detached: bool = False) -> None:
        super().__init__()
        self.inner, self.detached = net(), detached
        self.answers: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.inner(x)
        if self.training:
            self.answers.append(answer.detach() if self.detached else answer)
        return answer


class Tabled(nn.Module):
    """Makes a table for each size that it meets, once."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = net()
        self.table: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        self.table.setdefault(len(x), torch.ones(len(x), 1))
        return self.inner(x) * self.table[len(x)]  # type: ignore[no-any-return]


@pytest.mark.parametrize("detached", [False, True])
def test_a_recipe_whose_model_keeps_its_answers(tmp_path: Path, detached: bool) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: Remembers(detached))
    assert proof.result == "fails"
    assert "the list `answers` of a Remembers" in proof.measured
    assert proof.causes[0] is (KEEPS_TENSORS if detached else KEEPS_GRAPHS)
    assert proof.place is not None
    lines = Path(__file__).read_text("utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.strip().startswith("self.answers.append"))
    assert (Path(proof.place.path).name, proof.place.line) == (Path(__file__).name, line)


@pytest.mark.parametrize(
    "changes", [{}, {"model": Tabled}, {"ema": 0.9, "accumulate": 2}, {"where": "loader"}], ids=str
)
@pytest.mark.long
def test_a_healthy_recipe(tmp_path: Path, changes: dict[str, Any]) -> None:
    proof = try_recipe(NAME, tmp_path, **changes)
    assert proof.result == "holds", proof.measured


def test_what_is_growth_and_what_is_not() -> None:
    steps = range(60)
    assert growth_of([100 + step for step in steps])
    assert growth_of([100 + step // 4 for step in steps])
    assert growth_of([100 + step + step % 3 for step in steps])
    assert growth_of([100 + step + 40 * (step % 12 == 11) for step in steps]), "with a save now and then"
    assert not growth_of([100] * 60)
    assert not growth_of([100 + 40 * (step % 12 == 11) for step in steps]), "a save now and then"
    assert not growth_of([100 + min(step, 20) for step in steps]), "fills up"
    assert not growth_of([100 + step % 15 for step in steps]), "emptied now and then"
    assert not growth_of([100 + step % 2 for step in steps]), "two optimizers by turns"
    assert not growth_of([100 + step * step % 17 for step in steps]), "noise"
    assert not growth_of(list(range(10))), "too few"
    assert not growth_of([step / 100 for step in steps], least=1.0), "too little"
    found = growth_of([100 + 2 * step for step in steps])
    assert found is not None
    assert found.per_step == 2
