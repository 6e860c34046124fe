"""A model that is split must answer as before: rounding is let through, another function never, whatever else is in the
answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, final

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.engine.small import CLASSES, SMALL, WIDTH, Read, with_dropout, with_norm
from trueloop.engine.batches import Batches
from trueloop.engine.parallel_selfcheck import ROUNDING, _near, check_same_outputs
from trueloop.errors import BadRecipe, Misuse
from trueloop.parallel.peers import Alone
from trueloop.parallel.strategy import Single, Strategy
from trueloop.recipe.recipe import DataRequest

T = TypeVar("T")
HOST = torch.device("cpu")


@final
class Split(Strategy):
    """One that holds copies, so that it is asked."""

    name, copies, note = "tp", True, "parallel: tp over 2 processes, 2 of 2 linear layers split over 2 (0, 2)"

    def __init__(self) -> None:
        self.peers = self.sharers = Alone()
        self.settled = 0

    def settle(self, model: nn.Module) -> None:
        self.settled += 1

    def micros(self, micros: Sequence[T], samples: int) -> Iterable[T]:
        return micros

    def add_up(self, losses: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
        return torch.zeros(())


def batches(**options: Any) -> Batches:
    recipe = replace(SMALL, **options)
    return Batches(recipe.data(DataRequest()), recipe, HOST, Alone())


def changed(model: nn.Module, change: Callable[[], object], strategy: Strategy | None = None) -> None:
    with check_same_outputs(model, batches(), strategy or Split()):
        change()


class Shaped(nn.Module):
    """Answers with what a test puts in its hands."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, inputs: Tensor) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


# -- which answers are near --


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=8), st.floats(-0.9, 0.9))
def test_a_thousandth_of_the_largest_number_is_rounding(values: list[float], share: float) -> None:
    one = torch.tensor(values, dtype=torch.float64)
    assert _near(one, one + share * ROUNDING * float(one.abs().max()))


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=8), st.integers(0, 7), st.floats(1.1, 1e3))
def test_more_than_that_in_any_place_is_another_answer(values: list[float], place: int, times: float) -> None:
    one = torch.tensor([*values, 1.0], dtype=torch.float64)
    other = one.clone()
    other[place % len(one)] += times * ROUNDING * float(one.abs().max())
    assert not _near(one, other)


@pytest.mark.parametrize("kept", [math.inf, -math.inf, math.nan])
def test_what_is_no_number_in_both_does_not_hide_another_answer(kept: float) -> None:
    """Scores that are masked are minus infinity: they must not be the measure for all others."""
    one = torch.tensor([1.0, -2.0, kept])
    assert _near(one, torch.tensor([1.0, -2.0 - 1e-5, kept]))
    assert not _near(one, torch.tensor([9.0, -2.0, kept]))
    assert not _near(one, torch.tensor([1.0, -2.0, 0.0]))
    assert not _near(one, torch.tensor([kept, -2.0, kept]))


def test_answers_of_nothing_but_zeros_or_nothing_at_all_are_compared_too() -> None:
    assert _near(torch.zeros(3), torch.zeros(3))
    assert not _near(torch.zeros(3), torch.full((3,), 1e-6))
    assert _near(torch.zeros(0), torch.zeros(0))
    assert _near(torch.full((2,), math.nan), torch.full((2,), math.nan))


def test_whole_numbers_are_no_measure() -> None:
    assert _near(torch.tensor([1, 2]), torch.tensor([3, 4]))


# -- around spreading --


def test_who_splits_no_layer_is_asked_nothing() -> None:
    model = Shaped(RuntimeError("nobody calls it"))
    changed(model, lambda: None, Single())


def test_the_same_function_is_let_through_and_each_answer_is_settled() -> None:
    strategy = Split()
    changed(with_dropout(), lambda: None, strategy)
    assert strategy.settled == 2


def test_another_function_is_refused_with_what_was_split() -> None:
    first = nn.Linear(WIDTH, 8)
    model = nn.Sequential(first, nn.ReLU(), nn.Linear(8, CLASSES))

    def halved() -> None:
        with torch.no_grad():
            first.weight[4:].zero_()

    with pytest.raises(
        BadRecipe,
        match=r"parallel=tp changes the outputs of Sequential: 2 of 2 linear layers split over 2 \(0, 2\)",
    ):
        changed(model, halved)


def test_an_answer_of_another_shape_is_refused() -> None:
    model = Shaped(torch.ones(3))
    with pytest.raises(BadRecipe, match="changes the outputs"):
        changed(model, lambda: setattr(model, "answer", torch.ones(2)))


@pytest.mark.parametrize("place", [0, 1])
def test_of_several_answers_each_is_looked_at(place: int) -> None:
    answers = [torch.ones(3), torch.ones(2)]
    model = Shaped({"first": answers[0], "more": (answers[1],)})

    def change() -> None:
        model.answer = {"first": answers[0] + (place == 0), "more": (answers[1] + (place == 1),)}

    with pytest.raises(BadRecipe, match="changes the outputs"):
        changed(model, change)


def test_a_model_that_fails_on_its_first_batch_is_told_of_in_its_own_words() -> None:
    with pytest.raises(
        BadRecipe, match=r"Shaped fails on the first batch: RuntimeError: mat1 and mat2\. Nothing was trained\."
    ):
        changed(Shaped(RuntimeError("mat1 and mat2.\nmore of it")), lambda: None)
    with pytest.raises(BadRecipe, match=r"Shaped fails on the first batch: ValueError: \. Nothing was trained\."):
        changed(Shaped(ValueError()), lambda: None)


def test_one_that_fails_only_when_it_is_split_too() -> None:
    model = Shaped(torch.ones(1))
    with pytest.raises(BadRecipe, match="fails on the first batch: RuntimeError: shape"):
        changed(model, lambda: setattr(model, "answer", RuntimeError("shape")))


def test_sentences_of_ours_are_handed_on() -> None:
    with pytest.raises(Misuse, match="ours"):
        changed(Shaped(Misuse("ours")), lambda: None)


def test_a_plan_that_cannot_be_followed_is_told_of_by_itself() -> None:
    def refuse() -> None:
        raise BadRecipe("the plan")

    with pytest.raises(BadRecipe, match="the plan"):
        changed(with_dropout(), refuse)


def test_asking_leaves_no_trace_in_modes_statistics_and_draws() -> None:
    torch.manual_seed(0)
    model = with_norm()
    next(model.children()).eval()  # frozen by hand
    modes = [module.training for module in model.modules()]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    draws = torch.get_rng_state()
    changed(model, lambda: None)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), draws)


def test_without_a_batch_there_is_nothing_to_ask() -> None:
    few = batches(data=Read(samples=2), batch=8, drop_last=True)
    with check_same_outputs(Shaped(RuntimeError("nobody calls it")), few, Split()):
        pass
