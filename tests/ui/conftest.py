"""A client of the page over a folder of runs; the Host header is this machine's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.ui.browser import CHROMIUM, FLAGS
from trueloop.ui.library import Library
from trueloop.ui.server import create_app

Client = Callable[[Path], TestClient]


@pytest.fixture
def client() -> Client:
    return lambda folder: TestClient(create_app(Library(folder)), base_url="http://127.0.0.1")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One for all tests: playwright runs only once in a process."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
