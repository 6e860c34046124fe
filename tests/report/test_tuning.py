"""A tuning as text, JSON and HTML: the same numbers in all of them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.tune.worlds import PLACE, pace, tuning
from trueloop.report import tuning_html, tuning_json, tuning_terminal
from trueloop.report.tuning_picture import HEIGHT, WIDTH, picture, sign_of
from trueloop.report.tuning_terminal import Teller, proof_in_words, variant_in_words
from trueloop.results.tune import BatchSizes, Idle, Trial

FULL = tuning(
    batches=BatchSizes(((64, 1000.0, 10**8), (128, 1500.0, 2 * 10**8)), 128, 3000, False, "memory"),
    idle=(Idle("precision", "this processor has no bf16 in hardware"),),
    notes=("The budget was spent.",),
)


def test_the_table_has_every_trial_and_what_became_of_it() -> None:
    text = tuning_terminal.document(FULL)
    lines = {
        line.split()[0]: line
        for line in text.splitlines()
        if line[:3] in ("  0", "  1", "  2", "  3", "  4") and "  " in line[3:5]
    }
    assert "reference: fp32, eager" in lines["0"]
    rows = [line for line in text.splitlines() if line.startswith("  ") and line.strip()[:1].isdigit()]
    assert any(
        "threads=1 " in row and "WINNER" in row and "2,000" in row and "2.00x" in row and "90 MB" in row for row in rows
    )
    assert any("precision=bf16" in row and "REFUSED" in row and "4.00x" in row for row in rows)
    assert any("compile=default" in row and "failed" in row for row in rows)
    assert any("channels_last=true" in row and "no gain" in row for row in rows)


def test_proofs_and_refusals_have_their_numbers() -> None:
    text = tuning_terminal.document(FULL)
    assert (
        "loss at most 0.10% apart in 50 steps (2.0% is rounding), cosine of gradients at least 0.9990 (needs 0.90)"
        in text
    )
    assert "accuracy 0.9100 against 0.9050 over 2 seeds (noise 0.01)" in text
    assert "its loss lies 70.0% from the reference's within 50 steps" in text
    assert "out of memory at 3.1 GB" in text


def test_the_rest_is_told_too() -> None:
    text = tuning_terminal.document(FULL)
    for words in (
        "digits tuned for throughput on Test processor, 4 cores, torch 2.13.0",
        "64: 1.00x, 100 MB · 128: 1.50x, 200 MB",
        "knee at 128; the largest that fits is about 3,000 (reckoned; the limit is memory)",
        "this processor has no bf16 in hardware",
        "The budget was spent.",
        "threads=1: 2.00x the reference (5 trials, 42 s)",
    ):
        assert words in text
    assert "from memory" not in text


def test_what_is_told_from_memory_says_so_and_how_to_measure_anew() -> None:
    text = tuning_terminal.document(replace(FULL, cached=True))
    assert "from memory: measured here on 2023-11-1" in text
    assert "--fresh measures anew" in text


def test_who_asked_for_memory_is_told_of_memory() -> None:
    assert "threads=1: 90 MB instead of 100 MB, at 2.00x the speed" in tuning_terminal.document(
        tuning(objective="memory")
    )


def test_a_search_that_found_nothing_says_so() -> None:
    text = tuning_terminal.document(tuning(trials=tuning().trials[:1], winner=0))
    assert "nothing that was tried is better" in text
    assert "Speed against memory" not in text  # one point is no picture
    assert "Proved" not in text


def test_each_trial_is_one_line_when_it_is_done() -> None:
    to = io.StringIO()
    teller = Teller(to, colour=False)
    for trial in FULL.trials:
        teller.tell(trial)
    lines = to.getvalue().splitlines()
    assert len(lines) == len(FULL.trials)
    assert "reference" in lines[0]
    assert lines[1].endswith("threads: threads=1  2,000 samples/s, 2.00x the reference, 90 MB  kept")
    assert "REFUSED: its loss lies" in lines[2]
    assert lines[3].endswith("failed: out of memory at 3.1 GB")


def test_a_terminal_gets_colours_only_if_asked() -> None:
    assert "\x1b[" not in tuning_terminal.document(FULL)


def test_words_of_a_recipe_cannot_steer_the_terminal() -> None:
    evil = replace(FULL.trials[3], said="\x1b[2Jgone")
    assert "\x1b[2J" not in tuning_terminal.document(replace(FULL, trials=(*FULL.trials[:3], evil, FULL.trials[4])))


def test_variants_are_named_by_what_they_change() -> None:
    assert variant_in_words(FULL.trials[0]) == "reference: fp32, eager"
    assert variant_in_words(replace(FULL.trials[1], changes={})) == "the recipe as it stands"
    assert variant_in_words(FULL.trials[2]) == "threads=1 precision=bf16"


def test_a_proof_without_layers_or_metric_tells_the_rest() -> None:
    agreement = FULL.trials[1].agreement
    assert agreement is not None
    said = proof_in_words(replace(agreement, layer="", measured=(), reference=()))
    assert said == "loss at most 0.10% apart in 50 steps (2.0% is rounding)"


# -- the picture --


def trial(number: int, speed: float, peak: int) -> Trial:
    return Trial(number, "k", {}, {}, "kept", pace=pace(1000.0 * speed, peak), speed=speed)


def test_up_is_faster_and_left_is_smaller() -> None:
    lines = picture([trial(0, 1.0, 100), trial(1, 3.0, 200), trial(2, 2.0, 150)])
    assert len(lines) == HEIGHT + 2
    assert lines[0].startswith("   3.00x │")
    assert lines[0].endswith("1")
    assert lines[HEIGHT - 1] == "   1.00x │0"
    assert "100 B" in lines[-1]
    assert lines[-1].endswith("200 B")
    assert max(map(len, lines)) <= WIDTH + 10
    assert any("2" in line for line in lines[2:-3])


def test_of_two_on_one_spot_the_one_that_counts_is_seen() -> None:
    lost = replace(trial(1, 2.0, 100), outcome="no gain")
    assert "0" in picture([trial(0, 2.0, 100), lost, trial(2, 1.0, 50)])[0]


@pytest.mark.parametrize("number", [0, 9, 10, 61, 62, 1000])
def test_every_trial_has_one_sign(number: int) -> None:
    assert len(sign_of(number)) == 1


def test_points_that_are_all_alike_are_drawn() -> None:
    assert picture([trial(0, 1.0, 100), trial(1, 1.0, 100)])
    assert picture([trial(0, 1.0, 100)]) == []
    assert picture([]) == []


# -- documents --


def test_json_holds_all_and_names_the_choice() -> None:
    read = json.loads(tuning_json.document(FULL))
    assert read["version"] == 1
    assert read["chosen"] == {"changes": {"threads": 1}, "words": "threads=1", "speed": 2.0}
    assert read["front"] == [1]
    assert len(read["trials"]) == 5
    assert read["trials"][2]["agreement"]["failures"]
    assert read["place"]["name"] == PLACE.name
    assert read["batches"]["knee"] == 128


def test_json_has_no_numbers_that_are_none() -> None:
    agreement = FULL.trials[2].agreement
    assert agreement is not None
    wild = replace(FULL.trials[2], agreement=replace(agreement, loss_apart=float("inf")))
    text = tuning_json.document(replace(FULL, trials=(*FULL.trials[:2], wild, *FULL.trials[3:])))
    assert "Infinity" not in text
    assert json.loads(text)["trials"][2]["agreement"]["loss_apart"] == "inf"


class Opened(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [value for name, value in attrs if name in ("src", "href") and str(value).startswith("http")]


def test_html_stands_alone_and_shows_table_picture_and_refusals() -> None:
    text = tuning_html.document(replace(FULL, subject="digits <b>"))
    page = Opened()
    page.feed(text)
    assert page.tags.count("circle") == 4  # those that were measured
    assert page.tags.count("tr") >= 6
    assert "digits &lt;b&gt;" in text
    assert "its loss lies 70.0%" in text
    assert "class=won" in text
