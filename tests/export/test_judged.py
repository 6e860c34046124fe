"""How two sets of answers are judged: differences that are symmetric and never hidden, ties at both sides of their
line, layouts, blame."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.export.made import artifact, subject, verification
from trueloop.data.source import Batch
from trueloop.errors import CannotExport
from trueloop.export.card import MOST, card_of
from trueloop.export.compare import Comparison, Metrics, error_between, largest_in, predictions
from trueloop.export.explain_failure import QUOTED, _chain, _first_message, _line_in, explain_failure
from trueloop.export.program import LayerOutputs, Layout, Program, exportable, layout_of, scores_of
from trueloop.export.subprocess_runner import RuntimeFailure
from trueloop.export.torchscript import Torchscript
from trueloop.export.verify import _Batch, _failure, _has_length, verify
from trueloop.results.artifact import Port

numbers = st.floats(width=32)
finite = st.floats(-1e6, 1e6, width=32)


# -- differences --


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6))
def test_a_difference_is_the_same_from_both_sides_and_never_less_than_nothing(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = (torch.tensor(side, dtype=torch.float32) for side in zip(*pairs, strict=True))
    found = error_between(ours, theirs)
    assert found >= 0
    assert found == error_between(theirs, ours)
    assert (found == 0) == torch.equal(ours.nan_to_num(7e7), theirs.nan_to_num(7e7))


@given(st.lists(finite, min_size=1, max_size=6), st.integers(0, 5), st.floats(0.5, 1e3))
def test_one_number_that_is_off_is_seen_wherever_it_stands(values: list[float], place: int, by: float) -> None:
    ours = torch.tensor(values, dtype=torch.float64)
    theirs = ours.clone()
    theirs[place % len(values)] += by
    assert error_between(ours, theirs) == pytest.approx(by, rel=1e-6)


@given(st.lists(numbers, max_size=6))
def test_the_largest_number_is_finite_and_none_is_larger(values: list[float]) -> None:
    found = largest_in(torch.tensor(values, dtype=torch.float32))
    assert math.isfinite(found)
    assert all(abs(value) <= found for value in values if math.isfinite(value))


def test_an_output_that_is_missing_is_an_infinite_difference() -> None:
    """Which of two was left out nobody can say: none may pass for compared."""
    made = Comparison("regression", 0.1)
    made.add([torch.ones(2), torch.ones(2)], [torch.ones(2)], counted=True)
    assert made.max_error == math.inf


def test_every_output_is_compared_and_only_the_first_is_a_prediction() -> None:
    made = Comparison("multiclass", 0.1)
    scores = torch.tensor([[1.0, 0.0]])
    made.add([scores, torch.tensor([[1.0, 0.0]])], [scores, torch.tensor([[0.0, 5.0]])], counted=True)
    assert (made.max_error, made.disagreements) == (5.0, 0)


def test_the_unit_is_the_largest_number_of_all_batches_and_outputs_and_at_least_one() -> None:
    made = Comparison("regression", 0.1)
    made.add([torch.tensor([0.5])], [torch.tensor([0.5])], counted=True)
    assert made.scale == 1.0
    made.add(
        [torch.tensor([2.0]), torch.tensor([-9.0, math.inf])],
        [torch.tensor([2.0]), torch.tensor([-9.0, math.inf])],
        counted=True,
    )
    made.add([torch.tensor([3.0])], [torch.tensor([3.0])], counted=True)
    assert made.scale == 9.0


def test_of_equal_differences_the_first_batch_is_the_worst() -> None:
    made = Comparison("regression", 0.1)
    assert made.worst == -1
    for _ in range(3):
        made.add([torch.tensor([1.0])], [torch.tensor([2.0])], counted=True)
    assert (made.worst, made.seen) == (0, 3)


# -- predictions and ties --


@pytest.mark.parametrize("task", ["multiclass", "binary", "multilabel", "language"])
@pytest.mark.parametrize(("share", "ties"), [(0.5, 1), (0.999, 1), (1.001, 0), (3.0, 0)])
def test_a_tie_is_what_two_moves_of_the_tolerance_can_turn(task: str, share: float, ties: int) -> None:
    apart = share * 2 * 0.01
    ours = (
        torch.tensor([[[apart, 0.0]]])
        if task == "language"
        else torch.tensor([[apart, 0.0]])
        if task == "multiclass"
        else torch.tensor([[apart]])
    )
    made = Comparison(task, 0.01)
    made.add([ours], [-ours if task in ("binary", "multilabel") else ours.flip(-1)], counted=True)
    assert (made.ties, made.disagreements) == (ties, 1 - ties)


@given(st.lists(st.lists(finite, min_size=3, max_size=3), min_size=1, max_size=5), st.floats(0, 0.49))
def test_answers_that_all_moved_by_less_than_the_tolerance_never_disagree(
    rows: list[list[float]], share: float
) -> None:
    ours = torch.tensor(rows, dtype=torch.float64)
    moved = ours + share * torch.linspace(-1, 1, 3).double()
    made = Comparison("multiclass", 0.5)
    made.add([ours], [moved], counted=True)
    assert made.disagreements == 0


def test_one_score_alone_is_no_prediction_and_neither_is_a_quantity() -> None:
    assert predictions("multiclass", torch.zeros(4, 1)) is None
    assert predictions("regression", torch.zeros(4, 2)) is None
    assert predictions("own", torch.zeros(4, 2)) is None


def test_by_how_much_a_prediction_is_made() -> None:
    found = predictions("multilabel", torch.tensor([[-2.0, 0.0, 3.0]]))
    assert found is not None
    assert found[0].tolist() == [[False, False, True]]
    assert found[1].tolist() == [[2.0, 0.0, 3.0]]


def test_metrics_count_what_they_are_given_and_nothing_is_nothing() -> None:
    measured = Metrics(subject().task)
    assert measured.values() == {}
    measured.add(torch.tensor([[9.0, 0.0, 0.0], [9.0, 0.0, 0.0]]), Batch(None, torch.tensor([0, 1])))
    assert measured.values()["accuracy"] == 0.5
    assert measured.sums["count"] == 2.0


# -- layouts --


@given(st.sampled_from(["tensor", "dict", "tuple", "list"]), st.integers(1, 4))
def test_what_is_joined_is_parted_again(kind: str, count: int) -> None:
    tensors = tuple(torch.full((1,), float(number)) for number in range(1 if kind == "tensor" else count))
    layout = Layout(tuple(f"t{number}" for number in range(len(tensors))), kind)
    joined = layout.join(tensors)
    assert all(one is other for one, other in zip(layout.split(joined), tensors, strict=True))
    assert layout_of(joined, "t").kind == kind


def test_a_dict_is_parted_by_its_names_whatever_its_order() -> None:
    layout = layout_of({"b": torch.zeros(1), "a": torch.ones(1)}, "input")
    assert layout.names == ("b", "a")
    assert [float(each) for each in layout.split({"a": torch.ones(1), "b": torch.zeros(1)})] == [0.0, 1.0]
    with pytest.raises(ValueError, match=r"shorter|longer"):
        layout.join([torch.zeros(1)])


@pytest.mark.parametrize(
    "value", [{}, [], (), {"a": 1}, {1: torch.zeros(1)}, [torch.zeros(1), 2], "text", 3, {"a": [torch.zeros(1)]}]
)
def test_what_holds_anything_but_tensors_is_refused_by_its_kind(value: Any) -> None:
    with pytest.raises(
        CannotExport, match=f"The model's output has type {type(value).__name__}, which no target supports"
    ):
        layout_of(value, "output")


def test_scores_are_what_is_no_promise_of_scores() -> None:
    tensor = torch.zeros(1)
    assert scores_of(tensor) is tensor


class Twice(nn.Module):
    """Calls one layer twice, and writes into its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.counted = nn.Linear(2, 2), nn.Identity()

    def forward(self, inputs: Tensor) -> Tensor:
        first: Tensor = self.layer(inputs)
        second: Tensor = self.layer(first)
        self.counted(torch.arange(3))
        return second.mul_(0)


def one_program(model: nn.Module) -> Program:
    return Program(model.eval(), None, Layout(("input",), "tensor"), Layout(("output",), "tensor"))


def test_layers_are_seen_as_they_answered_and_as_often_as_they_were_called() -> None:
    torch.manual_seed(0)
    model = Twice()
    observed = LayerOutputs(one_program(model))
    inputs = torch.ones(1, 2)
    seen = observed.answer([inputs])
    assert observed.calls == ["layer", "layer"], "whole numbers are left out"
    assert torch.equal(seen[1], model.layer(model.layer(inputs)))
    assert not model.layer._forward_hooks
    observed.set_outputs(2)
    assert observed.layouts[1] == Layout(("layer_0", "layer_1"), "tuple")


def test_who_looks_leaves_nothing_behind_even_if_the_model_fails() -> None:
    model = Twice()
    with pytest.raises(RuntimeError):
        LayerOutputs(one_program(model)).answer([torch.ones(1, 3)])
    assert not model.layer._forward_hooks


@pytest.mark.parametrize(
    ("options", "replaced"),
    [
        ({"mode": "sum"}, True),
        ({"mode": "mean"}, True),
        ({"mode": "max"}, False),
        ({"padding_idx": 0}, False),
        ({"max_norm": 1.0}, False),
    ],
)
def test_only_bags_that_are_sums_of_lookups_are_said_so(options: dict[str, Any], replaced: bool) -> None:
    model = nn.Sequential(nn.EmbeddingBag(5, 2, **options))
    made = exportable(one_program(model))
    inner = made.model[0]  # type: ignore[index]
    assert (type(inner) is not nn.EmbeddingBag) is replaced
    assert type(model[0]) is nn.EmbeddingBag, "the model itself stays as it is"
    rows = torch.tensor([[1, 2], [3, 3]])
    assert torch.allclose(made.answer([rows])[0], one_program(model).answer([rows])[0])


def test_a_bag_takes_offsets_and_weights_like_torchs_own() -> None:
    bag = nn.EmbeddingBag(5, 2, mode="sum")
    said = exportable(one_program(nn.Sequential(bag))).model[0]  # type: ignore[index]
    flat, offsets = torch.tensor([1, 2, 3]), torch.tensor([0, 2])
    assert torch.allclose(said(flat, offsets), bag(flat, offsets))
    rows, weights = torch.tensor([[1, 2]]), torch.tensor([[0.5, 2.0]])
    assert torch.allclose(said(rows, None, weights), bag(rows, per_sample_weights=weights))


# -- verified --


def test_a_program_with_fewer_outputs_over_there_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    made = subject()

    def run(folder: Path, batches: list[list[np.ndarray]], device: str) -> list[list[np.ndarray]]:
        return [[] for _ in batches]

    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run)
    monkeypatch.setattr("trueloop.export.verify._first_differing", lambda *_: "")
    with pytest.raises(CannotExport, match="does not give the model's outputs: largest difference inf"):
        verify(made, made.program(), Torchscript(), artifact(), 1e-4, 5)


def test_a_runtime_that_does_not_start_is_told_without_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(folder: Path, batches: Any, device: str) -> Any:
        raise RuntimeFailure(-1, "no such file")

    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run)
    made = subject()
    with pytest.raises(CannotExport, match=r"could not run it: no such file\. Nothing was exported"):
        verify(made, made.program(), Torchscript(), artifact(), 1e-4, 5)


def test_lengths_are_free_only_where_every_input_has_one() -> None:
    free, fixed = Port("a", "int64", (None, None)), Port("b", "int64", (None, 3))
    assert _has_length([free])
    assert _has_length([free, free])
    assert not _has_length([free, fixed])
    assert not _has_length([Port("c", "float32", (None,))])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"disagreements": 0}, "no predictions differ. first. Nothing was exported."),
        ({"disagreements": 1200, "samples": 5000}, "1,200 of 5,000 predictions differ. first."),
        (
            {"metrics": {"accuracy": (0.5, 0.25), "loss": (1.0, 1.0)}},
            "no predictions differ; accuracy 0.5 -> 0.25. first.",
        ),
        (
            {"max_error": 0.5, "tolerance": 1e-3, "scale": 20.0},
            "largest difference 0.5 (inputs [2, 3] and [2]), tolerance 0.02;",
        ),
    ],
)
def test_what_differs_is_told_with_its_numbers(fields: dict[str, Any], words: str) -> None:
    tried = _Batch((torch.zeros(2, 3), torch.zeros(2)), (), None, counted=True)
    assert words in _failure(verification(first_differing="first.", **fields), artifact(), tried)


# -- blamed --


def test_a_chain_of_errors_is_followed_to_its_beginning() -> None:
    first, second, third = KeyError("a"), ValueError("b"), RuntimeError("c")
    third.__cause__, second.__context__ = second, first
    assert list(_chain(third)) == [third, second, first]
    assert _first_message(third) == "KeyError: 'a'"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("", "RuntimeError: no message"),
        ("\n\n one \n\n two \n three", "RuntimeError: one two"),
        ("Constraints violated. For more information, run with TORCH_LOGS", "RuntimeError: Constraints violated."),
        ("x" * 1000, "RuntimeError: " + "x" * QUOTED),
    ],
)
def test_of_torchs_words_the_first_are_handed_on(said: str, line: str) -> None:
    assert _first_message(RuntimeError(said)) == line


def test_of_several_lines_of_the_users_the_last_is_the_deepest() -> None:
    said = f'File "{__file__}", line 3, in a\n  File "{torch.__file__}", line 5\n  File "{__file__}", line 9, in b'
    assert _line_in(said) == (__file__, 9)
    assert _line_in("nothing of that kind") is None


def test_choices_are_no_operations() -> None:
    """torch names the operation at which it had to choose: it is not what cannot be exported."""
    said = str(explain_failure(RuntimeError("data-dependent: torch.ops.aten.item.default"), "pt2", lambda: None))
    assert "The operation is" not in said
    assert "Use torch.where" in said


def test_the_second_attempt_may_succeed_and_says_nothing_then() -> None:
    said = str(explain_failure(RuntimeError("nobody has seen this"), "aoti", lambda: "a graph"))
    assert said == "aoti does not support this model. (RuntimeError: nobody has seen this) Nothing was exported."


# -- the card --


@pytest.mark.parametrize(("count", "more"), [(MOST, False), (MOST + 1, True)])
def test_so_many_classes_are_listed_and_more_are_counted(count: int, more: bool) -> None:
    card = card_of(artifact(classes=tuple(f"c{number}" for number in range(count))))
    assert f"- {count} classes: c0, " in card
    assert (", ..." in card) is more
    assert (f"c{count - 1}" in card) is not more


def test_a_model_without_classes_lists_none() -> None:
    assert "classes:" not in card_of(artifact(classes=()))


@pytest.mark.parametrize(
    ("port", "shape"),
    [
        (Port("a", "int64", (None, 3)), "any x 3"),
        (Port("a", "int64", (None, None), (64, None)), "1 to 64 x any"),
        (Port("a", "int64", ()), ""),
    ],
)
def test_shapes_are_shown_with_what_is_free(port: Port, shape: str) -> None:
    assert f"| in | a | int64 | {shape} |" in card_of(artifact(inputs=(port,)))


def test_a_card_says_what_was_not_measured() -> None:
    card = card_of(artifact(run={}, verification=None))
    assert "(run ?, step ?, the weights as trained)" in card
    assert "- (the recipe does not describe its data)" in card
    assert "- readiness (`trueloop ready`): not checked" in card
    assert "verified in a process of its own" not in card
    assert card.endswith("\n")
    assert "None" not in card
