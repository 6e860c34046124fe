"""Steps of optimizers, also of those that wrap others, and after one that raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.conftest import check_script, in_child
from trueloop.taps.backward import BackwardTap
from trueloop.taps.bus import Bus
from trueloop.taps.calls import BackwardCall, StepCall
from trueloop.taps.optimizer import OptimizerTap


class _Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def step_started(self, call: StepCall) -> None:
        self.heard.append(("started", type(call.optimizer).__name__, call.index, call.closure))

    def step_ended(self, call: StepCall) -> None:
        self.heard.append(("ended", type(call.optimizer).__name__, call.index, call.closure))

    def backward_ended(self, call: BackwardCall) -> None:
        self.heard.append(("backward", call.inside_step))


class Outer(torch.optim.Optimizer):
    """An optimizer around another, as SAM and Lookahead are."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


def _heard(use: Any) -> list[tuple[Any, ...]]:
    def work() -> list[tuple[Any, ...]]:
        listener, bus = _Listener(), Bus(lambda _: None)
        bus.subscribe([listener])
        taps = [OptimizerTap(bus, lambda _: None, lambda _: None), BackwardTap(bus)]
        for tap in taps:
            tap.install()
        model = nn.Linear(2, 1)
        use(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for tap in taps:
            tap.remove()
        use(model, torch.optim.SGD(model.parameters(), lr=0.1))
        assert bus.in_step == 0
        return listener.heard

    heard: list[tuple[Any, ...]] = in_child(work)
    return heard


def test_a_step_around_a_step_is_told_as_both() -> None:
    heard = _heard(lambda _, inner: [Outer(inner).step(), inner.step()])
    assert heard == [
        *[
            ("started", "Outer", 0, False),
            ("started", "SGD", 0, False),
            ("ended", "SGD", 0, False),
            ("ended", "Outer", 0, False),
        ],
        *[("started", "SGD", 1, False), ("ended", "SGD", 1, False)],
    ]


def test_after_a_step_that_raised_all_is_as_before() -> None:
    def use(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        def closure() -> Any:
            loss = model(torch.ones(1, 2)).sum()
            loss.backward()
            if not failed:
                failed.append(True)
                raise ArithmeticError
            return loss

        failed: list[bool] = []
        try:
            optimizer.step(closure)
        except ArithmeticError:
            closure()
        optimizer.step(closure)

    step = [("started", "SGD", 0, True), ("backward", True)]
    assert _heard(use) == [*step, ("backward", False), *step, ("ended", "SGD", 0, True)]


WRAPPED = """
import torch
from torch import nn
import torch.nn.functional as F

class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **options):
        super().__init__(params, dict(rho=rho, **options))
        self.base = base(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def first_step(self):
        norm = torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"] if p.grad is not None]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad, alpha=(group["rho"] / (norm + 1e-12)).item())

    @torch.no_grad()
    def step(self, closure):
        closure = torch.enable_grad()(closure)
        self.first_step()
        self.zero_grad()
        closure()
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.base.step()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
for _ in range(12):
    x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
    def closure():
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss
    closure()
    optimizer.step(closure)
    optimizer.zero_grad()
"""


def test_an_optimizer_around_another_in_a_healthy_loop_raises_no_alarm(tmp_path: Path) -> None:
    checked = check_script(tmp_path, WRAPPED)
    assert checked.verdict.outcome.reason == "finished", checked.output
    assert checked.names() == set()
