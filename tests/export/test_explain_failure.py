"""Whatever torch says, the user reads a line of theirs, what stands there, and what to write instead."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trueloop.errors import CannotExport
from trueloop.export.explain_failure import explain_failure


def _fails() -> Any:
    raise RuntimeError("again")


def _raised(message: str, kind: type[Exception] = RuntimeError) -> Exception:
    """An error from this very file."""
    try:
        raise kind(message)  # the line that is blamed
    except kind as error:
        return error


def _bare(message: str) -> Exception:
    """An error that knows no line."""
    return RuntimeError(message)


def _line(ending: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {ending}"))


def test_the_deepest_line_of_the_users_is_blamed() -> None:
    said = str(explain_failure(_raised("Could not guard on data-dependent expression"), "pt2", _fails))
    assert said.startswith(f"{__file__}:{_line('the line that is blamed')}: `raise kind(message)")
    assert "cannot be exported" in said
    assert said.endswith("Nothing was exported.")


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Could not guard on data-dependent expression Eq(u0, 1)", "Use torch.where"),
        ("Constraints violated (batch)! For more information, run with TORCH_LOGS", "Write x.flatten(1)"),
        ("You marked batch as dynamic but your code specialized it to be a constant (3)", "Write x.flatten(1)"),
        (
            "No ONNX function found for <OpOverload(op='aten.bincount', overload='default')>",
            "ONNX has no such operation",
        ),
        ("Missing operator: [3] aten::bincount.out", "ExecuTorch has no such operation"),
        (".numpy() is not supported for tensor subclasses", "use tensors only"),
        ("something that nobody has seen before", "pt2 does not support this model."),
    ],
)
def test_each_kind_of_failure_has_its_advice(message: str, advice: str) -> None:
    assert advice in str(explain_failure(_bare(message), "pt2", _fails))


@pytest.mark.parametrize(
    ("message", "operation"),
    [
        ("No ONNX function found for <OpOverload(op='aten.bincount', overload='default')>", "aten.bincount"),
        ("Missing operator: [3] aten::bincount.out", "aten::bincount.out"),
    ],
)
def test_the_operation_is_named(message: str, operation: str) -> None:
    assert f"The operation is {operation}." in str(explain_failure(_bare(message), "onnx", _fails))


def test_a_line_that_torch_names_in_its_message_is_found() -> None:
    said = str(explain_failure(_bare(f'unbacked symbols\n  File "{__file__}", line 7, in forward'), "pt2", _fails))
    assert said.startswith(f"{__file__}:7: ")


def test_lines_of_libraries_are_nobodys() -> None:
    said = str(explain_failure(_bare(f'unbacked\n  File "{torch.__file__}", line 7, in forward'), "pt2", _fails))
    assert said.startswith("The control flow depends")


def test_the_first_cause_is_what_torch_said() -> None:
    error = _bare("what came of it")
    error.__cause__ = KeyError("the cause")
    assert "(KeyError: 'the cause')" in str(explain_failure(error, "pt2", _fails))


def test_words_of_torchs_are_kept_short() -> None:
    assert len(str(explain_failure(_bare("long " * 1000), "pt2", _fails))) < 500


def test_an_operation_of_the_graph_knows_its_line() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.erf(x)  # the operation

    graph = torch.export.export(Model(), (torch.randn(3),), strict=False)
    said = str(
        explain_failure(
            _bare("No ONNX function found for <OpOverload(op='aten.erf', overload='default')>"), "onnx", lambda: graph
        )
    )
    assert said.startswith(f"{__file__}:{_line('the operation')}: ")


def test_listening_leaves_torchs_logger_as_it_was() -> None:
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    before = logger.level, logger.propagate, list(logger.handlers)
    explain_failure(_bare("Constraints violated"), "pt2", _fails)
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


def test_it_is_an_error_that_the_command_knows() -> None:
    assert isinstance(explain_failure(_bare("anything"), "aoti", _fails), CannotExport)
