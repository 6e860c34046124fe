"""Rules and labs as pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trueloop.errors import TrueloopError
from trueloop.labs.catalogue import all_labs
from trueloop.rules.catalogue import all_rules
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.pages import learn


def page(folder: Path, **query: str) -> dict[str, Any]:
    return learn.data(Library(folder), Query(list(query.items())))


def test_the_lists_have_all_of_them(tmp_path: Path) -> None:
    found = page(tmp_path)
    assert [rule["code"] for rule in found["rules"]] == [rule.code for rule in all_rules()]
    assert {rule["code"][:3] for rule in found["rules"]} <= {code for code, _ in found["families"]}
    assert [lab["name"] for lab in found["labs"]] == list(all_labs())


def test_the_page_of_a_rule(tmp_path: Path) -> None:
    found = page(tmp_path, rule="GRD101")
    assert found["rule"]["name"] == "gradients-never-cleared"
    assert [section["title"] for section in found["sections"]][:2] == ["What it sees", "Why it hurts"]
    assert [True, "optimizer.zero_grad()\nloss.backward()\noptimizer.step()"] in found["sections"][3]["blocks"]


def test_the_page_of_a_lab(tmp_path: Path) -> None:
    found = page(tmp_path, lab="view-or-copy")
    assert "LAB = Lab(" in found["code"]
    assert '"""view-or-copy' not in found["code"]
    assert found["blocks"][0][1].startswith("A tensor is a storage")


@pytest.mark.parametrize("query", [{"rule": "NONE"}, {"lab": "../lab"}, {"lab": "none"}])
def test_what_does_not_exist_is_named(tmp_path: Path, query: dict[str, str]) -> None:
    with pytest.raises(TrueloopError, match=next(iter(query.values())).replace(".", r"\.")):
        page(tmp_path, **query)
