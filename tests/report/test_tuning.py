"""The result of `tune` as text, JSON and HTML: the same numbers in all of them."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from tests.report.page import Page
from tests.tune.worlds import PLACE, pace, tuning
from trueloop.report import Live, document_of, render
from trueloop.report.from_tune import agreement_in_words, sign_of, trial_line, variant_in_words
from trueloop.report.terminal import PLOT_HEIGHT, PLOT_WIDTH, letters
from trueloop.results.document import Plot
from trueloop.results.tune import BatchSizes, Idle, Trial

FULL = tuning(
    batches=BatchSizes(((64, 1000.0, 10**8), (128, 1500.0, 2 * 10**8)), 128, 3000, False, "memory"),
    idle=(Idle("precision", "this processor has no bf16 in hardware"),),
    notes=("The budget was spent.",),
)


def test_the_table_has_every_trial_and_its_outcome() -> None:
    rows = [line for line in render(FULL).splitlines() if line.lstrip(" →")[:1].isdigit()]
    assert "reference: fp32, eager" in rows[0]
    assert any(
        "threads=1 " in row and "WINNER" in row and "2,000" in row and "2.00x" in row and "90 MB" in row for row in rows
    )
    assert any("precision=bf16" in row and "REFUSED" in row and "4.00x" in row for row in rows)
    assert any("compile=default" in row and "failed" in row for row in rows)
    assert any("channels_last=true" in row and "no gain" in row for row in rows)


def test_verified_and_refused_trials_have_their_numbers() -> None:
    text = render(FULL)
    loss = "loss at most 0.10% apart in 50 steps (2.0% is rounding)"
    assert f"{loss}, gradient cosine at least 0.9990 (needs 0.90)" in text
    assert "accuracy 0.9100 against 0.9050 over 2 seeds (noise 0.01)" in text
    assert "its loss lies 70.0% from the reference's within 50 steps" in text
    assert "out of memory at 3.1 GB" in text


def test_the_rest_is_reported_too() -> None:
    text = render(FULL)
    for words in (
        "digits tuned for throughput",
        "on Test processor, 4 cores, torch 2.13.0",
        "64   1.00x, 100 MB",
        "128  1.50x, 200 MB",
        "knee at 128; the largest that fits is about 3,000 (estimated; the limit is memory)",
        "this processor has no bf16 in hardware",
        "The budget was spent.",
        "winner: threads=1: 2.00x the reference (5 trials, 42 s)",
    ):
        assert words in text
    assert "from the cache" not in text


def test_a_cached_result_says_so_and_how_to_measure_again() -> None:
    text = render(replace(FULL, cached=True))
    assert "from the cache: measured on this machine on 2023-11-1" in text
    assert "--fresh measures again" in text


def test_the_winner_of_memory_is_reported_in_bytes() -> None:
    assert "threads=1: 90 MB instead of 100 MB, at 2.00x the speed" in render(tuning(objective="memory"))


def test_a_search_that_found_nothing_says_so() -> None:
    text = render(tuning(trials=tuning().trials[:1], winner=0))
    assert "no trial is better" in text
    assert "Speed against memory" not in text  # one point is not a plot
    assert "Verified" not in text


def test_each_trial_is_one_line_when_it_is_done() -> None:
    to = io.StringIO()
    live = Live(to, color=False)
    for trial in FULL.trials:
        live.show(trial_line(trial))
    lines = to.getvalue().splitlines()
    assert len(lines) == len(FULL.trials)
    assert "reference" in lines[0]
    assert lines[1].endswith("threads: threads=1  2,000 samples/s, 2.00x the reference, 90 MB  kept")
    assert "REFUSED: its loss lies" in lines[2]
    assert lines[3].endswith("failed: out of memory at 3.1 GB")


def test_plain_text_has_no_colors() -> None:
    assert "\x1b[" not in render(FULL)


def test_text_of_a_recipe_cannot_control_the_terminal() -> None:
    evil = replace(FULL.trials[3], said="\x1b[2Jgone")
    assert "\x1b[2J" not in render(replace(FULL, trials=(*FULL.trials[:3], evil, FULL.trials[4])))


def test_variants_are_named_by_what_they_change() -> None:
    assert variant_in_words(FULL.trials[0]) == "reference: fp32, eager"
    assert variant_in_words(replace(FULL.trials[1], changes={})) == "the unchanged recipe"
    assert variant_in_words(FULL.trials[2]) == "threads=1 precision=bf16"


def test_an_agreement_without_layers_or_metric_reports_the_rest() -> None:
    agreement = FULL.trials[1].agreement
    assert agreement is not None
    words = agreement_in_words(replace(agreement, layer="", measured=(), reference=()))
    assert words == "loss at most 0.10% apart in 50 steps (2.0% is rounding)"


# -- speed against memory --


def trial(number: int, speed: float, peak: int) -> Trial:
    return Trial(number, "k", {}, {}, "kept", pace=pace(1000.0 * speed, peak), speed=speed)


def plotted(*trials: Trial) -> list[str]:
    made = tuning(trials=trials, winner=trials[0].number)
    plots = [part for part in document_of(made).parts if isinstance(part, Plot)]
    return letters(plots[0]) if plots else []


def test_up_is_faster_and_left_is_smaller() -> None:
    lines = plotted(trial(0, 1.0, 100), trial(1, 3.0, 200), trial(2, 2.0, 150))
    assert len(lines) == PLOT_HEIGHT + 2
    assert lines[0].startswith("   3.00x │")
    assert lines[0].endswith("1")
    assert lines[PLOT_HEIGHT - 1] == "   1.00x │0"
    assert "100 B" in lines[-1]
    assert lines[-1].endswith("200 B")
    assert max(map(len, lines)) <= PLOT_WIDTH + 10
    assert any("2" in line for line in lines[2:-3])


def test_of_two_trials_in_one_place_the_better_one_is_visible() -> None:
    lost = replace(trial(1, 2.0, 100), outcome="no gain")
    assert "0" in plotted(trial(0, 2.0, 100), lost, trial(2, 1.0, 50))[0]


@pytest.mark.parametrize("number", [0, 9, 10, 61, 62, 1000])
def test_every_trial_has_one_sign(number: int) -> None:
    assert len(sign_of(number)) == 1


def test_equal_points_are_drawn_and_one_point_is_not() -> None:
    assert plotted(trial(0, 1.0, 100), trial(1, 1.0, 100))
    assert plotted(trial(0, 1.0, 100)) == []


# -- documents --


def test_json_holds_all_and_names_the_choice() -> None:
    read = json.loads(render(FULL, "json"))
    assert read["version"] == 1
    assert read["chosen"] == {"changes": {"threads": 1}, "words": "threads=1", "speed": 2.0}
    assert read["front"] == [1]
    assert len(read["trials"]) == 5
    assert read["trials"][2]["agreement"]["failures"]
    assert read["place"]["name"] == PLACE.name
    assert read["batches"]["knee"] == 128


def test_json_has_no_non_finite_numbers() -> None:
    agreement = FULL.trials[2].agreement
    assert agreement is not None
    wild = replace(FULL.trials[2], agreement=replace(agreement, loss_apart=float("inf")))
    text = render(replace(FULL, trials=(*FULL.trials[:2], wild, *FULL.trials[3:])), "json")
    assert "Infinity" not in text
    assert json.loads(text)["trials"][2]["agreement"]["loss_apart"] == "inf"


def test_html_opens_offline_and_shows_table_plot_and_refusals() -> None:
    text = render(replace(FULL, subject="digits <b>"), "html")
    page = Page(text)
    assert page.tags.count("circle") == 4  # the measured trials
    assert page.tags.count("tr") >= 6
    assert "digits &lt;b&gt;" in text
    assert "its loss lies 70.0%" in text
    assert len(page.of("tr", "best")) == 1
