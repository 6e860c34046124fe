"""The results of `quantize` and `bench` as text and JSON: the same numbers in both."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.results.test_bench import TOLD as BENCH
from tests.results.test_quantize import TOLD as QUANTIZED
from trueloop.report import render
from trueloop.report.terminal import COLUMN_BAR
from trueloop.results.quantize import Speed


def test_size_and_metric_come_first() -> None:
    text = render(QUANTIZED)
    assert text.startswith("shades by int8-weight, as pt2\n  weights   20 kB -> 5.32 kB, 3.77x smaller\n")
    assert "accuracy  0.9100 -> 0.9050 on 1,000 valid samples: drop 0.5 points (allowed 1 point)" in text


def test_every_layer_has_a_row_with_its_cost_and_why_it_stays() -> None:
    lines = render(QUANTIZED).splitlines()
    (last,) = [line for line in lines if line.strip().startswith("last ")]
    assert last.rstrip().endswith("kept in float: would be larger")
    assert "50.00%   " + "█" * COLUMN_BAR in last
    (first,) = [line for line in lines if line.strip().startswith("first ")]
    assert "0.20%   █ " in first
    assert "+0.10" in first


def test_slower_and_larger_are_emphasized() -> None:
    text = render(replace(QUANTIZED, speeds=(Speed(1, 1e-3, 2e-3), Speed(32, 3e-3, 1.5e-3)), files=(1000, 1500)))
    assert "batch 1   1 ms -> 2 ms, 2.00x SLOWER" in text
    assert "batch 32  3 ms -> 1.5 ms, 2.00x faster" in text
    assert "file 1 kB -> 1.5 kB, 1.50x LARGER" in text


def test_calibration_unsupported_layers_and_notes_are_reported() -> None:
    text = render(replace(QUANTIZED, calibrated=512, others=("memory (GRU)",), notes=("so it is",)))
    assert "calibrated on 512 training samples" in text
    assert "stays in float, not supported by int8-weight: memory (GRU)" in text
    assert "note  so it is" in text


def test_the_json_of_a_quantization_has_all_numbers() -> None:
    read = json.loads(render(QUANTIZED, "json"))
    assert read["version"] == 1
    assert (read["before"], read["after"], read["within"]) == (0.91, 0.905, True)
    assert [layer["name"] for layer in read["layers"]] == ["first", "middle", "middle.two", "last"]


def test_a_bench_names_the_machine_and_how_it_was_measured() -> None:
    text = render(BENCH)
    assert "a processor, Linux, 2 cores, 1 thread; torch 2.13.0" in text
    assert "3 s for each form and batch, in 10 interleaved rounds" in text
    assert text.rstrip().endswith("note  a note")


def test_each_batch_has_a_table_with_bars() -> None:
    lines = render(BENCH).splitlines()
    (head,) = [number for number, line in enumerate(lines) if line.startswith("Batch size 8")]
    names = ("eager", "onnx", "odd", "none")
    rows = [line.lstrip(" →") for line in lines[head:]]
    eager, onnx, odd, none = (next(row for row in rows if row.startswith(name)) for name in names)
    assert "4 ms" in eager
    assert "2,000" in eager
    assert "1.00x" in eager
    assert eager.rstrip().endswith(" " + "█" * (COLUMN_BAR // 2))
    assert "0.50x" in onnx
    assert onnx.rstrip().endswith(" " + "█" * COLUMN_BAR)
    assert odd.split() == ["odd", "failed"]
    assert none.split() == ["none", "failed"]


def test_a_failed_form_is_reported_with_its_reason() -> None:
    text = render(BENCH)
    assert "✗ odd   not measured: batch 8: it takes 4 at most" in text
    assert "✗ none  not measured: no file" in text


def test_columns_are_aligned() -> None:
    lines = render(BENCH).splitlines()
    assert len({line.index("p50") + 3 for line in lines if line.lstrip().startswith("form ") and "p50" in line}) == 1
    assert len({line.index("█") for line in lines if "█" in line}) == 1


def test_the_json_of_a_bench_has_all_forms() -> None:
    read = json.loads(render(BENCH, "json"))
    assert [form["name"] for form in read["forms"]] == ["eager", "onnx", "odd", "none"]
    assert read["batches"] == [1, 8]
    assert read["forms"][3]["failed"] == "no file"
