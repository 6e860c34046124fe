"""What the tests of quantizing share."""

from __future__ import annotations

import pytest

from tests.export.made import run_here


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime without a process of its own: one test is about that."""
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
