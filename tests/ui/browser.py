"""Chromium for the tests of the page, and what a page must never do: errors, violations, overflow, small text."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["CHROMIUM", "FLAGS", "Watch", "serving", "shown_problems"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
]
PATIENCE = 60_000  # Milliseconds that a busy machine never needs

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALL = """() => [...document.querySelectorAll("body *")].filter((each) => {
    const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const scale = each.getScreenCTM?.()?.a ?? 1;  // An SVG shrinks its text
    return own && each.getClientRects().length && parseFloat(getComputedStyle(each).fontSize) * scale < 11;
}).map((each) => each.textContent.slice(0, 40))"""


class Watch:
    """What the console and the network of a page say."""

    def __init__(self, page: Any, address: str) -> None:
        self.problems: list[str] = []
        self.address = address
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.problems.append(f"request to {request.url}")


def shown_problems(page: Any) -> list[str]:
    """Overflow, small text, and serious findings of axe-core."""
    from axe_playwright_python.sync_playwright import Axe

    problems = []
    if (over := page.evaluate(OVERFLOW)) > 0:
        problems.append(f"{over} px of overflow")
    problems += [f"text below 11 px: {text!r}" for text in page.evaluate(SMALL)]
    # Evaluated by the tool, so the page's own policy stays as strict as it is.
    for violation in Axe().run(page).response["violations"]:
        if violation["impact"] in ("serious", "critical"):
            targets = [node["target"] for node in violation["nodes"]][:3]
            problems.append(f"axe: {violation['id']}: {violation['help']} {targets}")
    return problems


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of `trueloop ui FOLDER`, run as a user runs it."""
    command = [sys.executable, "-m", "trueloop", "ui", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("http://127.0.0.1:"), line
            yield line.split()[0]
        finally:
            process.terminate()


needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium: apt-get install chromium, or `make ui-test`")
