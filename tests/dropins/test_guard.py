"""The callbacks `trueloop.lightning.Guard` and `trueloop.hf.Guard`: a watch around a training of the framework."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import trueloop
from tests.conftest import in_child
from trueloop.dropins.guard import GuardBase
from trueloop.errors import GuardFailed, MissingExtra, Misuse


class Callback:
    """Stands for the base class of a framework's callbacks."""


class Guard(GuardBase, Callback):
    """As those of the frameworks are built."""


def _train(*, clear: bool) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(6, 4)
    for _ in range(8):
        loss = functional.cross_entropy(model(inputs), inputs[:, 0].gt(0).long())
        if clear:
            optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()


def _guarded(guard: GuardBase, *, clear: bool) -> str:
    """The exception that the end raised, or nothing."""
    guard.begin_watch()
    _train(clear=clear)
    try:
        guard.end_watch()
    except GuardFailed as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("fail_on", "clear", "raised"), [("never", False, 0), ("error", False, 1), ("error", True, 0)])
def test_the_report_is_printed_and_fail_on_raises(
    fail_on: str, clear: bool, raised: int, capfd: pytest.CaptureFixture[str]
) -> None:
    def work() -> tuple[str, list[str]]:
        guard = Guard(fail_on=fail_on, run=False)
        return _guarded(guard, clear=clear), [finding.code for finding in guard.findings]

    error, codes = in_child(work)
    assert ("GRD101 gradients-never-cleared" in error) == bool(raised)
    assert ("GRD101" in codes) != clear
    report = capfd.readouterr().err
    assert "8 steps of Linear" in report
    assert report.count("rules applied") == 1
    assert ("error GRD101" in report) != clear


def test_two_trainings_are_two_reports(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> list[str]:
        guard = Guard(fail_on="error", run=False)
        return [_guarded(guard, clear=False)[:5], _guarded(guard, clear=True), *(each.code for each in guard.findings)]

    assert in_child(work) == ["Guard", ""]
    assert capfd.readouterr().err.count("rules applied") == 2


def test_a_training_that_fails_is_reported_and_its_exception_is_not_replaced(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> str:
        guard = Guard(fail_on="error", run=False)
        guard.begin_watch()
        _train(clear=False)
        guard.end_watch(ValueError("the user's own"))
        guard.end_watch()  # Lightning tears down after an exception, too
        return ""

    in_child(work)
    report = capfd.readouterr().err
    assert report.count("rules applied") == 1
    assert "ValueError: the user's own" in report


def test_a_training_that_no_callback_ended_is_reported_when_the_next_begins(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> str:
        guard = Guard(run=False)
        guard.begin_watch()
        _train(clear=False)
        return _guarded(guard, clear=True)

    in_child(work)
    report = capfd.readouterr().err
    assert report.count("rules applied") == 2
    assert report.count("error GRD101") == 1


def test_inside_another_watch_that_one_reports(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> tuple[str, set[str]]:
        with trueloop.watch(run=False) as outer:
            error = _guarded(Guard(fail_on="error", run=False), clear=False)
        return error, {finding.code for finding in outer.findings}

    error, codes = in_child(work)
    assert not error
    assert "GRD101" in codes
    assert capfd.readouterr().err.count("rules applied") == 1


def test_a_wrong_severity_is_refused() -> None:
    with pytest.raises(Misuse, match=r"fail_on cannot be 'erorr'. Did you mean error\?"):
        Guard(fail_on="erorr")


def _fake(monkeypatch: pytest.MonkeyPatch, name: str, **names: Any) -> None:
    """A framework that has nothing but a base class."""
    module = ModuleType(name)
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, name, module)


def _calls_of(guard: Any, monkeypatch: pytest.MonkeyPatch, calls: Callable[[Any], None]) -> list[str]:
    seen: list[str] = []
    monkeypatch.setattr(guard, "begin_watch", lambda: seen.append("begin"))
    monkeypatch.setattr(guard, "end_watch", lambda error=None: seen.append(f"end {error or ''}".strip()))
    calls(guard)
    return seen


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_watches_fit_only(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _fake(monkeypatch, name, Callback=Callback)
    monkeypatch.delitem(sys.modules, "trueloop.lightning", raising=False)
    guard = trueloop.lightning.Guard()

    def calls(each: Any) -> None:
        for stage in ("validate", "fit"):
            each.setup(None, None, stage)
            each.teardown(None, None, stage)
        each.on_exception(None, None, ValueError("own"))

    assert isinstance(guard, Callback)
    assert _calls_of(guard, monkeypatch, calls) == ["begin", "end", "end own"]


def test_hugging_face_watches_train(monkeypatch: pytest.MonkeyPatch) -> None:
    _fake(monkeypatch, "transformers", TrainerCallback=Callback, __spec__=object())
    monkeypatch.delitem(sys.modules, "trueloop.hf", raising=False)
    guard = trueloop.hf.Guard()

    def calls(each: Any) -> None:
        each.on_train_begin(None, None, None, model=None)
        each.on_train_end(None, None, None, model=None)

    assert isinstance(guard, Callback)
    assert _calls_of(guard, monkeypatch, calls) == ["begin", "end"]


@pytest.mark.parametrize(("module", "package"), [("trueloop.lightning", "lightning"), ("trueloop.hf", "transformers")])
def test_without_the_framework_the_message_is_the_command(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning", module):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=f"pip install {package}"):
        importlib.import_module(module)
