"""By what a quantized model is judged: which samples, which side of the limit, which layer is to blame; and that it is
the same twice."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import final

import pytest
import torch
from torch import Tensor, nn

from tests.export.made import subject
from tests.quantize.made import WIDTH, Bagged, Pictured, Sides, rows, shifted, spoiled, usable_scheme
from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import CannotExport
from trueloop.export.catalogue import find_exporter
from trueloop.export.trained_model import TrainedModel
from trueloop.quantize.baseline import measure_baseline
from trueloop.quantize.quantize_model import quantize_model
from trueloop.quantize.scheme import Calibration
from trueloop.quantize.write import write_quantized
from trueloop.results.quantize import Quantization, allowed_of, drop_of

# -- the limit --


def _told(metric: str, before: float, after: float, max_drop: float, *, higher: bool = True) -> Quantization:
    return Quantization(
        "made", "int8-weight", "pt2", metric, higher, before, after, max_drop, "valid", 100, 0, 400, 100, (), 0.0
    )


@pytest.mark.parametrize(
    ("metric", "higher", "before", "least", "past"),
    [
        ("accuracy", True, 0.95, 0.94, 0.9399),
        ("f1", True, 0.5, 0.49, 0.4899),
        ("r2", True, 0.02, 0.01, 0.0099),
        ("loss", False, 2.0, 2.02, 2.0201),
        ("mae", False, 30_000.0, 30_300.0, 30_301.0),
        ("loss", False, -4.0, -3.96, -3.959),
        ("loss", False, 0.0, 0.01, 0.0101),
    ],
)
def test_one_point_or_one_hundredth_is_allowed_and_no_more(
    metric: str, higher: bool, before: float, least: float, past: float
) -> None:
    assert _told(metric, before, least, 0.01, higher=higher).within
    assert not _told(metric, before, past, 0.01, higher=higher).within
    assert _told(metric, before, before, 0.0, higher=higher).within
    better = before + 1 if higher else before - 1
    assert drop_of(metric, higher, before, better) < 0
    assert _told(metric, before, better, 0.0, higher=higher).within


def test_a_metric_that_is_no_number_is_never_within() -> None:
    assert not _told("loss", 1.0, float("nan"), 100.0, higher=False).within


def test_r2_is_told_in_points_as_a_share_is() -> None:
    assert allowed_of("r2", 0.01) == "1 point"
    assert allowed_of("mae", 0.01) == "1 % of the mae"


class Answered(nn.Module):
    """Quantities, by one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 1)

    def forward(self, given: Tensor) -> Tensor:
        return self.first(given) * 1000  # type: ignore[no-any-return]


def _quantities() -> TrainedModel:
    torch.manual_seed(0)
    exact = Answered()
    with torch.no_grad():
        train, valid = (Tensors(part, exact(part) + 5.0 * part[:, :1]) for part in torch.split(rows(200), 100))
    return subject(
        Answered, Splits(train, valid, facts=Facts(inputs=(WIDTH,), outputs=1)), name="quantities", task="regression"
    )


def test_where_less_is_better_more_is_refused_on_the_right_side() -> None:
    told = quantize_model(_quantities(), usable_scheme("int4-weight"), "pt2", max_drop=0.0).report
    assert told.after > told.before, "fewer bits make the loss larger"
    assert told.drop == pytest.approx(told.after / told.before - 1)
    assert not told.within
    assert replace(told, max_drop=told.drop * 1.001).within
    assert not replace(told, max_drop=told.drop * 0.999).within


# -- the layer to blame --


class Row(nn.Module):
    """A layer that hands on what it is given, and can be rounded."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(WIDTH, WIDTH)
        with torch.no_grad():
            self.wide.weight.copy_(torch.eye(WIDTH))
            self.wide.bias.zero_()

    def forward(self, given: Tensor) -> Tensor:
        return self.wide(given)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["int8-weight", "int8-dynamic", "int8-static"])
def test_the_layer_that_cannot_be_rounded_is_named_first_and_in_float_gives_the_metric_back(name: str) -> None:
    planted = spoiled()
    of = replace(planted, model=nn.Sequential(Row(), planted.model, nn.Linear(2, 2)).eval().requires_grad_(False))
    with torch.no_grad():
        of.model[2].weight.copy_(torch.eye(2))  # type: ignore[index]
        of.model[2].bias.zero_()  # type: ignore[index]
    lost = quantize_model(of, usable_scheme(name), "pt2", max_drop=0.01, calibrated=64).report
    assert lost.drop > 0.2
    assert lost.costliest[0].name == "1.first"
    assert all(layer.drop < 0.05 for layer in lost.costliest[1:])
    kept = quantize_model(of, usable_scheme(name), "pt2", max_drop=0.01, keep=["1.first"], calibrated=64).report
    assert kept.drop <= 0.02


@pytest.mark.long
def test_qat_wins_most_of_the_points_back_that_int8_static_loses() -> None:
    """Rounding moves the plane; a few dozen updates move it back."""
    static, learned = (
        quantize_model(shifted(), usable_scheme(name), "pt2", max_drop=1.0).report for name in ("int8-static", "qat")
    )
    assert static.before == learned.before == 1.0
    assert static.drop > 0.2
    assert learned.drop < static.drop / 2


# -- the samples --


@final
class Watched(Source):
    """Remembers which samples it was asked for."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.source)

    def fetch(self, numbers: Tensor) -> Batch:
        self.asked.extend(numbers.tolist())
        return self.source.fetch(numbers)


def _sides(count: int) -> Tensors:
    given = rows(count, dead=True)
    with torch.no_grad():
        return Tensors(given, Sides()(given).argmax(1))


@pytest.mark.parametrize("name", ["int8-static", "qat"])
def test_it_is_calibrated_by_training_samples_and_judged_by_others(name: str) -> None:
    train, valid = Watched(_sides(40)), Watched(_sides(30))
    of = subject(Sides, Splits(train, valid, facts=Facts(inputs=(WIDTH,))), name="sides")
    told = quantize_model(of, usable_scheme(name), "pt2", max_drop=1.0, calibrated=16).report
    assert (told.samples, told.calibrated, told.split, told.notes) == (30, 16, "valid", ())
    judged = list(valid.asked)
    usable_scheme(name).quantize(of.model, ["first"], Calibration(of, 16))
    assert valid.asked == judged, "calibration does not touch them"


@pytest.mark.parametrize("asked", [None, 7])
def test_with_training_samples_alone_none_serves_for_both(asked: int | None) -> None:
    train = Watched(_sides(41))
    of = subject(Sides, Splits(train, facts=Facts(inputs=(WIDTH,))), name="sides")
    judged = set(measure_baseline(of, of.model, asked).numbers.tolist())
    assert len(judged) == (20 if asked is None else asked)
    fewer = measure_baseline(of, of.model, asked).subset(5).numbers.tolist()
    assert len(fewer) == 5
    assert set(fewer) <= judged
    told = quantize_model(of, usable_scheme("int8-static"), "pt2", max_drop=1.0, samples=asked).report
    assert (told.split, told.samples, told.calibrated) == ("train", len(judged), 41 - len(judged))
    assert "training samples that calibration did not use" in told.notes[0]
    train.asked.clear()
    list(replace(Calibration(of, 100), excluded=frozenset(judged)).batches())
    assert set(train.asked) == set(range(41)) - judged


def test_a_single_sample_is_not_enough_to_calibrate_and_to_judge() -> None:
    of = subject(Sides, Splits(_sides(1), facts=Facts(inputs=(WIDTH,))), name="sides")
    with pytest.raises(CannotExport, match="int8-static needs training samples for calibration"):
        quantize_model(of, usable_scheme("int8-static"), "pt2", max_drop=1.0)
    assert quantize_model(of, usable_scheme("int8-weight"), "pt2", max_drop=1.0).report.samples == 1


# -- the file --


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("int8-static", "pt2"),
        pytest.param("int8-static", "onnx", marks=pytest.mark.long),
        pytest.param("int8-weight", "pt2", marks=pytest.mark.long),
        pytest.param("qat", "pt2", marks=pytest.mark.long),
    ],
)
def test_the_same_run_gives_the_same_file_twice(name: str, target: str, tmp_path: Path) -> None:
    def made(place: Path) -> str:
        of, scheme = subject(Pictured), usable_scheme(name)
        file = write_quantized(
            of, scheme, quantize_model(of, scheme, target, max_drop=1.0, calibrated=20), find_exporter(target), place
        ).file
        return hashlib.sha256(file.read_bytes()).hexdigest()

    assert made(tmp_path / "one") == made(tmp_path / "other")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("target", [pytest.param("pt2", marks=pytest.mark.long), "onnx"])
@pytest.mark.parametrize(
    "name",
    ["int8-weight", *(pytest.param(name, marks=pytest.mark.long) for name in ("int4-weight", "int8-static", "fp8"))],
)
def test_bags_of_short_numbers_reach_every_target_in_batches_of_any_size(
    name: str, target: str, tmp_path: Path
) -> None:
    """Tokens of 32 bits, as the sentiment recipe has them."""
    tokens = torch.randint(1, 100, (120, 8), generator=torch.Generator().manual_seed(4), dtype=torch.int32)
    train, valid = (Tensors(part, (part.sum(1) % 2).float()) for part in torch.split(tokens, 60))
    of, scheme = (
        subject(Bagged, Splits(train, valid, facts=Facts(vocabulary=100)), name="bagged", task="binary"),
        usable_scheme(name),
    )
    made = write_quantized(
        of,
        scheme,
        quantize_model(of, scheme, target, max_drop=1.0, calibrated=20),
        find_exporter(target),
        tmp_path / "made",
    )
    assert made.verification is not None
    assert made.verification.passed
    assert made.verification.batches[0] == 1
