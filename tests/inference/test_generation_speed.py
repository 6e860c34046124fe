"""`trueloop bench RUN --generate`: what is measured, and that the numbers are those of the steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import in_child
from tests.inference.test_sample import CAUSAL, PLAIN
from trueloop.cli.main import main
from trueloop.report import render
from trueloop.results.check import ExitCode
from trueloop.results.generation_bench import GenerationBench, GenerationPace

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("generated")
    (folder / "text.txt").write_text("the cat sat on the mat. " * 20)
    for name, text in {"plain": PLAIN, "causal": CAUSAL}.items():
        file = folder / f"{name}_measured.py"
        file.write_text(text)
        words = ["train", str(file), "--runs", str(folder / "runs"), "--quiet", "--set", "steps=2"]
        assert in_child(lambda: main(words)) == 0  # noqa: B023
    return folder / "runs"


def test_paces_are_those_of_the_steps() -> None:
    pace = GenerationPace.of("KV cache", 4, [[1.0, 0.1, 0.3], [3.0, 0.2, 0.4], [2.0, 0.1, 0.1]])
    assert (pace.first, pace.p50, pace.p95, pace.texts) == (2.0, 0.1, 0.4, 3)
    assert pace.per_second == pytest.approx(4 * 9 / 7.2)
    assert GenerationPace.of("KV cache", 1, [[0.5], [0.5]]).p50 == 0.5  # one token: nothing comes after the first


def test_a_model_with_a_cache_is_measured_with_and_without(runs: Path, capsys: Captured) -> None:
    words = ["bench", "causal", "--generate", "--runs", str(runs), "--batch", "1,3", "--seconds", "0.01", "--quiet"]
    assert main([*words, "--tokens", "4", "--prompt-tokens", "3", "--format", "json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert [(pace["form"], pace["batch"]) for pace in page["paces"]] == [
        ("KV cache", 1), ("recomputed", 1), ("KV cache", 3), ("recomputed", 3),
    ]  # fmt: skip
    assert all(pace["texts"] >= 2 and pace["per_second"] > 0 and pace["p50"] <= pace["p95"] for pace in page["paces"])
    assert (page["prompt"], page["tokens"], page["context"], page["notes"]) == (3, 4, 12, [])


def test_a_model_without_a_cache_and_a_text_behind_the_context(runs: Path, capsys: Captured) -> None:
    words = ["bench", "plain", "--generate", "--runs", str(runs), "--batch", "1", "--seconds", "0.01", "--quiet"]
    assert main([*words, "--tokens", "9", "--prompt-tokens", "3"]) == 0
    out = capsys.readouterr().out
    assert "recomputed" in out
    assert "KV cache  " not in out
    assert "The model has no KV cache" in out
    assert "Behind 8 tokens the model sees the last 8" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plain", "causal", "--generate"], "--generate measures one run"),
        (["plain", "--tokens", "4"], "are for --generate"),
        (["nothing", "--generate"], "There is no run 'nothing'"),
        (["plain", "--generate", "--against", "torch.relu"], "are for an operation"),
    ],
)
def test_mistakes_are_one_sentence(runs: Path, capsys: Captured, words: list[str], said: str) -> None:
    assert main(["bench", "--runs", str(runs), *words]) == ExitCode.MISUSE
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") == 1


def test_every_format_shows_all_forms() -> None:
    paces = tuple(
        GenerationPace(form, batch, 2, 0.1, 0.01, 0.02, 90.0 * batch) for batch in (1, 8) for form in ("a", "b")
    )
    machine = {"processor": "p", "cores": 2, "device": "cpu", "versions": {"torch": "2.13"}}
    result = GenerationBench("run", paces, 16, 64, None, machine, 3.0)
    for format in ("text", "html", "markdown", "json"):
        text = render(result, format)
        assert "720" in text
    assert "at most 720 tokens/s, with 8 texts at once (a)" in render(result, "text")
