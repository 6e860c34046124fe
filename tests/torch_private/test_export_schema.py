"""torch still writes graphs by dataclasses whose fields we can read, and unions still have a common base."""

from dataclasses import fields, is_dataclass
from typing import get_type_hints

from trueloop.torch_private.export_schema import ExportedProgram, PayloadConfig, Union


def test_the_schema_of_a_graph() -> None:
    assert {"graph_module", "guards_code", "range_constraints"} <= {each.name for each in fields(ExportedProgram)}
    assert is_dataclass(get_type_hints(ExportedProgram)["graph_module"])


def test_the_schema_of_weights() -> None:
    assert [each.name for each in fields(PayloadConfig)] == ["config"]


def test_arguments_are_unions() -> None:
    graph = get_type_hints(get_type_hints(ExportedProgram)["graph_module"])["graph"]
    argument = get_type_hints(graph)["inputs"].__args__[0]
    assert issubclass(argument, Union)
