"""Labs: every answer is what was measured, and a contradicted sentence is shown and fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.docs_blocks import python_blocks
from tests.labs.falsify import never_contradicted
from tests.labs.table import PAGE, page_with_table
from trueloop.cli.main import main
from trueloop.labs import run_lab as running
from trueloop.labs.catalogue import all_labs, lab_named
from trueloop.labs.lab import Lab, NotHere, Page
from trueloop.results.lab import GROUPS, LabRun

Captured = pytest.CaptureFixture[str]
FAST = {"leak-hunt", "three-autograd-bugs", "view-or-copy"}


@pytest.fixture(autouse=True)
def proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRUELOOP_LABS", str(tmp_path / "proofs"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "proofs"


# -- every lab --


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.long) for name in all_labs()]
)
def test_the_answer_is_what_was_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, kept = lab_named(name), list[Any]()

    def measure() -> Any:
        kept.append(lab.measure())
        return kept[0]

    _use(monkeypatch, replace(lab, measure=measure))
    run = running.run_lab(name)
    assert run.not_here or run.holds(), [each.text for each in run.contradicted]
    assert not kept or never_contradicted(lab, kept[0]) == [], "these sentences hold whatever is measured"


@pytest.mark.parametrize("entry", all_labs().values(), ids=lambda entry: entry.name)
def test_a_lab_is_described_by_its_file(entry: Any) -> None:
    file = Path(running.__file__).parent / entry.group / f"{entry.name.replace('-', '_')}.py"
    text = file.read_text(encoding="utf-8")
    assert text.startswith(f'"""{entry.name}: {entry.question}\n')
    assert entry.question.endswith("?")
    assert "\nLAB = Lab(" in text
    assert entry.needs.partition(" ")[0] in ("", "gpu", "package", "program")
    assert entry.group in GROUPS


def test_the_table_of_the_docs_is_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page_with_table(text) == text, "python -m tests.labs.table writes it"


def test_the_example_of_the_docs_is_a_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    from trueloop.labs.attempt import Attempt
    from trueloop.labs.lab import Exercise

    lab, exercise = python_blocks("labs.md")
    names: dict[str, Any] = {"Attempt": Attempt, "Exercise": Exercise}
    exec(lab + exercise, names)
    monkeypatch.setattr(Lab, "source", lambda _: "")
    _use(monkeypatch, names["LAB"])
    assert running.run_lab("view-or-copy").holds()
    assert "raise NotImplementedError" in names["SKELETON"]


# -- running --


def _use(monkeypatch: pytest.MonkeyPatch, lab: Lab[Any]) -> None:
    """In the place of a real one."""
    monkeypatch.setattr(running, "lab_named", lambda _: lab)


def _lab(measure: Callable[[], Any], holds: bool = True, needs: str = "") -> Lab[Any]:
    def answer(page: Page, measured: dict[str, int]) -> None:
        page.table("Measured", ("name", "value"), [("two", measured["two"])])
        page.says("Two is two.", holds)

    return Lab(code=(_lab,), measure=measure, answer=answer, needs=needs)


def test_a_contradicted_sentence_is_shown_with_the_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, proofs: Path
) -> None:
    _use(monkeypatch, _lab(lambda: {"two": 3}, holds=False))
    assert main(["lab", "view-or-copy"]) == 1
    printed = capsys.readouterr().out
    assert "✗ contradicted  Two is two. The measurement on this machine contradicts this sentence." in printed
    assert "two  3" in printed
    assert main(["lab", "--progress"]) == 0
    assert "✓ view-or-copy" not in capsys.readouterr().out


@pytest.mark.parametrize("needs", ["package not_installed_here", "program not-installed-here"])
def test_what_is_missing_is_said_and_nothing_is_measured(
    needs: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured, proofs: Path
) -> None:
    _use(monkeypatch, _lab(lambda: pytest.fail("measured"), needs=needs))
    assert main(["lab", "view-or-copy"]) == 0
    printed = capsys.readouterr().out
    assert "which is not installed. Nothing was measured." in printed
    assert not list(proofs.glob("*"))


def test_a_lab_may_find_out_later_that_something_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def measure() -> dict[str, int]:
        raise NotHere("There is one processor here, and this lab needs two.")

    _use(monkeypatch, _lab(measure))
    assert main(["lab", "view-or-copy"]) == 0
    assert "view-or-copy: There is one processor here, and this lab needs two. Nothing was measured." in (
        capsys.readouterr().out
    )


def test_without_a_gpu_a_lab_for_one_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert running.missing("gpu") == "This lab needs a GPU with CUDA, and there is none here."


def test_one_lab_that_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    names = ["three-autograd-bugs", "view-or-copy"]
    monkeypatch.setattr("trueloop.cli.lab.all_labs", lambda: dict.fromkeys(names))

    def run(name: str) -> LabRun:
        if name == names[0]:
            raise ZeroDivisionError("in the lab")
        return LabRun(name, "?", "", "")

    monkeypatch.setattr(running, "run_lab", run)
    assert main(["lab", "--all"]) == 3
    printed = capsys.readouterr().out
    assert "✗ three-autograd-bugs  the lab itself failed." in printed
    assert "ZeroDivisionError: in the lab" in printed
    assert "view-or-copy" in printed.partition("ZeroDivisionError")[2]


def test_every_format(capsys: Captured) -> None:
    assert main(["lab", "view-or-copy", "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["holds"] is True
    assert data["measured"]["shares"]["x.t()"] is True
    assert data["versions"]["torch"]
    assert main(["lab", "view-or-copy", "--output", "page.html"]) == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "same_memory" in page
    assert "Answer" in page


# -- list and proofs --


def test_the_list_needs_no_torch() -> None:
    code = (
        "import sys; from trueloop.cli.main import main; assert main(['lab']) == 0; assert 'torch' not in sys.modules"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True
    ).stdout
    assert all(name in printed for name in all_labs())
    assert "[exercise]" in printed


def _printed(capsys: Captured) -> str:
    """Without the columns."""
    return " ".join(capsys.readouterr().out.split())


def test_a_proof_ticks_and_becomes_stale(capsys: Captured, proofs: Path) -> None:
    assert main(["lab", "view-or-copy", "-q"]) == 0
    assert capsys.readouterr().out == ""
    proof = json.loads((proofs / "view-or-copy.json").read_text())
    assert proof["run"]["measured"]["seen_through_view"] == 7.0
    assert proof["run"]["versions"]["torch"]
    assert main(["lab", "--progress"]) == 0
    printed = _printed(capsys)
    assert "✓ view-or-copy answers measured to be right" in printed
    assert printed.startswith("1 of ")
    assert main(["lab"]) == 0
    assert "✓ view-or-copy" in capsys.readouterr().out
    proof["run"]["digest"] = "of another lab"
    (proofs / "view-or-copy.json").write_text(json.dumps(proof))
    assert main(["lab", "--progress"]) == 0
    assert "! view-or-copy stale: the lab has changed since" in _printed(capsys)
    (proofs / "view-or-copy.json").write_text("{")
    assert main(["lab", "--progress"]) == 0
    assert "view-or-copy open: `trueloop lab view-or-copy`" in _printed(capsys)


def test_a_folder_that_cannot_be_written_is_a_note(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("TRUELOOP_LABS", "file/inside")
    assert main(["lab", "view-or-copy"]) == 0
    assert "The proof could not be written to file/inside/view-or-copy.json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["view-or-cpy"], "There is no lab 'view-or-cpy'. Did you mean view-or-copy?"),
        (["view-or-copy", "--all"], "leave out the name"),
        (["view-or-copy", "a.py"], "The lab view-or-copy has no exercise."),
        (["view-or-copy", "--start", "a.py"], "The lab view-or-copy has no exercise."),
        (["--start", "a.py"], "Which exercise?"),
        (["relu-and-sigmoid", "--start", "a.txt"], "is not a Python file"),
        (["relu-and-sigmoid", "--start", "no/a.py"], "no/a.py cannot be written (No such file or directory)"),
        (["relu-and-sigmoid", "nowhere.py"], "There is no file nowhere.py"),
        (["relu-and-sigmoid", "a.py", "--start", "b.py"], "choose one"),
    ],
)
def test_misuse(words: list[str], said: str, capsys: Captured) -> None:
    assert main(["lab", *words]) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1
