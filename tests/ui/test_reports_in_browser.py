"""The HTML reports of verbs in a real Chromium: they have the frame and the style sheet of the page, so they fit and
read as its pages do. Without a script, and without a request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.profile.test_reports import whole
from tests.report.test_parts import DOCUMENT
from tests.report.test_plan import FULL as PLAN
from tests.report.test_tuning import FULL as TUNING
from tests.report.verdicts import ODD, broken_loop, ordinary
from tests.results.test_bench import TOLD as BENCH
from tests.results.test_quantize import TOLD as QUANTIZED
from tests.results.test_sweep import CLOSE
from tests.ui.browser import Watch, needs_chromium, shown_problems
from trueloop.report import render
from trueloop.report.page import STYLE

RESULTS = {
    "bench": BENCH,
    "inspect": DOCUMENT,
    "plan": PLAN,
    "profile": whole(),
    "quantize": QUANTIZED,
    "sweep": CLOSE,
    "tune": TUNING,
}
PICTURES = Path(__file__).parent.parent.parent / "build" / "ui"


def test_a_report_and_the_page_share_one_style_sheet(client: Any, tmp_path: Path) -> None:
    with client(tmp_path) as page:
        served = page.get("/static/style.css").text
    assert served == STYLE.read_text(encoding="utf-8")
    assert served in render(DOCUMENT, "html")


@pytest.mark.long
@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_report_fits_and_is_readable(chromium: Any, tmp_path: Path, width: int, scheme: Any) -> None:
    broken = ordinary(broken_loop(tmp_path))
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, result in {**RESULTS, "check": broken, "odd": replace(broken, findings=(ODD,))}.items():
        file = tmp_path / f"{name}.html"
        file.write_text(render(result, "html"), encoding="utf-8", errors="backslashreplace")
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        watch = Watch(page, "file://")
        page.goto(file.as_uri())
        page.screenshot(path=PICTURES / f"report-{name}-{width}-{scheme}.png", full_page=True)
        assert shown_problems(page) + watch.problems == [], f"{name} at {width} px, {scheme}"
        page.close()
