"""`pytest --trueloop`: tests that train are checked, the others cost nothing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import in_child
from trueloop.dropins.pytest_plugin import leave_asserts_alone

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parent.parent.parent
PLUGIN = "trueloop.dropins.pytest_plugin"
LOADED = ("-p", "no:trueloop", "-p", PLUGIN, "-p", "no:cacheprovider", "-p", "no:schemathesis")
"""By name, also where the package's entry point is installed."""

TESTS = """import pytest
import torch
from torch import nn
from torch.nn import functional

@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(4, 2)

def train(model, clear):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(6, 4)
    for _ in range(8):
        loss = functional.cross_entropy(model(inputs), inputs[:, 0].gt(0).long())
        if clear:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()

def test_broken(model):
    train(model, clear=False)

def test_healthy(model):
    train(model, clear=True)

def test_without_training(model):
    model(torch.randn(2, 4)).sum().backward()

def test_failing(model):
    assert train(model, clear=False) < -1

def test_crashing(model):
    model(torch.randn(6, 5))
"""
LINE = 1 + next(number for number, line in enumerate(TESTS.splitlines()) if "backward()" in line)
FOUND = f"GRD101 gradients-never-cleared test_it.py:{LINE}"


def _run(pytester: pytest.Pytester, *words: str, text: str = TESTS) -> tuple[dict[str, int], str]:
    """Outcomes and output of a test session in a child of this process: torch is imported there already."""
    pytester.makepyfile(test_it=text)

    def work() -> tuple[dict[str, int], str]:
        torch.seed()  # as in a new process, whatever earlier tests have set
        ran = pytester.runpytest_inprocess(*LOADED, "-W", "default", *words)
        return (ran.parseoutcomes() if ran.ret < 2 else {}), "\n".join([*ran.outlines, *ran.errlines])

    outcomes, text = in_child(work)
    return outcomes, text


def test_a_finding_fails_its_test_and_names_code_and_line(pytester: pytest.Pytester) -> None:
    outcomes, text = _run(pytester, "--trueloop", "test_it.py", "-k", "broken or healthy or without")
    assert outcomes == {"failed": 1, "passed": 2, "deselected": 2}
    assert f"error GRD101 gradients-never-cleared  test_it.py:{LINE}" in text
    assert "trueloop explain GRD101" in text
    assert f"error {FOUND}  (test_it.py::test_broken)" in text
    assert "2 tests trained and were checked; 1 test with findings" in text
    assert "no-seed-set" not in text  # advice


def test_findings_are_warnings_if_asked(pytester: pytest.Pytester) -> None:
    outcomes, text = _run(pytester, "--trueloop=warn", "-k", "broken or healthy")
    assert outcomes == {"passed": 2, "deselected": 3, "warnings": 1}
    assert f"test_it.py:{LINE}: TrueloopWarning: GRD101 gradients-never-cleared: Step 2 of SGD" in text


def test_a_test_that_fails_by_itself_keeps_its_traceback_and_shows_the_finding_below(pytester: pytest.Pytester) -> None:
    outcomes, text = _run(pytester, "--trueloop", "-k", "failing or crashing")
    assert outcomes == {"failed": 2, "deselected": 3}
    assert "assert train(model, clear=False) < -1" in text
    assert "mat1 and mat2 shapes cannot be multiplied" in text
    assert "`model`, a Linear(4, 2), expects 4 features" in text
    assert text.count("Call `optimizer.zero_grad()` once per step") == 1
    assert "/trueloop/taps/" not in text


@pytest.mark.parametrize(
    ("lines", "failed"),
    [("trueloop = warn", 0), ("trueloop = error", 1), ("trueloop = error\ntrueloop_fail_on = advice", 2), ("", 0)],
)
def test_settings_turn_it_on(pytester: pytest.Pytester, lines: str, failed: int) -> None:
    pytester.makeini(f"[pytest]\n{lines}")
    text = TESTS.replace("torch.manual_seed(0)", "")  # so that there is advice
    outcomes, output = _run(pytester, "-k", "broken or healthy", text=text)
    assert outcomes.get("failed", 0) == failed, output
    assert ("no-seed-set" in output) == ("advice" in lines)


@pytest.mark.parametrize(
    ("settings", "words"),
    [("trueloop = fast", "trueloop cannot be 'fast'"), ("trueloop = warn\ntrueloop_fail_on = bad", "cannot be 'bad'")],
)
def test_settings_that_mean_nothing_are_refused(pytester: pytest.Pytester, settings: str, words: str) -> None:
    pytester.makeini(f"[pytest]\n{settings}")
    outcomes, text = _run(pytester)
    assert not outcomes
    assert words in text


def test_rules_that_pyproject_ignores_stay_silent(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("[tool.trueloop]\nignore = ['GRD101']")
    assert _run(pytester, "--trueloop", "-k", "broken")[0] == {"passed": 1, "deselected": 4}


def test_an_unknown_rule_in_pyproject_is_refused_before_the_first_test(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("[tool.trueloop]\nignore = ['GRD999']")
    outcomes, text = _run(pytester, "--trueloop")
    assert not outcomes
    assert "GRD999" in text


def test_torch_is_as_before_after_the_tests(pytester: pytest.Pytester) -> None:
    text = "import torch\nbefore = torch.autograd.backward\n" + TESTS
    text += "\ndef test_inside():\n    assert torch.autograd.backward is not before\n"
    pytester.makeconftest(
        "import torch\nbefore = torch.autograd.backward\n"
        "def pytest_unconfigure():\n    print('same', torch.autograd.backward is before)\n"
    )
    outcomes, output = _run(pytester, "--trueloop", "-k", "healthy or inside", text=text)
    assert outcomes == {"passed": 2, "deselected": 4}
    assert "same True" in output


def _subprocess(pytester: pytest.Pytester, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", *words], cwd=pytester.path, capture_output=True, text=True, timeout=300, check=False
    )
    return ran.stdout + ran.stderr


def test_workers_of_xdist_check_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
    text = _subprocess(pytester, "pytest", *LOADED, "--trueloop", "-n", "1", "-k", "broken or healthy")
    assert "1 failed, 1 passed" in text
    assert f"error {FOUND}  (test_it.py::test_broken)" in text
    assert "2 tests trained and were checked; 1 test with findings" in text


def test_under_the_command_it_gives_way(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
    words = ("trueloop", "check", "--no-run", "-m", "pytest", *LOADED, "--trueloop", "-k", "broken or healthy")
    text = _subprocess(pytester, *words)
    assert "2 passed" in text
    assert "`trueloop check` already watches this run" in text
    assert f"error GRD101 gradients-never-cleared  test_it.py:{LINE}" in text


def test_without_the_option_neither_torch_nor_the_checks_are_imported(pytester: pytest.Pytester) -> None:
    costly = "{'torch', 'trueloop.doctor', 'trueloop.report'}"
    pytester.makepyfile(test_it=f"import sys\ndef test_it():\n    assert not {costly} & {{*sys.modules}}")
    assert "1 passed" in _subprocess(pytester, "pytest", *LOADED, "-p", "no:xdist")


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"trueloop": PLUGIN}
    assert callable(import_module(PLUGIN).pytest_addoption)


def test_asserts_of_trueloop_are_not_rewritten() -> None:
    """Where the entry point is installed, pytest marks the whole package."""
    assert in_child(_marked_then_loaded) == ["AssertionRewritingHook", "SourceFileLoader"]


def test_other_packages_stay_marked() -> None:
    finder: Any = type("Finder", (), {})()
    finder._must_rewrite, finder._marked_for_rewrite_cache = {"trueloop", "other"}, {"trueloop.run": True}
    leave_asserts_alone([object(), finder])
    assert (finder._must_rewrite, finder._marked_for_rewrite_cache) == ({"other"}, {})


def _marked_then_loaded() -> list[str]:
    """Which loaders find a module of trueloop: marked as pytest marks it, then unmarked by the plugin."""
    hook: Any = next(each for each in sys.meta_path if type(each).__name__ == "AssertionRewritingHook")
    found = []
    hook._marked_for_rewrite_cache.clear()
    for act in (lambda: hook._must_rewrite.add("trueloop"), lambda: leave_asserts_alone(sys.meta_path)):
        act()
        spec = importlib.util.find_spec("trueloop.__main__")
        assert spec is not None
        found.append(type(spec.loader).__name__)
    return found
