"""Charts of a page: complete, self-contained and small, whatever the numbers are."""

from __future__ import annotations

import math
import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.report.page import Page
from trueloop.report.html import render
from trueloop.report.svg import HEIGHT, POINTS, WIDTH, plot_svg, thinned, ticks
from trueloop.results.document import Axis, Document, Plot, Series

TRAINING = tuple((step, 2.0 * math.exp(-step / 60)) for step in range(10, 201, 10))
VALIDATION = tuple((step, 2.2 * math.exp(-step / 70)) for step in range(20, 201, 20))
Points = tuple[tuple[float, float], ...]


def page(training: Points = TRAINING, validation: Points = VALIDATION, title: str = "digits") -> str:
    series = (Series("training", training, 0), Series("validation", validation, 1, mark=validation[-1]))
    plots = [Plot(name, series, Axis("step", zero=True), Axis(scale="auto")) for name in ("loss", "<b>&\"' score")]
    return render(Document(title, tuple(plots)))


def test_a_chart_has_its_words_a_name_and_a_description() -> None:
    seen = Page(page())
    assert any(word.startswith("training: 1.6930 at step 10, 0.0713 at step 200; validation: ") for word in seen.words)
    assert [held["role"] for held in seen.of("svg")] == ["img"] * 2
    ids = {held["id"] for _, held in seen.found if held.get("id")}
    named = [held["aria-labelledby"] for held in seen.of("svg")]
    assert len(named) == len(set(named)) == 2
    assert all(set((name or "").split()) <= ids for name in named)


def test_a_page_fetches_nothing_and_runs_nothing() -> None:
    assert not re.search(r"<script|https?:|url\(|@import|<link|src=", page())
    assert "light-dark(" in page()


def test_a_chart_of_many_points_stays_small() -> None:
    many = tuple((step, 2.0 + math.sin(step)) for step in range(50, 500_000, 50))
    text = page(many, many)
    assert len(text) < 60_000
    Page(text)


def test_names_are_escaped() -> None:
    text = page(title="<script>x</script>")
    assert "<script" not in text
    assert "<b>&\"'" not in text
    assert len(Page(text).of("h1")) == 1


# -- numbers --


def test_a_non_finite_value_is_a_gap_with_a_mark() -> None:
    text = page(((10, 1.0), (20, 0.9), (30, math.nan), (40, math.inf), (50, 0.8), (60, 0.7)), ((10, 1.0),))
    seen = Page(text)
    assert len(seen.of("path", "broken")) == 4
    assert "training was NaN or Inf at step 30" in seen.words
    assert not re.search(r'd="[^"]*(nan|inf)', text)
    first = text[text.index("<svg") : text.index("</svg>")]
    assert len(re.findall(r'<path class="line" [^>]*d="M[^"]*L', first)) == 2  # before it and after it


def test_a_chart_of_nothing_but_nan_is_still_a_page() -> None:
    Page(page(((10, math.nan), (20, math.nan)), ((10, math.nan),)))


def test_one_point_is_a_dot() -> None:
    seen = Page(page(((10, 0.5),), ((10, 0.9),)))
    assert {str(dot["style"]) for dot in seen.of("circle", "dot")} == {"--tone:var(--c0)", "--tone:var(--c1)"}
    assert len(seen.of("circle", "mark")) == 2


@given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(width=32)), min_size=1, max_size=40))
def test_every_chart_stays_inside_its_frame(points: list[tuple[int, float]]) -> None:
    text = plot_svg(Plot("x", (Series("x", tuple(sorted(points))),), Axis("step", zero=True), Axis(scale="auto")))
    Page(text)
    for found in re.findall(r' d="M([^"]*)"', text):
        for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", found):
            assert -0.1 <= float(x) <= WIDTH + 0.1
            assert -0.1 <= float(y) <= HEIGHT + 0.1
    assert not re.search(r'="[^"]*(nan|inf)', text)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.booleans())
def test_ticks_are_few_and_inside(low: float, size: float, powers: bool) -> None:
    low = abs(low) + 1e-3 if powers else low
    high = low * 40 if powers else low + size
    if high <= low:
        return
    found = ticks(low, high, powers)
    assert 1 <= len(found) <= 12
    assert all(low - 1e-9 * abs(low) <= tick <= high + 1e-9 * abs(high) for tick in found)
    assert all(a < b for a, b in pairwise(found))


def test_thinning_keeps_the_ends_the_spikes_and_the_gaps() -> None:
    points = [(step, 1.0 + step / 1e6) for step in range(10_000)]
    points[5_003] = (5_003, 99.0)
    points[7_001] = (7_001, math.nan)
    kept = thinned(points)
    assert len(kept) <= POINTS * 1.5
    assert {points[0], points[-1], points[5_003]} <= set(kept)
    assert 7_001 in [step for step, _ in kept]
    assert [step for step, _ in kept] == sorted(step for step, _ in kept)


def test_few_points_are_left_as_they_are() -> None:
    points = [(step, 0.5) for step in range(POINTS)]
    assert thinned(points) == points
