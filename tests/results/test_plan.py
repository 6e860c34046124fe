"""The words of a plan: names of ways, sums, and what they are as plain values. No torch."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace

import pytest

from tests.parallel.worlds import LARGE, PLAIN, terms
from trueloop.parallel.plan import plan
from trueloop.results.plan import Figure, Kept, Memory, Way


def _memory(*values: float) -> Memory:
    return Memory(*(Figure(value, "computed", "by hand") for value in values))


@pytest.mark.parametrize(
    ("way", "name"),
    [
        (Way("none"), "one GPU"),
        (Way("none", recompute=True), "one GPU + checkpointing"),
        (Way("ddp"), "ddp"),
        (Way("fsdp", recompute=True), "fsdp + checkpointing"),
        (Way("tp", tensor=4), "tp 4"),
        (Way("fsdp+tp", tensor=8), "fsdp+tp 8"),
        (Way("fsdp+tp", recompute=True, tensor=2), "fsdp+tp 2 + checkpointing"),
        (Way("hsdp+tp+pp", shards=16, tensor=8, pipeline=4), "hsdp 16+tp 8+pp 4"),
        (Way("cp", context=4), "cp 4"),
    ],
)
def test_a_way_has_a_name(way: Way, name: str) -> None:
    assert way.name == name


@pytest.mark.parametrize(
    ("way", "settings"),
    [
        (Way("none"), {"parallel": "none"}),
        (Way("ddp", recompute=True), {"parallel": "ddp", "activation_checkpointing": True}),
        (Way("fsdp", recompute=True), {"parallel": "fsdp", "activation_checkpointing": True}),
        (Way("fsdp+tp", tensor=4), {"parallel": "fsdp+tp", "tensor_ranks": 4}),
        (Way("hsdp", shards=8), {"parallel": "hsdp", "shard_ranks": 8}),
    ],
)
def test_a_way_is_some_fields_of_a_recipe(way: Way, settings: dict[str, object]) -> None:
    assert way.settings == settings


def test_names_tell_all_ways_apart() -> None:
    made = plan(LARGE, terms(16))
    others = [each.way.name for each in (*made.refused, *made.unsupported)]
    names = [row.way.name for row in made.rows] + others
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("kind", "sharded"), [("none", False), ("ddp", False), ("fsdp", True), ("tp", False), ("hsdp+tp", True)]
)
def test_only_fsdp_shards_its_states(kind: str, sharded: bool) -> None:
    assert Way(kind).sharded is sharded


def test_memory_is_the_sum_of_its_five_parts() -> None:
    memory = _memory(1.0, 2.0, 4.0, 8.0, 16.0)
    assert memory.total == 31.0
    assert [part.value for part in memory.parts] == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_words_cannot_be_changed() -> None:
    figure = Figure(1.0, "measured", "by hand")
    with pytest.raises(FrozenInstanceError):
        figure.value = 2.0  # type: ignore[misc]


def test_a_forward_that_keeps_nothing_more_needs_no_more_said() -> None:
    kept = Kept(per_sample=8.0)
    assert (kept.fixed, kept.in_blocks, kept.split, kept.scores) == (0.0, 0.0, 0.0, 0.0)


def test_the_recommended_row_is_the_chosen_one_or_none() -> None:
    made = plan(PLAIN, terms(4))
    assert made.chosen is not None
    assert made.recommended is made.rows[made.chosen]
    assert replace(made, chosen=None).recommended is None


def test_a_plan_as_plain_values_has_names_and_totals_and_is_json() -> None:
    made = plan(LARGE, terms(8))
    plain = made.plain()
    assert json.loads(json.dumps(plain)) == json.loads(json.dumps(made.plain()))
    for row, told in zip(made.rows, plain["rows"], strict=True):
        assert (told["name"], told["memory"]["total"]) == (row.way.name, row.memory.total)
        assert told["memory"]["parameters"] == {
            "value": row.memory.parameters.value,
            "basis": row.memory.parameters.basis,
            "how": row.memory.parameters.how,
        }
    assert [each["name"] for each in plain["refused"]] == [each.way.name for each in made.refused]
    assert plain["facts"]["kept"]["per_sample"] == LARGE.kept.per_sample
