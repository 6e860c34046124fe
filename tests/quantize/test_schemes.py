"""Each scheme: which layers it knows, that what it makes answers nearly alike, and what it refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.export.made import subject
from tests.quantize.made import Pictured, Sides, bagged, calibration, sides, tied
from trueloop.errors import MissingExtra, Misuse
from trueloop.export.trained_model import TrainedModel
from trueloop.quantize.catalogue import SCHEMES, find_scheme
from trueloop.quantize.fake_quant import fake_quantization, fake_quantized, input_ranges
from trueloop.quantize.int8_dynamic import Int8Dynamic
from trueloop.quantize.qat import Qat
from trueloop.quantize.scheme import Scheme, known_layers, nbytes_of
from trueloop.quantize.static_graph import QuantizedGraph

CLOSE = {"int8-dynamic": 0.03, "int8-weight": 0.02, "int4-weight": 0.25, "int8-static": 0.05, "qat": 0.6, "fp8": 0.1}
"""How far the outputs of random models may be off, as a part of them; qat learns on, and answers otherwise on
purpose."""


@pytest.fixture(params=sorted(SCHEMES))
def scheme(request: pytest.FixtureRequest) -> Scheme:
    made = find_scheme(request.param)
    made.require()
    return made


def _off(one: nn.Module, other: nn.Module, given: Tensor) -> float:
    with torch.no_grad():
        ours, theirs = one(given), other(given)
    return float((theirs - ours).norm() / ours.norm())


def _weight(model: nn.Module, name: str) -> Tensor:
    weight = model.get_submodule(name).weight
    assert isinstance(weight, Tensor)
    return weight


def _prepared(of: TrainedModel, count: int = 20) -> Tensor:
    raw = of.fetch(torch.arange(count)).inputs
    prepared: Tensor = raw if of.splits.prepare is None else of.splits.prepare(raw)
    return prepared


@pytest.mark.parametrize(
    "made", [sides, lambda: subject(Pictured), tied, bagged], ids=["linear", "pictures", "tied", "bag"]
)
def test_a_scheme_answers_nearly_alike_from_fewer_bytes(scheme: Scheme, made: Callable[[], TrainedModel]) -> None:
    of = made()
    names = list(known_layers(of.model, scheme.layers))
    quantized = scheme.quantize(of.model, names, calibration(of))
    off = _off(of.model, quantized, _prepared(of))
    assert 0 < off < CLOSE[scheme.name], off
    if made is not tied or scheme.name not in (
        "int8-static",
        "qat",
    ):  # which leave tables in float, and a head that is tied to one doubles
        assert nbytes_of(quantized) < nbytes_of(of.model)


def test_a_scheme_leaves_the_model_as_it_is(scheme: Scheme) -> None:
    of = subject(Pictured)
    before = copy.deepcopy(of.model.state_dict())
    scheme.quantize(of.model, list(known_layers(of.model, scheme.layers)), calibration(of))
    assert all(torch.equal(value, before[name]) for name, value in of.model.state_dict().items())
    assert not any(module.training for module in of.model.modules())


def test_a_scheme_draws_no_random_number(scheme: Scheme) -> None:
    of = subject(Pictured)
    state = torch.get_rng_state()
    scheme.quantize(of.model, list(known_layers(of.model, scheme.layers)), calibration(of))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_same_scheme_gives_the_same_numbers_twice(scheme: Scheme) -> None:
    of = subject(Pictured)
    names, given = list(known_layers(of.model, scheme.layers)), _prepared(of)
    one, other = (scheme.quantize(of.model, names, calibration(of)) for _ in range(2))
    assert _off(one, other, given) == 0


def test_a_layer_that_is_kept_is_not_touched(scheme: Scheme) -> None:
    """With none but the last layer quantized, what comes before it is the same to the bit; and so are the bytes told
    for it."""
    of = subject(Pictured)
    made = scheme.quantize_layer(of.model, "last", calibration(of))
    given = _prepared(of)
    assert 0 < _off(of.model, made, given) < CLOSE[scheme.name]
    if not isinstance(made, QuantizedGraph) and scheme.name not in ("int8-static", "qat"):
        assert torch.equal(_weight(made, "first"), _weight(of.model, "first"))
        saved = nbytes_of(of.model) - nbytes_of(made)
        last = of.model.get_submodule("last")
        assert saved == _weight(of.model, "last").numel() * 4 - scheme.bytes_after(last)


def test_an_unknown_scheme_is_refused_with_the_nearest() -> None:
    with pytest.raises(Misuse, match=r"Unknown scheme 'int8-weights'.*int8-weight"):
        find_scheme("int8-weights")


def test_what_this_machine_cannot_do_is_refused_with_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.quantize.weight_only.Fp8.unsupported", lambda _: "this torch has no 8-bit floats")
    with pytest.raises(
        Misuse,
        match=r"fp8 does not work here: this torch has no 8-bit floats\. Nothing was run.*Supported: int8-dynamic,",
    ) as told:
        find_scheme("fp8")
    assert not str(told.value).endswith("fp8.")


def test_without_torchao_the_command_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.quantize.scheme.installed_version", lambda _: "")
    with pytest.raises(MissingExtra, match=r"pip install 'trueloop\[quantize\]'"):
        find_scheme("int8-weight").require()


# -- dynamic --


def test_dynamic_finds_a_scale_for_each_row() -> None:
    """A row a thousand times as large does not spoil the others."""
    of = sides()
    made = Int8Dynamic().quantize(of.model, ["first", "last"], calibration(of))
    given = _prepared(of, 2)
    alone = made(given[:1])
    beside = made(torch.cat((given[:1], given[1:] * 1000)))
    assert torch.equal(alone[0], beside[0])


def test_dynamic_answers_as_the_layer_in_float() -> None:
    """Two roundings to 8 bits: a thousandth of the largest value or so. Rows of any size."""
    torch.manual_seed(0)
    layer = nn.Linear(64, 16)
    made = Int8Dynamic().quantize(nn.Sequential(layer), ["0"], calibration(sides()))
    for size in (0.01, 1.0, 300.0):
        given = size * torch.randn(12, 64)
        whole = layer(given).detach()
        assert float((made(given).detach() - whole).abs().max()) < 0.03 * float(whole.abs().max())


def test_dynamic_takes_rows_of_zeros_and_more_dimensions() -> None:
    made = Int8Dynamic().quantize(nn.Sequential(nn.Linear(5, 3)), ["0"], calibration(sides()))
    answered = made(torch.zeros(2, 4, 5))
    assert answered.shape == (2, 4, 3)
    assert bool(answered.isfinite().all())


# -- static --


def test_static_converts_the_layers_that_are_named_and_no_others() -> None:
    of = subject(Pictured)
    scheme = find_scheme("int8-static")
    whole = scheme.quantize(of.model, ["first", "again", "last"], calibration(of))
    part = scheme.quantize(of.model, ["first", "again"], calibration(of))
    saved = nbytes_of(part) - nbytes_of(whole)
    assert saved > 16 * 12 * 3 * 2, "the last layer's weight is in float in one of them"


def test_static_keeps_one_weight_of_a_layer_that_is_called_twice() -> None:
    of = subject(Pictured)
    made = find_scheme("int8-static").quantize(of.model, ["first", "again", "last"], calibration(of))
    kept = [value for value in made.state_dict().values() if tuple(value.shape) == (16, 16, 3, 3)]
    assert [value.dtype for value in kept] == [torch.int8]


class Mirrored(nn.Module):
    """Answers by the mean over an image and its mirror image: a convolution and its norm are called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(96, 3)
        )
        norm = self.layers[1]
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.running_mean.fill_(0.3)
        norm.running_var.fill_(0.1)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = (self.layers(images) + self.layers(images.flip(-1))) / 2
        return scores


def test_static_folds_a_norm_once_into_a_layer_that_is_called_twice() -> None:
    of = subject(Mirrored)
    made = find_scheme("int8-static").quantize(of.model, ["layers.0", "layers.4"], calibration(of))
    assert _off(of.model, made, _prepared(of)) < 0.02
    assert len([value for value in made.state_dict().values() if tuple(value.shape) == (8, 1, 3, 3)]) == 1


def test_plain_operations_are_the_same_arithmetic() -> None:
    of = subject(Pictured)
    scheme = find_scheme("int8-static")
    made = scheme.quantize(of.model, ["first", "again", "last"], calibration(of))
    assert isinstance(made, QuantizedGraph)
    plain = made.for_target("pt2")
    assert not any("quantized_decomposed" in str(node.target) for node in plain.graph.graph.nodes)
    assert _off(made, plain, _prepared(of)) < 1e-6
    assert made.for_target("onnx") is made


def test_a_graph_has_no_mode_to_leave() -> None:
    of = sides()
    made = find_scheme("int8-static").quantize(of.model, ["first", "last"], calibration(of))
    assert made.eval() is made
    assert _off(made, made.train(), _prepared(of)) == 0


# -- rounding in float --


def test_ranges_hold_zero_and_all_that_came_in() -> None:
    of = sides()
    ranges = input_ranges(of.model, ["first"], calibration(of))
    span = ranges["first"]
    assert span is not None
    seen = torch.cat([batch.inputs for batch in calibration(of).batches()])
    assert span == (min(0.0, float(seen.min())), max(0.0, float(seen.max())))


def test_a_layer_that_is_never_called_has_no_range_and_its_weight_is_rounded() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0).eval()
    made = fake_quantized(model, {"self_attn.out_proj": None})
    given = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(0))
    assert 0 < _off(model, made, given) < 0.05


def test_after_rounding_a_model_has_its_own_weights_and_no_hooks() -> None:
    model = Sides()
    before = copy.deepcopy(model.state_dict())
    with fake_quantization(model, {"first": (-1.0, 1.0), "last": None}):
        assert not torch.equal(model.first.weight, before["first.weight"])
    assert set(model.state_dict()) == set(before)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not model.first._forward_pre_hooks


def test_rounding_lets_gradients_through() -> None:
    model = Sides()
    with fake_quantization(model, {"first": (-4.0, 4.0)}):
        model(torch.randn(5, 40)).sum().backward()
    assert model.first.weight.grad is not None
    assert float(model.first.weight.grad.abs().sum()) > 0


def test_qat_learns_to_answer_in_spite_of_rounding() -> None:
    """The loss of the rounded model falls: it is trained on the run's own samples and targets."""
    of = subject(Pictured)
    names = ["first", "again", "last"]
    static = find_scheme("int8-static").quantize(of.model, names, calibration(of))
    learned = Qat().quantize(of.model, names, calibration(of))
    batch = next(calibration(of).batches())
    with torch.no_grad():
        losses = [float(of.task.loss_sum(model(batch.inputs), batch.targets)) for model in (static, learned)]
    assert losses[1] < losses[0]
