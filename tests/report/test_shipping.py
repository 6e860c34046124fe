"""A quantization and a bench as text and JSON: the same numbers in both."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from tests.results.test_bench import TOLD as BENCH
from tests.results.test_quantize import TOLD as QUANTIZED
from trueloop.report import bench_json, quantize_json
from trueloop.report.bench_terminal import BAR, print_bench
from trueloop.report.quantize_terminal import print_quantization
from trueloop.results.quantize import Speed


def _quantized(told: object = QUANTIZED) -> str:
    to = io.StringIO()
    print_quantization(told, to)  # type: ignore[arg-type]
    return to.getvalue()


def _benched() -> str:
    to = io.StringIO()
    print_bench(BENCH, to)
    return to.getvalue()


def test_size_and_metric_stand_first() -> None:
    said = _quantized()
    assert said.startswith("shades by int8-weight, as pt2\n  weights  20 kB -> 5.32 kB, 3.77x smaller\n")
    assert "accuracy 0.9100 -> 0.9050 on 1,000 valid samples: drop 0.5 points (allowed 1 point)" in said


def test_every_layer_has_a_line_with_its_cost_and_why_it_stays() -> None:
    lines = _quantized().splitlines()
    (last,) = [line for line in lines if "    last " in line]
    assert last.endswith("kept in float: would be larger")
    assert "50.00% " + "█" * 20 in last
    (first,) = [line for line in lines if "    first " in line]
    assert "0.20% █ " in first
    assert "+0.10" in first


def test_slower_and_larger_are_said_aloud() -> None:
    said = _quantized(replace(QUANTIZED, speeds=(Speed(1, 1e-3, 2e-3), Speed(32, 3e-3, 1.5e-3)), files=(1000, 1500)))
    assert "batch 1   1 ms -> 2 ms, 2.00x SLOWER" in said
    assert "batch 32  3 ms -> 1.5 ms, 2.00x faster" in said
    assert "file 1 kB -> 1.5 kB, 1.50x LARGER" in said


def test_what_it_looked_at_what_it_does_not_know_and_notes_are_told() -> None:
    said = _quantized(replace(QUANTIZED, calibrated=512, others=("memory (GRU)",), notes=("so it is",)))
    assert "512 training samples to calibrate" in said
    assert "stays in float, not known to int8-weight: memory (GRU)" in said
    assert "note     so it is" in said


def test_the_json_of_a_quantization_has_all_numbers() -> None:
    told = json.loads(quantize_json.document(QUANTIZED))
    assert told["version"] == 1
    assert (told["before"], told["after"], told["within"]) == (0.91, 0.905, True)
    assert [layer["name"] for layer in told["layers"]] == ["first", "middle", "middle.two", "last"]


def test_a_bench_names_the_machine_and_how_it_was_measured() -> None:
    said = _benched()
    assert said.startswith("a processor, Linux, 2 cores, 1 thread; torch 2.13.0\n")
    assert "3 s for each form and batch, in 10 rounds in turn; warm-up apart" in said
    assert said.rstrip().endswith("note: a note")


def test_each_batch_has_a_table_with_bars() -> None:
    lines = _benched().splitlines()
    (head,) = [number for number, line in enumerate(lines) if line.startswith("  batch 8")]
    eager, onnx, odd, none = lines[head + 1 : head + 5]
    assert "4 ms" in eager
    assert "2,000" in eager
    assert eager.endswith("1.00x   " + "█" * (BAR // 2))
    assert onnx.endswith("0.50x   " + "█" * BAR)
    assert odd.split() == ["odd", "failed"]
    assert none.split() == ["none", "failed"]


def test_a_failed_form_is_told_with_its_reason() -> None:
    said = _benched()
    assert "odd    FAILED: batch 8: it takes 4 at most" in said
    assert "none   FAILED: no file" in said


def test_columns_stand_under_one_another() -> None:
    lines = _benched().splitlines()
    heads = [line for line in lines if line.startswith("  batch")]
    rows = [line for line in lines if "x   █" in line]
    assert len({line.index("p50") + 3 for line in heads}) == 1
    ends = {line.index("x   █") for line in rows}
    assert len(ends) == 1


def test_the_json_of_a_bench_has_all_forms() -> None:
    told = json.loads(bench_json.document(BENCH))
    assert [form["name"] for form in told["forms"]] == ["eager", "onnx", "odd", "none"]
    assert told["batches"] == [1, 8]
    assert told["forms"][3]["failed"] == "no file"
