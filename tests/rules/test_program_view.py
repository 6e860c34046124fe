"""Questions to a step program."""

from __future__ import annotations

from typing import Any

from trueloop.event import ModelUse, Operation, StepProgram, Value
from trueloop.rules.program_view import ProgramView


def value(origin: Any, *shape: int, dtype: str = "float32", grad: bool = False) -> Value:
    return Value(shape, dtype, origin, "weight" if origin == "parameter" else "", grad, 0)


def operation(name: str, inputs: tuple[int, ...], output: int, *options: tuple[str, str], model: int = -1) -> Operation:
    return Operation(name, inputs, (output,), options, None, model, True)


def view(*operations: Operation, values: list[Value], uses: tuple[ModelUse, ...] = (), loss: int = 0) -> ProgramView:
    return ProgramView(StepProgram(1, None, "training", tuple(values), operations, uses, (loss,), True))


def a_step() -> ProgramView:
    """x[picked] through a linear layer, against y[picked]."""
    values = [
        value("outside", 64, 4), value("operation", 16, dtype="int64"), value("operation", 16, 4),
        value("parameter", 1, 4, grad=True), value("operation", 16, 1, grad=True), value("operation", 16, grad=True),
        value("outside", 64), value("operation", 16), value("operation", 16, grad=True), value("operation", grad=True),
    ]  # fmt: skip
    return view(
        operation("randint", (), 1),
        operation("__getitem__", (0, 1), 2),
        operation("linear", (2, 3), 4, model=0),
        operation("squeeze", (4,), 5, ("1", "-1")),
        operation("__getitem__", (6, 1), 7),
        operation("sub", (5, 7), 8),
        operation("mean", (8,), 9),
        values=values,
        uses=(ModelUse(0, "Linear", (2,), (4,), None, True, True),),
        loss=9,
    )


def test_roles_of_values() -> None:
    step = a_step()
    assert step.predictions == {4}
    assert step.inputs == {2}
    assert step.learned == {3, 4, 5, 8, 9}
    assert step.from_data == {0, 2, 4, 5, 6, 7, 8, 9}
    assert step.on_loss_path == set(range(10))
    ((comparison, prediction, target),) = step.comparisons
    assert (comparison.name, prediction, target) == ("sub", 5, 7)


def test_paths() -> None:
    step = a_step()
    assert step.through_views(5) == 4
    assert list(step.behind(7)) == [7, 6, 1]
    assert step.maker(0) is None
    assert [reader.name for reader in step.readers[1]] == ["__getitem__", "__getitem__"]


def test_the_samples_are_where_rows_were_picked() -> None:
    step = a_step()
    assert step.sample_dim(2) == step.sample_dim(4) == step.sample_dim(7) == 0
    assert step.sample_dim(0) is None
    transposed = view(operation("t", (0,), 1), values=[value("batch", 8, 4), value("operation", 4, 8)])
    assert (transposed.sample_dim(0), transposed.sample_dim(1)) == (0, None)


def test_sampled_values_come_from_data_and_constants_do_not() -> None:
    step = a_step()
    assert step.is_sampled(2)
    assert step.is_sampled(7)
    assert not step.is_sampled(0)
    assert not step.is_sampled(4)
    constants = view(
        operation("zeros_like", (0,), 1),
        operation("float", (2,), 3),
        values=[value("batch", 8), value("operation", 8), value("outside", 8), value("operation", 8)],
    )
    assert constants.is_sampled(0)
    assert not constants.is_sampled(1)
    assert not constants.is_sampled(3)


def test_the_dimension_of_a_softmax() -> None:
    found = view(
        operation("softmax", (0,), 1, ("dim", "-1")),
        operation("softmax", (0,), 2, ("1", "0")),
        operation("softmax", (0,), 3),
        values=[value("batch", 8, 3), *(value("operation", 8, 3) for _ in range(3))],
    )
    assert [found.dim_of(one) for one in found.operations] == [1, 0, None]
