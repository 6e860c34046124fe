"""A client of the page over a folder of runs; the Host header is this machine's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from trueloop.ui.library import Library
from trueloop.ui.server import create_app

Client = Callable[[Path], TestClient]


@pytest.fixture
def client() -> Client:
    return lambda folder: TestClient(create_app(Library(folder)), base_url="http://127.0.0.1")
