"""A profile as text, as JSON and as HTML."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.profile.test_verdict import HERE, loaded, on_cuda
from trueloop.profile.advice import advice_for
from trueloop.profile.verdict import bound_of
from trueloop.report import FORMATS, render
from trueloop.report.units import bytes_of, rate_of, seconds_of
from trueloop.results.profile import Compiled, CompilerNote, HotLine, Machine, ModuleCost, Profile, Span


def whole() -> Profile:
    profile = replace(
        loaded(0.7),
        modules=(ModuleCost("encoder.0", "Linear", 0.001, 0.002, 5, 1_000_000, 4000),),
        compiled=Compiled(2, 1.5, (CompilerNote("a <print>", HERE),), (CompilerNote("another size", None),)),
        lines=(HotLine(HERE, "data", 0.6),),
        timeline=(
            Span("host", "data", 0.0, 0.007),
            Span("host", "forward", 0.007, 0.01),
            Span("device", "kernels", 0.008, 0.009),
        ),
        notes=("the run ended <early>",),
        batch=10,
    )
    return replace(profile, bound=bound_of(profile), advice=advice_for(profile))


def test_text_tells_the_verdict_first_and_every_part() -> None:
    text = render(whole())
    assert text.index("data-bound") < text.index("A step takes 10 ms") < text.index("What to change")
    for part in (
        "waiting for data",
        "70%",
        "1,000 samples/s",
        "Operations",
        "encoder.0 Linear",
        "Memory",
        "break",
        "computed from:",
        "note",
    ):
        assert part in text, part
    assert "communication" not in text  # phases that take no time are not shown


def test_text_of_a_device_tells_how_busy_it_is() -> None:
    profile = on_cuda(busy=0.25)
    assert "the device computes in 25% of the step, 300 kernels" in render(replace(profile, bound=bound_of(profile)))


def test_json_holds_everything() -> None:
    read = json.loads(render(whole(), "json"))
    assert read["version"] == 1
    assert read["verdict"]["kind"] == "data"
    assert read["steps"]["phases"]["data"] == pytest.approx(0.007)
    assert sum(read["steps"]["phases"].values()) == pytest.approx(read["steps"]["seconds"])
    assert {"what", "gain", "computed_from", "key", "place"} <= set(read["advice"][0])
    assert read["advice"][0]["place"].endswith("train.py:7")
    assert read["modules"][0]["activations"] == 1_000_000
    assert read["busy_share"] is None


class Reader(HTMLParser):
    """Notes what is opened and closed."""

    VOID = ("meta", "rect", "circle", "polyline", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.open.append(tag)
        if tag in ("meta", "br"):
            self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_stands_alone_and_is_well_formed() -> None:
    text = render(whole(), "html")
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.seen.count("svg") == 4  # phases, timeline, roofline, memory
    assert not re.search(r'(src|href)="', text)
    assert "<script" not in text
    assert "a &lt;print&gt;" in text
    assert "&lt;early&gt;" in text


@pytest.mark.parametrize("name", FORMATS)
def test_a_profile_of_nothing_is_shown_too(name: str) -> None:
    empty = Profile("train.py", Machine("cpu", "a processor", 1, 1, "2.13", "3.12"), None, notes=("nothing",))
    text = render(empty, name)
    assert "nothing" in text


def test_numbers_have_units() -> None:
    assert [seconds_of(value) for value in (2.5, 0.00125, 3.2e-5, 4e-9, 0)] == [
        "2.5 s",
        "1.25 ms",
        "32 µs",
        "4 ns",
        "0 s",
    ]
    assert [bytes_of(value) for value in (12, 3_200_000)] == ["12 B", "3.2 MB"]
    assert rate_of(4.14e14, "FLOP/s") == "414 TFLOP/s"
