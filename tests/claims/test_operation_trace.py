"""What is written down of a run: it is read back as it was, ends where it is told to, and leaves no trace in the
process."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from trueloop.claims.operation_trace import (
    TRACED_STEPS,
    Start,
    Trace,
    main,
    place_of,
    read_trace,
    short_name,
    tracing,
    write_trace,
)
from trueloop.claims.tensor_digest import bit_identical, differing_names, digest_of, digest_of_all
from trueloop.measure.randomness import fence

START = Start(1, 1, 1)


def train(steps: int = 30) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=4)
    for _ in range(steps // 2):
        for (x,) in loader:
            optimizer.zero_grad()
            (model(x) * random.random()).sum().backward()
            optimizer.step()


def traced(most_steps: int | None = None, most_operations: int = 20_000) -> Trace:
    with fence(), tracing(START, most_steps, most_operations) as trace:
        train()
    return trace


def test_a_trace_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    trace = traced()
    write_trace(trace, tmp_path / "trace.json")
    assert read_trace(tmp_path / "trace.json") == trace


def test_it_ends_after_so_many_steps() -> None:
    trace = traced(most_steps=5)
    assert (len(trace.steps), trace.ended) == (5, "cut")


def test_operations_are_written_down_for_some_steps_only() -> None:
    trace = traced()
    assert len(trace.steps) == 30
    assert trace.operations[-1].number < trace.steps[TRACED_STEPS].number
    assert len(traced(most_operations=7).operations) == 7
    bare = traced(most_operations=0)
    assert not bare.operations
    assert [step.digest for step in bare.steps] == [step.digest for step in trace.steps], "looking changes nothing"


def test_draws_and_lines_are_those_of_the_user() -> None:
    trace = traced(most_steps=3)
    draw = trace.draws[0]
    assert draw.name == "random.random"
    place = place_of(trace, draw.place)
    assert place is not None
    assert "random.random()" in Path(__file__).read_text(encoding="utf-8").splitlines()[place.line - 1]
    assert [(batch.order, batch.passed, batch.index) for batch in trace.batches] == [
        ("stored", 0, 0),
        ("stored", 0, 1),
        ("stored", 1, 0),
    ]
    assert place_of(trace, -1) is None


def test_everything_is_put_back() -> None:
    before = random.random, random.shuffle, np.random.permutation, np.random.default_rng
    traced(most_steps=1)
    assert before == (random.random, random.shuffle, np.random.permutation, np.random.default_rng)


def test_a_script_is_run_as_python_runs_it(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "trace.json"
    script.write_text(
        "import sys, torch\nif __name__ == '__main__':\n    torch.ones(int(sys.argv[1])) * 2\n    sys.exit(3)\n"
    )
    argv, path, own = list(sys.argv), list(sys.path), sys.modules["__main__"]
    try:
        with fence():
            assert main([str(out), "0", "100", "1:2:3", str(script), "5"]) == 3
    finally:
        sys.argv[:], sys.path[:], sys.modules["__main__"] = argv, path, own
    trace = read_trace(out)
    assert [short_name(entry.name) for entry in trace.operations] == ["ones", "mul"]
    assert trace.ended == "exit"


# -- digests --


def test_digests_tell_bits_shapes_and_types_apart() -> None:
    one = torch.tensor([0.0, 1.0])
    assert digest_of(one) == digest_of(one.clone())
    others = [torch.tensor([-0.0, 1.0]), one.double(), one[None], one + 2**-23, torch.tensor([float("nan"), 1.0])]
    assert len({digest_of(other) for other in (one, *others)}) == 6
    assert bit_identical(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert digest_of(torch.arange(6).reshape(2, 3).t()) == digest_of(torch.arange(6).reshape(2, 3).t().contiguous())


def test_what_cannot_be_read_is_told_by_its_shape() -> None:
    assert digest_of(torch.ones(2, device="meta")) != digest_of(torch.ones(3, device="meta"))
    assert digest_of(torch.ones(2, 2).to_sparse()) == digest_of(torch.zeros(2, 2).to_sparse())


def test_large_tensors_are_sampled_and_compared_whole() -> None:
    large = torch.zeros(200_000)
    other = large.clone()
    other[1] = 1
    assert digest_of(large, 1000) == digest_of(other, 1000)
    assert not bit_identical(large, other)
    assert digest_of_all({"a": [large]}, 1000) == digest_of_all(((other,),), 1000)


def test_states_are_compared_by_name() -> None:
    one, other = (
        {"a": torch.ones(2), "b": torch.ones(1), "n": 3},
        {"a": torch.ones(2), "b": torch.zeros(1), "n": 3, "c": torch.ones(1)},
    )
    assert differing_names(one, one) == []
    assert differing_names(one, other) == ["b", "c"]
