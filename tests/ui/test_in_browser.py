"""The page in a real Chromium, over real run folders: every page, click paths, live, narrow, wide, light and dark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ui import write_run
from tests.ui.browser import PATIENCE, Watch, needs_chromium, serving, shown_problems
from tests.ui.folders import make_run, make_runs, row
from trueloop.ui.server import POLL

pytestmark = [pytest.mark.long, needs_chromium, pytest.mark.filterwarnings("ignore::ResourceWarning")]

ROOT = Path(__file__).parent.parent.parent
SHOTS = ROOT / "build" / "ui"
HTML = "<img src=x onerror=alert(1)>"
Opened = Callable[..., Any]
Served = Callable[[Path], str]


@pytest.fixture
def served() -> Iterator[Callable[[Path], str]]:
    """Serves a folder until the test's pages are closed."""
    with ExitStack() as stack:
        yield lambda folder: stack.enter_context(serving(folder))


@pytest.fixture
def opened(chromium: Any, served: Served) -> Iterator[Opened]:
    """Opens an address; at the end, nothing may have gone wrong on any page."""
    watched = []

    def open_page(address: str, where: str = "", width: int = 1280, scheme: str = "light") -> Any:
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(PATIENCE)
        watched.append((page, Watch(page, address)))
        page.goto(f"{address}{where}")
        page.wait_for_selector(".page[data-ready=yes]")
        return page

    yield open_page
    for page, watch in watched:
        page.close()
        assert not watch.problems


def trueloop(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "trueloop", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two learning rates, two seeds, of a bundled recipe; one of them with the findings of a checked script."""
    folder = tmp_path_factory.mktemp("trained")
    for lr in ("1e-3", "1e-2"):
        for seed in ("0", "1"):
            sets = ["--set", "epochs=3", "--set", f"lr={lr}", "--set", f"seed={seed}", "--set", "log_every=1"]
            trueloop(folder, "train", "digits", *sets, "--name", f"lr-{lr}-seed-{seed}")
    script = ROOT / "examples" / "broken_training.py"
    report = folder / "report.json"
    trueloop(folder, "check", "--fail-on", "never", "--format", "json", "--output", str(report), str(script))
    shutil.copy(report, folder / "runs" / "lr-1e-3-seed-0" / "report.json")
    return folder / "runs"


@pytest.fixture(scope="session")
def address(trained: Path) -> Iterator[str]:
    with serving(trained) as found:
        yield found


PAGES = {
    "runs": "#/runs",
    "run": "#/run/lr-1e-3-seed-0",
    "compare": "#/compare?run=lr-1e-3-seed-0&run=lr-1e-2-seed-0",
    "compare-groups": "#/compare?group=lr&run=lr-1e-3-seed-0&run=lr-1e-2-seed-0&run=lr-1e-3-seed-1&run=lr-1e-2-seed-1",
    "compare-none": "#/compare",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_sound(opened: Opened, address: str, name: str, width: int, scheme: str) -> None:
    page = opened(address, PAGES[name], width, scheme)
    if name in ("run", "compare", "compare-groups"):
        page.wait_for_selector(".plot[data-drawn]")
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}-{width}-{scheme}.png", full_page=True)
    assert shown_problems(page) == []


def test_from_the_table_to_a_run_and_its_finding(opened: Opened, address: str) -> None:
    page = opened(address)
    page.get_by_role("link", name="lr-1e-3-seed-0").click()
    page.wait_for_selector(".panel .plot[data-drawn]")
    # A diamond on the curve of the loss opens the finding with its line.
    marks = page.locator(".panel").first.locator(".scatterlayer .trace .points path")
    diamonds = [each for each in marks.all() if "L" in (each.get_attribute("d") or "")]
    assert diamonds
    drag = page.locator(".panel").first.locator(".nsewdrag").bounding_box()
    box = diamonds[-1].bounding_box()
    assert drag
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.up()
    page.wait_for_function("() => document.activeElement.matches('article.finding')")
    assert page.locator('article.finding a[href*="/source?line="]').count()


def test_sort_filter_group_and_compare(opened: Opened, address: str) -> None:
    page = opened(address)
    names = page.locator("tbody th a")
    page.get_by_role("button", name="run", exact=True).click()
    assert names.all_inner_texts() == sorted(names.all_inner_texts())
    page.get_by_role("button", name="run").first.click()
    assert names.all_inner_texts() == sorted(names.all_inner_texts(), reverse=True)
    page.get_by_role("searchbox").fill("lr=0.01 finished")
    assert names.count() == 2
    page.get_by_role("searchbox").fill("")
    for box in page.get_by_role("checkbox").all()[:2]:
        box.check()
    page.get_by_role("link", name="Compare 2 runs").click()
    page.wait_for_selector(".page-compare .plot[data-drawn]")
    assert "differs from step" in page.locator("ul.sentences").inner_text()
    page.goto(address)
    page.get_by_label("Group by").select_option("lr")
    cells = page.locator("table.groups tbody tr").first.locator("td").all_inner_texts()
    assert cells[1] == "2"
    page.get_by_role("link", name="Compare the groups").click()
    page.wait_for_selector(".page-compare .plot[data-drawn]")
    assert page.locator(".page-compare tbody tr").count() >= 2


def test_keyboard_alone(opened: Opened, address: str) -> None:
    page = opened(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.locator("tbody th a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".page-run[data-ready=yes]")


def test_the_theme_is_switched_and_kept(opened: Opened, address: str) -> None:
    page = opened(address, "#/run/lr-1e-2-seed-0")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Switch to dark colors").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.reload()
    page.wait_for_selector(".page[data-ready=yes]")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert shown_problems(page) == []


def test_a_run_that_runs_is_followed(opened: Opened, served: Served, tmp_path: Path) -> None:
    """A live run: the page shows each new row by itself; each wait ends with its condition."""
    (tmp_path / "runs").mkdir()
    address = served(tmp_path / "runs")
    listing = opened(address)
    assert "There are no runs" in listing.locator("main").inner_text()
    sets = ["--set", "epochs=400", "--set", "log_every=5"]
    command = [sys.executable, "-m", "trueloop", "train", "digits", *sets, "--name", "live"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, env=environment)
    try:
        listing.get_by_role("link", name="live").wait_for()
        listing.locator(".state-running").wait_for()
        page = opened(address, "#/run/live")
        step = "document.querySelectorAll('.tiles dd')[1].textContent"
        page.wait_for_function(f"() => {step} && !{step}.startsWith('0 ')")
        first = page.evaluate(step)
        page.wait_for_function(f"() => {step} !== {json.dumps(first)}")
        page.wait_for_selector(".tiles dt:text('left')")
    finally:
        process.terminate()
        process.wait(timeout=120)
    page.locator(".tiles .state-stopped").wait_for()


def test_an_appended_row_is_seen_on_the_open_page(opened: Opened, served: Served, tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [row(step, 1.0) for step in range(1, 20)], status="running")
    address = served(tmp_path)
    page = opened(address, "#/run/a")
    page.wait_for_selector(".plot[data-drawn]")
    seen = "() => [...document.querySelectorAll('.tiles dd')].some((each) => each.textContent === '7.125')"
    with (run / "metrics.jsonl").open("a") as file:
        file.write(row(20, 7.125) + "\n")
    page.wait_for_function(seen)
    assert POLL <= 1.0, "a row is promised within two seconds; a busy machine may take longer"


def test_a_thousand_runs(opened: Opened, served: Served, tmp_path: Path) -> None:
    address = served(make_runs(tmp_path, 1000))
    page = opened(address)
    assert "1,000 runs" in page.locator(".title").inner_text()
    assert page.locator("tbody tr").count() == 50
    page.get_by_role("button", name="Next").click()
    assert "51–100 of 1,000" in page.locator(".pager").inner_text()
    page.get_by_label("Group by").select_option("lr")
    assert page.locator("table.groups tbody tr").count() == 5
    assert page.locator("table.groups tbody tr td").all_inner_texts()[1] == "200"
    page.screenshot(path=SHOTS / "thousand-runs.png", full_page=True)
    assert shown_problems(page) == []


def test_a_million_steps_and_full_resolution_where_zoomed(opened: Opened, served: Served, tmp_path: Path) -> None:
    write_run(tmp_path / "million", 1_000_000)
    address = served(tmp_path)
    page = opened(address, "#/run/million")
    page.wait_for_selector(".plot[data-drawn]")
    page.wait_for_function("() => document.querySelector('.note').textContent.startsWith('1,000,000 points')")
    body = "document.querySelector('.plot')"
    page.evaluate(f"Plotly.relayout({body}, {{'xaxis.range[0]': 500000, 'xaxis.range[1]': 500300}})")
    page.wait_for_function(f"() => {body}.dataset.points === '303'")
    assert page.evaluate(f"{body}.data[0].x.includes(500123)")
    page.screenshot(path=SHOTS / "million-steps-zoomed.png")


def test_hostile_names_and_values_are_text(opened: Opened, served: Served, tmp_path: Path) -> None:
    finding = {
        "code": HTML,
        "name": HTML,
        "severity": HTML,
        "message": HTML,
        "path": HTML,
        "line": 3,
        "evidence": {HTML: HTML},
    }
    metric = [json.dumps({"kind": "train", "step": step, "loss": 1.0 / step, HTML: 2.0}) for step in range(1, 50)]
    for number in range(2):
        run = make_run(
            tmp_path, f"{HTML}{number}", metric, recipe={"name": HTML, HTML: f"{HTML}{number}"}, message=HTML
        )
        (run / "report.json").write_text(json.dumps({"findings": [{**finding, "diff": f"+{HTML}", "source": HTML}]}))
        (run / "console.log").write_text(HTML * 3)
    (tmp_path / "link").symlink_to("/etc")
    address = served(tmp_path)
    page = opened(address)
    assert HTML in page.locator("tbody").inner_text()
    page.locator("tbody th a").first.click()
    page.wait_for_selector(".plot[data-drawn]")
    assert HTML in page.locator("article.finding").inner_text()
    page.goto(address)
    page.wait_for_selector("tbody")
    for box in page.get_by_role("checkbox").all()[:2]:
        box.check()
    page.get_by_role("link", name="Compare 2 runs").click()
    page.wait_for_selector(".page-compare .plot[data-drawn]")
    assert page.locator("img").count() == 0
    assert shown_problems(page) == []
