"""`pytest --trueloop`: the option and its settings. Every pytest run imports this file, so it imports next to nothing;
the checks, and torch, are loaded only if they are asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

__all__ = ["leave_asserts_alone", "pytest_addoption", "pytest_configure"]

MODES: Final = ("error", "warn")
OPTIONS: Final = (
    ("--trueloop", "error", "check every test that trains; a finding fails its test"),
    ("--trueloop=error", "error", "the same"),
    ("--trueloop=warn", "warn", "check every test that trains; findings are warnings"),
    ("--trueloop=off", "off", "do not check, whatever the settings say"),
)
"""Options of their own, because an option with an optional value would take `tests` in `pytest --trueloop tests`."""
SEVERITIES: Final = ("error", "warning", "advice")


def pytest_addoption(parser: pytest.Parser) -> None:
    leave_asserts_alone(sys.meta_path)
    group = parser.getgroup("trueloop")
    for name, mode, help in OPTIONS:
        group.addoption(name, action="store_const", const=mode, dest="trueloop", help=help)
    parser.addini("trueloop", "the default of --trueloop: error, warn or off", default="off")
    parser.addini("trueloop_fail_on", "findings that fail a test: error (default), warning or advice", default="error")


def pytest_configure(config: pytest.Config) -> None:
    mode = config.getoption("trueloop") or config.getini("trueloop")
    if mode == "off":
        return
    import pytest

    fail_on = config.getini("trueloop_fail_on")
    for name, value, known in (("trueloop", mode, MODES), ("trueloop_fail_on", fail_on, SEVERITIES)):
        if value not in known:
            raise pytest.UsageError(f"{name} cannot be {value!r}. No test was run: choose {', '.join(known)}")
    from trueloop.dropins.pytest_checks import PytestChecks

    config.pluginmanager.register(PytestChecks(mode, fail_on), "trueloop-checks")


def leave_asserts_alone(finders: Iterable[object]) -> None:
    """pytest rewrites the asserts of each module of a package that has a plugin. Ours has no tests in it: rewritten, it
    would be compiled again in each pytest run, and `runpy` could not execute it."""
    for finder in finders:
        marked = getattr(finder, "_must_rewrite", None)
        if isinstance(marked, set):
            marked.discard("trueloop")
            getattr(finder, "_marked_for_rewrite_cache", {}).clear()
