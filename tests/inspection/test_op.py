"""An operation from Python to the kernel."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
from torch import Tensor

from trueloop.errors import Misuse
from trueloop.inspection import op, op_files
from trueloop.inspection.op import inspect_op
from trueloop.inspection.op_table import entries, walk
from trueloop.op_claims.op_inputs import parsed_samples
from trueloop.results.document import Document, Facts, Table


def inspected(op: Any, word: str, inputs: str) -> Document:
    (sample,) = parsed_samples([inputs], torch.device("cpu"))
    return inspect_op(op, word, sample, "from --inputs")


def rows(sheet: Document, title: str) -> list[tuple[Any, ...]]:
    return list(next(part for part in sheet.parts if isinstance(part, Table) and part.title.startswith(title)).rows)


def facts(sheet: Document, title: str) -> dict[str, Any]:
    part = next(part for part in sheet.parts if isinstance(part, Facts) and part.title.startswith(title))
    return dict(part.values)


def test_torch_add_from_python_to_the_kernel() -> None:
    sheet = inspected(torch.add, "torch.add", "f32[4,8], f32[8]")
    assert "torch.Tensor.add," in facts(sheet, "Python")["also called as"]
    overloads = {row[0]: row for row in rows(sheet, "Overloads")}
    assert {"add.Tensor", "add.Scalar", "add.out"} <= set(overloads)
    assert "add.str" not in overloads  # of TorchScript only
    assert overloads["add.Tensor"][1] == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert overloads["add.Tensor"][2] == "function, method"
    assert "pointwise" in overloads["add.Tensor"][3]
    assert rows(sheet, "What this call ran") == [("aten::add.Tensor", "4x8  8", "")]
    keys = {row[0]: row[1] for row in rows(sheet, "Keys of this call")}
    assert next(iter(keys)) == "AutogradCPU"
    assert list(keys)[-1] == "CPU"
    assert "falls through" in keys["ADInplaceOrView"]
    assert "maybe_multiply(grad, alpha" in facts(sheet, "Derivative")["other"]
    assert facts(sheet, "Derivative")["grad_fn seen"] == "AddBackward0"
    assert facts(sheet, "The native function")["function"] == "at::native::ufunc_add_CPU"
    assert facts(sheet, "The native function")["declared in"].endswith("add_native.h")
    every = {row[0]: row[1] for row in rows(sheet, "Every key")}
    assert every["CPU"] == "kernel"
    assert every["AutogradCPU"] == "autograd kernel"
    assert every["AutocastCPU"] == "falls through"


def test_a_composite_ends_at_the_autograd_key_and_its_parts_have_the_derivative() -> None:
    sheet = inspected(torch.nn.functional.linear, "F.linear", "f32[4,8], f32[6,8]")
    ((key, what, _),) = rows(sheet, "Keys of this call")
    assert key == "AutogradCPU"
    assert what.startswith("composite")
    ran = [row[0] for row in rows(sheet, "What this call ran")]
    assert ran[0] == "aten::linear"
    assert "· · aten::mm" in ran
    assert facts(sheet, "Derivative")["used by this call"].startswith("no")
    assert facts(sheet, "Derivative")["grad_fn seen"] == "MmBackward0"


def test_in_place_operations_write_a_copy_and_share_the_derivative() -> None:
    sheet = inspected(torch.Tensor.add_, "torch.Tensor.add_", "f32[4], f32[4]")
    assert "marks views" in {row[0]: row[1] for row in rows(sheet, "Keys of this call")}["ADInplaceOrView"]
    assert "grad" in facts(sheet, "Derivative")["self"]
    assert facts(sheet, "The native function")["declared in"].endswith("add_native.h")


def test_the_overload_that_was_named_and_the_one_that_was_called() -> None:
    named = inspected(torch.ops.aten.add.Scalar, "torch.ops.aten.add.Scalar", "f32[4], 2")
    assert rows(named, "What this call ran")[0][0] == "aten::add.Scalar"
    called = inspected(torch.add, "torch.add", "f32[4], 2")  # The Python binding turns the number into a tensor
    assert rows(called, "What this call ran")[0][0] == "aten::add.Tensor"


def test_inputs_that_may_not_need_gradients_are_announced() -> None:
    def written(x: Tensor) -> Tensor:
        return torch.add(x.detach(), 1, out=x)

    sheet = inspected(written, "written", "f32[4]")
    assert any("the call was made without them" in note for note in sheet.notes)


def test_functions_of_the_user() -> None:
    def two(x: Tensor) -> Tensor:
        return x.relu().exp()

    sheet = inspected(two, "two", "f32[4]")
    assert facts(sheet, "Python")["operator"] == "aten::relu"
    assert any("also calls aten::exp" in note for note in sheet.notes)
    with pytest.raises(Misuse, match="called no operator"):
        inspected(lambda x: x, "same", "f32[4]")
    with torch.library._scoped_library("inspected_here", "FRAGMENT"):
        operator = torch.library.custom_op("inspected_here::twice", _twice, mutates_args=())
        sheet = inspected(operator, "twice", "f32[4]")
        assert facts(sheet, "Python")["operator"] == "inspected_here::twice"
        assert rows(sheet, "What this call ran")[1][0] == "· aten::mul.Tensor"


def _twice(x: Tensor) -> Tensor:
    return x * 2


def test_without_a_call_the_tables_are_shown_with_the_reason() -> None:
    sheet = inspect_op(torch.zeros, "torch.zeros", None, "No call was made.")
    assert "No call was made." in sheet.notes
    assert rows(sheet, "Overloads")[0][0] == "zeros"
    with pytest.raises(Misuse, match="not an operator by name"):
        inspect_op(_twice, "twice", None, "No call was made.")


def test_without_pyyaml_a_note_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(op_files, "find_spec", lambda name: None if name == "yaml" else real(name))
    sheet = inspected(torch.add, "torch.add", "f32[4], f32[4]")
    assert any("pip install pyyaml" in note for note in sheet.notes)
    assert facts(sheet, "Backward") == {"grad_fn seen": "AddBackward0"}


def test_a_key_without_a_kernel_ends_the_walk() -> None:
    table = {key: entry for key, entry in entries("aten::add.Tensor").items() if key != "CPU"}
    assert walk(table, [torch.zeros(2)]).steps[-1][2] == "no kernel: the call raises"


def test_the_keys_of_a_call_are_traced() -> None:
    sheet = inspected(torch.zeros_like, "torch.zeros_like", "f32[4]")
    what = {row[0]: row[1] for row in rows(sheet, "Keys of this call")}
    assert what["AutogradCPU"].startswith("did not run")
    assert what["CPU"].startswith("composite")
    part = next(part for part in sheet.parts if isinstance(part, Table) and part.title.startswith("Keys of this call"))
    assert part.note.startswith("Traced")


def test_keys_that_cannot_be_traced_are_computed_and_the_note_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> list[str]:
        raise RuntimeError("this kernel stays")

    monkeypatch.setattr(op, "traced_keys", refuse)
    sheet = inspected(torch.add, "torch.add", "f32[4], f32[4]")
    part = next(part for part in sheet.parts if isinstance(part, Table) and part.title.startswith("Keys of this call"))
    assert "not traced" in part.note
    assert "this kernel stays" in part.note
    assert part.rows[0][0] == "AutogradCPU"
