"""One server for all tests that only ask: it starts once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serve.made import Served, served


@pytest.fixture(scope="session")
def pictures() -> Iterator[Served]:
    """Takes small pictures; requests up to 100 kB, within a second."""
    with served(body=100_000, timeout=2.0, queue=16, pixels=10_000) as server:
        yield server
