"""Every measured figure of the README and the site has its command, its day and its commit."""

from __future__ import annotations

import subprocess
from datetime import date
from pathlib import Path

import pytest

from tests.site import figures
from tests.site.figures import CODE, COUNTED, ROOT, git, has_history, is_here, pages, what_runs, without_origin

FIGURES = figures.figures()
TABLE = "| loop | ms | gain |\n|---|---|---|\n| plain | 5.15 | 1.00 |\n| ours | 4.25 | **1.21** |\n"
LINE = "Measured by `make overhead` on 2026-11-18 at 94979667."


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_measured_table_or_paragraph_has_its_origin_below(page: Path) -> None:
    assert list(without_origin(page.read_text(encoding="utf-8"))) == []


def test_the_commands_are_in_this_repository() -> None:
    counted = [found["command"] for page in pages() for found in COUNTED.finditer(page.read_text(encoding="utf-8"))]
    commands = {figure.command for figure in FIGURES} | set(counted)
    assert [command for command in sorted(commands) if not is_here(command)] == []


def test_every_command_names_the_code_that_it_measures() -> None:
    assert {what_runs(figure.command) for figure in FIGURES} == CODE.keys()
    assert [folder for figure in FIGURES for folder in figure.folders if not (ROOT / folder).is_dir()] == []


def test_a_commit_is_an_ancestor_and_not_younger_than_its_day() -> None:
    if not has_history():
        pytest.skip("no history here (an exported copy or a shallow clone): commits are not compared")
    ancestors = dict(line.split() for line in git("log", "--format=%H %as", "HEAD").splitlines())
    days = {commit[:8]: date.fromisoformat(day) for commit, day in ancestors.items()}
    strangers = [figure for figure in FIGURES if figure.commit not in days]
    assert strangers == [], "commits that are not ancestors of HEAD"
    assert [figure for figure in FIGURES if figure.day < days[figure.commit]] == [], "older than their commit"


def test_a_figure_that_is_older_than_its_code_says_so() -> None:
    if not has_history():
        pytest.skip("no history here (an exported copy or a shallow clone): commits are not compared")
    assert [figure for figure in FIGURES if figure.says_older != figure.is_older] == [], "run `make figures`"


def test_the_line_of_a_figure_follows_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "changed_since", lambda _: ["src/trueloop/taps/loss.py"])
    kernels = LINE.replace("make overhead", "python benchmarks/kernels.py")
    older = LINE.removesuffix(".") + "; the measured code has changed since."
    assert figures.LINE.sub(figures.with_age, f"{LINE} {kernels}") == f"{older} {kernels}"
    assert figures.LINE.sub(figures.with_age, older) == older
    monkeypatch.setattr(figures, "changed_since", lambda _: ["src/trueloop/kernels/norm.py"])
    assert figures.LINE.sub(figures.with_age, older) == LINE


# -- what counts as measured --


def test_a_table_of_numbers_needs_the_line_directly_below() -> None:
    assert list(without_origin(f"# A\n\n{TABLE}\n{LINE}\n")) == []
    assert list(without_origin(f"# A\n\n{TABLE}\nOther words.\n\n{LINE}\n")) == ["| loop | ms | gain |"]
    assert list(without_origin(f"# A\n\n{LINE}\n\n{TABLE}")) == ["| loop | ms | gain |"]


def test_a_list_with_a_number_here_and_there_is_no_measurement() -> None:
    rows = [
        "| `lr` | 0.1 if nothing else is said |",
        "| `task` | a name |",
        "| `seed` | a number |",
        "| `name` | text |",
    ]
    assert list(without_origin("\n".join(["| field | |", "|---|---|", *rows]))) == []


def test_a_measured_paragraph_needs_the_line_before_the_next_heading() -> None:
    assert list(without_origin(f"# A\n\nA step takes 2.78 ms.\n\nMore.\n\n{LINE}\n")) == []
    assert list(without_origin(f"# A\n\nA step takes 2.78 ms.\n\n# B\n\n{LINE}\n")) == ["A step takes 2.78 ms."]
    assert list(without_origin("# A\n\n`--wait 2.5 ms` waits.\n\n    took 2.5 ms\n")) == []


def test_a_command_is_a_target_a_verb_a_module_or_a_file() -> None:
    assert all(
        map(is_here, ("make test", "trueloop check", "python -m tests.site.figures", "python benchmarks/cpu.py"))
    )
    assert not any(map(is_here, ("make gold", "trueloop fly", "python -m tests.gold", "python benchmarks/gold.py")))
    assert not is_here("trueloop tune benchmarks/gold.py")


def test_without_git_there_is_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*words: str) -> str:
        raise subprocess.CalledProcessError(128, words)

    monkeypatch.setattr(figures, "git", fails)
    assert not has_history()
