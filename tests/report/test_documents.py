"""The reports that programs and pages read: whatever a script puts into a message, the document stays whole."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.report.verdicts import CLEAN, CRASH, ODD, broken_loop, ordinary
from trueloop.finding import SITE
from trueloop.report import FINDINGS_FORMATS as FORMATS
from trueloop.report import render
from trueloop.report.evidence import LONGEST, as_words
from trueloop.results.check import Outcome, Verdict
from trueloop.results.plain import as_plain
from trueloop.results.proof import Proof, Proofs
from trueloop.usercode.source import Edit, diff

ROOT = Path(__file__).parent.parent.parent

KEYS = {
    "code",
    "name",
    "severity",
    "path",
    "line",
    "source",
    "message",
    "evidence",
    "fix",
    "diff",
    "first_step",
    "count",
    "fingerprint",
}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return broken_loop(tmp_path)


def strictly(text: str) -> Any:
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def odd(script: Path) -> Verdict:
    verdict = ordinary(script)
    return replace(
        verdict, findings=(*verdict.findings, ODD), overhead=math.inf, failures=("rule X failed:\nTraceback <b>",)
    )


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_can_show_anything_and_ends_with_a_newline(name: str, script: Path) -> None:
    crashed = replace(
        ordinary(script),
        crash=CRASH,
        notes=("rank 1 is <missing>.",),
        outcome=Outcome("exception", 1, "RuntimeError: x"),
    )
    for verdict in (
        CLEAN,
        ordinary(script),
        odd(script),
        crashed,
        replace(CLEAN, outcome=Outcome("exception", 1, "ValueError: <no>")),
    ):
        text = render(verdict, name)
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert text.encode("utf-8", "backslashreplace")


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_explains_a_crash_and_shows_the_notes(name: str, script: Path) -> None:
    outcome = Outcome("exception", 1, "RuntimeError: mat1 and mat2")
    crashed = replace(CLEAN, crash=CRASH, notes=("the report of rank 1 is missing.",), outcome=outcome)
    text = render(crashed, name)
    for said in (
        "fc takes 8 features and got 4",
        "its input was made in line 2",
        "Make fc take 4",
        "rank 1 is missing",
        "RuntimeError: mat1",
    ):
        assert said in text


# -- json --


def test_json_holds_what_was_promised(script: Path) -> None:
    document = strictly(render(ordinary(script), "json"))
    assert set(document) == {"version", "findings", "watched", "not_applicable", "overhead", "script", "crash"}
    assert document["version"] == 1
    first = document["findings"][0]
    assert set(first) == KEYS
    assert (first["code"], first["severity"], first["path"], first["line"]) == ("GRD101", "error", "train.py", 3)
    assert (first["source"], first["first_step"], first["count"]) == ("    loss.backward()", 1, 39)
    assert first["evidence"] == {"optimizer": "SGD", "steps_without_reset": 39, "learning_rate": [0.1]}
    assert document["not_applicable"] == [{"code": "OPT106", "because": "no schedule was built"}]
    assert document["overhead"] == 0.042
    assert document["watched"]["steps"] == 40
    assert document["watched"]["allowed"] == 1
    assert document["script"]["reason"] == "finished"


def test_json_has_no_place_for_numbers_that_are_none(script: Path) -> None:
    document = strictly(render(odd(script), "json"))
    last = document["findings"][-1]
    assert last["path"] is None
    assert last["line"] is None
    assert last["evidence"]["value"] == "nan"
    assert last["evidence"]["range"] == ["-inf", 1.0]
    assert last["evidence"]["kinds"] == ["a", "b"]
    assert document["overhead"] == "inf"
    assert document["watched"]["failures"] == ["rule X failed:\nTraceback <b>"]


# -- sarif --


def test_sarif_names_rules_levels_and_lines(script: Path) -> None:
    document = strictly(render(odd(script), "sarif"))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["GRD101", "SPD101", "LOS110"]
    assert all(rule["help"]["text"] for rule in rules)
    first, advice, odd_one = run["results"]
    assert [result["level"] for result in run["results"]] == ["error", "note", "warning"]
    assert rules[advice["ruleIndex"]]["id"] == advice["ruleId"] == "SPD101"
    where = first["locations"][0]["physicalLocation"]
    assert where["artifactLocation"] == {"uri": "train.py", "uriBaseId": "SRCROOT"}
    assert where["region"] == {"startLine": 3, "snippet": {"text": "    loss.backward()"}}
    assert "locations" not in odd_one
    (invocation,) = run["invocations"]
    assert not invocation["executionSuccessful"]
    assert len(invocation["toolExecutionNotifications"]) == 1


def test_sarif_writes_paths_as_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my run").mkdir()
    below = ordinary(broken_loop(tmp_path / "my run"))
    assert '"my%20run/train.py"' in render(below, "sarif")
    monkeypatch.chdir(tmp_path / "my run")
    elsewhere = ordinary(tmp_path / "train.py")
    document = strictly(render(elsewhere, "sarif"))
    place = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": (tmp_path / "train.py").as_uri()}


def test_sarif_has_pages_fingerprints_and_fixes(script: Path) -> None:
    patch = diff(str(script), [Edit(3, 2, ("    optimizer.zero_grad()",)), Edit(4, 4, ())])
    (run,) = strictly(render(ordinary(script, diff=patch), "sarif"))["runs"]
    first_rule = run["tool"]["driver"]["rules"][0]
    assert first_rule["helpUri"] == f"{SITE}rules/GRD101.html"
    assert (ROOT / "docs" / "rules" / "GRD101.md").is_file()
    assert f"site_url: {SITE}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    first, advice = run["results"]
    in_json = [finding["fingerprint"] for finding in strictly(render(ordinary(script), "json"))["findings"]]
    assert [result["partialFingerprints"]["trueloop/v1"] for result in run["results"]] == in_json
    assert "fixes" not in advice
    (fix,) = first["fixes"]
    (file,) = fix["artifactChanges"]
    assert file["artifactLocation"] == {"uri": "train.py", "uriBaseId": "SRCROOT"}
    assert _replaced(script, file["replacements"]) == script.read_text().replace(
        "    loss.backward()\n    optimizer.step()\n", "    optimizer.zero_grad()\n    loss.backward()\n"
    )


def _replaced(script: Path, replacements: list[dict[str, Any]]) -> str:
    """The file after a SARIF fix, as an editor would apply it."""
    lines = script.read_text(encoding="utf-8").splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    text = "".join(lines)
    for each in reversed(replacements):
        region = each["deletedRegion"]
        first = starts[region["startLine"] - 1] + region["startColumn"] - 1
        last = starts[region["endLine"] - 1] + region["endColumn"] - 1
        text = text[:first] + each["insertedContent"]["text"] + text[last:]
    return text


def test_claims_have_no_page_of_a_rule() -> None:
    proof = Proof("resume-is-exact", "fails", "Step 3 differs.", "no step differs")
    (rule,) = strictly(render(Proofs("train.py", (proof,)), "sarif"))["runs"][0]["tool"]["driver"]["rules"]
    assert "helpUri" not in rule


# -- github --


def test_github_annotates_the_line(script: Path) -> None:
    lines = render(ordinary(script), "github").splitlines()
    assert lines[0].startswith("::error file=train.py,line=3,title=GRD101 gradients-never-cleared::SGD took step 2")
    assert "%0AFix: Reset the gradients" in lines[0]
    assert lines[1].startswith("::notice file=train.py,line=2,")
    assert lines[-1].startswith("trueloop: 1 error and 1 piece of advice in 40 steps")


def test_github_escapes_what_would_be_a_command(script: Path) -> None:
    verdict = replace(odd(script), findings=(ODD,))
    commands = [line for line in render(verdict, "github").splitlines() if line.startswith("::")]
    assert len(commands) == 2
    assert "100%25 of" in commands[0]
    assert "%0Asecond line ::error::" in commands[0]
    assert commands[0].startswith("::warning title=LOS110 nan-or-inf::")
    awkward = replace(ordinary(script).findings[0], name="a,b:c")
    assert "title=GRD101 a%2Cb%3Ac::" in render(replace(verdict, findings=(awkward,)), "github")


# -- markdown --


def test_markdown_escapes_prose_and_keeps_code(script: Path) -> None:
    text = render(odd(script), "markdown")
    assert "\\<b\\>loss\\</b\\>" in text
    assert "`x|y`" in text
    assert "\\*what\\*" in text
    assert "\\_\\_init\\_\\_" in text
    assert "## ❌ error GRD101 gradients-never-cleared" in text
    assert "```python\nloss.backward()\n```" in text


def test_markdown_fences_are_longer_than_what_they_hold(script: Path) -> None:
    verdict = ordinary(script, diff="--- a\n+++ a\n@@ -1 +1 @@\n-````\n+x\n")
    assert "\n`````diff\n" in render(verdict, "markdown")


# -- html --


class Reader(HTMLParser):
    """Checks that tags close in order, and keeps what they point to and say."""

    EMPTY = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.seen.add(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_whole_and_stands_alone(script: Path) -> None:
    page = render(odd(script), "html")
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    assert not {name for name, _ in reader.attributes} & {"src", "onclick"}
    assert not reader.seen & {"script", "link", "img", "b b"}
    assert not re.search(r"url\(|@import|https?:", re.sub(r'<a href="[^"]*">', "", page))
    assert "<b>loss</b> is nan" in reader.text
    assert "gradients-never-cleared" in reader.text
    assert "train.py:3" in reader.text
    assert "light-dark(" in page


def test_html_links_a_rule_to_its_page_and_a_line_to_the_editor(script: Path) -> None:
    page = render(odd(script), "html")
    reader = Reader()
    reader.feed(page)
    links = [value for name, value in reader.attributes if name == "href"]
    assert f"{SITE}rules/LOS110.html" in links
    assert f"vscode://file{script}:3" in links
    script.unlink()  # A report may be rendered where the script is not
    assert "vscode:" not in render(odd(script), "html")


def test_html_of_a_clean_run_says_what_was_watched() -> None:
    page = render(CLEAN, "html")
    assert "Nothing found" in page
    assert "no schedule was built" in page
    assert "OPT106-107" in page


# -- evidence --


def test_evidence_for_people_is_short_and_leaves_out_what_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = as_words(
        {
            "a_b": 0.123456789,
            "none": None,
            "flag": True,
            "at": f"{tmp_path}/x.py:3",
            "long": "x" * 500,
            "map": {"k": 1},
            "many": [1, 2],
        }
    )
    assert said["a b"] == "0.1235"
    assert "none" not in said
    assert (said["flag"], said["at"], said["map"], said["many"]) == ("yes", "x.py:3", "k 1", "1, 2")
    assert len(said["long"]) == LONGEST


def test_evidence_of_unknown_kind_becomes_its_text() -> None:
    assert as_plain({1: Path("x")}) == {"1": "x"}
