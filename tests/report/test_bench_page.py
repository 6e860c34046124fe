"""A bench as a page that stands alone: the same numbers as the table, two pictures, and what could not be measured."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.results.test_bench import FORMS, MACHINE, form
from tests.results.test_bench import TOLD as BENCH
from trueloop.report import bench_html
from trueloop.report.bench_charts import COLOURS, NAMES, NUMBERS, WORST, colours_of, latency_chart, throughput_chart
from trueloop.report.svg import WIDE, box, legend, text
from trueloop.results.bench import Bench, Form, Pace

CUDA = replace(BENCH, machine={**MACHINE, "device": "cuda:0 (NVIDIA H200)"})


class Page(HTMLParser):
    """Tags that are closed in their order, the words of cells, and nothing that is fetched."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.shapes: list[tuple[str, dict[str, str | None]]] = []
        self.feed(source)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.shapes.append((tag, dict(attrs)))
        assert not [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta",):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.shapes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def found(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.shapes if name == tag]


def test_the_page_stands_alone_and_has_every_number_of_the_table() -> None:
    page = Page(bench_html.document(BENCH))
    assert "script" not in page.tags
    assert page.tags.count("svg") == 2
    assert ["eager", "8", "4 ms", "4 ms", "4 ms", "2,000", "1.00x", "3"] in page.rows
    assert ["onnx", "1", "1 ms", "1 ms", "1 ms", "1,000", "2.00x", "3"] in page.rows
    assert ["odd", "8", "failed", "", "", "", "", ""] in page.rows
    assert ["eager", "torch 2.13.0", "1 kB", "0.5 s"] in page.rows


def test_the_lowest_median_of_each_batch_stands_out_and_above() -> None:
    text = bench_html.document(BENCH)
    assert "<h1>Lowest median: onnx, 1 ms for 1 sample; eager, 4 ms for 8 samples</h1>" in text
    assert text.count("<tr class=won>") == 2
    assert text.index("<tr class=won><td>onnx</td>") < text.index("<tr class=won><td>eager</td>")


def test_one_batch_is_told_once_and_one_that_nobody_took_not_at_all() -> None:
    assert "<h1>Lowest median: onnx, 1 ms for 1 sample</h1>" in bench_html.document(replace(BENCH, batches=(1,)))
    assert "<h1>Lowest median: onnx, 1 ms for 1 sample</h1>" in bench_html.document(replace(BENCH, batches=(64, 1)))


def test_a_form_that_could_not_be_measured_is_told_with_its_reason() -> None:
    text = bench_html.document(BENCH)
    assert '<article class="error"><b>odd</b> was not measured: batch 8: it takes 4 at most</article>' in text
    assert '<article class="error"><b>none</b> was not measured: no file</article>' in text
    assert '<article class="advice">a note</article>' in text


def test_the_caption_says_how_it_was_measured_and_that_copies_count() -> None:
    here, there = bench_html.document(BENCH), bench_html.document(CUDA)
    assert (
        "<caption>3 s for each form and batch, in 10 rounds in turn; warm-up apart, each form in a process of its own.</caption>"
        in here
    )
    assert "All on cuda:0 (NVIDIA H200), in fp32 with TF32 off" in there
    assert "both copies are counted, and waited for.</caption>" in there
    assert '<p class="soft">cuda:0 (NVIDIA H200); a processor, Linux, 2 cores, 1 thread</p>' in there
    assert "copies" not in here


def test_names_cannot_write_into_the_page() -> None:
    wild = replace(BENCH, forms=(form("<script>x</script>", {1: 1e-3, 8: 1e-3}, "a <b> of `it`"),))
    page = bench_html.document(wild)
    assert "<script>" not in page
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "a &lt;b&gt; of <code>it</code>" in page
    Page(page)


def test_a_bench_of_which_nothing_could_be_measured_is_a_page_too() -> None:
    page = bench_html.document(replace(BENCH, forms=FORMS[3:]))
    assert "<h1>No form could be measured</h1>" in page
    assert "svg" not in Page(page).tags


# -- the pictures --


def _told(*forms: Form, batches: tuple[int, ...] = (1, 8)) -> Bench:
    return replace(BENCH, forms=forms, batches=batches)


def _paced(name: str, p50: float, p95: float, p99: float) -> Form:
    return Form(name, "made-up 1", 0, (Pace(1, 100, p50, p95, p99, 1 / p50),))


def test_bars_are_as_long_as_the_medians() -> None:
    bars = Page(latency_chart(BENCH)).found("rect")
    lengths = [float(str(bar["width"])) for bar in bars]
    assert len(lengths) == 5, "three forms with one sample, two with eight"
    assert lengths[0] / lengths[1] == pytest.approx(2.0, rel=1e-3)
    assert lengths[3] / lengths[4] == pytest.approx(0.5, rel=1e-3)
    assert max(lengths) == pytest.approx(WIDE - NAMES - NUMBERS)


def test_whiskers_reach_from_the_median_over_the_95th_to_the_99th() -> None:
    (whisker,) = Page(latency_chart(_told(_paced("a", 1e-3, 1.5e-3, 2e-3), batches=(1,)))).found("path")
    room = WIDE - NAMES - NUMBERS
    median, middle, end = NAMES + room / 2, NAMES + room * 0.75, WIDE - NUMBERS
    drawn = str(whisker["d"])
    assert drawn.startswith(f"M{median:.1f} ")
    assert f"H{end:.1f}M{middle:.1f} " in drawn
    assert f"M{end:.1f} " in drawn
    assert "l6 5" not in drawn


def test_one_slow_call_in_a_hundred_does_not_press_the_bars_together() -> None:
    told = _told(_paced("a", 1e-3, 1.1e-3, 1.0), _paced("b", 2e-3, 2.1e-3, 2.2e-3), batches=(1,))
    page = Page(latency_chart(told))
    slow, quick = (str(path["d"]) for path in page.found("path"))
    assert "l6 5l-6 5" in slow, "an arrow: it goes on"
    assert "l6 5l-6 5" not in quick
    assert float(str(page.found("rect")[1]["width"])) == pytest.approx((WIDE - NAMES - NUMBERS) / WORST)
    assert "p99 1 s" in latency_chart(told), "the number is told all the same"


def test_each_form_has_its_colour_in_both_pictures() -> None:
    colours = colours_of(BENCH)
    assert list(colours.values()) == list(COLOURS[:4])
    assert {str(bar["fill"]) for bar in Page(latency_chart(BENCH)).found("rect")} == set(COLOURS[:3])
    lines = Page(throughput_chart(BENCH)).found("polyline")
    assert [line["stroke"] for line in lines] == list(COLOURS[:4])


def test_more_forms_than_colours_begin_again() -> None:
    told = _told(*(form(f"form {number}", {1: 1e-3}) for number in range(len(COLOURS) + 1)))
    assert colours_of(told)[f"form {len(COLOURS)}"] == COLOURS[0]


def test_throughput_rises_with_the_samples_per_second() -> None:
    eager, onnx = (Page(throughput_chart(_told(each))).found("circle") for each in FORMS[:2])
    assert [float(str(spot["cy"])) for spot in eager] == pytest.approx([14 + 226 * 0.75, 14.0], abs=0.1)
    assert float(str(onnx[0]["cy"])) == pytest.approx(14.0, abs=0.1), "as many with one as with eight"
    assert [spot["cx"] for spot in eager] == [spot["cx"] for spot in onnx]


def test_batches_stand_by_their_doublings() -> None:
    told = _told(form("a", {1: 1e-3, 8: 2e-3, 64: 9e-3}), batches=(64, 1, 8))
    xs = [float(str(spot["cx"])) for spot in Page(throughput_chart(told)).found("circle")]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_one_batch_has_no_throughput_over_batches() -> None:
    told = _told(form("a", {1: 1e-3}), batches=(1,))
    assert throughput_chart(told) == ""
    assert "Throughput" not in bench_html.document(told)


def test_pieces_are_escaped() -> None:
    made = [box(0, 0, 0, 1, "red", "<a>"), text(0, 0, "<a>", soft=True), legend({"<a>": "red"})]
    assert all("&lt;a&gt;" in piece and "<a>" not in piece for piece in made)
    assert 'width="0.30"' in made[0], "what is there is seen"
    assert "class=soft" in made[1]
    assert "class=soft" not in text(0, 0, "a")
