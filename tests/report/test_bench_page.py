"""The result of `bench` as a page that opens offline: the numbers of the tables, the charts, and what failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.page import Page
from tests.results.test_bench import FORMS, MACHINE, form
from tests.results.test_bench import TOLD as BENCH
from trueloop.report import document_of, render
from trueloop.report.svg import COLORS, NUMBERS, REACH, WIDTH, bars_svg, lanes_svg, plot_svg
from trueloop.results.bench import Bench, Form, Pace
from trueloop.results.document import Bars, Lane, Lanes, Plot, Segment

CUDA = replace(BENCH, machine={**MACHINE, "device": "cuda:0 (NVIDIA H200)"})


def test_the_page_opens_offline_and_has_every_number_of_the_tables() -> None:
    page = Page(render(BENCH, "html"))
    assert page.tags.count("svg") == 3  # latency of two batch sizes, throughput
    assert ["eager", "4 ms", "4 ms", "4 ms", "2,000", "1.00x", "3", ""] in page.rows
    assert ["onnx", "1 ms", "1 ms", "1 ms", "1,000", "2.00x", "3", ""] in page.rows
    assert ["odd", "failed", "", "", "", "", "", ""] in page.rows
    assert ["eager", "torch 2.13.0", "1 kB", "0.5 s"] in page.rows


def test_the_lowest_median_of_each_batch_is_emphasized_and_named_above() -> None:
    text = render(BENCH, "html")
    assert "<h1>Lowest median: onnx, 1 ms for 1 sample; eager, 4 ms for 8 samples</h1>" in text
    best = '<tr class="best"><td class="text">'
    assert text.count(best) == 2
    assert text.index(f"{best}onnx</td>") < text.index(f"{best}eager</td>")


def test_one_batch_is_named_once_and_one_that_failed_everywhere_not_at_all() -> None:
    assert "<h1>Lowest median: onnx, 1 ms for 1 sample</h1>" in render(replace(BENCH, batches=(1,)), "html")
    assert "<h1>Lowest median: onnx, 1 ms for 1 sample</h1>" in render(replace(BENCH, batches=(64, 1)), "html")


def test_a_form_that_could_not_be_measured_is_listed_with_its_reason() -> None:
    words = Page(render(BENCH, "html")).words
    assert words[words.index("not measured: batch 8: it takes 4 at most") - 1] == "odd"
    assert words[words.index("not measured: no file") - 1] == "none"
    assert '<article class="warning">a note</article>' in render(BENCH, "html")


def test_the_page_says_how_it_was_measured_and_that_copies_count() -> None:
    here, there = render(BENCH, "html"), render(CUDA, "html")
    how = "3 s for each form and batch, in 10 interleaved rounds after a warm-up; each form in its own process."
    assert how in here
    assert "All on cuda:0 (NVIDIA H200), in fp32 with TF32 off" in there
    assert "a call includes both copies, host to device and back." in there
    assert '<p class="soft">cuda:0 (NVIDIA H200); a processor, Linux, 2 cores, 1 thread' in there
    assert "copies" not in here


def test_names_cannot_write_into_the_page() -> None:
    wild = replace(BENCH, forms=(form("<script>x</script>", {1: 1e-3, 8: 1e-3}, "a <b> of `it`"),))
    page = render(wild, "html")
    assert "<script>" not in page
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "a &lt;b&gt; of <code>it</code>" in page
    Page(page)


def test_a_bench_of_which_nothing_could_be_measured_is_a_page_too() -> None:
    page = render(replace(BENCH, forms=FORMS[3:]), "html")
    assert "<h1>No form could be measured</h1>" in page
    assert "svg" not in Page(page).tags


# -- the charts --


def _bench(*forms: Form, batches: tuple[int, ...] = (1, 8)) -> Bench:
    return replace(BENCH, forms=forms, batches=batches)


def _paced(name: str, p50: float, p95: float, p99: float) -> Form:
    return Form(name, "made-up 1", 0, (Pace(1, 100, p50, p95, p99, 1 / p50),))


def _latency(bench: Bench, index: int = 0) -> Page:
    return Page(bars_svg([part for part in document_of(bench).parts if isinstance(part, Bars)][index]))


def _throughput(bench: Bench) -> Page:
    return Page(plot_svg(next(part for part in document_of(bench).parts if isinstance(part, Plot))))


def _lengths(page: Page) -> list[float]:
    return [float(str(bar["width"])) for bar in page.of("rect")]


def _left(page: Page) -> float:
    return float(str(page.of("rect")[0]["x"]))


def test_bars_are_as_long_as_the_medians() -> None:
    one, eight = _lengths(_latency(BENCH)), _lengths(_latency(BENCH, 1))
    assert (len(one), len(eight)) == (3, 2), "three forms with one sample, two with eight"
    assert one[0] / one[1] == pytest.approx(2.0, rel=1e-3)
    assert eight[0] / eight[1] == pytest.approx(0.5, rel=1e-3)
    assert max(one) == pytest.approx(WIDTH - _left(_latency(BENCH)) - NUMBERS, abs=0.1)


def test_whiskers_reach_from_the_median_over_the_95th_to_the_99th() -> None:
    page = _latency(_bench(_paced("a", 1e-3, 1.5e-3, 2e-3), batches=(1,)))
    (whisker,) = page.of("path")
    left = _left(page)
    room = WIDTH - left - NUMBERS
    median, middle, end = left + room / 2, left + room * 0.75, WIDTH - NUMBERS
    drawn = str(whisker["d"])
    assert drawn.startswith(f"M{median:.1f} ")
    assert f"H{end:.1f}M{middle:.1f} " in drawn
    assert f"M{end:.1f} " in drawn
    assert "l6 5" not in drawn


def test_one_slow_call_in_a_hundred_does_not_squeeze_the_bars() -> None:
    page = _latency(_bench(_paced("a", 1e-3, 1.1e-3, 1.0), _paced("b", 2e-3, 2.1e-3, 2.2e-3), batches=(1,)))
    slow, quick = (str(path["d"]) for path in page.of("path"))
    assert "l6 5l-6 5" in slow, "an arrow: it continues"
    assert "l6 5l-6 5" not in quick
    assert _lengths(page)[1] == pytest.approx((WIDTH - _left(page) - NUMBERS) / REACH, abs=0.1)


def test_each_form_has_its_color_in_both_charts() -> None:
    assert [bar["fill"] for bar in _latency(BENCH).of("rect")] == [f"var(--c{n})" for n in range(3)]
    lines = _throughput(BENCH).of("path", "line")
    assert [line["style"] for line in lines] == [f"--tone:var(--c{n})" for n in range(2)]


def test_more_forms_than_colors_begin_again() -> None:
    bench = _bench(*(form(f"form {number}", {1: 1e-3}) for number in range(COLORS + 1)))
    assert _latency(bench).of("rect")[COLORS]["fill"] == "var(--c0)"


def test_throughput_rises_with_the_samples_per_second() -> None:
    eager, onnx = (_throughput(_bench(each)).of("circle") for each in FORMS[:2])
    heights = [float(str(dot["cy"])) for dot in eager]
    assert heights[0] - heights[1] == pytest.approx(0.75 * (256 - 14), abs=0.2)
    assert float(str(onnx[0]["cy"])) == pytest.approx(14.0, abs=0.1), "as many with one as with eight"
    assert [dot["cx"] for dot in eager] == [dot["cx"] for dot in onnx]


def test_batches_are_placed_by_their_doublings() -> None:
    bench = _bench(form("a", {1: 1e-3, 8: 2e-3, 64: 9e-3}), batches=(64, 1, 8))
    xs = [float(str(dot["cx"])) for dot in _throughput(bench).of("circle")]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_one_batch_has_no_throughput_over_batches() -> None:
    assert "Throughput" not in render(_bench(form("a", {1: 1e-3}), batches=(1,)), "html")


def test_names_in_charts_are_escaped_and_small_segments_are_visible() -> None:
    bars = bars_svg(Bars("<a>", ("<b>",), (0.0,)))
    lanes = lanes_svg(Lanes("<a>", (Lane("<c>", (Segment("<b>", 0, 0, "<d>"),)),)))
    assert all("&lt;b&gt;" in made and "<b>" not in made and "&lt;a&gt;" in made for made in (bars, lanes))
    assert 'width="0.30"' in bars
    assert 'width="0.30"' in lanes
