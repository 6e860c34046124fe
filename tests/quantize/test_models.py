"""Models of other kinds than pictures: several inputs, quantities, attention, answers that are not multiplied out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.export.made import subject
from tests.quantize.made import WIDTH, calibration, rows, sides
from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.unprojected import Unprojected
from trueloop.export.trained_model import TrainedModel
from trueloop.quantize.catalogue import SCHEMES, find_scheme
from trueloop.quantize.packed_weights import Int8
from trueloop.quantize.quantize_model import quantize_model
from trueloop.quantize.scheme import Scheme


@pytest.fixture(params=sorted(SCHEMES))
def scheme(request: pytest.FixtureRequest) -> Scheme:
    made = find_scheme(request.param)
    made.require()
    return made


class Pairs(Source):
    """Samples of two tensors each, by name."""

    def __init__(self, count: int = 60) -> None:
        self.given = rows(count)

    def __len__(self) -> int:
        return len(self.given)

    def fetch(self, numbers: Tensor) -> Batch:
        part = self.given[numbers]
        return Batch({"left": part[:, :20], "right": part[:, 20:]}, part.sum(1) > 0)


class Compared(nn.Module):
    """Takes both."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.last = nn.Linear(20, 32), nn.Linear(20, 32), nn.Linear(64, 1)

    def forward(self, given: dict[str, Tensor]) -> Tensor:
        both = torch.cat((self.one(given["left"]), self.other(given["right"])), 1)
        return self.last(both.relu()).squeeze(1)  # type: ignore[no-any-return]


class Quantities(nn.Module):
    """Answers with a number in a unit of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, given: Tensor) -> Tensor:
        return self.layers(given) * 1000  # type: ignore[no-any-return]


class Headless(nn.Module):
    """Leaves the last product to whoever needs it."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.mix, self.scores = nn.Embedding(90, 32), nn.Linear(32, 32), nn.Linear(32, 90, bias=False)

    def forward(self, tokens: Tensor) -> Unprojected:
        return Unprojected(self.mix(self.tokens(tokens)), self.scores.weight)


def _pairs() -> TrainedModel:
    return subject(Compared, Splits(Pairs(), Pairs()), name="pairs", task="binary")


def _quantities() -> TrainedModel:
    data = Tensors(rows(), rows().sum(1, keepdim=True))
    return subject(
        Quantities, Splits(data, data, facts=Facts(inputs=(WIDTH,), outputs=1)), name="quantities", task="regression"
    )


def _headless() -> TrainedModel:
    tokens = torch.randint(0, 90, (40, 6), generator=torch.Generator().manual_seed(0))
    return subject(Headless, Splits(Tensors(tokens, tokens), Tensors(tokens, tokens)), name="headless", task="language")


@pytest.mark.parametrize("made", [_pairs, _quantities, _headless], ids=["several inputs", "quantities", "unprojected"])
def test_models_of_other_kinds_are_quantized_and_judged(scheme: Scheme, made: object) -> None:
    assert callable(made)
    told = quantize_model(made(), scheme, "pt2", max_drop=10.0, calibrated=32).report
    assert 0 < told.error < 0.6
    assert told.within


def test_a_loss_is_judged_by_a_part_of_itself() -> None:
    scheme = find_scheme("int8-weight")
    scheme.require()
    told = quantize_model(_quantities(), scheme, "pt2", max_drop=0.01).report
    assert not told.higher_is_better
    assert told.drop == pytest.approx((told.after - told.before) / told.before)


def test_a_weight_that_is_read_without_a_call_counts_as_quantized() -> None:
    scheme = find_scheme("int8-weight")
    scheme.require()
    told = quantize_model(_headless(), scheme, "pt2", max_drop=1.0).report
    assert {layer.name: layer.error > 0 for layer in told.layers} == {"tokens": True, "mix": True, "scores": True}


def test_the_numbers_are_those_of_torchao() -> None:
    """Its own weight-only scheme, where it knows the layer: no weight is further away than a step."""
    find_scheme("int8-weight").require()
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    torch.manual_seed(0)
    layer = nn.Linear(48, 16)
    weight = layer.weight.detach().clone()
    quantize_(layer, Int8WeightOnlyConfig())
    theirs: Tensor = layer.weight.dequantize()
    stored = Int8(weight.shape)
    ours = stored(*stored.right_inverse(weight))
    step = weight.abs().amax(1, keepdim=True) / 127
    assert bool(((ours - theirs).abs() <= step * 1.01).all())


def test_calibration_gives_prepared_samples() -> None:
    of = subject()
    (batch, *_) = calibration(of).batches()
    assert batch.inputs.dtype == torch.float32
    assert float(batch.inputs.abs().max()) <= 1.0
    assert len(list(calibration(sides()).batches())) == 3
