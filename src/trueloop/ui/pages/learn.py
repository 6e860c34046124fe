"""The rules and the labs: their lists, and one of them as a page. Nothing of a run, and no torch."""

from typing import Any

from trueloop.labs.catalogue import about, all_labs, code_of, entry_named
from trueloop.labs.kept_proof import with_proof
from trueloop.results.lab import GROUPS
from trueloop.rules.catalogue import all_rules, find_rule
from trueloop.rules.page_blocks import FAMILY, blocks, sentence
from trueloop.rules.rule import Rule
from trueloop.ui.library import Library
from trueloop.ui.page import Query

__all__ = ["data", "rule_page"]


def data(library: Library, query: Query) -> dict[str, Any]:
    """`rule=CODE` or `lab=NAME` is one page; otherwise both lists."""
    if query.text("rule"):
        return rule_page(find_rule(query.text("rule")[:200]))
    if query.text("lab"):
        return _lab_page(query.text("lab")[:200])
    labs = [with_proof(entry) for entry in all_labs().values()]
    return {
        "families": [[code, words] for code, words in FAMILY.items()],
        "rules": [_head(rule) for rule in all_rules()],
        "groups": [[folder, words] for folder, words in GROUPS.items()],
        "labs": [
            {
                "name": lab.name,
                "group": lab.group,
                "question": lab.question,
                "exercise": lab.exercise,
                "needs": lab.needs,
                "seconds": lab.seconds,
                "state": lab.state,
            }
            for lab in labs
        ],
    }


def _head(rule: type[Rule]) -> dict[str, Any]:
    return {"code": rule.code, "name": rule.name, "severity": rule.severity.word, "sentence": sentence(rule)}


def rule_page(rule: type[Rule]) -> dict[str, Any]:
    sections = [
        {"title": title, "blocks": [[block.code, block.text] for block in blocks(text)]}
        for title, text in rule.page().sections.items()
    ]
    causes = [[each.code, each.name] for each in all_rules() if each.name in rule.explained_by]
    return {"rule": _head(rule), "sections": sections, "causes": causes}


def _lab_page(name: str) -> dict[str, Any]:
    entry = with_proof(entry_named(name))
    return {
        "lab": {
            "name": entry.name,
            "question": entry.question,
            "group": GROUPS.get(entry.group, entry.group),
            "exercise": entry.exercise,
            "needs": entry.needs,
            "seconds": entry.seconds,
            "state": entry.state,
        },
        "blocks": [[block.code, block.text] for block in blocks(about(name))],
        "code": code_of(name),
    }
