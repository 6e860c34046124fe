"""The gate: `check` with a baseline fails on what is new, and only on that."""

from __future__ import annotations

import json
import linecache
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_check import HEALTHY, LOOP, SELECT, trueloop
from tests.cli.test_words import refused
from trueloop.event import Place
from trueloop.finding import Finding, Severity
from trueloop.usercode.add_allow import with_comments
from trueloop.usercode.allow import is_allowed
from trueloop.usercode.source import source_of

TWO = ("--select", "gradients-never-cleared,softmax-before-cross-entropy")
SOFTMAX = LOOP.replace("model(x)", "model(x).softmax(1)")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
    (tmp_path / "healthy.py").write_text(HEALTHY, encoding="utf-8")
    return tmp_path


def entries(file: Path) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["findings"]
    return read


def closing(err: str) -> str:
    return err.splitlines()[-1]


# -- baseline --


def test_known_findings_are_counted_and_only_new_ones_fail(folder: Path) -> None:
    written = trueloop(folder, "check", *SELECT, "--write-baseline", "findings.json", "train.py")
    assert written.code == 0
    assert "error GRD101" in written.err, "what is accepted is shown"
    said = "1 finding written to findings.json; with `--baseline findings.json` only new ones fail."
    assert closing(written.err) == f"trueloop: {said}"
    (entry,) = entries(folder / "findings.json")
    assert (entry["script"], entry["code"], entry["path"], entry["line"]) == ("train.py", "GRD101", "train.py", 12)

    known = trueloop(folder, "check", *SELECT, "--baseline", "findings.json", "train.py")
    assert known.code == 0
    assert "GRD101" not in known.err, "neither announced nor listed"
    found, last = known.err.splitlines()[-2:]
    assert found == "✓ nothing new found in 6 steps of Linear and 6 batches"
    assert "; 1 known finding in findings.json" in last

    (folder / "train.py").write_text(SOFTMAX)
    new = trueloop(folder, "check", *TWO, "--baseline", "findings.json", "train.py")
    assert new.code == 1
    assert "softmax-before-cross-entropy" in new.err
    assert "GRD101" not in new.err
    assert "; 1 known finding in findings.json" in closing(new.err)


def test_a_fingerprint_survives_moved_and_reformatted_lines_but_not_a_different_statement(folder: Path) -> None:
    trueloop(folder, "check", *SELECT, "--write-baseline", "findings.json", "train.py")

    def code_of(text: str) -> int:
        (folder / "train.py").write_text(text)
        return trueloop(folder, "check", *SELECT, "--baseline", "findings.json", "train.py").code

    assert code_of("# a comment\n\nimport json\n" + LOOP) == 0
    assert code_of(LOOP.replace("loss.backward()", "loss.backward(\n    )  # here")) == 0
    assert code_of(LOOP.replace("    loss.backward()", "    (2 * loss).backward()")) == 1
    inside = LOOP.replace("for step", "def train():\n  for step").replace("\n    ", "\n      ")
    assert code_of(inside.replace('\nprint("trained"', '\ntrain()\nprint("trained"')) == 1, "a different function"


def test_the_second_of_two_equal_lines_is_new(folder: Path) -> None:
    loop = LOOP.partition("for step")[2].partition("print(")[0]
    trueloop(folder, "check", *SELECT, "--write-baseline", "findings.json", "train.py")
    again = "model = torch.nn.Linear(4, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    (folder / "train.py").write_text(f"{LOOP}{again}for step{loop}")
    ended = trueloop(folder, "check", *SELECT, "--baseline", "findings.json", "--format", "json", "train.py")
    assert ended.code == 1
    report = json.loads(ended.out)
    (finding,) = report["findings"]
    assert finding["line"] > 12
    assert report["watched"]["known"] == 1


def test_a_known_error_does_not_end_the_run_with_fail_fast(folder: Path) -> None:
    trueloop(folder, "check", *SELECT, "--write-baseline", "findings.json", "train.py")
    ended = trueloop(folder, "check", *SELECT, "--fail-fast", "--baseline", "findings.json", "train.py")
    assert ended.code == 0
    assert "in 6 steps" in ended.err


def test_a_baseline_holds_several_scripts_and_a_report_is_one_too(folder: Path) -> None:
    (folder / "other.py").write_text(SOFTMAX)
    for script in ("train.py", "other.py"):
        trueloop(folder, "check", *TWO, "--write-baseline", "findings.json", script)
    codes = [(entry["script"], entry["code"]) for entry in entries(folder / "findings.json")]
    assert [script for script, _ in codes] == ["other.py", "other.py", "train.py"]
    # another script, and rules that were not checked, keep their entries
    (folder / "other.py").write_text(HEALTHY)
    trueloop(folder, "check", *SELECT, "--write-baseline", "findings.json", "other.py")
    left = {(entry["script"], entry["name"]) for entry in entries(folder / "findings.json")}
    assert left == {("train.py", "gradients-never-cleared"), ("other.py", "softmax-before-cross-entropy")}
    trueloop(folder, "check", *SELECT, "--output", "report.json", "train.py")
    assert trueloop(folder, "check", *SELECT, "--baseline", "report.json", "train.py").code == 0


def test_paths_in_a_repository_do_not_depend_on_the_working_directory(folder: Path) -> None:
    (folder / ".git").mkdir()
    inner = folder / "project"
    inner.mkdir()
    (inner / "train.py").write_text(LOOP)
    trueloop(folder, "check", *SELECT, "--write-baseline", "findings.json", "project/train.py")
    assert entries(folder / "findings.json")[0]["script"] == "project/train.py"
    assert trueloop(inner, "check", *SELECT, "--baseline", "../findings.json", "train.py").code == 0


def test_a_run_that_failed_leaves_the_baseline_as_it_was(folder: Path) -> None:
    trueloop(folder, "check", *SELECT, "--write-baseline", "findings.json", "train.py")
    before = (folder / "findings.json").read_bytes()
    (folder / "train.py").write_text("raise ValueError('my own')\n")
    ended = trueloop(folder, "check", *SELECT, "--write-baseline", "findings.json", "train.py")
    assert ended.code == 1
    assert "findings.json was not written, because the run failed" in closing(ended.err)
    assert (folder / "findings.json").read_bytes() == before


def test_recheck_takes_the_baseline_too(folder: Path) -> None:
    trueloop(folder, "check", *SELECT, "--record", "run", "--write-baseline", "findings.json", "train.py")
    assert trueloop(folder, "recheck", "run", *SELECT).code == 1
    ended = trueloop(folder, "recheck", "run", *SELECT, "--baseline", "findings.json")
    assert ended.code == 0
    assert "1 known finding in findings.json" in ended.out


DAMAGED = {
    "empty": "", "half": '{"version": 1, "findi', "a list": "[]", "no findings": "{}", "deep": "[" * 100_000,
    "no fingerprints": '{"version": 1, "findings": [{"code": "GRD101"}]}',
    "newer": '{"version": 2, "findings": []}', "numbers": '{"version": 1, "findings": [{"fingerprint": 3}]}',
}  # fmt: skip


@pytest.mark.parametrize("option", ["--baseline", "--write-baseline"])
@pytest.mark.parametrize("kind", [*DAMAGED, "pipe", "folder", "not UTF-8"])
def test_a_file_that_is_no_baseline_is_refused_before_anything_runs(
    option: str, kind: str, folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    file = folder / "findings.json"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.write_bytes(b"\xff\xfe\xff" if kind == "not UTF-8" else DAMAGED[kind].encode())
    said = refused(capsys, "check", option, "findings.json", "train.py")
    assert f"{option} findings.json " in said
    assert "Nothing was run" in said


def test_a_missing_baseline_says_how_to_write_one(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    said = refused(capsys, "check", "--baseline", "findings.json", "train.py")
    assert "does not exist" in said
    assert "--write-baseline findings.json" in said


# -- [tool.trueloop] --


def configure(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.trueloop]\n{text}\n", encoding="utf-8")


def test_options_in_pyproject_are_defaults_and_the_command_line_wins(folder: Path) -> None:
    configure(folder, 'select = ["GRD101"]\nfail-on = "never"\nsteps = 3\nbudget = "100%"\nformat = "json"')
    ended = trueloop(folder, "check", "train.py")
    assert ended.code == 0
    assert json.loads(ended.out)["watched"]["steps"] == 3
    ended = trueloop(folder, "check", "--fail-on", "error", "--steps", "4", "--format", "text", "train.py")
    assert ended.code == 1
    assert "in 4 steps" in ended.err
    diff = trueloop(folder, "check", "--diff", "train.py")
    assert diff.out.startswith("--- train.py\n"), "--diff is an option of the command line, too"
    trueloop(folder, "check", "--output", "report.html", "train.py")
    assert (folder / "report.html").read_text().startswith("<!doctype html>"), "so is a suffix"
    trueloop(folder, "check", "--output", "report", "train.py")
    assert json.loads((folder / "report").read_text())["findings"]


def test_a_baseline_in_pyproject_is_found_from_below(folder: Path) -> None:
    trueloop(folder, "check", *SELECT, "--write-baseline", "findings.json", "train.py")
    configure(folder, 'baseline = "findings.json"\nquiet = true')
    (folder / ".git").mkdir()
    (folder / "deep").mkdir()
    ended = trueloop(folder / "deep", "check", *SELECT, "../train.py")
    assert (ended.code, ended.err) == (0, "a warning\n")
    ended = trueloop(folder, "check", *SELECT, "--verbose", "train.py")
    assert "1 known finding in" in ended.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('fail_on = "error"', "has no setting 'fail_on'. Did you mean fail-on?"),
        ("step = 3", "has no setting 'step'. Did you mean steps?"),
        ('fail-on = "eror"', "'fail-on' in [tool.trueloop] cannot be 'eror'. Did you mean error?"),
        ("steps = 0", "'steps' in [tool.trueloop] cannot be '0': expected a whole number, 1 or more"),
        ("steps = [3]", "'steps' in [tool.trueloop] must be text or a number"),
        ("steps = true", "'steps' in [tool.trueloop] must be text or a number"),
        ("budget = 5", "'budget' in [tool.trueloop] cannot be '5': expected a share such as 5% or 0.05"),
        ('format = "jsn"', "'format' in [tool.trueloop] cannot be 'jsn'. Did you mean json?"),
        ('hang-after = "soon"', "'hang-after' in [tool.trueloop]: --hang-after cannot be 'soon'"),
        ("fail-fast = 1", "'fail-fast' in [tool.trueloop] must be true or false"),
        ('baseline = "nowhere.json"', "nowhere.json does not exist"),
    ],
)
def test_a_wrong_setting_is_one_sentence(
    text: str, said: str, folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    configure(folder, text)
    assert said in refused(capsys, "check", "train.py")


# -- allow comments --


def test_add_allow_writes_comments_that_are_heard(folder: Path) -> None:
    (folder / "train.py").write_text(SOFTMAX)
    ended = trueloop(folder, "check", *TWO, "--add-allow", "train.py")
    assert ended.code == 0
    assert "+    loss.backward()  # trueloop: allow[gradients-never-cleared]\n" in ended.err, "the diff is shown"
    assert closing(ended.err) == "trueloop: 2 findings allowed by comments."
    again = trueloop(folder, "check", *TWO, "train.py")
    assert again.code == 0
    assert "2 findings allowed" in again.err


def findings_at(path: Path, *lines: tuple[int, str]) -> list[Finding]:
    return [Finding("GRD101", name, Severity.ERROR, Place(str(path), line), "Wrong.", "", "") for line, name in lines]


def commented(path: Path, text: str, *lines: tuple[int, str]) -> str:
    path.write_bytes(text.encode())
    linecache.clearcache()
    source_of.cache_clear()
    files, left = with_comments(findings_at(path, *lines))
    assert not left
    after = "".join(files[str(path)][1])
    path.write_bytes(after.encode())
    linecache.clearcache()
    source_of.cache_clear()
    return after


@pytest.mark.parametrize(
    ("text", "lines", "after"),
    [
        ("a = 1\nb = 2\n", [(2, "x")], "a = 1\nb = 2  # trueloop: allow[x]\n"),
        ("a = 1", [(1, "x")], "a = 1  # trueloop: allow[x]"),
        ("a = 1\r\n", [(1, "x")], "a = 1  # trueloop: allow[x]\r\n"),
        ("a = 1\n", [(1, "y"), (1, "x"), (1, "x")], "a = 1  # trueloop: allow[x, y]\n"),
        ("a = 1  # one\n", [(1, "x")], "# trueloop: allow[x]\na = 1  # one\n"),
        ("if a:\n    b = (\n        1)\n", [(3, "x")], "if a:\n    # trueloop: allow[x]\n    b = (\n        1)\n"),
        ("a = 1  # trueloop: allow[x]\n", [(1, "y")], "a = 1  # trueloop: allow[x, y]\n"),
        ("# trueloop: allow[x]\na = 1\n", [(2, "y")], "# trueloop: allow[x, y]\na = 1\n"),
        ('a = """\n#"""\n', [(1, "x")], '# trueloop: allow[x]\na = """\n#"""\n'),
        ("for a in b:\n    c\n", [(1, "x")], "for a in b:  # trueloop: allow[x]\n    c\n"),
        ("\ufeffa = 1\n", [(1, "x")], "\ufeffa = 1  # trueloop: allow[x]\n"),
    ],
)
def test_where_a_comment_is_put(text: str, lines: list[tuple[int, str]], after: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    assert commented(path, text, *lines) == after
    assert all(is_allowed(finding) for finding in findings_at(path, *lines))


def test_findings_without_a_line_of_the_users_get_no_comment(tmp_path: Path) -> None:
    library = Path(json.__file__)
    assert with_comments(findings_at(library, (1, "x")))[0] == {}
    assert with_comments(findings_at(tmp_path / "nothere.py", (1, "x")))[0] == {}


# -- changed --


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture
def repository(folder: Path) -> Path:
    (folder / "train.py").write_text("import model\nimport sys\n" + LOOP)
    (folder / "model.py").write_text("from package import deep\n")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "deep.py").write_text("from . import deeper\n")
    (folder / "package" / "deeper.py").write_text("VALUE = 1\n")
    (folder / "unrelated.py").write_text("VALUE = 1\n")
    (folder / ".gitignore").write_text("runs/\nstd*.txt\n__pycache__/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_a_script_whose_code_did_not_change_is_not_run(repository: Path) -> None:
    (repository / "unrelated.py").write_text("VALUE = 2\n")
    ended = trueloop(repository, "check", *SELECT, "--changed", "train.py", "--epochs", "1")
    assert (ended.code, ended.out) == (0, "")
    assert "not run: train.py and 4 files of yours that it imports did not change since HEAD" in ended.err
    report = trueloop(repository, "check", "--changed", "--format", "sarif", "train.py")
    assert json.loads(report.out)["runs"][0]["results"] == [], "a document there is, for the upload"


@pytest.mark.parametrize("name", ["train.py", "model.py", "package/deeper.py", "package/__init__.py"])
def test_a_change_of_what_it_imports_runs_it(name: str, repository: Path) -> None:
    with (repository / name).open("a") as file:
        file.write("# changed\n")
    ended = trueloop(repository, "check", *SELECT, "--changed", "train.py", "--epochs", "1")
    assert ended.code == 1
    assert ended.out.startswith("trained ['--epochs', '1']"), "the script has its first argument"
    git(repository, "commit", "-q", "-a", "-m", "two")
    assert trueloop(repository, "check", *SELECT, "--changed", "train.py").code == 0
    assert trueloop(repository, "check", *SELECT, "--changed=HEAD~1", "train.py").code == 1


def test_changes_of_the_other_branch_do_not_count(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "mine")
    git(repository, "checkout", "-q", "main")
    (repository / "model.py").write_text("VALUE = 3\n")
    git(repository, "commit", "-q", "-a", "-m", "theirs")
    git(repository, "checkout", "-q", "mine")
    assert trueloop(repository, "check", *SELECT, "--changed=main", "train.py").code == 0


def test_code_that_is_loaded_by_name_may_be_any(repository: Path) -> None:
    (repository / "train.py").write_text("import importlib\nimportlib.import_module('unrelated')\n" + LOOP)
    git(repository, "commit", "-q", "-a", "-m", "two")
    assert trueloop(repository, "check", *SELECT, "--changed", "train.py").code == 0
    (repository / "unrelated.py").write_text("VALUE = 2\n")
    assert trueloop(repository, "check", *SELECT, "--changed", "train.py").code == 1


def test_what_changed_cannot_ask_is_one_sentence(
    repository: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(repository)
    assert "there is no commit 'nowhere' here" in refused(capsys, "check", "--changed=nowhere", "train.py")
    assert "there is no commit '--all' here" in refused(capsys, "check", "--changed=--all", "train.py")
    said = refused(capsys, "check", "--changed", "main", "train.py")
    assert "type `trueloop check --changed=main train.py`" in said
    assert "nothere.py" in refused(capsys, "check", "--changed", "nothere.py")
    git(repository, "checkout", "-q", "--orphan", "alone")
    git(repository, "commit", "-q", "-m", "alone")
    assert "no common commit" in refused(capsys, "check", "--changed=main", "train.py")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "train.py").write_text(LOOP)
    monkeypatch.chdir(outside)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(outside.parent))
    assert "--changed needs a git repository" in refused(capsys, "check", "--changed", "train.py")
