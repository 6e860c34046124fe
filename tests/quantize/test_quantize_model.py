"""Which layers are quantized, what each costs, and when it is too much."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.export.made import shades, subject
from tests.quantize.made import Pictured, sides, spoiled
from trueloop.errors import CannotExport, Misuse
from trueloop.export.trained_model import TrainedModel
from trueloop.quantize.baseline import measure_baseline
from trueloop.quantize.catalogue import find_scheme
from trueloop.quantize.quantize_model import QuantizedModel, drop_message, quantize_model
from trueloop.quantize.scheme import Calibration, Scheme


def _int8() -> Scheme:
    made = find_scheme("int8-weight")
    made.require()
    return made


def _spoiled(*keep: str) -> QuantizedModel:
    return quantize_model(spoiled(), _int8(), "pt2", max_drop=0.01, keep=keep)


def test_a_model_that_can_be_rounded_keeps_its_metric_and_loses_bytes() -> None:
    told = quantize_model(sides(), _int8(), "pt2", max_drop=0.01).report
    assert told.before == 1.0
    assert told.within
    assert told.size_after < told.size_before / 2
    assert (told.samples, told.split, told.calibrated) == (200, "valid", 0)


def test_one_weight_that_spoils_its_row_is_seen_in_the_metric_and_in_its_layer() -> None:
    decided = _spoiled()
    told = decided.report
    assert not told.within
    assert told.before - told.after > 0.2
    assert told.costliest[0].name == "first"
    assert told.costliest[0].drop == pytest.approx(told.drop)
    assert [layer.drop for layer in told.layers if layer.name == "last"] == [0.0]


def test_the_refusal_has_the_numbers_the_layer_and_the_next_command() -> None:
    told = _spoiled().report
    said = drop_message(told, ())
    assert said.startswith(
        f"sides by int8-weight: accuracy goes from 1 to {told.after:.6g} on 200 valid samples: a drop of "
    )
    assert "and 1 point is allowed. Nothing was written." in said
    assert "Costliest layers, each quantized alone: first (" in said
    assert "--keep-float first, or --keep-float auto" in said


def test_a_layer_that_is_asked_for_stays_in_float() -> None:
    told = _spoiled("first").report
    assert told.within
    assert [(layer.name, layer.kept) for layer in told.kept if layer.kept == "asked"] == [("first", "asked")]


def test_left_to_itself_it_keeps_what_costs_most_and_says_so() -> None:
    said: list[str] = []
    decided = quantize_model(_behind_another(), _int8(), "pt2", max_drop=0.01, keep=["auto"], say=said.append)
    assert decided.report.within
    assert [layer.name for layer in decided.report.kept if layer.kept == "costly"] == ["1.first"]
    assert any("1.first stays in float" in words for words in said)


class _Passed(nn.Module):
    """A layer that hands on what it is given, and can be rounded."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(40, 40)
        with torch.no_grad():
            self.wide.weight.copy_(torch.eye(40))
            self.wide.bias.zero_()

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.wide(given)  # type: ignore[no-any-return]


def _behind_another() -> TrainedModel:
    of = spoiled()
    return replace(of, model=nn.Sequential(_Passed(), of.model).eval().requires_grad_(False))


def test_even_with_all_choice_it_can_be_too_much() -> None:
    """One layer must be quantized, and it costs too much: refused, and no --keep-float is advised any more."""
    told = quantize_model(spoiled(), _int8(), "pt2", max_drop=0.01, keep=["last", "auto"]).report
    assert not told.within
    assert "even with last in float" in drop_message(told, ["last", "auto"])
    assert "try another --scheme" in drop_message(told, ["last", "auto"])


def test_a_name_that_no_layer_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(Misuse, match=r"no layer 'frist'.*first"):
        _spoiled("frist")


def test_the_name_of_a_block_keeps_all_layers_in_it() -> None:
    of = subject(
        lambda: nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(12, 40), nn.Linear(40, 40)), nn.Linear(40, 3))
    )
    told = quantize_model(of, _int8(), "pt2", max_drop=1.0, keep=["1"]).report
    assert [layer.name for layer in told.kept] == ["1.0", "1.1"]


def test_with_nothing_left_to_quantize_nothing_is_done() -> None:
    with pytest.raises(Misuse, match="No layer is left to quantize"):
        _spoiled("first", "last")


def test_a_model_without_layers_that_the_scheme_knows_is_refused() -> None:
    of = subject(lambda: nn.Sequential(nn.Flatten(), nn.LayerNorm(12)))
    with pytest.raises(CannotExport, match=r"int8-weight quantizes Linear, Conv1d.*this model has none of them"):
        quantize_model(of, _int8(), "pt2", max_drop=1.0)


def test_a_layer_that_would_grow_stays_as_it_is_and_is_told() -> None:
    """One weight for each output: a byte and a scale are more than the float was."""
    of = subject(lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 1), nn.Linear(1, 3)))
    told = quantize_model(of, _int8(), "pt2", max_drop=1.0).report
    assert [(layer.name, layer.kept) for layer in told.kept] == [("2", "larger")]
    assert told.size_after < told.size_before


def test_layers_that_the_scheme_does_not_know_are_named() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory = nn.GRU(4, 6, batch_first=True)
            self.last = nn.Linear(6, 3)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.last(self.memory(images.squeeze(1))[0][:, -1])  # type: ignore[no-any-return]

    told = quantize_model(subject(Recurrent), _int8(), "pt2", max_drop=1.0).report
    assert told.others == ("memory (GRU)",)


def test_a_scheme_that_looks_at_training_samples_says_at_how_many() -> None:
    scheme = find_scheme("int8-static")
    scheme.require()
    told = quantize_model(subject(Pictured), scheme, "onnx", max_drop=1.0, calibrated=32).report
    assert told.calibrated == 32
    assert {layer.name for layer in told.layers} == {"first", "again", "last"}
    assert all(layer.error > 0 for layer in told.layers)


def test_it_looks_at_training_samples_and_never_at_those_it_is_judged_by() -> None:
    of = subject(Pictured)
    asked: list[int] = []
    splits = of.splits

    class Watched(type(splits.train)):  # type: ignore[misc]
        def fetch(self, numbers: torch.Tensor) -> object:
            asked.extend(numbers.tolist())
            return super().fetch(numbers)

    train = Watched(splits.train.inputs[:30], splits.train.targets[:30])  # type: ignore[attr-defined]
    seen = Calibration(replace(of, splits=replace(splits, train=train)), 20, batch=8)
    sizes = [len(batch.targets) for batch in seen.batches()]
    assert sizes == [8, 8, 4]
    assert len(set(asked)) == 20
    again = list(asked)
    asked.clear()
    list(seen.batches())
    assert asked == again, "the same samples each time"


# -- the yardstick --


def test_the_float_model_is_no_distance_from_itself() -> None:
    of = subject(Pictured)
    yardstick = measure_baseline(of, of.model, None)
    found = yardstick.measure(of.model)
    assert (found.metric, found.error, found.largest) == (yardstick.metric, 0.0, 0.0)


def test_an_error_is_a_part_of_the_outputs() -> None:
    of = sides()

    class Off(nn.Module):
        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return of.model(given) * 1.1  # type: ignore[no-any-return]

    assert measure_baseline(of, of.model, None).measure(Off()).error == pytest.approx(0.1, rel=1e-3)


def test_a_model_that_writes_into_what_it_is_given_changes_nothing() -> None:
    of = sides()
    yardstick = measure_baseline(of, of.model, 50)

    class Writing(nn.Module):
        def forward(self, given: torch.Tensor) -> torch.Tensor:
            given.zero_()
            return of.model(given)  # type: ignore[no-any-return]

    yardstick.measure(Writing())
    assert yardstick.measure(of.model).error == 0


def test_fewer_samples_are_spread_over_all() -> None:
    of = subject(Pictured, shades(100))
    assert measure_baseline(of, of.model, 10).samples == 10
    assert measure_baseline(of, of.model, None).samples == 100
    assert measure_baseline(of, of.model, 1000).samples == 100
