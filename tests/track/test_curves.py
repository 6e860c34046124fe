"""The page of curves: complete, self-contained and small, whatever the numbers are."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.page import Page
from tests.track.rows import finished, on_test, start, told, trained, validated
from trueloop.hook import Ending, Row, Start
from trueloop.report.html import render
from trueloop.report.svg import HEIGHT, POINTS, WIDTH, plot_svg, thinned, ticks
from trueloop.results.document import Axis, Plot, Series
from trueloop.track.curves import Curves, document
from trueloop.track.metrics import FILE, MetricsFile


def page(start: Start, ending: Ending, rows: Sequence[Row]) -> str:
    return render(document(start, ending, rows))


def rows(steps: int = 200) -> list[Row]:
    return [
        *(
            trained(step, 2.0 * math.exp(-step / 60), gradient_norm=1 + math.sin(step))
            for step in range(10, steps + 1, 10)
        ),
        *(validated(step, 1 - math.exp(-step / 40), 2.2 * math.exp(-step / 70)) for step in range(20, steps + 1, 20)),
    ]


def test_a_page_has_a_chart_for_each_curve_with_its_words() -> None:
    seen = Page(page(start(), finished(), [*rows(), on_test(160, 0.97)]))
    titles = [word for word in seen.words if word in ("loss", "accuracy", "learning rate", "gradient norm")]
    assert titles == [
        "loss",
        "loss",
        "accuracy",
        "accuracy",
        "learning rate",
        "learning rate",
        "gradient norm",
        "gradient norm",
    ]
    assert [held["role"] for held in seen.of("svg")] == ["img"] * 4
    assert len(seen.of("title")) >= 5
    assert "best accuracy" in seen.words
    assert "0.9850" in seen.words
    assert "200 of 200 steps" in seen.words
    assert any(word.startswith("training: 1.6930 at step 10, 0.0713 at step 200; validation: ") for word in seen.words)


def test_every_chart_has_a_name_and_a_description() -> None:
    seen = Page(page(start(), finished(), rows()))
    ids = {held["id"] for _, held in seen.found if held.get("id")}
    named = [held["aria-labelledby"] for held in seen.of("svg")]
    assert len(named) == len(set(named)) == 4
    assert all(set((name or "").split()) <= ids for name in named)


def test_a_page_fetches_nothing_and_runs_nothing() -> None:
    text = page(start(), finished(), rows())
    assert not re.search(r"<script|https?:|url\(|@import|<link|src=", text)
    assert "light-dark(" in text


def test_a_page_of_a_long_run_stays_small() -> None:
    long = [
        *(
            trained(step, 2.0 + math.sin(step), lr=1e-3 / (1 + step), gradient_norm=math.cos(step) + 2)
            for step in range(50, 500_000, 50)
        ),
        *(validated(step, 0.5 + math.sin(step) / 3) for step in range(500, 500_000, 500)),
    ]
    assert len(page(start(), finished(), long)) < 60_000
    Page(page(start(), finished(), long))


def test_names_are_escaped() -> None:
    odd = Row("valid", 20, 1.0, {"<b>&\"' score": 0.5, "loss": 1.0})
    start_ = type(start())("<script>x</script>", "Net<T>", 1, "cpu", 1, 10, 1, 0, ())
    text = page(start_, finished(), [trained(10), odd])
    assert "<script" not in text
    assert "<b>&\"'" not in text
    assert len(Page(text).of("h1")) == 1


# -- numbers --


def test_a_non_finite_loss_is_a_gap_with_a_mark() -> None:
    text = page(
        start(),
        finished(),
        [
            trained(10, 1.0),
            trained(20, 0.9),
            trained(30, math.nan),
            trained(40, math.inf),
            trained(50, 0.8),
            trained(60, 0.7),
        ],
    )
    seen = Page(text)
    assert len(seen.of("path", "broken")) == 2
    assert "training was NaN or Inf at step 30" in seen.words
    assert not re.search(r'd="[^"]*(nan|inf)', text)
    first = text[text.index("<svg") : text.index("</svg>")]
    assert len(re.findall(r'<path class="line" [^>]*d="M[^"]*L', first)) == 2  # before it and after it


def test_a_run_of_nothing_but_nan_is_still_a_page() -> None:
    Page(page(start(), Ending("nonfinite", 20, "The loss is nan."), [trained(10, math.nan), trained(20, math.nan)]))


def test_one_point_is_a_dot() -> None:
    seen = Page(page(start(), finished(best=0.9, best_step=10), [trained(10), validated(10, 0.9)]))
    assert {str(dot["style"]) for dot in seen.of("circle", "dot")} == {"--tone:var(--c0)", "--tone:var(--c1)"}
    assert len(seen.of("circle", "mark")) == 1


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


# -- as a hook --


def test_at_the_end_the_page_lies_in_the_runs_folder(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), rows())
    told(Curves(tmp_path, print), [])
    assert Page((tmp_path / "curves.html").read_text(encoding="utf-8")).tags.count("svg") == 4


def test_a_resumed_run_shows_every_step_once(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), [trained(50, 0.9), trained(100, 0.8), trained(150, 0.7)])
    told(MetricsFile(tmp_path), [trained(150, 0.5), trained(200, 0.4)], from_step=100)
    told(Curves(tmp_path, print), [], from_step=100)
    words = Page((tmp_path / "curves.html").read_text(encoding="utf-8")).words
    assert "training: 0.9000 at step 50, 0.4000 at step 200" in words


def test_a_run_without_rows_has_no_page(tmp_path: Path) -> None:
    told(Curves(tmp_path, print), [])
    Curves(tmp_path, print).ended(finished())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trouble", ["folder", "damage"])
def test_a_page_that_cannot_be_drawn_is_a_sentence_not_an_end(trouble: str, tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), rows())
    if trouble == "folder":
        (tmp_path / "curves.html").mkdir()
    else:
        (tmp_path / FILE).write_text(
            '{"kind": "train", damaged\n' + (tmp_path / FILE).read_text(encoding="utf-8"), encoding="utf-8"
        )
    said: list[str] = []
    told(Curves(tmp_path, said.append), [])
    (sentence,) = said
    assert sentence.startswith("The curves could not be drawn: ")
