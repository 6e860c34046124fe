"""Source, Layers, Step, Profile, Ship and Learn in a real Chromium: served, and as an exported file."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.ui.folders import make_run, row
from tests.ui.test_profile_page import CONTENT as PROFILE
from tests.ui.test_profile_page import TRACE
from tests.ui.test_step_page import CONTENT as STEP
from tests.waiting import until
from trueloop.ui.export_page import export_page
from trueloop.ui.library import Library
from trueloop.ui.server import create_app, listen

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(shutil.which("chromium") is None and "CHROME" not in os.environ, reason="no Chromium here"),
]

PAGES = ("source", "layers", "step", "profile", "ship")
MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything, and one with nothing."""
    home = tmp_path_factory.mktemp("ui")
    script = home / "train.py"
    script.write_text(f"import torch\n\n# {MARKUP}\nloss.backward()\n")
    looks = [row(step, kind="layers", **{f"grad_norm/{MARKUP}": 1.0 / step, "grad_norm/fc": 2.0}) for step in (1, 2, 4)]
    about: dict[str, Any] = {"kind": "check", "script": "train.py", "path": str(script), "started": 4e9}
    full = make_run(home / "runs", "full", looks, **about)
    finding = {
        "code": "GRD101", "name": "gradients-never-cleared", "severity": "error", "path": "train.py", "line": 4,
        "message": MARKUP, "fix": "Call `zero_grad()`.", "diff": "--- train.py\n+++ train.py\n+zero_grad()\n",
    }  # fmt: skip
    (full / "report.json").write_text(json.dumps({"findings": [finding]}))
    (full / "step_program.json").write_text(json.dumps(STEP))
    operation = {"name": MARKUP, "calls": 1, "seconds": 0.1, "flops": 100, "bytes": 10}
    ceilings = {"flops": {"float32": 1e9}, "bandwidth": 1e9}
    steps = {"seconds": 0.2, "phases": {"forward": 0.1, "backward": 0.1}}
    profiled = {**PROFILE, "operations": [operation], "ceilings": ceilings, "steps": steps}
    (full / "profile.json").write_text(json.dumps(profiled))
    (full / "trace.json").write_text(json.dumps(TRACE))
    make_run(home / "runs", "empty", [])
    return home / "runs"


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    listener = listen(0)
    server = uvicorn.Server(uvicorn.Config(create_app(Library(folder)), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    until(lambda: server.started, "the server has started")
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture
def browser(chromium: Any) -> Any:
    return chromium


def opened(browser: Any, address: str, width: int = 1280, scheme: str = "light") -> tuple[Any, list[str]]:
    """The page when it is ready, and what it complained about."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    if address.startswith("file:"):
        page.on("request", lambda request: wrong.append(request.url) if request.url.startswith("http") else None)
    page.goto(address)
    page.wait_for_selector(".page[data-ready]")
    assert page.get_attribute(".page", "data-ready") == "yes"
    return page, wrong


SMALL_TEXT = """() => [...document.querySelectorAll("main *")].filter((each) => [...each.childNodes].some((node) =>
    node.nodeType === 3 && node.textContent.trim()) && parseFloat(getComputedStyle(each).fontSize) < 11).length"""


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_page_fits_and_complains_about_nothing(browser: Any, address: str, width: int, scheme: str) -> None:
    for name in [*(f"run/{run}/{page}" for page in PAGES for run in ("full", "empty")), "learn", "learn?rule=GRD101"]:
        page, wrong = opened(browser, f"{address}#/{name}", width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        assert page.evaluate(SMALL_TEXT) == 0, name
        assert page.evaluate("document.querySelectorAll('main img').length") == 0, name
        assert wrong == [], name
        page.close()


def test_no_serious_finding_of_axe(browser: Any, address: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme in ("light", "dark"):
        for name in PAGES:
            page, _ = opened(browser, f"{address}#/run/full/{name}", scheme=scheme)
            found = axe.run(page).response["violations"]
            serious = [each for each in found if each["impact"] in ("serious", "critical")]
            nodes = [(each["id"], node["target"]) for each in serious for node in each["nodes"]]
            assert nodes == [], (name, scheme)
            page.close()


def test_from_a_finding_to_its_rule_and_editor(browser: Any, address: str, folder: Path) -> None:
    page, _ = opened(browser, f"{address}#/run/full/source?line=4")
    link = page.get_attribute(".marked .line-number a", "href")
    assert link == f"vscode://file{folder.parent}/train.py:4"
    page.click(".note h3 a")
    page.wait_for_selector("h1:has-text('GRD101 gradients-never-cleared')")
    page.close()


def test_a_layer_is_chosen_by_keyboard(browser: Any, address: str) -> None:
    page, _ = opened(browser, f"{address}#/run/full/layers")
    page.focus(".heat-names li:last-child button")
    page.keyboard.press("Enter")
    page.wait_for_selector("h2:text-is('fc')")
    page.close()


def test_from_the_model_to_its_operations(browser: Any, address: str) -> None:
    page, _ = opened(browser, f"{address}#/run/full/step")
    page.focus(".node-model")
    page.keyboard.press("Enter")
    page.click("text=Show its layers")
    page.wait_for_selector(".node-layer")
    page.click("text=Show its operations")
    page.wait_for_selector(".node-operation >> text=relu")
    page.close()


def test_the_exported_file_works_without_a_server(browser: Any, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(export_page([folder / "full", folder / "empty"]))
    for name in ["runs", "run/full", *(f"run/full/{page}" for page in PAGES), "learn", "learn?rule=GRD101"]:
        page, wrong = opened(browser, f"file://{file}#/{name}", 390)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        assert wrong == [], name
        page.close()
