"""What an export is tried on: batches of several sizes, shorter sequences, samples from all over the data."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.export.made import artifact, shades, subject, verification
from trueloop.data.source import Batch, Source, Splits
from trueloop.errors import CannotExport, MissingExtra
from trueloop.export.exporter import Exporter
from trueloop.export.safetensors import Safetensors
from trueloop.export.subprocess_runner import RuntimeFailure, _load, _save
from trueloop.export.torchscript import Torchscript
from trueloop.export.verify import SIZES, _batches, _sizes, verify
from trueloop.results.artifact import Port


@given(st.integers(1, 2000), st.integers(1, 100))
def test_the_sizes_of_batches_add_up_to_all_samples(samples: int, limit: int) -> None:
    sizes = list(_sizes(samples, limit))
    assert sum(sizes) == samples
    assert max(sizes) <= min(limit, SIZES[-1])
    assert sizes[0] == 1


def test_the_sizes_are_one_two_an_odd_one_and_many() -> None:
    assert list(_sizes(200, 64)) == [1, 2, 7, 32, 64, 64, 30]
    assert list(_sizes(20, 64)) == [1, 2, 7, 10]


def _asked(exporter: Exporter, samples: int | None) -> list[tuple[torch.Tensor, ...]]:
    made = subject()
    program = made.program()
    ports = (Port("input", "uint8", (None, 1, 3, 4)),)
    return [batch.inputs for batch in _batches(made, program, exporter, ports, samples)]


def test_all_samples_are_tried_when_all_are_asked_for() -> None:
    assert sum(len(given_[0]) for given_ in _asked(Torchscript(), None)) == 50


def test_fewer_samples_are_spread_over_all_of_them() -> None:
    raw = torch.cat([given_[0] for given_ in _asked(Torchscript(), 5)])
    source = shades().train
    assert torch.equal(raw, source.fetch(torch.tensor([0, 10, 20, 30, 40])).inputs)


def test_weights_alone_are_given_what_was_prepared() -> None:
    assert {given_[0].dtype for given_ in _asked(Safetensors(), 10)} == {torch.float32}
    assert {given_[0].dtype for given_ in _asked(Torchscript(), 10)} == {torch.uint8}


def test_a_limit_of_the_target_is_kept() -> None:
    made = subject()
    ports = (Port("input", "uint8", (None, 1, 3, 4), (4, None, None, None)),)
    sizes = [len(batch.inputs[0]) for batch in _batches(made, made.program(), Torchscript(), ports, None)]
    assert max(sizes) == 4


def _answering(monkeypatch: pytest.MonkeyPatch, error: float) -> None:
    """A runtime that answers as the model does, but for this much in one score."""
    program = subject().program()

    def run(folder: Path, batches: list[list[np.ndarray]], device: str) -> list[list[np.ndarray]]:
        answers = [program.answer([torch.from_numpy(each) for each in batch])[0].numpy().copy() for batch in batches]
        answers[0][0, 0] += error
        return [[answer] for answer in answers]

    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run)
    monkeypatch.setattr("trueloop.export.verify._first_differing", lambda *_: "The first differing layer is none.")


@pytest.mark.parametrize("error", [0.0, 5e-5])
def test_within_the_tolerance_it_passes(monkeypatch: pytest.MonkeyPatch, error: float) -> None:
    _answering(monkeypatch, error)
    made = subject()
    verified = verify(made, made.program(), Torchscript(), artifact(), 1e-4, None)
    assert verified.passed
    assert verified.max_error == pytest.approx(error, abs=1e-6)
    assert verified.samples == 50
    assert verified.split == "valid"
    assert verified.lengths == ()


@pytest.mark.parametrize(
    ("error", "said"), [(3e-4, "no predictions differ"), (100.0, "predictions differ"), (math.nan, "inf")]
)
def test_outside_the_tolerance_it_fails_with_the_layer(
    monkeypatch: pytest.MonkeyPatch, error: float, said: str
) -> None:
    _answering(monkeypatch, error)
    made = subject()
    with pytest.raises(CannotExport, match=said) as caught:
        verify(made, made.program(), Torchscript(), artifact(), 1e-4, None)
    assert "The first differing layer is none. Nothing was exported." in str(caught.value)


def test_a_wider_tolerance_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    _answering(monkeypatch, 3e-4)
    made = subject()
    assert verify(made, made.program(), Torchscript(), artifact(), 1e-3, None).passed


def test_a_batch_that_the_runtime_cannot_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(folder: Path, batches: list[list[np.ndarray]], device: str) -> list[list[np.ndarray]]:
        raise RuntimeFailure(1, "Invalid dimension")

    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run)
    made = subject()
    with pytest.raises(
        CannotExport,
        match=r"no-such-runtime could not run the batch \[2, 1, 3, 4\]: Invalid dimension\. Nothing was exported",
    ):
        verify(made, made.program(), Torchscript(), artifact(), 1e-4, None)


def test_a_package_that_is_missing_over_there_is_no_fault_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(folder: Path, batches: list[list[np.ndarray]], device: str) -> list[list[np.ndarray]]:
        raise MissingExtra("pip install it")

    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run)
    made = subject()
    with pytest.raises(MissingExtra):
        verify(made, made.program(), Torchscript(), artifact(), 1e-4, None)


def test_arrays_come_over_in_their_order(tmp_path: Path) -> None:
    batches = [[np.full(2, number), np.array([number], dtype=np.uint8)] for number in range(12)]
    _save(tmp_path / "arrays.npz", batches)
    back = _load(tmp_path / "arrays.npz")
    assert [[array.tolist() for array in batch] for batch in back] == [
        [array.tolist() for array in batch] for batch in batches
    ]
    assert back[3][1].dtype == np.uint8


class Drawing(Source):
    """Samples that are drawn anew each time they are asked for."""

    def __len__(self) -> int:
        return 9

    def fetch(self, numbers: torch.Tensor) -> Batch:
        return Batch(
            torch.randint(0, 256, (len(numbers), 1, 3, 4), dtype=torch.uint8), torch.zeros(len(numbers)).long()
        )


def test_samples_that_are_drawn_are_the_same_each_time_and_move_nothing() -> None:
    made = subject(splits=Splits(Drawing(), facts=shades().facts, prepare=shades().prepare))
    before = torch.get_rng_state()
    first, second = (made.fetch(torch.arange(4)).inputs for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_verification_says_that_it_failed() -> None:
    assert not verification(max_error=1.0).passed
