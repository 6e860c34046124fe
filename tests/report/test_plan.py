"""A plan as text and as JSON: the same numbers in both."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from tests.parallel.worlds import EXAMPLE, LARGE, PLAIN, facts, terms
from trueloop.parallel.plan import plan
from trueloop.report import print_report, render
from trueloop.report.units import bytes_of
from trueloop.results.plan import Plan

FULL = plan(LARGE, terms(8, precision="bf16"), "large.py", "adamw")


def _row(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.lstrip(" →").startswith(f"{name} "))


def test_the_heading_says_what_is_planned_and_that_nothing_is_trained() -> None:
    text = render(FULL)
    assert "large.py on 8 GPUs of 80 GB, 600 GB/s: estimated, nothing is trained" in text
    assert "Net: 7,000,000,000 parameters, 32 repeated blocks, 42 TFLOP per sample" in text
    assert "batch 64, bf16, adamw" in text


def test_micro_batches_and_frozen_parameters_are_reported() -> None:
    text = render(plan(replace(PLAIN, learning=5), terms(2, accumulate=4)))
    assert "batch 64, in 4 micro-batches, fp32" in text
    assert "10,000,000 parameters, 5 of them trainable, no repeated blocks" in text


@pytest.mark.parametrize("number", range(len(FULL.rows)))
def test_the_table_has_every_way_with_its_memory_and_its_speed(number: int) -> None:
    row = FULL.rows[number]
    line = _row(render(FULL), row.way.name)
    for part in row.memory.parts:
        assert bytes_of(part.value) in line
    assert bytes_of(row.memory.total) in line
    assert ("yes" if row.fits else "NO") in line.split()
    assert f"~{row.speedup.value:.3g}x" in line


def test_what_is_assumed_is_marked_and_what_is_computed_is_not() -> None:
    row = FULL.rows[1]
    line = _row(render(FULL), row.way.name)
    assert f"~{bytes_of(row.memory.workspace.value)}" in line
    assert f"~{bytes_of(row.memory.parameters.value)}" not in line
    assert f"~{bytes_of(row.memory.total)}" not in line


def test_the_recommended_row_alone_is_marked() -> None:
    lines = [line for line in render(FULL).splitlines() if line.startswith("→")][:1]
    assert FULL.recommended is not None
    assert len(lines) == 1
    assert lines[0].lstrip(" →").startswith(FULL.recommended.way.name)
    assert f"recommended  {FULL.recommended.way.name}" in render(FULL)
    assert FULL.chosen is not None
    assert f"run  {FULL.commands[FULL.chosen]}  (" in render(FULL)


def test_what_train_does_not_run_is_named_with_its_numbers_and_the_reason() -> None:
    made = plan(replace(LARGE, positions=4096), terms(64, batch=512, precision="bf16"))
    text = render(made)
    table = text[text.index("Not supported by train") : text.index("Recommendation")]
    fast = min((each.row for each in made.unsupported if each.row and each.row.fits), key=lambda row: row.step.value)
    line = next(line for line in table.splitlines() if line.startswith(f"{fast.way.name} "))
    assert bytes_of(fast.memory.total) in line
    assert "parallel takes ddp" in line
    assert f"{len(made.unsupported) - 5} slower ones are in --format json" in table


def test_all_reasons_and_assumptions_are_sentences_in_it() -> None:
    text = render(FULL)
    for reason in FULL.reasons:
        assert f"why  {reason}" in text
        assert reason.endswith(".")
    for assumption in FULL.assumed:
        assert f"assumed  {assumption}" in text
        assert assumption.endswith(".")


def test_ways_that_are_not_possible_are_listed_with_the_reason() -> None:
    text = render(plan(PLAIN, terms(4)))
    assert "no repeated blocks" in _row(text, "tp 4")
    assert "to compute again" in _row(text, "ddp + checkpointing")


def test_where_nothing_fits_nothing_is_marked() -> None:
    text = render(plan(LARGE, terms(2, memory=1e9)))
    assert "no way fits" in text
    assert "→" not in text
    assert "recommended  " not in text
    assert "More GPUs" not in text


def test_a_plan_of_which_every_way_is_refused_can_be_shown() -> None:
    made = plan(EXAMPLE, terms(8))
    bare = replace(made, rows=(), chosen=None, reasons=("No way can be gone.",), scaling=())
    assert "No way can be gone." in render(bare)


def test_it_scales_up_to_1024_gpus() -> None:
    lines = render(plan(EXAMPLE, terms(8))).splitlines()
    rows = lines[next(number for number, line in enumerate(lines) if line.startswith("More GPUs")) + 3 :][:11]
    assert [row.lstrip(" →").split()[0] for row in rows] == [
        "1",
        "2",
        "4",
        "8",
        "16",
        "32",
        "64",
        "128",
        "256",
        "512",
        "1,024",
    ]


def test_columns_are_aligned() -> None:
    lines = render(FULL).splitlines()
    head = next(line for line in lines if line.strip().startswith("way "))
    widths = {len(_row("\n".join(lines), row.way.name).rstrip()) for row in FULL.rows}
    assert widths == {len(head.rstrip())}


def test_colors_are_for_terminals_only() -> None:
    to = io.StringIO()
    print_report(FULL, to=to)
    assert "\x1b" not in to.getvalue()


# -- JSON --


@pytest.mark.parametrize(
    "made", [FULL, plan(PLAIN, terms(1)), plan(LARGE, terms(2, memory=1e9)), plan(facts(10**6, blocks=2), terms(16))]
)
def test_json_says_the_same(made: Plan) -> None:
    told = json.loads(render(made, "json"))
    assert told["version"] == 1
    assert [row["name"] for row in told["rows"]] == [row.way.name for row in made.rows]
    assert [row["memory"]["total"] for row in told["rows"]] == [pytest.approx(row.memory.total) for row in made.rows]
    assert [each["why"] for each in told["refused"]] == [each.why for each in made.refused]
    assert told["reasons"] == list(made.reasons)
    assert told["assumed"] == list(made.assumed)
    assert (told["recommended"] is None) == (made.recommended is None)
    if made.recommended is not None:
        assert told["recommended"]["way"] == made.recommended.way.name
        assert told["chosen"] == made.chosen
        assert told["recommended"]["command"] == made.commands[told["chosen"]]


def test_each_number_in_json_has_its_basis() -> None:
    row = json.loads(render(FULL, "json"))["rows"][1]
    for name in ("bus", "wire_seconds", "exposed", "step", "speedup", "speedup_unhidden", "efficiency"):
        assert set(row[name]) == {"value", "basis", "how"}
        assert row[name]["basis"] in ("computed", "measured", "assumed")


def test_a_table_that_is_wider_than_the_terminal_keeps_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    to = Screen()
    print_report(FULL, to=to, color=False)
    line = _row(to.getvalue(), "ddp")
    row = next(row for row in FULL.rows if row.way.name == "ddp")
    assert all(bytes_of(part.value) in line for part in row.memory.parts)
