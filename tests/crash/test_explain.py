"""What is explained, what is left alone, and that explaining neither breaks nor keeps anything."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.conftest import Checked
from tests.crash.conftest import Crash
from trueloop.crash import explain as explaining
from trueloop.crash.explain import all_kinds, explain, explained
from trueloop.results.check import Outcome, Tally, Verdict


def test_every_kind_has_a_docstring_and_the_folder_is_the_registry() -> None:
    assert {"layer-shape", "device", "in-place", "missing-init", "backward-twice", "memory", "label"} <= set(
        all_kinds()
    )
    for name, kind in all_kinds().items():
        module = __import__(kind.__module__, fromlist=["__doc__"])
        assert module.__doc__, name


@pytest.mark.parametrize(
    "script",
    [
        "raise ValueError('the learning rate must be positive')",
        "{}['missing']",
        "int('x')",
        "assert 1 == 2, 'Target 10 is out of bounds.'",
        "raise RuntimeError('mat1 and mat2 shapes cannot be multiplied (4x400 and 256x120)')",
        "raise ValueError('Expected more than 1 value per channel when training, got input size torch.Size([1, 8])')",
        "import json\njson.loads('x')",
        "torch.load('nowhere.pt')",
        "nn.Linear(3, 4).wieght",
        "def train():\n    raise IndexError('Target 3 is out of bounds.')\ntrain()",
        "[1, 2][5]",
        "import sys\nsys.exit(3)",
        "torch.zeros(3).reshape('x')",
        "open('nowhere.txt')",
    ],
)
def test_what_is_no_known_crash_is_left_alone(script: str, crash: Callable[[str], Crash]) -> None:
    told = crash(script)
    assert told.verdict.crash is None
    assert told.kinds == ()


def test_an_exception_of_the_users_own_that_hides_a_known_one(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        fc = nn.Linear(3, 4)
        try:
            fc(torch.zeros(2, 5))  # crash
        except RuntimeError as error:
            raise SystemError("training failed") from error
        """)
    assert told.verdict.crash is not None
    assert told.verdict.crash.kind == "layer-shape"
    assert told.verdict.crash.place is not None
    assert told.verdict.crash.place.line == told.at("# crash")


def test_an_exception_that_was_raised_again(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        def train():
            x = torch.zeros(2, 5)
            try:
                x @ x  # crash
            except RuntimeError as error:
                print("saving a checkpoint")
                raise error
        train()
        """)
    assert told.said.kind == "operand-shape"
    assert told.line == told.at("# crash")


def test_the_report_shows_it(check: Callable[..., Checked]) -> None:
    checked = check("import torch\nfrom torch import nn\nnn.Linear(3, 4)(torch.zeros(2, 5))\n")
    assert checked.verdict.crash is not None
    assert checked.verdict.outcome.exit_code == 1
    from trueloop.report import render

    assert '"kind": "layer-shape"' in render(checked.verdict, "json")
    assert "what the crash means" in render(checked.verdict, "markdown")


def _failed() -> Verdict:
    return Verdict((), Tally("train.py").watched(0), (), Outcome("exception", 1, "RuntimeError"))


def test_a_kind_that_breaks_is_reported_and_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(scene: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(explaining, "all_kinds", lambda: {"broken": broken})
    try:
        nn.Linear(3, 4)(torch.zeros(2, 5))
    except RuntimeError as error:
        verdict = explained(_failed(), error)
    assert verdict.crash is None
    assert verdict.outcome.exit_code == 1
    assert "explaining the crash failed" in verdict.failures[0]
    assert "ZeroDivisionError" in verdict.failures[0]


def test_a_run_that_did_not_fail_is_not_explained() -> None:
    verdict = Verdict((), Tally("train.py").watched(0), (), Outcome("exit", 0))
    assert explained(verdict, SystemExit(0)) is verdict
    assert explained(verdict, None) is verdict


def test_nothing_is_kept_alive() -> None:
    def crash() -> BaseException:
        model = nn.Linear(3, 4)
        seen.append(weakref.ref(model))
        try:
            model(torch.zeros(2, 5))
        except RuntimeError as error:
            return error
        raise AssertionError("it did not crash")

    seen: list[weakref.ref[nn.Module]] = []
    error: BaseException | None = crash()
    assert error is not None
    assert explain(error) is not None
    error = None
    gc.collect()
    assert seen[0]() is None


def test_randomness_and_gradients_are_left_as_they_were() -> None:
    state = torch.get_rng_state()
    weight = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError) as raised:
        weight.exp().backward()  # type: ignore[no-untyped-call]
    assert explain(raised.value) is not None
    assert torch.equal(torch.get_rng_state(), state)
    assert weight.grad is None
    assert torch.is_grad_enabled()
