"""`trueloop compare`: as text, as Markdown, as a page, as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.session.made import FINISHED, made, timed
from tests.track.rows import on_test, trained, validated
from trueloop.cli.main import main
from trueloop.results.check import ExitCode

Captured = pytest.CaptureFixture[str]
ROWS = (trained(50, 0.5), validated(60, 0.9, best=True), trained(100, 0.25), on_test(60, 0.875))


@pytest.fixture(autouse=True)
def _two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    timed(made(Path("runs"), "first", ROWS, **FINISHED), 48.0)
    other = (*ROWS[:2], trained(100, 0.26), on_test(60, 0.85))
    timed(
        made(Path("runs"), "second", other, recipe={"lr": 0.001, "betas": [0.8, 0.9]}, **{**FINISHED, "best": 0.95}),
        2.0,
    )


def said(captured: Captured, *words: str) -> str:
    assert main(["compare", *words]) == 0
    printed = captured.readouterr()
    assert printed.err == ""
    return printed.out


def test_as_text(capsys: Captured) -> None:
    assert said(capsys, "runs/first", "second").splitlines() == [
        "                      first       second",
        "recipe",
        "  lr                  0.003       0.001",
        "  betas               0.9, 0.999  0.8, 0.9",
        "machine               the same",
        "result",
        "  status              finished    finished",
        "  steps               200         200",
        "  best accuracy       0.9850      0.9500",
        "  test accuracy       0.8750      0.8500",
        "  test loss           0.2000      0.2000",
        "  last training loss  0.2500      0.2600",
        "  time                2:24        6.0 s",
        "  samples per second  1,740       1,740",
        "",
        "lr=0.003, betas=[0.9, 0.999] has the best accuracy, 0.985, but one run of a setting shows no noise: "
        "train each with several seeds.",
        "second and first: the training loss differs from step 100 on: 0.26 and 0.25 (+0.01).",
    ]


def test_runs_with_the_same_numbers_are_bit_equal(capsys: Captured) -> None:
    made(Path("runs"), "again", ROWS, **FINISHED)
    assert (
        said(capsys, "first", "again").splitlines()[-1]
        == "again and first: bit-identical in all 3 losses that both logged."
    )


def test_runs_that_logged_nothing_in_common(capsys: Captured) -> None:
    made(Path("runs"), "empty")
    assert (
        said(capsys, "first", "empty").splitlines()[-1]
        == "empty and first: no loss was logged for the same steps by both."
    )


def test_as_markdown(capsys: Captured) -> None:
    made(Path("runs"), "odd|name_", ROWS, **FINISHED)
    lines = said(capsys, "first", "second", "odd|name_", "--format", "markdown").splitlines()
    assert lines[0] == "# Compare first, second, odd\\|name\\_"
    assert "|  | first | second | odd\\|name\\_ |" in lines
    assert "| lr | 0.003 | 0.001 | 0.003 |" in lines
    assert "second and first: the training loss differs from step 100" in lines[-2]
    columns = {line.replace("\\|", "").count("|") for line in lines if line.startswith("|")}
    assert columns == {5}


def test_as_a_page(capsys: Captured) -> None:
    assert said(capsys, "first", "second", "--output", "a.html", "--output", "a.md", "--output", "a.json") == ""
    page = Path("a.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "the training loss differs from step 100" in page
    assert Path("a.md").read_text(encoding="utf-8").startswith("# Compare first, second\n")
    assert json.loads(Path("a.json").read_text(encoding="utf-8"))["version"] == 1


def test_as_json(capsys: Captured) -> None:
    seen = json.loads(said(capsys, "first", "second", "--format", "json"))
    assert [run["name"] for run in seen["runs"]] == ["first", "second"]
    assert seen["recipe"] == {"lr": [0.003, 0.001], "betas": [[0.9, 0.999], [0.8, 0.9]]}
    assert seen["machine"] == {}
    assert seen["results"]["best accuracy"] == [0.985, 0.95]
    (loss,) = seen["losses"]
    assert loss == {
        "other": "second",
        "first": "first",
        "compared": 3,
        "step": 100,
        "kind": "train",
        "here": 0.25,
        "there": 0.26,
        "equal": False,
    }


def test_the_folder_of_runs_can_be_named(capsys: Captured) -> None:
    made(Path("elsewhere"), "a", ROWS)
    made(Path("elsewhere"), "b", ROWS)
    assert "bit-identical" in said(capsys, "--runs", "elsewhere", "a", "b")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Which runs? Name two or more"),
        (["first"], "Which runs? Name two or more"),
        (["first", "secnd"], "There is no run 'secnd'. Did you mean second?"),
        (["first", "runs"], "runs holds no run (no run.json)"),
        (["first", "runs/first"], "name each run once"),
        (["first", "second", "--format", "markdwn"], "--format cannot be 'markdwn'. Did you mean markdown?"),
        (["first", "second", "--colour"], "There is no option --colour."),
    ],
)
def test_misuse_is_a_sentence(words: list[str], sentence: str, capsys: Captured) -> None:
    assert main(["compare", *words]) == ExitCode.MISUSE
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.out == ""


def test_a_damaged_run_is_named(capsys: Captured) -> None:
    Path("runs/second/run.json").write_text("{", encoding="utf-8")
    assert main(["compare", "first", "second"]) == ExitCode.MISUSE
    assert "runs/second/run.json" in capsys.readouterr().err


def test_comparing_needs_no_torch() -> None:
    slow = {"torch", "numpy", "rich"}
    words = ["compare", "first", "second"]
    code = (
        f"import sys; from trueloop.cli.main import main; assert main({words}) == 0; assert not {slow} & "
        "set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL)
