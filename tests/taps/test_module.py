"""Calls of modules: which are told, as what, and that odd modules work as ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.conftest import in_child
from trueloop.taps.bus import Bus
from trueloop.taps.calls import InnerCall, ModuleCall
from trueloop.taps.module import ModuleTap


class _Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def module_call_ended(self, call: ModuleCall) -> None:
        self.heard.append(
            (type(call.module).__name__, call.training, call.grad, call.compiled, call.failed, dict(call.kwargs))
        )

    def inner_call_ended(self, call: InnerCall) -> None:
        self.heard.append((type(call.module).__name__,))

    def criterion_ended(self, call: ModuleCall) -> None:
        self.heard.append((type(call.module).__name__, "criterion"))


def _heard(use: Callable[[Bus], None]) -> list[tuple[Any, ...]]:
    def work() -> list[tuple[Any, ...]]:
        listener, bus = _Listener(), Bus(lambda _: None)
        bus.subscribe([listener])
        tap = ModuleTap(bus)
        tap.install()
        use(bus)
        tap.remove()
        assert bus.call is None
        return listener.heard

    heard: list[tuple[Any, ...]] = in_child(work)
    return heard


def test_inner_calls_are_told_on_deep_steps_only() -> None:
    def use(bus: Bus) -> None:
        model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        model(torch.ones(1, 2))
        bus.deep = False
        with torch.no_grad():
            model.eval()(input=torch.ones(1, 2))

    *deep, last = _heard(use)
    assert deep == [("Linear",), ("ReLU",), ("Sequential", True, True, False, False, {})]
    assert last[:-1] == ("Sequential", False, False, False, False)
    assert list(last[-1]) == ["input"]


def test_a_call_that_raises_is_told_as_failed_and_the_next_is_outermost_again() -> None:
    def use(bus: Bus) -> None:
        bus.deep = False
        model = nn.Sequential(nn.Linear(2, 2))
        with pytest.raises(RuntimeError):
            model(torch.ones(1, 3))
        model(torch.ones(1, 2))

    assert [(name, failed) for name, _, _, _, failed, _ in _heard(use)] == [("Sequential", True), ("Sequential", False)]


def test_a_class_that_forgot_super_init_fails_as_it_would() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            pass

        def forward(self) -> None: ...

    def use(bus: Bus) -> None:
        with pytest.raises(AttributeError, match=r"_backward_hooks|_compiled_call_impl|_forward"):
            Forgetful()()

    assert _heard(use) == []


def test_compiled_modules_are_seen_from_outside_and_eager_ones_beside_them_still() -> None:
    def use(bus: Bus) -> None:
        made, plain = torch.compile(nn.Sequential(nn.Linear(2, 2)), backend="eager"), nn.Linear(2, 2)
        in_place = nn.Sequential(nn.Linear(2, 2))
        in_place.compile(backend="eager")
        for model in (made, in_place, plain):
            for _ in range(2):
                model(torch.ones(1, 2))

    told = [(name, compiled) for name, _, _, compiled, _, _ in _heard(use)]
    assert told == [("OptimizedModule", True)] * 2 + [("Sequential", True)] * 2 + [("Linear", False)] * 2


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_what_a_transform_or_a_trace_calls_is_not_told() -> None:
    def use(bus: Bus) -> None:
        model = nn.Linear(2, 2)
        torch.func.vmap(model)(torch.ones(3, 2))
        torch.jit.trace(model, torch.ones(1, 2), check_trace=False)  # type: ignore[no-untyped-call]

    assert _heard(use) == []


class _Criterion(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MSELoss()

    def forward(self, model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.inner(model(rows), rows)
        return loss


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self._through(rows)

    def _through(self, rows: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(rows)
        return output


def _names(heard: list[tuple[Any, ...]]) -> list[str]:
    return [f"{call[0]} criterion" if call[1:] == ("criterion",) else call[0] for call in heard]


def test_a_module_without_parameters_is_no_model_and_hides_none() -> None:
    def use(bus: Bus) -> None:
        bus.deep = False
        _Criterion()(_Net(), torch.ones(1, 2))
        nn.Softmax(1)(torch.ones(1, 2))

    assert _names(_heard(use)) == ["_Net", "_Criterion criterion", "Softmax criterion"]


def test_layers_in_a_plain_list_belong_to_a_model() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = {"all": [nn.Linear(2, 2)]}

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = self.layers["all"][0](rows)
            return output

    def use(bus: Bus) -> None:
        bus.deep = False
        Hidden()(torch.ones(1, 2))

    assert _names(_heard(use)) == ["Hidden"]


def test_a_criterion_that_raises_is_forgotten() -> None:
    def use(bus: Bus) -> None:
        bus.deep = False
        with pytest.raises(TypeError):
            _Criterion()(1)
        _Net()(torch.ones(1, 2))

    assert _names(_heard(use)) == ["_Criterion criterion", "_Net"]


def test_forward_called_directly_is_a_call_of_the_model_from_the_second_time_on() -> None:
    def use(bus: Bus) -> None:
        bus.deep = False
        model, forward = _Net(), _Net.forward
        for _ in range(3):
            model.forward(torch.ones(1, 2))
        model(torch.ones(1, 2))
        assert getattr(_Net.forward, "__wrapped__", None) is forward

    assert _names(_heard(use)) == ["_Net"] * 3
