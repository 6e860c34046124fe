"""What the command line understands and refuses; no script is run here, and no torch is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trueloop import __version__
from trueloop.cli.main import VERBS, main
from trueloop.results.check import ExitCode

Captured = pytest.CaptureFixture[str]


def refused(captured: Captured, *words: str) -> str:
    """The one sentence on stderr with which a command is refused."""
    assert main(words) == ExitCode.MISUSE
    printed = captured.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert printed.err.startswith("trueloop: ")
    assert printed.err.count("\n") == 1
    return printed.err


# -- help --


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_help_lists_every_verb(words: tuple[str, ...], capsys: Captured) -> None:
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert all(f"trueloop {verb}" in printed for verb in VERBS)


def test_version(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"trueloop {__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert f"usage: trueloop {verb}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "GRD101"],
        ["explain", "--all"],
        ["--help"],
        ["judge", "RUN", "--format", "html", "--output", "report"],
    ],
)
def test_quick_verbs_load_no_torch(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "RUN").mkdir()
    (tmp_path / "RUN" / "events.jsonl").write_text("")
    slow = {"torch", "numpy", "rich"}
    code = f"import sys; from trueloop.cli.main import main; assert main({words}) == 0; assert not {slow} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path, stdout=subprocess.DEVNULL)


# -- misuse --


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chek"], "There is no verb 'chek'. Did you mean check?"),
        (["train.py"], "type `trueloop check train.py`"),
        (["check"], "Which script?"),
        (["check", "--formt", "json", "x.py"], "There is no option --formt. Did you mean --format?"),
        (["check", "--format"], "--format: expected one argument"),
        (["check", "--format", "jsn", "x.py"], "There is no format 'jsn'. Did you mean json?"),
        (["check", "--format=jsn", "x.py"], "Did you mean json?"),
        (["check", "--fail-on", "eror", "x.py"], "--fail-on cannot be 'eror'. Did you mean error?"),
        (["check", "--select", "GRD1O1", "x.py"], "Unknown rule 'GRD1O1'. Did you mean GRD1"),
        (["check", "--ignore", "gradients-never-cleard", "x.py"], "Did you mean gradients-never-cleared?"),
        (["check", "--select", "GRD,,LOS", "x.py"], "is no list of rules"),
        (["check", "--diff", "--format", "json", "x.py"], "choose one"),
        (["check", "--no-color=yes", "x.py"], "ignored explicit argument"),
        (["check", "-x", "x.py"], "There is no option -x."),
        (["explain"], "Which rule?"),
        (["explain", "gradients-never-clear"], "Did you mean gradients-never-cleared?"),
        (["explain", "GRD101", "--all"], "not both"),
        (["explain", "GRD101", "--output", "x"], "add --all"),
        (["judge"], "Which run?"),
        (["judge", "a", "b"], "'b' is one word too many"),
        (["judge", "nowhere"], "There is no folder nowhere"),
        (["judge", ".", "--steps", "3"], "There is no option --steps."),
    ],
)
def test_misuse_is_one_sentence_that_says_what_to_type(
    words: list[str], said: str, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, *words)


@pytest.mark.parametrize("budget", ["5", "0", "-5%", "0%", "100%", "nan", "inf", "five", "", "%", "5%%"])
def test_a_budget_that_is_no_share_is_refused(budget: str, capsys: Captured) -> None:
    assert f"--budget cannot be {budget!r}" in refused(capsys, "check", f"--budget={budget}", "x.py")


@pytest.mark.parametrize("seconds", ["0", "0.5", "-3", "nan", "inf", "soon", ""])
def test_a_time_to_hang_that_is_none_is_refused(seconds: str, capsys: Captured) -> None:
    assert f"--hang-after cannot be {seconds!r}" in refused(capsys, "check", f"--hang-after={seconds}", "x.py")


@pytest.mark.parametrize("steps", ["0", "-1", "1.5", "many", ""])
def test_steps_must_be_a_number_of_steps(steps: str, capsys: Captured) -> None:
    assert f"--steps cannot be {steps!r}" in refused(capsys, "check", f"--steps={steps}", "x.py")


def test_an_output_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path, capsys: Captured) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise AssertionError('the script must not run')")
    for output, why in {
        tmp_path / "no" / "f.json": "No such file",
        tmp_path: "Is a directory",
        script: "would overwrite a Python file",
    }.items():
        said = refused(capsys, "check", "--output", str(output), str(script))
        assert why in said
        assert "Nothing was run" in said


def test_a_setting_that_names_no_rule_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.trueloop]\nignore = ["gradients-never-cleard"]')
    said = refused(capsys, "check", "x.py")
    assert "[tool.trueloop] ignore" in said
    assert "Did you mean gradients-never-cleared?" in said


# -- what belongs to whom --


def test_everything_after_the_script_belongs_to_the_script() -> None:
    from trueloop.cli.check import _options

    own, target = _options(
        [
            "--select",
            "GRD,LOS",
            "--select=OPT",
            "--budget",
            "5%",
            "--fail-fast",
            "train.py",
            "--format",
            "json",
            "--",
            "-m",
            "x",
        ]
    )
    assert own.report.select == ("GRD", "LOS", "OPT")
    assert own.report.format == "text"
    assert (own.budget, own.fail_fast) == (0.05, True)
    assert target == ["train.py", "--format", "json", "--", "-m", "x"]


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["-m", "package.train", "--epochs", "1"], ["-m", "package.train", "--epochs", "1"]),
        (["--steps", "3", "-mpackage.train", "-m"], ["-mpackage.train", "-m"]),
        (["--", "--odd-name.py", "--"], ["--odd-name.py", "--"]),
        (["--budget", "0.05", "-"], ["-"]),
    ],
)
def test_a_module_or_an_odd_name(words: list[str], target: list[str]) -> None:
    from trueloop.cli.check import _options

    assert _options(words)[1] == target
