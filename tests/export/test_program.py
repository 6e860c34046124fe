"""What is exported: raw samples in, scores out, and the user's model left as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.export.made import Shades, scaled, shades, subject
from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.unprojected import Unprojected
from trueloop.errors import CannotExport
from trueloop.export.program import LayerOutputs, Layout, exportable, layout_of

ONE, TWO = torch.ones(2), torch.zeros(3)


@pytest.mark.parametrize(
    ("value", "layout"),
    [
        (ONE, Layout(("input",), "tensor")),
        ({"a": ONE, "b": TWO}, Layout(("a", "b"), "dict")),
        ((ONE, TWO), Layout(("input_0", "input_1"), "tuple")),
        ([ONE], Layout(("input_0",), "list")),
    ],
)
def test_tensors_part_and_join_again(value: Any, layout: Layout) -> None:
    assert layout_of(value, "input") == layout
    joined = layout.join(layout.split(value))
    assert type(joined) is type(value)
    assert list(joined) == list(value)


@pytest.mark.parametrize("value", [3, {"a": 3}, {}, (), {"a": {"b": ONE}}, Unprojected(ONE, TWO), {1: ONE}])
def test_what_no_target_knows_is_refused_with_a_sentence(value: Any) -> None:
    with pytest.raises(CannotExport, match="Nothing was exported: use a tensor"):
        layout_of(value, "input")


def test_raw_samples_go_in_and_what_the_recipe_does_to_them_is_part_of_it() -> None:
    made = subject()
    program = made.program()
    raw = made.fetch(torch.arange(4)).inputs
    assert raw.dtype == torch.uint8
    (answered,) = program.answer([raw])
    assert torch.equal(answered, made.model(scaled(raw)))


def test_a_prepare_that_writes_into_its_input_does_not_reach_the_callers() -> None:
    def doubling(images: Tensor) -> Tensor:
        return images.mul_(2)

    images = torch.randn(5, 12)
    splits = Splits(Tensors(images, torch.zeros(5).long()), facts=Facts(classes=("a", "b", "c")), prepare=doubling)
    given_ = images.clone()
    subject(splits=splits).program().answer([given_])
    assert torch.equal(given_, images)


class Pairs(Source):
    """Samples of two tensors each."""

    def __init__(self, inputs: dict[str, Tensor]) -> None:
        self.inputs = inputs

    def __len__(self) -> int:
        return 6

    def fetch(self, numbers: Tensor) -> Batch:
        return Batch({name: value[numbers] for name, value in self.inputs.items()}, torch.zeros(len(numbers)).long())


class Two(nn.Module):
    """Takes a dict, answers a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return self.inner(inputs["a"]), inputs["b"] + 1


def test_several_inputs_and_outputs_have_names() -> None:
    inputs = {"a": torch.randn(6, 3), "b": torch.randn(6)}
    program = subject(Two, Splits(Pairs(inputs), facts=Facts(classes=("x", "y")))).program()
    assert program.layouts == (Layout(("a", "b"), "dict"), Layout(("output_0", "output_1"), "tuple"))
    assert [list(each.shape) for each in program.answer([inputs["a"], inputs["b"]])] == [[6, 2], [6]]


class NotMultipliedOut(nn.Module):
    """Answers Unprojected whatever its mode."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(12, 8)
        self.scores = nn.Linear(8, 3, bias=False)

    def forward(self, images: Tensor) -> Unprojected:
        return Unprojected(self.hidden(images.flatten(1)), self.scores.weight)


def test_an_answer_that_is_not_multiplied_out_leaves_as_scores() -> None:
    made = subject(NotMultipliedOut)
    (answered,) = made.program().answer([made.fetch(torch.arange(4)).inputs])
    assert answered.shape == (4, 3)


class Bags(nn.Module):
    """Sums of vectors, with and without weights."""

    def __init__(self, mode: str, weighted: bool) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(11, 3, mode=mode)
        self.weighted = weighted

    def forward(self, rows: Tensor) -> Tensor:
        return self.bag(rows, per_sample_weights=(rows.float() + 1).sqrt() if self.weighted else None)  # type: ignore[no-any-return]


@given(st.integers(1, 5), st.integers(1, 7), st.sampled_from([("sum", True), ("sum", False), ("mean", False)]))
def test_bags_said_as_lookups_and_sums_give_the_same(rows: int, length: int, kind: tuple[str, bool]) -> None:
    numbers = torch.randint(0, 11, (rows, length), generator=torch.Generator().manual_seed(rows * 10 + length))
    splits = Splits(Tensors(numbers, torch.zeros(rows).long()), facts=Facts(classes=("a", "b", "c"), vocabulary=11))
    program = subject(lambda: Bags(*kind), splits).program()
    changed = exportable(program)
    assert torch.allclose(changed.answer([numbers])[0], program.answer([numbers])[0], atol=1e-6)
    assert isinstance(program.model.bag, nn.EmbeddingBag), "the user's model stays as it is"


def test_the_layers_are_seen_in_the_order_of_their_calls() -> None:
    made = subject()
    observed = LayerOutputs(made.program())
    seen = observed.answer([made.fetch(torch.arange(2)).inputs])
    assert observed.calls == ["first", "second"]
    assert [list(each.shape) for each in seen] == [[2, 8], [2, 3]]
    assert not any(module._forward_hooks for module in made.model.modules())


def test_tokens_may_have_any_length_and_images_only_theirs() -> None:
    images = subject()
    (port,) = images.example(images.program(), inside=True).ports
    assert (port.dtype, port.shape) == ("uint8", (None, 1, 3, 4))
    numbers = torch.randint(0, 11, (6, 5))
    text = subject(
        lambda: Bags("sum", False),
        Splits(Tensors(numbers, torch.zeros(6).long()), facts=Facts(classes=("a", "b", "c"))),
    )
    (port,) = text.example(text.program(), inside=True).ports
    assert (port.shape, port.most) == ((None, None), (None, 5))


def test_without_validation_data_others_are_taken_and_said() -> None:
    only = replace(shades(), valid=None)
    assert subject(splits=only).source[0] == "train"
    assert subject().source[0] == "valid"


@pytest.mark.parametrize(
    ("inputs", "facts", "told"),
    [
        (
            torch.zeros(4, 3, 5, 6, dtype=torch.uint8),
            Facts(),
            {"kind": "image", "size": [5, 6], "channels": 3, "dtype": "uint8"},
        ),
        (torch.zeros(4, 7, dtype=torch.int64), Facts(vocabulary=9), {"kind": "tokens", "tokens": 9, "dtype": "int64"}),
        (
            torch.zeros(4, 7, dtype=torch.int64),
            Facts(more={"tokens": ["a", "b"]}),
            {"encoding": "tokens", "vocabulary": ["a", "b"]},
        ),
        (
            torch.zeros(4, 7, dtype=torch.int64),
            Facts(more={"text": {"encoding": "bytes"}}),
            {"kind": "tokens", "encoding": "bytes"},
        ),
        (torch.zeros(4, 2), Facts(more={"columns": [{"name": "x", "kind": "number"}]}), {"kind": "table"}),
        (torch.zeros(4, 2), Facts(), {"kind": "tensors", "dtype": "float32"}),
    ],
)
def test_what_the_caller_must_do_is_told_for_machines(inputs: Tensor, facts: Facts, told: dict[str, Any]) -> None:
    made = subject(Shades, Splits(Tensors(inputs, torch.zeros(4).long()), facts=facts))
    assert told.items() <= made.preprocessing(inside=True).items()
