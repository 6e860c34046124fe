"""Copies that have drifted apart, asked of threads that sit around one table: nobody needs a process for that."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from trueloop.event.thresholds import PARAMETER_DRIFT
from trueloop.parallel.digest import Drift, _camps, _distance, _number, _shadows, drift
from trueloop.parallel.peers import Peers
from trueloop.parallel.strategy import Strategy

T = TypeVar("T")
Where = tuple[tuple[str, int], ...]


@final
@dataclass
class Table:
    """Around which so many sit."""

    seats: int
    said: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.all_here = threading.Barrier(self.seats, timeout=20)

    def gather(self, rank: int, value: Any) -> list[Any]:
        self.said[rank] = value
        self.all_here.wait()
        everybody = [self.said[each] for each in range(self.seats)]
        self.all_here.wait()
        return everybody


class Seat(Strategy):
    """One of them. `holds`: which part of every parameter it has."""

    name, copies = "threads", True

    def __init__(self, table: Table, rank: int, holds: Where = ()) -> None:
        self.table, self.rank, self.holds = table, rank, holds
        self.peers = self.sharers = _Sitting(table, rank)

    def where(self, tensor: Tensor) -> Where:
        return self.holds

    def micros(self, micros: Sequence[T], samples: int) -> Iterable[T]:
        return micros

    def add_up(self, losses: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
        raise AssertionError("nothing is trained here")


class _Sitting(Peers):
    def __init__(self, table: Table, rank: int) -> None:
        self.table, self.rank, self.world = table, rank, table.seats

    def gather(self, value: Any) -> list[Any]:
        return self.table.gather(self.rank, value)

    sum = any = add_up = share = wait = None  # type: ignore[assignment]


def asked(models: Sequence[nn.Module], holds: Sequence[Where] | None = None) -> Drift | None:
    """What all of them find, which must be the same."""
    table = Table(len(models))
    found: dict[int, Any] = {}

    def work(rank: int) -> None:
        try:
            found[rank] = drift(models[rank], Seat(table, rank, holds[rank] if holds else ()))
        except BaseException as error:
            found[rank] = error
            table.all_here.abort()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(models))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found.values():
        if isinstance(each, BaseException):
            raise each
    assert len({str(each) for each in found.values()}) == 1, found
    first: Drift | None = found[0]
    return first


def model(change: Callable[[nn.Linear], object] | None = None, width: int = 20) -> nn.Linear:
    torch.manual_seed(0)
    made = nn.Linear(width, 10)
    if change is not None:
        with torch.no_grad():
            change(made)
    return made


def louder(by: float) -> Callable[[nn.Linear], object]:
    return lambda made: made.weight.mul_(1 + by)


# -- found or not --


def test_copies_with_the_same_bits_are_asked_nothing_more() -> None:
    assert asked([model(), model(), model()]) is None


def test_one_alone_agrees_with_itself() -> None:
    assert drift(model(), Seat(Table(1), 0)) is None


def test_a_model_without_parameters_cannot_drift() -> None:
    assert asked([nn.ReLU(), nn.ReLU()]) is None


@pytest.mark.parametrize(("by", "apart"), [(PARAMETER_DRIFT / 3, False), (PARAMETER_DRIFT * 3, True), (1.0, True)])
def test_rounding_is_no_drift_and_a_step_is_one(by: float, apart: bool) -> None:
    found = asked([model(), model(louder(by))])
    assert (found is not None) is apart
    if found is not None:
        assert found.parameter == "weight"
        assert found.distance == pytest.approx(by / (1 + by), rel=0.6)


def test_those_who_agree_stand_together_and_most_of_them_come_first() -> None:
    found = asked([model(louder(0.5)), model(), model(), model(louder(0.5)), model(), model(louder(-0.5))])
    assert found is not None
    assert found.ranks == ((1, 2, 4), (0, 3), (5,))


def test_the_parameter_that_differs_most_is_named_and_the_others_are_counted() -> None:
    def both(made: nn.Linear) -> None:
        made.weight.mul_(1.01)
        made.bias.mul_(2.0)

    found = asked([model(), model(both)])
    assert found is not None
    assert (found.parameter, found.others) == ("bias", 1)


def test_a_parameter_that_differs_by_rounding_only_is_not_counted() -> None:
    def both(made: nn.Linear) -> None:
        made.weight.mul_(1 + 1e-6)
        made.bias.mul_(2.0)

    found = asked([model(), model(both)])
    assert found is not None
    assert (found.parameter, found.others) == ("bias", 0)


def test_different_parts_may_differ_and_the_same_part_may_not() -> None:
    mine, yours = (("tensor", 0),), (("tensor", 1),)
    assert asked([model(), model(louder(1.0))], [mine, yours]) is None
    found = asked([model(), model(louder(1.0)), model(), model(louder(2.0))], [mine, yours, mine, yours])
    assert found is not None
    assert found.ranks == ((1,), (3,))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_copy_that_is_no_number_any_more_has_drifted_as_far_as_can_be(wrong: float) -> None:
    """Comparisons with what is no number are false: it must not pass for agreement."""

    def broken(made: nn.Linear) -> None:
        made.weight[3, 5] = wrong

    found = asked([model(), model(broken), model()])
    assert found is not None
    assert found.parameter == "weight"
    assert found.ranks == ((0, 2), (1,))
    assert "nan" not in found.sentence(3)


def test_copies_that_are_all_no_numbers_say_nothing_of_one_another() -> None:
    """The guard has a sentence of its own for that."""

    def broken(at: int) -> Callable[[nn.Linear], object]:
        return lambda made: made.weight[at].fill_(math.nan)

    assert asked([model(broken(0)), model(broken(1))]) is None


def test_nothing_is_drawn_from_the_training() -> None:
    before = torch.get_rng_state()
    models = [model(), model(louder(1.0))]
    state = torch.get_rng_state()
    asked(models)
    assert torch.equal(torch.get_rng_state(), state)
    torch.set_rng_state(before)


# -- the number --


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64, torch.int8, torch.bool]
)
def test_every_type_of_number_has_a_number_of_its_bits(dtype: torch.dtype) -> None:
    one = torch.ones(4, 3).to(dtype)
    other = one.clone()
    other[2, 1] = 0
    assert int(_number(one)) == int(_number(one.clone()))
    assert int(_number(one)) != int(_number(other))


def test_a_number_is_of_what_a_tensor_holds_whatever_its_strides() -> None:
    tensor = torch.randn(4, 3)
    assert int(_number(tensor.t().contiguous().t())) == int(_number(tensor))
    assert int(_number(torch.zeros(0, 3))) == 0
    assert int(_number(torch.tensor(1.5))) == int(_number(torch.tensor([1.5])))


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20), st.data())
def test_any_flipped_bit_changes_the_number(values: list[float], data: st.DataObject) -> None:
    tensor = torch.tensor(values)
    bits = tensor.view(torch.int32).clone()
    bits[data.draw(st.integers(0, len(values) - 1))] ^= 1 << data.draw(st.integers(0, 30))
    assert int(_number(bits.view(torch.float32))) != int(_number(tensor))


# -- who agrees with whom --


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_camps_are_those_who_say_the_same_and_nobody_is_left_out(said: list[int]) -> None:
    camps = _camps([((), number) for number in said])
    if len(set(said)) == 1:
        assert camps == ()
        return
    assert sorted(rank for camp in camps for rank in camp) == list(range(len(said)))
    assert all(len({said[rank] for rank in camp}) == 1 for camp in camps)
    assert len(camps) == len(set(said))
    assert [len(camp) for camp in camps] == sorted(map(len, camps), reverse=True)


# -- how far --


@given(st.lists(st.floats(-10, 10, width=32), min_size=30, max_size=60), st.floats(0.01, 1.0))
@settings(max_examples=50)
def test_the_distance_is_about_the_share_by_which_they_differ(values: list[float], by: float) -> None:
    one = torch.tensor([*values, 1.0])
    assert _distance([_shadows(one), _shadows(one)]) == 0.0
    found = _distance([_shadows(one), _shadows(one * (1 + by))])
    assert found == pytest.approx(by / (1 + by), rel=0.8)


def test_the_distance_is_the_largest_between_any_two_and_zeros_are_at_none() -> None:
    one = torch.linspace(-1, 1, 64)
    near, far = _shadows(one * 1.01), _shadows(one * 3)
    assert _distance([_shadows(one), near, far]) == max(_distance([_shadows(one), far]), _distance([near, far]))
    assert _distance([_shadows(torch.zeros(4)), _shadows(torch.zeros(4))]) == 0.0
    assert _distance([_shadows(torch.zeros(9)), _shadows(torch.ones(9))]) == pytest.approx(1.0, rel=0.8)


def test_complex_numbers_have_a_distance_too() -> None:
    one = torch.complex(torch.ones(40), torch.linspace(-1, 1, 40))
    assert _distance([_shadows(one), _shadows(one * 2)]) == pytest.approx(0.5, rel=0.6)


# -- in words --


@pytest.mark.parametrize(
    ("ranks", "others", "words"),
    [
        (((0,), (1,)), 0, "between rank 0 and rank 1, though"),
        (((0, 2), (1,)), 0, "between ranks 0, 2 and rank 1, though"),
        (((0, 1), (2, 3), (4,)), 2, "between ranks 0, 1 and ranks 2, 3 and rank 4 (and 2 more do), though"),
    ],
)
def test_a_drift_names_its_ranks(ranks: tuple[tuple[int, ...], ...], others: int, words: str) -> None:
    assert words in Drift("weight", ranks, 0.5, others).sentence(12_000)
    assert "after 12,000 steps, weight differs by 0.5 of its norm" in Drift("weight", ranks, 0.5, others).sentence(
        12_000
    )
