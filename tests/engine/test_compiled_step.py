"""program=compiled_step: one compiled function gives the model's own loss and gradients, and the same run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from tests.engine.small import (
    CLASSES,
    SMALL,
    WIDTH,
    Of,
    Ran,
    Read,
    begin,
    furthest,
    plain,
    ran,
    reading,
    same_bits,
    with_dropout,
    with_norm,
)
from trueloop.checkpoint.store import Memory
from trueloop.data.source import Batch, Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.loop import Loop
from trueloop.engine.parts import Parts
from trueloop.engine.programs.compiled_step import CompiledStep
from trueloop.engine.programs.hashed_dropout import draw_seeds
from trueloop.engine.state import State
from trueloop.errors import BadRecipe
from trueloop.recipe.recipe import Recipe

WHOLE = replace(SMALL, program="compiled_step")


def as_traced(graph: torch.fx.GraphModule, places: list[Tensor]) -> Callable[[list[Tensor]], Sequence[Tensor]]:
    """A compiler that writes nothing: the traced graph, run by torch. Real code takes seconds to be written."""
    return lambda given: graph(*given)


def traced(parts: Parts, state: State) -> CompiledStep:
    return CompiledStep(parts, state, as_traced)


def whole(recipe: Recipe, **options: Any) -> Ran:
    return ran(replace(recipe, program="compiled_step"), program=traced, **options)


def built(recipe: Recipe) -> tuple[Loop, CompiledStep, Batch]:
    """A loop's function, ready, and the first batch."""
    loop, _, _ = begin(recipe)
    loop.parts.into_training_mode()
    made = CompiledStep(loop.parts, loop.state, as_traced)
    made.prepare()
    batch = loop.parts.batches.batch_at(0, 0)
    assert batch is not None
    return loop, made, loop.parts.batches.micros(batch)[0]


# -- the same numbers --


@pytest.mark.parametrize("model", [plain, with_norm])
def test_loss_and_gradients_are_the_models_own(model: Callable[[], nn.Module]) -> None:
    loop, made, micro = built(replace(SMALL, model=model))
    with loop.parts.guard.buffers.preserved():
        loss = made.backward(micro, 16)
    mine = [parameter.grad for parameter in loop.parts.parameters]
    for parameter in loop.parts.parameters:
        parameter.grad = None
    expected = F.cross_entropy(loop.parts.model(micro.inputs), micro.targets)
    expected.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, expected.detach())
    for parameter, gradient in zip(loop.parts.parameters, mine, strict=True):
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"clip": 0.1},
        {"accumulate": 2},
        {"ema": 0.9},
        {"optimizer": "sgd"},
        {"label_smoothing": 0.1},
        {"balanced": True},
    ],
)
def test_a_whole_run_is_the_eager_run_to_rounding(more: dict[str, Any]) -> None:
    recipe = replace(SMALL, **more)
    one, other = ran(recipe), whole(recipe)
    assert other.losses == pytest.approx(one.losses, rel=1e-5)
    assert furthest(one.weights, other.weights) < 1e-5


def test_running_statistics_are_those_of_the_eager_run() -> None:
    recipe = replace(
        SMALL, model=with_norm, optimizer="sgd"
    )  # Adam would blow up the noise of a bias that a norm takes away again
    one, other = ran(recipe), whole(recipe)
    assert other.losses == pytest.approx(one.losses, rel=1e-5)
    assert furthest(one.weights, other.weights) < 1e-5
    assert int(other.weights["1.num_batches_tracked"]) == 12


def test_a_batch_that_is_no_number_leaves_no_trace_in_them() -> None:
    def spoiled(inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        inputs[7] = float("nan")
        return inputs, labels

    recipe = replace(SMALL, model=with_norm, optimizer="sgd", data=Read(change=spoiled), on_nonfinite="skip")
    one, other = ran(recipe), whole(recipe)
    assert other.loop.state.skipped == one.loop.state.skipped == 3
    assert all(bool(torch.isfinite(value).all()) for value in other.weights.values())
    assert furthest(one.weights, other.weights) < 1e-5


def test_tokens_of_which_only_some_count() -> None:
    recipe = reading(3, 9, 1, 30, 7, 7, 2, 40)
    one, other = ran(recipe), whole(recipe)
    assert other.losses == pytest.approx(one.losses, rel=1e-5)
    assert furthest(one.weights, other.weights) < 1e-5


def test_dropout_learns_as_well_though_it_draws_other_numbers() -> None:
    recipe = replace(SMALL, model=with_dropout, data=Read(600), epochs=4)
    one, other = ran(recipe), whole(recipe)
    assert one.losses[0] != other.losses[0]
    last = [sum(each.losses[-30:]) / 30 for each in (one, other)]
    assert last[1] == pytest.approx(last[0], rel=0.15)


def test_the_last_smaller_batch_goes_through_the_model_as_it_is() -> None:
    loop, made, micro = built(SMALL)  # 50 samples in batches of 16
    smaller = loop.parts.batches.batch_at(0, 3)
    assert smaller is not None
    assert made.takes(micro)
    assert not made.takes(smaller)
    assert whole(SMALL).ending.step == 12


# -- the same bits --


def test_a_resumed_run_ends_with_the_same_bits() -> None:
    recipe, store = replace(WHOLE, model=with_dropout, save_every=1), Memory()
    straight = whole(recipe)
    cut, _, _ = begin(recipe, store)
    Loop(replace(cut.parts, total_steps=5), traced).train()
    assert same_bits(whole(recipe, store=store, go_on=True).weights, straight.weights)


def test_whoever_looks_changes_nothing() -> None:
    """Layers are looked into in each step, or never: the same bits, dropout and running statistics included."""

    def model() -> nn.Module:
        return nn.Sequential(with_norm(), nn.Dropout(0.3), nn.Linear(CLASSES, CLASSES))

    never, always = (whole(replace(SMALL, model=model, statistics_every=every)) for every in (0, 1))
    assert same_bits(never.weights, always.weights)
    assert never.losses == always.losses


def test_building_it_draws_nothing_and_leaves_no_trace() -> None:
    loop, _, _ = begin(replace(SMALL, model=with_norm))
    loop.parts.into_training_mode()
    before, state = (
        {name: value.clone() for name, value in loop.parts.model.state_dict().items()},
        torch.get_rng_state(),
    )
    CompiledStep(loop.parts, loop.state, as_traced).prepare()
    assert same_bits(before, loop.parts.model.state_dict())
    assert torch.equal(state, torch.get_rng_state())
    assert all(parameter.grad is None for parameter in loop.parts.parameters)


def test_products_are_set_back_after_each_call() -> None:
    _, made, micro = built(SMALL)
    made._without_mkldnn = True
    made._call = _failing
    before = torch.backends.mkldnn.enabled
    with pytest.raises(RuntimeError, match="no"):
        made.backward(micro, 16)
    assert torch.backends.mkldnn.enabled == before


def _failing(given: list[Tensor]) -> Sequence[Tensor]:
    assert not torch.backends.mkldnn.enabled
    raise RuntimeError("no")


# -- unusual models --


class Unusual(nn.Module):
    """A frozen layer, a layer that the loss does not reach, one weight in two places, two that have the same
    gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.twice = nn.Linear(WIDTH, WIDTH)
        self.again = nn.Linear(WIDTH, WIDTH)
        self.again.weight = self.twice.weight
        self.unreached = nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, CLASSES)
        self.beside = nn.Parameter(torch.zeros(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.last(self.again(torch.tanh(self.twice(self.frozen(x))))) + self.beside
        return scores


@pytest.mark.parametrize("clip", [None, 0.1])
def test_frozen_tied_unreached_and_twin_parameters_are_as_in_the_eager_run(clip: float | None) -> None:
    recipe = replace(SMALL, model=Unusual, weight_decay=0.1, clip=clip)
    one, other = ran(recipe), whole(recipe)
    assert furthest(one.weights, other.weights) < 1e-5
    assert other.losses == pytest.approx(one.losses, rel=1e-5)


def test_a_parameter_that_the_loss_does_not_reach_has_no_gradient() -> None:
    loop, made, micro = built(replace(SMALL, model=Unusual))
    made.backward(micro, 16)
    assert {name for name, parameter in loop.parts.model.named_parameters() if parameter.grad is None} == {
        "frozen.weight", "frozen.bias", "unreached.weight", "unreached.bias",
    }  # fmt: skip
    memory = [
        parameter.grad.untyped_storage().data_ptr() for parameter in loop.parts.parameters if parameter.grad is not None
    ]
    assert len(set(memory)) == len(memory)


class Named(nn.Module):
    """Takes a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, given: dict[str, Tensor]) -> Tensor:
        scores: Tensor = self.inner(torch.cat([given["left"], given["right"]], 1))
        return scores


def test_a_batch_may_be_a_dict() -> None:
    torch.manual_seed(0)
    splits = Splits(
        Tensors(torch.randn(32, WIDTH), torch.randint(0, CLASSES, (32,))),
        facts=Facts(classes=tuple("abc")),
        prepare=lambda values: {"left": values, "right": values.square()},
    )
    recipe = replace(SMALL, model=Named, data=Of(splits))
    one, other = ran(recipe), whole(recipe)
    assert other.losses == pytest.approx(one.losses, rel=1e-5)


# -- what is refused --


class Branches(nn.Module):
    """Asks a value of Python in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.inner(x)
        return scores if scores.sum() > 0 else -scores


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, CLASSES, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.table((x[:, 0] > 0).long())
        return scores


@pytest.mark.parametrize(("model", "words"), [(Branches, "cannot compile"), (Sparse, "(?i)sparse")])
def test_a_model_that_cannot_be_one_function_is_refused_in_a_sentence(
    model: Callable[[], nn.Module], words: str
) -> None:
    with pytest.raises(BadRecipe, match=words) as refused:
        built(replace(SMALL, model=model, optimizer="sgd"))
    assert "set program=eager" in str(refused.value)


def test_a_compiler_that_computes_something_else_is_found_out() -> None:
    loop, _, _ = begin(SMALL)

    def wrong(graph: torch.fx.GraphModule, places: list[Tensor]) -> Callable[[list[Tensor]], Sequence[Tensor]]:
        return lambda given: [value * (1.001 if number == 2 else 1) for number, value in enumerate(graph(*given))]

    with pytest.raises(BadRecipe, match=r"the gradient of 0.bias differs from the model's own"):
        CompiledStep(loop.parts, loop.state, wrong).prepare()


def test_before_it_is_built_it_says_so() -> None:
    loop, _, _ = begin(SMALL)
    micro = loop.parts.batches.batch_at(0, 0)
    assert micro is not None
    with pytest.raises(RuntimeError, match="prepare"):
        CompiledStep(loop.parts, loop.state, as_traced)._computed(micro, 16, draw_seeds())


@pytest.mark.parametrize("other", [{"precision": "bf16"}, {"compile": "default"}, {"device": "cuda"}])
def test_what_it_does_not_go_with_is_said_before_anything_runs(other: dict[str, Any]) -> None:
    with pytest.raises(BadRecipe, match="program=compiled_step"):
        Loop.of(replace(WHOLE, **other))


# -- with the real compiler --


OF_TORCH = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""The compiler, coming, warns of what it uses itself."""


@OF_TORCH
@pytest.mark.long
def test_compiled_code_gives_the_eager_run_to_rounding_and_the_same_draws_as_its_graph() -> None:
    recipe = replace(WHOLE, model=with_dropout, data=Read(64), epochs=4)
    compiled, graph = ran(recipe), whole(recipe)
    assert isinstance(compiled.loop.program, CompiledStep)
    assert compiled.losses == pytest.approx(graph.losses, rel=1e-4)
    assert furthest(compiled.weights, graph.weights) < 1e-4


@OF_TORCH
@pytest.mark.long
def test_pooled_images_are_compiled_in_a_process_that_has_not_compiled_before() -> None:
    """Some of the compiler's rewritings use a part of it that nothing has imported by then."""
    script = (
        "from dataclasses import replace\n"
        "import torch\n"
        "from torch import nn\n"
        "from tests.engine.small import CLASSES, SMALL, Of, begin\n"
        "from trueloop.data.source import Splits\n"
        "from trueloop.data.tensors import Tensors\n"
        "from trueloop.engine.programs.compiled_step import CompiledStep\n"
        "net = lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, CLASSES))\n"
        "data = Of(Splits(Tensors(torch.randn(16, 1, 8, 8), torch.randint(0, CLASSES, (16,)))))\n"
        "loop = begin(replace(SMALL, model=net, data=data))[0]\n"
        "loop.parts.into_training_mode()\n"
        "CompiledStep(loop.parts, loop.state, lambda graph, places: lambda given: graph(*given)).prepare()\n"
        "print('built')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "built" in done.stdout, done.stderr


@OF_TORCH
@pytest.mark.long
def test_compiled_code_updates_running_statistics() -> None:
    recipe = replace(WHOLE, model=with_norm, optimizer="sgd")
    assert furthest(ran(recipe).weights, ran(replace(recipe, program="eager")).weights) < 1e-5
