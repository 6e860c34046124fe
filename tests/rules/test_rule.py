"""The parts that all rules share: their names, and the evidence that they read from events."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

import trueloop.event
from trueloop.rules.catalogue import all_rules
from trueloop.rules.rule import Rule, Severity, facts


def test_evidence_has_the_order_of_the_names() -> None:
    event = SimpleNamespace(name="Net", shape=(2, 3), inner=SimpleNamespace(size=4))
    read = facts(event, "model=name loss size=inner.size", "shape", loss=0.5, rate=0.1)
    assert list(read.items()) == [("model", "Net"), ("loss", 0.5), ("size", 4), ("shape", [2, 3]), ("rate", 0.1)]


def test_no_rule_builds_on_another() -> None:
    with pytest.raises(TypeError, match="no rule builds on another"):
        type("Second", (all_rules()[0],), {}, code="GRD999", severity=Severity.ERROR)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_evidence_names_fields_of_its_event(rule: type[Rule]) -> None:
    module = Path(trueloop.__file__).parent.joinpath(*rule.__module__.split(".")[1:]).with_suffix(".py")
    for function in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            for known, paths in _read(function):
                assert {path.partition(".")[0] for path in paths} <= known, f"{rule.name}: {paths}"


def _read(function: ast.FunctionDef) -> Iterator[tuple[set[str], list[str]]]:
    """For each `facts(event, ...)` of an annotated parameter: the fields of its event, and the fields that are read."""
    kinds = {one.arg: getattr(trueloop.event, ast.unparse(one.annotation or one), None) for one in function.args.args}
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "facts":
            kind = kinds.get(ast.unparse(call.args[0]))
            if kind is not None and is_dataclass(kind):
                computed = {keyword.arg for keyword in call.keywords}
                words = " ".join(ast.literal_eval(names) for names in call.args[1:]).split()
                read = [word.rpartition("=")[2] for word in words if word not in computed]
                yield {field.name for field in fields(kind)}, read
