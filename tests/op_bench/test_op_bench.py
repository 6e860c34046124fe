"""Operations measured over sizes: who wins, what is counted, and the words on the command line."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trueloop.cli.main import main
from trueloop.op_bench.measure_op import ROUNDS, measure_op
from trueloop.op_claims.sample import Sample
from trueloop.report import render
from trueloop.results.op_bench import OpBench, OpPace, OpSize
from trueloop.results.profile import Ceilings

FAST = OpPace("mine", 1.0e-3, 0.9e-3, 1.1e-3, 10)
SLOW = OpPace("torch.mm", 2.0e-3, 1.9e-3, 2.1e-3, 10)
SIZE = OpSize(64, "f32[64,64], f32[64,64]", "warm", (FAST, SLOW), 3 * 64 * 64 * 4, 2 * 64**3, True)
BENCH = OpBench("mine", "torch.mm", (SIZE,), "a machine", "cpu", "float32", 1e9, 1e9, 5, 1.0)
OPS = """\
import torch

def product(a, b):
    return a @ b

def softmax(x, dim):
    return torch.softmax(x, dim)

def wrong(x, dim):
    return torch.softmax(x, dim) * 2
"""


def test_the_winner_is_faster_in_every_round() -> None:
    assert SIZE.winner == "mine"
    assert replace(SIZE, paces=(replace(FAST, highest=1.95e-3), SLOW)).winner == "equal"
    assert replace(SIZE, paces=(FAST,)).winner == "mine"


def test_the_report_shows_rates_shares_and_the_winner() -> None:
    text = render(BENCH, "text")
    assert "mine is faster than torch.mm at 1 of 1 sizes" in text
    assert "524 MFLOP/s" in text  # 2 * 64^3 in 1 ms
    assert "52%" in text
    assert "2.00x" in text
    page = render(replace(BENCH, sizes=(SIZE, replace(SIZE, size=128))), "html")
    assert "Time over sizes" in page


def test_results_that_differ_and_caches_are_noted() -> None:
    text = render(replace(BENCH, sizes=(replace(SIZE, agrees=False),), bandwidth=1e6), "text")
    assert "The results differ from those of torch.mm" in text
    assert "fit into a cache" in text


def test_bytes_flops_and_turns_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ceilings = Ceilings({"float32": 1e9}, 1e9, 1e-6)
    monkeypatch.setattr("trueloop.op_bench.measure_op.ceilings_of", lambda _: ceilings)
    sample = Sample((torch.randn(4, 8), torch.randn(8, 5)))
    bench = measure_op({"mine": torch.matmul, "torch.mm": torch.mm}, [(8, sample)], seconds=0.001)
    (size,) = bench.sizes
    assert size.bytes == (4 * 8 + 8 * 5 + 4 * 5) * 4
    assert size.flops == 2 * 4 * 8 * 5
    assert size.agrees
    assert all(pace.calls >= 5 * ROUNDS and pace.lowest <= pace.p50 <= pace.highest for pace in size.paces)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trueloop.op_bench.measure_op.ceilings_of", lambda _: Ceilings({"float32": 1e9}, 1e9, 1e-6))
    sys.modules.pop("ops_to_bench", None)
    (tmp_path / "ops_to_bench.py").write_text(OPS, encoding="utf-8")
    return tmp_path


def test_an_operation_over_sizes_as_it_is_typed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--against", "torch.softmax", "--sizes", "8,4", "--seconds", "0.001", "--format", "json", "-q"]
    assert main(["bench", "ops_to_bench.py:softmax", *words]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [each["inputs"] for each in said["sizes"]] == ["f32[256,4], -1", "f32[256,8], -1"]
    assert set(said["winners"]) == {"4 warm", "8 warm"}
    assert main(["bench", "ops_to_bench.py:wrong", "--inputs", "f64[3,N], dim=1", *words]) == 0
    assert not json.loads(capsys.readouterr().out)["sizes"][0]["agrees"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ops_to_bench.py:sofmax",), "Did you mean softmax?"),
        (("ops_to_bench.py:softmax", "--inputs", "f32[4,8], 1"), "--inputs has no N"),
        (("ops_to_bench.py:softmax", "--inputs", "f32[N]"), "No inputs are known"),
        (("ops_to_bench.py:softmax", "--sizes", "0"), "expected sizes with commas"),
        (("ops_to_bench.py:softmax", "ops_to_bench.py:wrong"), "is measured alone"),
        (("runs/mine", "--against", "torch.relu"), "are for an operation"),
    ],
)
def test_wrong_words_are_refused_with_a_sentence(
    here: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words]) == 4
    assert said in capsys.readouterr().err
