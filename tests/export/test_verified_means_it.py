"""What passed for verified and was not: small outputs, changed metrics, NaN, and inputs that no sample resembles."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.export.made import Shades, artifact, run_here, shades, subject
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import CannotExport
from trueloop.export.beyond_data import MANY, inputs_beyond_data
from trueloop.export.compare import Comparison
from trueloop.export.export_model import export_model
from trueloop.export.pt2 import Pt2
from trueloop.export.rounding import RoundedModel
from trueloop.export.subprocess_runner import RuntimeFailure
from trueloop.export.torchscript import Torchscript
from trueloop.export.trained_model import TrainedModel
from trueloop.export.verify import _Batch, _changed_metrics, _differs_beyond, verify
from trueloop.results.artifact import OWN, Port, Verification, prediction_of

Runtime = Callable[[Tensor, Tensor], Tensor]


def verified(
    monkeypatch: pytest.MonkeyPatch, made: TrainedModel, runtime: Runtime, port: Port, tolerance: float = 1e-4
) -> Verification:
    """By a runtime that gives a function of the inputs and of the model's outputs."""
    program = made.program()

    def run(folder: Path, batches: list[list[np.ndarray]], device: str) -> list[list[np.ndarray]]:
        inputs = [torch.from_numpy(batch[0]) for batch in batches]
        return [[runtime(each, program.answer([each])[0]).numpy()] for each in inputs]

    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run)
    monkeypatch.setattr("trueloop.export.verify._first_differing", lambda *_: "")
    return verify(made, program, Torchscript(), artifact(inputs=(port,)), tolerance, None)


IMAGES = Port("input", "uint8", (None, 1, 3, 4))
ROWS = Port("input", "float32", (None, 3))


class Scaled(nn.Module):
    """One row of weights for each output."""

    def __init__(self, *rows: float) -> None:
        super().__init__()
        self.layer = nn.Linear(3, len(rows), bias=False)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor(rows).unsqueeze(1) * torch.tensor([1.0, -0.5, 2.0]))

    def forward(self, rows: Tensor) -> Tensor:
        values: Tensor = self.layer(rows)
        return values


def quantities(*rows: float) -> TrainedModel:
    inputs = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    targets = Scaled(*rows)(inputs).detach()
    splits = Splits(Tensors(inputs, targets), Tensors(inputs, targets), facts=Facts(inputs=(3,)))
    return subject(lambda: Scaled(*rows), splits, task="regression")


# -- relative differences --


def test_small_outputs_with_flipped_signs_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotExport, match=r"a difference is 2 times the largest value of its output"):
        verified(monkeypatch, quantities(1e-5), lambda _, outputs: -outputs, ROWS)


def test_a_small_quantity_beside_a_large_one_is_compared_in_its_own_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    signs = torch.tensor([1.0, -1.0])
    with pytest.raises(CannotExport, match=r"a difference is 2 times the largest value of its output"):
        verified(monkeypatch, quantities(1e4, 1e-5), lambda _, outputs: outputs * signs, ROWS)


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e6])
def test_rounding_passes_at_every_scale(monkeypatch: pytest.MonkeyPatch, scale: float) -> None:
    made = verified(monkeypatch, quantities(scale), lambda _, outputs: outputs * (1 + 3e-7), ROWS)
    assert made.passed
    assert made.relative == pytest.approx(3e-7, rel=0.5)


def test_small_logits_with_flipped_signs_fail_though_every_one_is_a_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    def small() -> nn.Module:
        model = Shades()
        with torch.no_grad():
            model.second.weight.mul_(1e-6)
            model.second.bias.zero_()
        return model

    with pytest.raises(CannotExport, match=r"times the largest value of its output"):
        verified(monkeypatch, subject(small), lambda _, outputs: -outputs, IMAGES)


def test_small_outputs_with_flipped_signs_beyond_the_data_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotExport, match=r"highest values \(inputs \[7, 3\]\): a difference is 2 times the largest"):
        verified(
            monkeypatch,
            quantities(1e-7),
            lambda rows, outputs: -outputs if bool((rows == rows.max()).all()) else outputs,
            ROWS,
        )


def test_an_output_that_vanishes_beyond_the_data_is_held_against_its_size_on_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A probability of 1e-20 may be 1.1e-20 in a different runtime."""
    made = verified(
        monkeypatch, quantities(1.0), lambda rows, outputs: outputs if bool(rows.any()) else outputs + 1e-20, ROWS
    )
    assert made.passed


class Decides(nn.Module):
    """A whole number for each sample."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows.argmax(1)


@pytest.mark.parametrize(("turned", "fails"), [(1, True), (0, False)])
def test_decisions_that_differ_beyond_the_data_fail(turned: int, fails: bool) -> None:
    rows = torch.eye(3).repeat(2, 1)
    program = quantities(1.0).program()
    program.model = Decides()
    ours = rows.argmax(1)
    batch = _Batch((rows,), (ours,), None, counted=False, raw=(rows,), beyond="extreme values")
    compared = Comparison(OWN, 1e-4)
    said = _differs_beyond(batch, [ours + turned], compared, 1e-3, RoundedModel(program))
    assert said == ("extreme values (inputs [6, 3]): 100% of the values of output 1 differ" if fails else "")


@pytest.mark.parametrize("dimension", [1, 2])
def test_quantities_may_lie_along_any_dimension(dimension: int) -> None:
    ours = torch.tensor([1e4, 1e-5]).movedim(0, -1).expand(5, 3, 2).movedim(-1, dimension)
    theirs = ours * torch.tensor([1.0, -1.0]).movedim(0, -1).expand(5, 3, 2).movedim(-1, dimension)
    compared = Comparison("regression", 1e-4)
    compared.add([ours], [theirs], counted=True)
    assert compared.relative_error() == pytest.approx(2)


def test_a_shorter_sequence_does_not_hide_the_differences_of_longer_ones() -> None:
    compared = Comparison("regression", 1e-4)
    compared.add([torch.full((4, 6), 1e-5)], [torch.full((4, 6), -1e-5)], counted=True)
    compared.add([torch.full((4, 3), 1e-5)], [torch.full((4, 3), 1e-5)], counted=False)
    assert compared.relative_error() == pytest.approx(2)


class Cancelling(nn.Module):
    """The difference of two large numbers: its own rounding is larger than a thousandth of its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.large = nn.Parameter(torch.tensor(1000.0))

    def forward(self, rows: Tensor) -> Tensor:
        return (rows.sum(1, keepdim=True) * 1e-3 + self.large) - 1000.0


def test_a_models_own_rounding_is_not_the_exports_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    data = Tensors(inputs, inputs.sum(1, keepdim=True) * 1e-3)
    made = subject(Cancelling, Splits(data, data, facts=Facts(inputs=(3,))), task="regression")
    assert verified(monkeypatch, made, lambda _, outputs: outputs + 3e-5, ROWS).passed


# -- metrics --


@pytest.mark.parametrize(
    ("ours", "theirs", "ties", "fails"),
    [
        (1.0, 0.937, 0, True),
        (0.9, 0.9005, 0, False),
        (0.9, 0.9015, 0, True),
        (0.90, 0.89, 1, False),
        (0.90, 0.88, 1, True),
        (5e4, 5.0004e4, 0, False),
        (5e4, 5.1e4, 0, True),
        (math.nan, math.nan, 0, False),
        (0.5, math.nan, 0, True),
        (math.nan, 0.5, 0, True),
    ],
)
def test_a_changed_metric_fails_unless_ties_explain_it(ours: float, theirs: float, ties: int, fails: bool) -> None:
    compared = Comparison("multiclass", 1e-4, ties=ties, predicted=100)
    assert bool(list(_changed_metrics({"r2": (ours, theirs)}, compared, 1e-4, dict))) is fails


def test_a_changed_metric_is_a_failure_of_the_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each output is within a wide tolerance; together they change the loss."""
    with pytest.raises(CannotExport, match=r"Not alike: .*loss changes by"):
        verified(monkeypatch, quantities(1.0), lambda _, outputs: outputs + 0.2, ROWS, tolerance=0.3)


# -- NaN --


def test_a_model_that_answers_nan_for_some_samples_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    data = Tensors(inputs, inputs[:, :1])

    class Rooted(Scaled):
        def forward(self, rows: Tensor) -> Tensor:
            return super().forward(rows) + rows[:, :1].sub(2.0).neg().sqrt()

    wrong = int((inputs[:, 0] > 2).sum())
    assert 0 < wrong < 60
    made = subject(lambda: Rooted(1.0), Splits(data, data, facts=Facts(inputs=(3,))), task="regression")
    with pytest.raises(CannotExport, match=f"The model itself returns NaN for {wrong} of 60 valid samples, so no"):
        verified(monkeypatch, made, lambda _, outputs: outputs, ROWS)


# -- beyond the data --


def test_inputs_beyond_the_data_are_compared_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = verified(monkeypatch, subject(), lambda _, outputs: outputs, IMAGES)
    assert made.beyond == ("zeros", "perturbed", "extreme values", "lowest values", "highest values")
    assert MANY in made.batches


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (lambda images: bool((images == 0).all()), "zeros"),
        (lambda images: bool((images == 255).all()), "highest values"),
        (lambda images: bool(((images == 0) | (images == 255)).all() and images.float().std() > 0), "extreme values"),
    ],
)
def test_a_program_that_differs_only_beyond_the_data_fails(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Tensor], bool], name: str
) -> None:
    with pytest.raises(CannotExport, match=rf"Not alike: {name} \(inputs \[\d, 1, 3, 4\]\): a difference of"):
        verified(monkeypatch, subject(), lambda images, outputs: outputs + 1 if wrong(images) else outputs, IMAGES)


def test_a_program_that_fails_only_in_large_batches_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotExport, match=rf"largest difference 1 \(inputs \[{MANY}, 1, 3, 4\]\)"):
        verified(monkeypatch, subject(), lambda images, outputs: outputs + (1 if len(images) > 64 else 0), IMAGES)


def test_inputs_that_a_runtime_cannot_run_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(folder: Path, batches: list[list[np.ndarray]], device: str) -> list[list[np.ndarray]]:
        raise RuntimeFailure(len(batches) - 1, "overflow")

    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run)
    made = subject()
    with pytest.raises(CannotExport, match=r"could not run the batch \[\d, 1, 3, 4\] of highest values: overflow"):
        verify(made, made.program(), Torchscript(), artifact(), 1e-4, None)


class Rooted(nn.Module):
    """Not finite for inputs that no sample has."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Shades()

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.inner(images)
        return scores + images.flatten(1).mean(1, keepdim=True).add(0.9).sqrt()


def test_where_the_model_itself_is_not_finite_the_program_need_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verified(monkeypatch, subject(Rooted), lambda _, outputs: outputs.nan_to_num(7.0), IMAGES).passed


class Restricted(nn.Module):
    """Raises for inputs that no sample has."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Shades()

    def forward(self, images: Tensor) -> Tensor:
        if bool((images == images.flatten()[0]).all()):
            raise ValueError("an image of one shade")
        scores: Tensor = self.inner(images)
        return scores


def test_inputs_that_the_model_refuses_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = verified(monkeypatch, subject(Restricted), lambda _, outputs: outputs, IMAGES)
    assert made.beyond == ("perturbed", "extreme values")


class BySize(nn.Module):
    """Another way for a large batch: a trace follows the small one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Shades()

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.inner(images)
        return -scores if len(images) > 100 else scores


def test_a_trace_that_fixed_the_way_of_small_batches_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
    with pytest.raises(CannotExport, match=rf"inputs \[{MANY}, 1, 3, 4\]"):
        export_model(subject(BySize), Torchscript(), tmp_path / "out")


@pytest.mark.parametrize(
    ("raw", "tokens", "low", "high"),
    [
        (torch.tensor([[0.5, -2.0]]), None, -20, 20),
        (torch.tensor([[3, 4], [5, 9]], dtype=torch.uint8), None, 0, 255),
        (torch.tensor([[3, 4], [5, 9]]), 50, 0, 49),
        (torch.tensor([[3, 4], [5, 9]]), None, 3, 9),
        (torch.tensor([[True, False]]), None, 0, 1),
    ],
)
def test_values_stay_within_what_the_input_can_mean(raw: Tensor, tokens: int | None, low: float, high: float) -> None:
    tried = dict(inputs_beyond_data([raw], tokens))
    for (changed,) in tried.values():
        assert changed.shape == raw.shape
        assert changed.dtype == raw.dtype
        assert float(changed.min()) >= min(low, 0)
        assert float(changed.max()) <= high
    assert float(tried["lowest values"][0].min()) == low
    assert float(tried["highest values"][0].max()) == high
    assert not tried["zeros"][0].any()


def test_the_same_inputs_are_tried_each_time() -> None:
    raw = shades().train.fetch(torch.arange(4)).inputs
    first, second = (dict(inputs_beyond_data([raw], None)) for _ in range(2))
    assert all(torch.equal(first[name][0], second[name][0]) for name in first)


# -- causes --


class Padded(nn.Module):
    """Rows of tokens with padding; `leave_out`: padded positions do not count."""

    def __init__(self, *, leave_out: bool, nested: bool = True) -> None:
        super().__init__()
        self.leave_out = leave_out
        self.tokens = nn.Embedding(10, 8, padding_idx=0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
        self.scores = nn.Linear(8, 3)

    def forward(self, rows: Tensor) -> Tensor:
        padding = rows == 0
        found = self.encoder(self.tokens(rows), src_key_padding_mask=padding)
        if self.leave_out:
            found = found * ~padding.unsqueeze(-1)
        scores: Tensor = self.scores(found.mean(1))
        return scores


def padded() -> Splits:
    draws = torch.Generator().manual_seed(0)
    rows = torch.randint(1, 10, (40, 6), generator=draws)
    rows[::2, 4:], rows[::3, 2:] = 0, 0
    data = Tensors(rows, torch.randint(0, 3, (40,), generator=draws))
    return Splits(data, data, facts=Facts(inputs=(6,), classes=("a", "b", "c"), vocabulary=10))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize(("leave_out", "nested"), [(False, True), (True, True), (False, False)])
def test_nested_tensors_are_named_as_the_cause_and_avoided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave_out: bool, nested: bool
) -> None:
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
    made = subject(lambda: Padded(leave_out=leave_out, nested=nested), padded())
    if leave_out or not nested:
        verified = export_model(made, Torchscript(), tmp_path / "out").verification
        assert verified is not None
        assert verified.passed
        return
    with pytest.raises(CannotExport) as caught:
        export_model(made, Torchscript(), tmp_path / "out")
    said = str(caught.value)
    assert "The cause is the nested-tensor fast path of encoder (TransformerEncoder, created at" in said
    assert "enable_nested_tensor=False" in said
    assert "first differing layer" not in said


class Item(Scaled):
    """Multiplies by a value that it reads: torch.export supports this."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) * rows[0, 0].item()


def test_an_item_is_exported_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A .pt2 file with a symbol for a float: our own check of the file must let it pass."""
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
    inputs = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    data = Tensors(inputs, inputs[:, :1])
    splits = Splits(data, data, facts=Facts(inputs=(3,)))
    made = export_model(subject(lambda: Item(1.0), splits, task="regression"), Pt2(), tmp_path / "out")
    assert made.verification is not None
    assert made.verification.passed


# -- heads --


class Heads(nn.Module):
    """Two outputs for each sample, and one for the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Shades()

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        scores = self.inner(images)
        return {"age": scores[:, 0], "kind": scores[:, 1:], "mean": scores.mean().reshape(1)}


def test_outputs_of_an_own_loss_are_predictions_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)

    def loss(outputs: dict[str, Tensor], targets: Tensor) -> Tensor:
        return (outputs["age"] - targets).square()

    made = export_model(subject(Heads, loss=loss), Torchscript(), tmp_path / "out")
    assert made.task == OWN
    assert [port.name for port in made.sample_outputs] == ["age", "kind"]
    assert prediction_of(made, [0.5, [1.0, 2.0]]) == {"age": 0.5, "kind": [1.0, 2.0]}
    assert "A model with a loss of its own" in (made.folder / "CARD.md").read_text(encoding="utf-8")
