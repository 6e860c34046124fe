"""Accented letters as one character in one text, and as a letter and a mark in another."""

from __future__ import annotations

import unicodedata
from typing import Literal

import pytest

from trueloop.measure.composed_letters import different_forms

LINES = ["größe für müller", "año señor está", "žena čaj říká", "café déjà être"] * 20


def in_form(form: Literal["NFC", "NFD"]) -> list[str]:
    return [unicodedata.normalize(form, line) for line in LINES]


@pytest.mark.parametrize("lines", [LINES, ["한국어 문장", "서울 날씨"] * 20, ["Ελλάδα ήταν όμορφη"] * 20])
def test_two_forms(lines: list[str]) -> None:
    apart, composed = ([unicodedata.normalize(form, line) for line in lines] for form in ("NFD", "NFC"))
    for pair in ((apart, composed), (composed, apart)):
        found = different_forms(*pair)
        assert found is not None
        assert found.here != found.there
        assert (len(found.here) > len(found.there)) == (pair[0] is apart)


def test_one_form() -> None:
    assert different_forms(in_form("NFC"), in_form("NFC")[:40]) is None
    assert different_forms(in_form("NFD"), in_form("NFD")[:40]) is None


def test_both_forms_in_each_text() -> None:
    mixed = [a if i % 5 else b for i, (a, b) in enumerate(zip(in_form("NFC"), in_form("NFD"), strict=True))]
    assert different_forms(mixed, in_form("NFC")) is None


def test_other_letters_and_no_letters() -> None:
    assert different_forms(in_form("NFD"), ["żółw łódź"] * 40) is None
    assert different_forms(["plain text"] * 40, in_form("NFC")) is None
    assert different_forms(in_form("NFD"), in_form("NFC")[:2]) is None
