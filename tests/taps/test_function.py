"""Custom autograd functions: one call is published, the class is put back, and a compiled function is not touched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function

from tests.conftest import in_child
from trueloop.doctor.watch import Watch
from trueloop.event import BackwardTried, Event
from trueloop.taps.bus import Bus
from trueloop.taps.calls import FunctionCall
from trueloop.taps.function import FunctionTap

drawn: list[int] = []


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        drawn.append(1)
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return -2 * grad * ctx.saved_tensors[0]


class Inherited(Square):
    pass


def test_one_call_is_published_and_the_class_is_put_back() -> None:
    def work() -> list[tuple[str, int]]:
        heard: list[tuple[str, int]] = []

        class Listener:
            def function_called(self, call: FunctionCall) -> None:
                heard.append((call.function.__name__, len(call.args)))

        bus = Bus(lambda _: None)
        bus.subscribe([Listener()])
        tap = FunctionTap(bus)
        tap.install()
        before = vars(Square)["forward"]
        functions: tuple[Any, ...] = (Square, Inherited)
        for function in functions:
            bus.watch_function(function)
            for _ in range(2):
                function.apply(torch.ones(2, requires_grad=True)).sum().backward()
        assert vars(Square)["forward"] is before
        assert "forward" not in vars(Inherited)
        bus.watch_function(Square)
        tap.remove()
        assert vars(Square)["forward"] is before
        return heard

    assert in_child(work) == [("Square", 1), ("Inherited", 1)]


def _run(steps: int, compiled: bool) -> tuple[list[float], list[BackwardTried], int]:
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    square: Any = Square

    def forward(x: Tensor) -> Any:
        return square.apply(layer(x))

    called: Any = torch.compile(forward, backend="eager", fullgraph=True) if compiled else forward
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
    events: list[BackwardTried] = []
    watch = Watch()
    receive = watch._bus.emit

    def listen(event: Event) -> None:
        if isinstance(event, BackwardTried):
            events.append(event)
        receive(event)

    watch._bus.emit = listen
    drawn.clear()
    losses = []
    with watch:
        for _ in range(steps):
            loss = called(torch.randn(8, 4)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert not watch.verdict or not watch.verdict.failures
    return losses, events, len(drawn)


def test_the_run_does_not_see_the_trial() -> None:
    losses, events, calls = in_child(lambda: _run(5, compiled=False))
    assert calls == 5
    assert [(event.function, event.refused, event.errors[0].pattern) for event in events] == [("Square", "", "sign")]
    assert len(set(losses)) == 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_a_compiled_function_is_left_alone() -> None:
    _, events, _ = in_child(lambda: _run(4, compiled=True))
    assert events == []
