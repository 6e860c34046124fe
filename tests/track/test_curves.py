"""The page of curves: whole, self-contained and small, whatever the numbers are."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.track.told import finished, on_test, start, told, trained, validated
from trueloop.hook import Ending, Row
from trueloop.track.chart import HEIGHT, MOST, WIDTH, Line, chart, thinned, ticks
from trueloop.track.curves import Curves, page
from trueloop.track.metrics import FILE, MetricsFile

VOID = {"meta", "link", "br", "hr", "img"}


class Reader(HTMLParser):
    """Collects what a page holds, and refuses one whose elements are not closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and "style" not in self.open:
            self.words.append(data.strip())

    def count(self, tag: str, **attributes: str) -> int:
        return sum(
            seen == tag and all(held.get(key.rstrip("_")) == value for key, value in attributes.items())
            for seen, held in self.seen
        )


def rows(steps: int = 200) -> list[Row]:
    return [
        *(
            trained(step, 2.0 * math.exp(-step / 60), gradient_norm=1 + math.sin(step))
            for step in range(10, steps + 1, 10)
        ),
        *(validated(step, 1 - math.exp(-step / 40), 2.2 * math.exp(-step / 70)) for step in range(20, steps + 1, 20)),
    ]


def test_a_page_has_a_chart_for_each_curve_with_its_words() -> None:
    seen = Reader(page(start(), finished(), [*rows(), on_test(160, 0.97)]))
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
    assert seen.count("svg", role="img") == 4
    assert seen.count("title") >= 5
    assert "best accuracy" in seen.words
    assert "0.9850" in seen.words
    assert "200 of 200 steps" in seen.words
    assert any(word.startswith("training: 1.6930 at step 10, 0.0713 at step 200; validation: ") for word in seen.words)


def test_every_chart_is_named_for_who_cannot_see_it() -> None:
    seen = Reader(page(start(), finished(), rows()))
    ids = {held["id"] for _, held in seen.seen if held.get("id")}
    named = [held["aria-labelledby"] for tag, held in seen.seen if tag == "svg"]
    assert len(named) == len(set(named)) == 4
    assert all(set((name or "").split()) <= ids for name in named)


def test_a_page_fetches_nothing_and_runs_nothing() -> None:
    text = page(start(), finished(), rows())
    assert not re.search(r"<script|https?:|url\(|@import|<link|src=", text)
    assert "prefers-color-scheme: dark" in text


def test_a_page_of_a_long_run_stays_small() -> None:
    long = [
        *(
            trained(step, 2.0 + math.sin(step), lr=1e-3 / (1 + step), gradient_norm=math.cos(step) + 2)
            for step in range(50, 500_000, 50)
        ),
        *(validated(step, 0.5 + math.sin(step) / 3) for step in range(500, 500_000, 500)),
    ]
    assert len(page(start(), finished(), long)) < 60_000
    Reader(page(start(), finished(), long))


def test_what_people_call_things_stays_text() -> None:
    odd = Row("valid", 20, 1.0, {"<b>&\"' score": 0.5, "loss": 1.0})
    start_ = type(start())("<script>x</script>", "Net<T>", 1, "cpu", 1, 10, 1, 0, ())
    text = page(start_, finished(), [trained(10), odd])
    assert "<script" not in text
    assert "<b>&\"'" not in text
    assert Reader(text).count("h1") == 1


# -- numbers --


def test_a_loss_that_is_no_number_is_a_gap_with_a_mark() -> None:
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
    seen = Reader(text)
    assert seen.count("path", class_="broken") == 2
    assert "training was no number at step 30" in seen.words
    assert not re.search(r'd="[^"]*(nan|inf)', text)
    first = text[text.index("<svg") : text.index("</svg>")]
    assert len(re.findall(r'<path class="train" d="M[^"]*L', first)) == 2  # before it and after it


def test_a_run_of_nothing_but_nan_is_still_a_page() -> None:
    Reader(page(start(), Ending("nonfinite", 20, "The loss is nan."), [trained(10, math.nan), trained(20, math.nan)]))


def test_one_point_is_a_dot() -> None:
    seen = Reader(page(start(), finished(best=0.9, best_step=10), [trained(10), validated(10, 0.9)]))
    assert seen.count("circle", class_="train dot") >= 1
    assert seen.count("circle", class_="valid dot") >= 1
    assert seen.count("circle", class_="valid mark") == 1


@given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(width=32)), min_size=1, max_size=40))
def test_every_chart_stays_inside_its_frame(points: list[tuple[int, float]]) -> None:
    text = chart("x", [Line("x", sorted(points), "train")], "c")
    Reader(text)
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
    assert len(kept) <= MOST * 1.5
    assert {points[0], points[-1], points[5_003]} <= set(kept)
    assert 7_001 in [step for step, _ in kept]
    assert [step for step, _ in kept] == sorted(step for step, _ in kept)


def test_few_points_are_left_as_they_are() -> None:
    points = [(step, 0.5) for step in range(MOST)]
    assert thinned(points) == points


# -- as a hook --


def test_at_the_end_the_page_lies_in_the_runs_folder(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), rows())
    told(Curves(tmp_path, print), [])
    assert Reader((tmp_path / "curves.html").read_text(encoding="utf-8")).count("figure") == 4


def test_a_resumed_run_shows_its_whole_life_once(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), [trained(50, 0.9), trained(100, 0.8), trained(150, 0.7)])
    told(MetricsFile(tmp_path), [trained(150, 0.5), trained(200, 0.4)], from_step=100)
    told(Curves(tmp_path, print), [], from_step=100)
    words = Reader((tmp_path / "curves.html").read_text(encoding="utf-8")).words
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
