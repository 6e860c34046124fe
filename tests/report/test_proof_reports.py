"""Proofs in every format: nothing is left out, nothing can be smuggled in, and documents are whole."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.results.test_proof import ALL, FAILS
from trueloop.report import FINDINGS_FORMATS as FORMATS
from trueloop.report import render
from trueloop.results.proof import Proofs


def document(name: str, made: Proofs) -> str:
    return render(made, name)


@pytest.mark.parametrize("name", FORMATS)
def test_a_failed_claim_is_told_with_its_numbers_and_its_place(name: str) -> None:
    text = document(name, ALL)
    assert "overfit-one-batch" in text
    assert "stays at 2.3" in text
    assert "a softmax" in text
    assert "t.py" in text


@pytest.mark.parametrize("name", ["text", "json", "markdown", "html"])
def test_all_three_results_are_told(name: str) -> None:
    text = document(name, ALL)
    assert "evaluation-repeats" in text
    assert "there is no GPU here" in text


@pytest.mark.parametrize("name", FORMATS)
def test_our_own_failure_is_told(name: str) -> None:
    assert "Traceback of ours" in document(name, replace(ALL, failures=("Traceback of ours",))) or name == "github"


def test_json_keeps_its_promise() -> None:
    whole = json.loads(document("json", ALL))
    assert whole["version"] == 1
    assert (whole["holds"], whole["fails"], whole["unproved"]) == (1, 1, 1)
    assert whole["proofs"][1]["line"] == 3
    assert whole["proofs"][1]["causes"] == [{"what": "a softmax", "check": "remove it"}]


def test_sarif_and_annotations_speak_of_claims_not_of_an_unwatched_script() -> None:
    for name in ("sarif", "github"):
        text = document(name, ALL)
        assert "no model was called" not in text
        assert "1 of 3 claims holds" in text
    assert json.loads(document("sarif", ALL))["runs"][0]["results"][0]["ruleId"] == "probe/overfit-one-batch"
    assert document("github", ALL).startswith("::error file=")


def test_html_escapes_what_a_script_says() -> None:
    made = Proofs("<b>x</b>", (replace(FAILS, measured="<script>alert(1)</script>"),))
    page = document("html", made)
    assert "<script" not in page
    assert "<b>x" not in page
