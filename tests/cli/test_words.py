"""What the command line understands and refuses; no script is run here, and no torch is needed."""

from __future__ import annotations

import contextlib
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from trueloop import __version__
from trueloop.cli.main import VERBS, main, module_name
from trueloop.export.catalogue import TARGETS
from trueloop.results.check import ExitCode
from trueloop.rules.catalogue import all_rules

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
    assert all(f"\n  {verb:<11} {text}\n" in printed for verb, text in VERBS.items())


def test_version(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    system = f"{platform.system()} {platform.machine()}"
    line = f"trueloop {__version__} (Python {platform.python_version()}, torch {version('torch')}, {system})\n"
    assert capsys.readouterr().out == line


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
        ["recheck", "RUN", "--format", "html", "--output", "report"],
    ],
)
def test_quick_verbs_load_no_torch(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "RUN").mkdir()
    (tmp_path / "RUN" / "events.jsonl").write_text("")
    slow = {"torch", "numpy", "rich"}
    code = (
        f"import sys; from trueloop.cli.main import main; assert main({words}) == 0; assert not {slow} & "
        "set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path, stdout=subprocess.DEVNULL)


REPORTING = (
    "bench check checkpoint compare env evaluate explain export fix inspect lab load plan probe profile quantize ready "
    "recheck runs sample sweep try tune"
)


@pytest.mark.parametrize("verb", REPORTING.split())
def test_every_verb_that_reports_has_the_same_formats(
    verb: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parser = import_module(f"trueloop.cli.{module_name(verb)}").parser()
    for name in ("text", "json", "html", "markdown"):
        options = parser.parse_args(["--format", name, "--output", "a", "--output", "b"])
        assert (options.format, options.output) == (name, ["a", "b"])
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    printed = capsys.readouterr().out
    assert "text | json | html | markdown" in printed
    assert max(map(len, printed.splitlines())) <= 80


# -- misuse --


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chek"], "There is no verb 'chek'. Did you mean check?"),
        (["train.py"], "type `trueloop check train.py`"),
        (["check"], "Which script?"),
        (["check", "--formt", "json", "x.py"], "There is no option --formt. Did you mean --format?"),
        (["check", "--format"], "--format: expected one argument"),
        (["check", "--format", "jsn", "x.py"], "--format cannot be 'jsn'. Did you mean json?"),
        (["check", "--format=jsn", "x.py"], "Did you mean json?"),
        (["check", "--fail-on", "eror", "x.py"], "--fail-on cannot be 'eror'. Did you mean error?"),
        (["check", "--select", "GRD1O1", "x.py"], "Unknown rule 'GRD1O1'. Did you mean GRD1"),
        (["check", "--ignore", "gradients-never-cleard", "x.py"], "Did you mean gradients-never-cleared?"),
        (["check", "--select", "GRD,,LOS", "x.py"], "--select cannot be 'GRD,,LOS': expected codes or names"),
        (["check", "--diff", "--format", "json", "x.py"], "choose one"),
        (["check", "--no-color=yes", "x.py"], "ignored explicit argument"),
        (["check", "-x", "x.py"], "There is no option -x."),
        (["explain"], "Which rule?"),
        (["explain", "gradients-never-cleard"], "Did you mean gradients-never-cleared?"),
        (["explain", "sofmax"], "Did you mean softmax?"),
        (["explain", "softmax", "zebra"], "No rule mentions 'softmax' and 'zebra'."),
        (["explain", "GRD101", "--all"], "not both"),
        (["explain", "GRD101", "--output", "."], "Is a directory"),
        (["recheck"], "Which run?"),
        (["recheck", "a", "b"], "Unexpected argument 'b'"),
        (["recheck", "nowhere"], "There is no folder nowhere"),
        (["recheck", ".", "--steps", "3"], "There is no option --steps."),
    ],
)
def test_misuse_is_one_sentence_that_says_what_to_type(
    words: list[str], said: str, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, *words)


@pytest.mark.parametrize("budget", ["5", "0", "-5%", "0%", "101%", "nan", "inf", "five", "", "%", "5%%"])
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
    from trueloop.cli.check import parser

    own, target = parser().split(
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
    assert own.select == ["GRD", "LOS", "OPT"]
    assert own.format is None
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
    from trueloop.cli.check import parser

    assert parser().split(words)[1] == target


# -- one grammar --


def test_options_stand_anywhere_where_nothing_belongs_to_a_script() -> None:
    from trueloop.cli import probe, profile, ready, train

    options, target = profile.parser().split(["digits", "--format", "html", "--set", "batch=8"], lambda _: False)
    assert (options.format, options.set, target) == ("html", ["batch=8"], ["digits"])
    options, target = profile.parser().split(["tabular", "--target", "y", "data.csv", "--steps=30"], lambda _: False)
    assert (options.target, options.steps, target) == ("y", 30, ["tabular", "data.csv"])
    options, words, rest = probe.parser().parse_words(["runs/digits", "resume-is-exact", "--format", "html"])
    assert (options.format, words, rest) == ("html", ["runs/digits", "resume-is-exact"], [])
    options, words, rest = probe.parser().parse_words(["train.py", "--steps", "all", "--", "--epochs", "1"])
    assert (options.steps, words, rest) == (None, ["train.py"], ["--epochs", "1"])
    options, target = ready.parser().split(["runs/digits", "--fail-on", "error"], lambda _: False)
    assert (options.fail_on.word, target) == ("error", ["runs/digits"])
    parsed = train.parser().parse_all(["tabular", "--target", "y", "data.csv", "--quiet"])
    assert (parsed.recipe, parsed.table, parsed.quiet) == ("tabular", "data.csv", True)


@pytest.mark.parametrize(
    ("words", "better"),
    [
        (["plain.py", "--steps", "20", "--format", "json"], "check --steps 20 --format json plain.py"),
        (["--quiet", "train.py", "--lr", "1", "--steps=3"], "check --quiet --steps=3 train.py --lr 1"),
        (["-m", "package.train", "--fail-fast"], "check --fail-fast -m package.train"),
        (["train.py", "--steps"], "check --steps '' train.py"),
    ],
)
def test_an_option_of_ours_after_the_script_is_answered_by_a_hint(
    words: list[str], better: str, capsys: Captured
) -> None:
    from trueloop.cli.check import parser

    script = next(at for at, word in enumerate(words) if word.endswith(".py") or word == "-m")
    assert parser().split(words)[1] == words[script:], "the script gets it all the same"
    said = capsys.readouterr().err
    assert f"type `trueloop {better}`" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--", "train.py", "--steps", "20"],
        ["train.py", "--", "--steps", "20"],
        ["--steps", "20", "train.py", "--epochs", "1"],
        ["train.py", "--help"],
        ["train.py", "-m", "x"],
    ],
)
def test_there_is_no_hint_where_none_is_needed(words: list[str], capsys: Captured) -> None:
    from trueloop.cli.check import parser

    parser().split(words)
    assert capsys.readouterr().err == ""


def test_only_the_first_rank_gives_the_hint(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    from trueloop.cli.check import parser

    monkeypatch.setenv("RANK", "1")
    parser().split(["train.py", "--steps", "20"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_80_columns(verb: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with contextlib.suppress(SystemExit):
        main([verb, "--help"] if verb else ["--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("verb", REPORTING.split())
def test_every_verb_that_reports_has_format_and_output(verb: str) -> None:
    parser = import_module(f"trueloop.cli.{module_name(verb)}").parser()
    options = {name for action in parser._actions for name in action.option_strings}
    assert {"--format", "--output"} <= options
    assert not {"--json", "--html"} & options


def test_an_option_means_the_same_in_every_verb() -> None:
    parsers = {verb: import_module(f"trueloop.cli.{module_name(verb)}").parser() for verb in VERBS}
    metavars: dict[str, set[str]] = {}
    for verb, parser in parsers.items():
        for action in parser._actions:
            for name in action.option_strings:
                if action.metavar is not None and not (verb == "launch" or (verb, name) in OTHERWISE):
                    metavars.setdefault(name, set()).add(str(action.metavar))
    assert {name: kinds for name, kinds in metavars.items() if len(kinds) > 1} == {}


OTHERWISE = {
    ("serve", "--write"), ("bench", "--batch"), ("probe", "--steps"), ("checkpoint", "--to"),
    ("train", "--runs"), ("sweep", "--runs"), ("inspect", "--samples"), ("serve", "--samples"), ("predict", "--input"),
    ("train", "--baseline"), ("ready", "--baseline"),
}  # fmt: skip
"""A file to write, a list of sizes, `all`, a run to compare with: the same word in another form."""


def test_the_page_of_exit_codes_lists_every_code() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    for code in ExitCode:
        assert f"| `{code.value}` | `{code.name}` |" in page, code


def test_exit_codes_are_the_same_everywhere() -> None:
    from trueloop.parallel.answer import LOST

    assert LOST is ExitCode.LOST_PEER
    assert (ExitCode.INTERRUPTED, ExitCode.TERMINATED) == (128 + signal.SIGINT, 128 + signal.SIGTERM)


# -- completion --


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_verb_and_its_options(shell: str, capsys: Captured) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb in script for verb in VERBS)
    assert all(option in script for option in ("--format", "--hang-after", "fashion-cnn"))


@pytest.fixture(scope="module")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """What bash offers for the last of some words."""
    script = tmp_path_factory.mktemp("shell") / "completion.sh"
    with script.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        assert main(["completion", "bash"]) == 0

    def offered(*words: str) -> list[str]:
        line = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}"
        code = f"source {script}; {line}; _shtab_trueloop; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True).stdout.split()

    return offered


def test_bash_completes_verbs_options_and_recipes(completed: Callable[..., list[str]]) -> None:
    assert completed("trueloop", "che") == ["check", "checkpoint"]
    assert set(completed("trueloop", "check", "--fail")) == {"--fail-on", "--fail-fast"}
    assert completed("trueloop", "train", "fash") == ["fashion-cnn", "fashion-mlp"]
    assert completed("trueloop", "lab", "view") == ["view-or-copy"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("export", "--to", ""), set(TARGETS)),
        (("quantize", "--scheme", "int8"), {"int8-dynamic", "int8-weight", "int8-static"}),
        (("check", "--format", "mark"), {"markdown"}),
        (("check", "--fail-on", ""), {"error", "warning", "advice", "never"}),
        (("check", "--select", "gradients-never"), {"gradients-never-cleared"}),
        (("explain", "GRD10"), {rule.code for rule in all_rules() if rule.code.startswith("GRD10")}),
        (("checkpoint", "ver"), {"verify"}),
        (("inspect", "ten"), {"tensor"}),
        (("launch", "--print", "slu"), {"slurm"}),
        (("ui", "--editor", "zed"), {"zed"}),
        (("evaluate", "--device", "cu"), {"cuda"}),
        (("runs", "--sort", ""), {"time", "metric"}),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_bash_completes_the_values_of_an_option(
    words: tuple[str, ...], offered: set[str], completed: Callable[..., list[str]]
) -> None:
    assert set(completed("trueloop", *words)) == offered


def test_completion_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == ExitCode.TRUELOOP_FAILED
    assert "pip install 'trueloop[completion]'" in capsys.readouterr().err
