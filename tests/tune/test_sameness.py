"""What trials show of themselves, judged: honest variants pass, planted wrong ones are refused, whichever part of the
proof sees them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.tune.worlds import network, read, recipe
from trueloop.data.tensors import Tensors
from trueloop.engine.loop import Loop
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.results.tune import Agreement
from trueloop.tune.agreement import Evidence, agreement_of
from trueloop.tune.process import PeakMemory, resident_bytes
from trueloop.tune.timing import VALID, TrialRecipe, interval
from trueloop.tune.trial_evidence import Order, collect_evidence, disable_dropout

STEPS, SEEDS = 24, 2

pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
"""A processor without bf16 says so, once, and computes it all the same."""


def agreement(model: Callable[[], nn.Module], base: dict[str, Any] | None = None, **changes: Any) -> Agreement:
    """Of a variant with the recipe in fp32, eager."""
    plain = recipe(model=model, **(base or {}))
    reference = collect_evidence(
        TrialRecipe(plain, DataRequest()), plain, Order(STEPS, SEEDS, moved=2, gradients=False)
    )
    trial = collect_evidence(TrialRecipe(replace(plain, **changes), DataRequest()), plain, Order(STEPS, SEEDS))
    return agreement_of(Evidence.of(reference), Evidence.of(trial))


# -- honest ones --


@pytest.mark.long
@pytest.mark.parametrize(
    "changes", [{}, {"threads": 1}, {"accumulate": 4}, {"precision": "bf16"}, {"where": "loader"}], ids=str
)
def test_honest_variants_are_the_same_training(changes: dict[str, Any]) -> None:
    same = agreement(network, **changes)
    assert same.same, same.failures
    assert same.cosine > 0.99
    assert len(same.measured) == SEEDS
    assert all(map(math.isfinite, same.measured))


def test_the_reference_again_is_the_same_to_the_bit() -> None:
    same = agreement(network)
    assert same.loss_apart < 1e-12
    assert same.measured == same.reference
    assert same.length == pytest.approx(1.0)


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(3)))
        self.head = nn.Linear(16, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.head(self.blocks(inputs))
        return answer


@pytest.mark.long
def test_blocks_computed_again_are_the_same_training() -> None:
    assert agreement(Blocks, activation_checkpointing=True).same


@pytest.mark.long
def test_a_model_that_draws_by_itself_is_not_refused_for_its_draws() -> None:
    class Restless(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(inputs + 0.3 * torch.randn_like(inputs))

    assert agreement(lambda: Restless(16, 4), precision="bf16").same


@pytest.mark.long
def test_a_bias_before_a_norm_has_no_gradient_to_compare() -> None:
    def normed() -> nn.Module:
        return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))

    same = agreement(normed, precision="bf16")
    assert same.same, same.failures
    assert same.layer != "0.bias"


# -- planted ones --


class _Half(torch.autograd.Function):
    """What fp16 without a scaler does to small gradients: those below 6e-8 are lost."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:  # noqa: ARG004 - torch's signature
        return inputs.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # noqa: ARG004
        return (grads[0] * 1e-6).half().to(grads[0].dtype) * 1e6


class Underflowing(nn.Module):
    """Sound in fp32; by autocast, its gradients go through numbers of sixteen bits that are too small for them."""

    def __init__(self) -> None:
        super().__init__()
        self.below, self.head = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.below(inputs).relu()
        if torch.is_autocast_enabled("cpu"):
            hidden = _Half.apply(hidden)  # type: ignore[no-untyped-call]
        answer: Tensor = self.head(hidden)
        return answer


def test_gradients_that_underflow_are_refused_and_the_layer_is_named() -> None:
    same = agreement(Underflowing, precision="bf16")
    assert not same.same
    assert same.layer.startswith("below.")
    assert same.cosine < 0.9
    assert "the gradient of below." in " ".join(same.failures)


@pytest.mark.long
def test_a_model_that_learns_nothing_when_it_is_fast_is_refused_by_its_losses() -> None:
    class Lazy(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            made = super().forward(inputs)
            return made if not torch.is_autocast_enabled("cpu") else made.detach() + 0 * made

    same = agreement(lambda: Lazy(16, 4), precision="bf16")
    assert not same.same
    assert any("its loss lies" in said for said in same.failures)
    assert any("accuracy" in said for said in same.failures)


@pytest.mark.long
def test_a_gradient_of_twice_the_length_is_refused_though_adam_hides_it() -> None:
    class Doubled(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            made = super().forward(inputs)
            return made if not torch.is_autocast_enabled("cpu") else 2 * made - made.detach()

    same = agreement(lambda: Doubled(16, 4), precision="bf16")
    assert same.length == pytest.approx(2.0, rel=0.05)
    assert any("the gradient norm is" in said for said in same.failures)


@pytest.mark.long
def test_a_norm_that_sees_small_pieces_is_another_training() -> None:
    """Micro-batches of two samples: their statistics are not those of the batch."""

    def normed() -> nn.Module:
        return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))

    assert not agreement(normed, accumulate=16).same


@pytest.mark.long
def test_a_loss_that_is_no_number_ends_the_proof_and_is_told() -> None:
    class Broken(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            made = super().forward(inputs)
            return made * math.nan if torch.is_autocast_enabled("cpu") else made

    same = agreement(lambda: Broken(16, 4), precision="bf16")
    assert any("its training ended early" in said for said in same.failures)


# -- its parts --


def test_dropout_is_silenced_as_a_layer_and_as_a_number() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = 0.3
            self.inner = nn.MultiheadAttention(8, 2, dropout=0.2)
            self.layers = nn.Sequential(nn.Dropout(0.5), nn.LSTM(4, 4, 2, dropout=0.4))

    model = Attention()
    disable_dropout(model)
    lstm = model.layers[1]
    assert isinstance(lstm, nn.LSTM)
    assert [model.dropout, float(model.inner.dropout), lstm.dropout] == [0.0, 0.0, 0.0]
    assert model.layers[0].p == 0.0


def test_a_proof_without_validation_data_has_no_metric() -> None:
    plain = recipe(data=lambda request: replace(read(request), valid=None))
    shown = Evidence.of(collect_evidence(TrialRecipe(plain, DataRequest()), plain, Order(8, 2)))
    assert (shown.metric, shown.metrics) == ("", [])
    assert len(shown.curve) == 8


def test_without_a_curve_only_the_metric_is_taken() -> None:
    plain = recipe()
    shown = Evidence.of(
        collect_evidence(TrialRecipe(plain, DataRequest()), plain, Order(8, 2, curve=False, gradients=False))
    )
    assert not shown.curve
    assert not shown.gradients
    assert len(shown.metrics) == 2


def test_a_subject_tracks_saves_and_evaluates_nothing() -> None:
    subject = TrialRecipe(recipe(patience=1, evaluate_every=1, save_every=1, warmup=500), DataRequest())
    loop = subject.loop(epochs=None, steps=100)
    assert loop.parts.recipe.trackers == ()
    assert loop.parts.recipe.patience is None
    loop.state.step = 1
    assert not loop.cadence.time_to_evaluate(True)
    assert not loop.cadence.time_to_save(False)
    assert loop.parts.recipe.warmup == 25  # a warm-up longer than the proof would be all of it


def test_data_are_read_once_for_all_loops() -> None:
    asked: list[DataRequest] = []

    def counting(request: DataRequest) -> Any:
        asked.append(request)
        return read(request)

    subject = TrialRecipe(recipe(data=counting), DataRequest())
    subject.loop()
    subject.of(recipe(data=counting, threads=1)).loop()
    assert len(asked) == 1


def test_only_some_of_many_validation_samples_are_used() -> None:
    def many(request: DataRequest) -> Any:
        made = read(request)
        inputs, labels = torch.randn(3 * VALID, 16), torch.arange(3 * VALID) % 4
        return replace(made, valid=Tensors(inputs, labels))

    valid = TrialRecipe(recipe(data=many), DataRequest()).splits.valid
    assert valid is not None
    assert len(valid) == VALID
    assert valid.fetch(torch.arange(3)).targets.tolist() == [0, 3, 2]  # every third
    home = valid.resident(torch.device("cpu"))
    assert home is not None
    assert len(home) == VALID
    labels = valid.labels()
    assert labels is not None
    assert len(labels) == VALID
    assert valid.nbytes()


@pytest.mark.parametrize(
    ("seconds", "own", "steps"),
    [(0.001, 50, 50), (0.006, 50, 50), (0.01, 50, 5), (1.0, 50, 1), (0.001, 1000, 50), (0.1, 2, 2)],
)
def test_intervals_are_the_recipes_own_unless_they_take_too_long(seconds: float, own: int, steps: int) -> None:
    assert interval(seconds, own) == steps


def test_the_peak_of_memory_is_counted_from_a_moment() -> None:
    mark = PeakMemory()
    large = torch.ones(1 << 25)  # 134 MB
    assert mark.peak() > 10**8
    del large
    assert resident_bytes() > 0
    assert resident_bytes(name="VmNothing") == 0


def test_recipes_of_tests_are_recipes() -> None:
    assert isinstance(recipe(), Recipe)


# -- where a proof begins --


def test_a_loop_begins_with_the_weights_that_a_run_begins_with_and_they_are_its_own() -> None:
    subject, plain = TrialRecipe(recipe(), DataRequest()), Loop.of(recipe())
    first, again, other = subject.loop(), subject.loop(), subject.loop(seed=1)
    for name, tensor in plain.parts.model.state_dict().items():
        assert torch.equal(first.parts.model.state_dict()[name], tensor)
        assert torch.equal(again.parts.model.state_dict()[name], tensor)
    assert not torch.equal(next(first.parts.model.parameters()), next(other.parts.model.parameters()))
    with torch.no_grad():
        next(first.parts.model.parameters()).zero_()
    assert torch.equal(next(again.parts.model.parameters()), next(plain.parts.model.parameters()))
    assert torch.equal(next(subject.loop().parts.model.parameters()), next(plain.parts.model.parameters()))


def test_a_model_that_cannot_be_copied_is_built_anew() -> None:
    class Locked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.lock = network(), threading.Lock()

        def forward(self, inputs: Tensor) -> Tensor:
            answer: Tensor = self.inner(inputs)
            return answer

    subject = TrialRecipe(recipe(model=Locked), DataRequest())
    first, again = subject.loop(), subject.loop()
    assert torch.equal(next(first.parts.model.parameters()), next(again.parts.model.parameters()))
    assert next(first.parts.model.parameters()) is not next(again.parts.model.parameters())
