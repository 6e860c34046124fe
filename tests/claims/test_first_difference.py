"""Two traces side by side, made by hand: what parted first, of what kind, and whose line it is."""

from __future__ import annotations

from dataclasses import replace

from trueloop.claims.first_difference import first_difference
from trueloop.claims.operation_trace import Batch, Entry, Step, Trace, place_of
from trueloop.event import Place

PLACES = [("train.py", 3, "<module>"), ("train.py", 9, "main"), ("model.py", 4, "forward")]


def entry(number: int, name: str = "aten::addmm", digest: int = 1, **more: object) -> Entry:
    return replace(Entry(number, name, digest), **more)  # type: ignore[arg-type]


def batch(number: int, digest: int, **more: object) -> Batch:
    return replace(Batch(number, 0, 0, number, digest, "drawn", place=1), **more)  # type: ignore[arg-type]


def trace(
    operations: list[Entry], steps: list[int], *, batches: list[Batch] | None = None, draws: list[Entry] | None = None
) -> Trace:
    """Each step comes ten numbers after the one before it."""
    made = [Step(10 * (index + 1), digest) for index, digest in enumerate(steps)]
    return Trace(operations, draws or [], batches or [], made, list(PLACES))


def test_the_same_is_no_parting() -> None:
    one = trace([entry(1), entry(2)], [5, 6, 7])
    assert first_difference(one, trace([entry(1), entry(2)], [5, 6, 7])) is None


def test_what_differs_without_reaching_a_weight_does_not_count() -> None:
    one, other = trace([entry(1, digest=1)], [5, 6]), trace([entry(1, digest=2)], [5, 6])
    assert first_difference(one, other) is None


def test_an_operation_that_gives_something_else_for_the_same_inputs() -> None:
    one = trace([entry(1), entry(2, "aten::mm", 4, place=2), entry(3, digest=8)], [5, 6])
    other = trace([entry(1), entry(2, "aten::mm", 9, place=2), entry(3, digest=9)], [5, 7])
    found = first_difference(one, other)
    assert found is not None
    assert (found.step, found.kind, found.operation, found.compared) == (2, "computed", "mm", 1)
    assert found.place == Place("model.py", 4, "forward")


def test_on_a_device_it_is_the_devices() -> None:
    one, other = (trace([entry(1, "aten::index_add", digest, device="cuda:0")], [digest]) for digest in (1, 2))
    found = first_difference(one, other)
    assert found is not None
    assert found.kind == "device"


def test_a_draw_of_torchs_generator() -> None:
    one, other = (trace([entry(1, "aten::randn", digest, draws=True, place=0)], [digest]) for digest in (1, 2))
    found = first_difference(one, other)
    assert found is not None
    assert (found.kind, found.operation) == ("torch", "randn")
    assert found.place == Place("train.py", 3, "<module>")


def test_numbers_that_came_from_outside_name_the_generator_that_drew_others() -> None:
    made = []
    for digest in (1, 2):
        draws = [
            entry(1, "random.shuffle", digest, draws=True, place=1),
            entry(2, "numpy.random.rand", digest, draws=True, place=0),
        ]
        made.append(trace([entry(4, "aten::mul", digest, arrived=digest)], [digest], draws=draws))
    found = first_difference(*made)
    assert found is not None
    assert found.kind == "outside"
    assert [(suspect.kind, suspect.function) for suspect in found.suspects] == [
        ("numpy", "numpy.random.rand"),
        ("python", "random.shuffle"),
    ]


def test_draws_that_were_the_same_are_no_suspects() -> None:
    made = [
        trace([entry(4, digest=digest, arrived=digest)], [digest], draws=[entry(1, "random.random", 7, draws=True)])
        for digest in (1, 2)
    ]
    found = first_difference(*made)
    assert found is not None
    assert found.suspects == ()


def test_another_way_through_the_program() -> None:
    one = trace([entry(1), entry(2, "aten::relu")], [1])
    other = trace([entry(1), entry(2, "aten::tanh")], [2])
    found = first_difference(one, other)
    assert found is not None
    assert (found.kind, found.operation) == ("outside", "relu")


def test_a_loader_that_hands_out_something_else_comes_before_what_is_computed_of_it() -> None:
    made = [trace([entry(3, digest=digest)], [digest], batches=[batch(2, digest)]) for digest in (1, 2)]
    found = first_difference(*made)
    assert found is not None
    assert found.kind == "loader"
    assert found.place == Place("train.py", 9, "main")


def test_a_batch_after_the_first_difference_is_not_its_cause() -> None:
    made = [trace([entry(1, digest=digest)], [digest], batches=[batch(2, digest)]) for digest in (1, 2)]
    found = first_difference(*made)
    assert found is not None
    assert found.kind == "computed"


def test_memory_that_nobody_has_filled_is_named_only_if_nothing_else_is() -> None:
    raw = [
        trace([entry(1, "aten::copy_", digest, raw=True), entry(2, "aten::add", digest)], [digest]) for digest in (1, 2)
    ]
    found = first_difference(*raw)
    assert found is not None
    assert found.operation == "add"
    alone = [trace([entry(1, "aten::copy_", digest, raw=True)], [digest]) for digest in (1, 2)]
    found = first_difference(*alone)
    assert found is not None
    assert found.operation == "copy_"


def test_one_run_is_longer() -> None:
    one, other = trace([], [1, 2, 3]), trace([], [1, 2])
    for pair in ((one, other), (other, one)):
        found = first_difference(*pair)
        assert found is not None
        assert (found.step, found.kind) == (3, "length")


def test_beyond_what_was_written_down_only_the_step_is_known() -> None:
    one, other = trace([entry(1)], [1, 1, 1, 2]), trace([entry(1)], [1, 1, 1, 3])
    found = first_difference(one, other)
    assert found is not None
    assert (found.step, found.kind, found.operation, found.place) == (4, "unknown", "", None)


def test_no_place_is_none() -> None:
    made = trace([], [])
    assert place_of(made, -1) is None
    assert place_of(made, 2) == Place("model.py", 4, "forward")
