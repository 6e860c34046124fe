"""Exercises: the skeleton fails, a solution passes, a wrong solution gets the right hint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trueloop.cli.main import main
from trueloop.labs.catalogue import all_labs, lab_named
from trueloop.labs.run_lab import check_exercise
from trueloop.recipes.catalogue import load_file
from trueloop.results.lab import ExerciseCheck

Captured = pytest.CaptureFixture[str]
SOLUTIONS = Path(__file__).parent / "solutions"
FAST = {"relu_and_sigmoid"}
EXERCISES = [name for name, entry in all_labs().items() if entry.exercise]


def marked(stem: str) -> object:
    return pytest.param(stem, marks=[] if stem in FAST else pytest.mark.long)


def checked(name: str, file: Path) -> ExerciseCheck:
    exercise = lab_named(name).exercise
    assert exercise is not None
    return check_exercise(name, exercise, load_file(file), file.name)


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_has_a_task_a_solution_and_wrong_ones(name: str, tmp_path: Path) -> None:
    exercise = lab_named(name).exercise
    assert exercise is not None
    assert f"trueloop lab {name} " in exercise.skeleton, "the task says how it is checked"
    stem = name.replace("-", "_")
    assert (SOLUTIONS / f"{stem}.py").is_file()
    assert list(SOLUTIONS.glob(f"{stem}__*.py"))
    file = tmp_path / f"skeleton_of_{stem}.py"
    file.write_text(exercise.skeleton, encoding="utf-8")
    result = checked(name, file)
    assert not result.holds()
    assert "not written yet" in result.failed[0].hint


@pytest.mark.parametrize(
    "stem", [marked(each.stem) for each in sorted(SOLUTIONS.glob("*.py")) if "__" not in each.stem]
)
def test_a_solution_passes(stem: str) -> None:
    result = checked(stem.replace("_", "-"), SOLUTIONS / f"{stem}.py")
    assert result.holds(), result.failed


@pytest.mark.parametrize("stem", [marked(each.stem) for each in sorted(SOLUTIONS.glob("*__*.py"))])
def test_a_wrong_solution_gets_its_hint(stem: str) -> None:
    file = SOLUTIONS / f"{stem}.py"
    wanted = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# hint: ")
    result = checked(stem.partition("__")[0].replace("_", "-"), file)
    assert not result.holds()
    assert any(wanted in check.hint for check in result.failed), [check.hint for check in result.failed]


def test_from_the_skeleton_to_the_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("TRUELOOP_LABS", str(tmp_path / "proofs"))
    monkeypatch.chdir(tmp_path)
    assert main(["lab", "relu-and-sigmoid", "--start", "my_first_ops.py"]) == 0
    assert "the task is in its docstring" in capsys.readouterr().out
    assert main(["lab", "relu-and-sigmoid", "--start", "my_first_ops.py"]) == 4
    assert "exists and was not overwritten" in capsys.readouterr().err
    assert main(["lab", "relu-and-sigmoid", "my_first_ops.py"]) == 1
    printed = capsys.readouterr().out
    assert "raises NotImplementedError: write ReLU.forward" in printed
    assert "hint" in printed
    own = Path("my_first_ops.py")
    own.write_text((SOLUTIONS / "relu_and_sigmoid.py").read_text(encoding="utf-8"), encoding="utf-8")
    assert main(["lab", "relu-and-sigmoid", "my_first_ops.py"]) == 0
    assert "✓ my_first_ops.py: solved" in capsys.readouterr().out
    assert main(["lab", "--progress"]) == 0
    assert "✓ relu-and-sigmoid exercise solved" in " ".join(capsys.readouterr().out.split())
    own.write_text(own.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert main(["lab", "--progress", "--format", "json"]) == 0
    state = {each["name"]: each for each in json.loads(capsys.readouterr().out)["labs"]}["relu-and-sigmoid"]
    assert state["state"] == "stale"
    assert state["why"].endswith("my_first_ops.py has changed since")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ReLU = 3\n", "is a int and cannot be called"),
        ("x = 1\n", "the task asks for `ReLU`"),
        ("def ReLU(x):\n    return x.nothing\n", "line 2 raises AttributeError"),
        ("def ReLU():\n    pass\n", "raises TypeError"),
        ("def ReLU(x):\n    raise SystemExit(7)\n", "line 2 raises SystemExit: 7"),
    ],
)
def test_whatever_is_in_the_file_gives_a_sentence(
    text: str, said: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path(f"odd_attempt_{len(text)}.py")  # a name of its own: all are modules of this process
    file.write_text(text, encoding="utf-8")
    assert main(["lab", "relu-and-sigmoid", str(file)]) == 1
    assert said in capsys.readouterr().out
