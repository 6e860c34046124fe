"""[tool.trueloop] in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueloop.doctor.allow import chosen_rules, filter_findings
from trueloop.errors import Misuse, UnknownRule
from trueloop.event import Place
from trueloop.finding import Finding, Severity
from trueloop.usercode.settings import Settings, load_settings


def settings(folder: Path, text: str) -> Settings:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return load_settings(folder)


def finding(path: Path, line: int = 1, code: str = "GRD101", name: str = "gradients-never-cleared") -> Finding:
    return Finding(code, name, Severity.ERROR, Place(str(path), line), "It is wrong.", "", "")


def test_all_settings_are_read(tmp_path: Path) -> None:
    read = settings(
        tmp_path,
        """
        [tool.trueloop]
        select = ["GRD", "LOS101"]
        ignore = ["step-without-gradient"]
        severity = { GRD101 = "warning", GRD = "advice" }
        [tool.trueloop.per-file-ignores]
        "experiments/*.py" = ["GRD"]
        """,
    )
    assert read.select == ("GRD", "LOS101")
    assert read.ignore == ("step-without-gradient",)
    assert read.ignores(finding(tmp_path / "experiments" / "a.py"))
    assert not read.ignores(finding(tmp_path / "a.py"))
    assert not read.ignores(
        finding(tmp_path / "experiments" / "a.py", code="LOS101", name="softmax-before-cross-entropy")
    )
    assert read.severity_of(finding(tmp_path / "a.py")) is Severity.WARNING, "the longest word decides"
    assert read.severity_of(finding(tmp_path / "a.py", code="GRD102", name="x")) is Severity.ADVICE
    assert read.severity_of(finding(tmp_path / "a.py", code="LOS101", name="x")) is Severity.ERROR


def test_the_nearest_file_that_has_the_table_is_taken(tmp_path: Path) -> None:
    settings(tmp_path, '[tool.trueloop]\nselect = ["LOS"]')
    inner = tmp_path / "package" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "package" / "pyproject.toml").write_text('[project]\nname = "x"')
    assert load_settings(inner).select == ("LOS",)
    assert load_settings(inner).root == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.trueloop]\nselct = []", "no setting 'selct'. Did you mean select"),
        ("[tool.trueloop]\nselect = 'GRD'", "'select' in .tool.trueloop. must be a list"),
        ("[tool.trueloop]\nselect = [1]", "must be a list"),
        ("[tool.trueloop]\nselect = ['']", "must be a list"),
        ("[tool.trueloop]\nseverity = 'error'", "'severity' in .tool.trueloop. must be a table"),
        (
            "[tool.trueloop]\nseverity = { GRD101 = 'eror' }",
            "severity of GRD101: 'eror' is not a severity. Did you mean error",
        ),
        ("[tool]\ntrueloop = 3", "tool.trueloop must be a table"),
        ("[tool.trueloop", "is not valid TOML"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Misuse, match=said) as refused:
        settings(tmp_path, text)
    assert str(tmp_path / "pyproject.toml") in str(refused.value)
    assert "Nothing was run" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "select = ['GRDD']",
        "ignore = ['gradient-never-cleared']",
        "severity = { gradients-never-clear = 'error' }",
        "per-file-ignores = { '*' = ['GRX'] }",
    ],
)
def test_a_misspelt_rule_is_refused_wherever_it_stands(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnknownRule, match=r"Unknown rule '.*'\. Did you mean (GRD|gradients-never-cleared)\?"):
        chosen_rules(settings(tmp_path, f"[tool.trueloop]\n{text}"))


def codes(chosen: Settings, *select: str, ignore: tuple[str, ...] = ()) -> set[str]:
    return {rule.code for rule in chosen_rules(chosen, select, ignore)}


def test_a_command_overrides_the_settings() -> None:
    chosen = Settings(select=("GRD",), ignore=("GRD101",))
    assert "GRD102" in codes(chosen)
    assert "GRD101" not in codes(chosen)
    assert codes(chosen, "GRD101") == {"GRD101"}, "what is named outright is judged, whatever the settings ignore"
    assert not codes(chosen, ignore=("GRD102",)) & {"GRD101", "GRD102"}, (
        "ignoring one more does not bring back the others"
    )


def test_no_rule_left_is_refused() -> None:
    with pytest.raises(Misuse, match="No rule is left"):
        chosen_rules(Settings(), ("GRD101",), ("GRD",))


# -- comments --


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("loss.backward()  # trueloop: allow[gradients-never-cleared]\n", 1),
        ("loss.backward()  # reason  # trueloop: allow[grd101, other]\n", 1),
        ("# trueloop: allow[gradients-never-cleared]\nloss.backward()\n", 2),
        ("step(\n    1,\n)  # trueloop: allow[GRD101]\n", 1),
        ("step(\n    1,  # trueloop: allow[GRD101]\n)\n", 3),
    ],
)
def test_a_comment_allows_its_statement(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    assert filter_findings([finding(file, line)], Settings()) == ((), 1)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("loss.backward()  # trueloop: allow[step-without-gradient]\n", 1),
        ("x = 1  # trueloop: allow[gradients-never-cleared]\nloss.backward()\n", 2),
        ("for x in y:\n    pass  # trueloop: allow[gradients-never-cleared]\n", 1),
        ("class A:\n    pass\n    # trueloop: allow[GRD101]\n", 1),
    ],
)
def test_a_comment_speaks_for_nothing_else(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    kept, allowed = filter_findings([finding(file, line)], Settings())
    assert (len(kept), allowed) == (1, 0)


def test_severities_are_set_before_the_order_is_made(tmp_path: Path) -> None:
    first, second = finding(tmp_path / "a.py"), finding(tmp_path / "a.py", code="LOS101", name="x")
    kept, _ = filter_findings([first, second], Settings(severity={"GRD101": Severity.ADVICE}))
    assert [f.code for f in kept] == ["LOS101", "GRD101"]
