"""The command line, run in this process: it remembers where it was started, which the next test must not inherit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trueloop import source


@pytest.fixture(autouse=True)
def _stand_nowhere() -> Iterator[None]:
    yield
    source._standing.clear()
