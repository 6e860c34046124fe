"""`--set name=value`: every kind of field, every kind of mistake, all of them at once."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from trueloop.errors import BadRecipe
from trueloop.recipe.overrides import apply_overrides, override_notes
from trueloop.recipe.recipe import Recipe, field_types

RECIPE = Recipe(name="mine", model=dict, data=str, epochs=10, optimizer_options={"eps": 1e-9})


def refused(**settings: str) -> str:
    with pytest.raises(BadRecipe) as raised:
        apply_overrides(RECIPE, settings)
    assert "Nothing was run" in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("lr", "3e-4", 3e-4),
        ("lr", "1", 1.0),
        ("batch", "128", 128),
        ("batch", "1e4", 10_000),
        ("batch", "10_000", 10_000),
        ("seed", " 7 ", 7),
        ("clip", "1.5", 1.5),
        ("clip", "none", None),
        ("clip", "off", None),
        ("patience", "3", 3),
        ("evaluate_every", "none", None),
        ("balanced", "true", True),
        ("balanced", "on", True),
        ("drop_last", "False", False),
        ("drop_last", "0", False),
        ("compile_dynamic", "none", None),
        ("compile_dynamic", "false", False),
        ("schedule", "one-cycle", "one-cycle"),
        ("precision", "bf16", "bf16"),
        ("compile", "reduce-overhead", "reduce-overhead"),
        ("where", "loader", "loader"),
        ("on_nonfinite", "rollback", "rollback"),
        ("optimizer", "RMSprop", "RMSprop"),
        ("metric", "", ""),
        ("device", "cuda:1", "cuda:1"),
        ("betas", "0.9,0.95", (0.9, 0.95)),
        ("betas", "(0.9, 0.95)", (0.9, 0.95)),
        ("trackers", "tensorboard,wandb", ("tensorboard", "wandb")),
        ("trackers", "none", ()),
        ("trackers", "", ()),
        ("loss", "none", None),
        ("optimizer_options", "nesterov=true,dampening=0.5", {"nesterov": True, "dampening": 0.5}),
        ("optimizer_options", "none", {}),
        ("optimizer_options.nesterov", "true", {"eps": 1e-9, "nesterov": True}),
        ("optimizer_options.eps", "1e-6", {"eps": 1e-6}),
        ("optimizer_options.betas", "(0.9, 0.95)", {"eps": 1e-9, "betas": (0.9, 0.95)}),
        ("optimizer_options.kind", "plain", {"eps": 1e-9, "kind": "plain"}),
    ],
)
def test_a_value_is_read_by_the_kind_of_its_field(name: str, text: str, value: Any) -> None:
    got = getattr(apply_overrides(RECIPE, {name: text}), name.partition(".")[0])
    assert got == value
    assert type(got) is type(value)


def test_nothing_else_changes() -> None:
    assert apply_overrides(RECIPE, {"lr": "0.5"}) == replace(RECIPE, lr=0.5)
    assert apply_overrides(RECIPE, {}) == RECIPE


def test_entries_add_up_after_the_whole_mapping_was_set() -> None:
    made = apply_overrides(RECIPE, {"optimizer_options": "nesterov=true", "optimizer_options.dampening": "0"})
    assert made.optimizer_options == {"nesterov": True, "dampening": 0}


def test_steps_take_the_place_of_epochs_and_it_is_said() -> None:
    made = apply_overrides(RECIPE, {"steps": "100"})
    assert (made.epochs, made.steps) == (None, 100)
    assert override_notes(RECIPE, {"steps": "100"}) == ["steps=100 replaces the recipe's epochs=10."]


def test_epochs_take_the_place_of_steps() -> None:
    stepped = replace(RECIPE, epochs=None, steps=100)
    assert (apply_overrides(stepped, {"epochs": "5"}).epochs, apply_overrides(stepped, {"epochs": "5"}).steps) == (
        5,
        None,
    )
    assert override_notes(stepped, {"epochs": "5"}) == ["epochs=5 replaces the recipe's steps=100."]


def test_both_lengths_at_once_are_left_for_the_vet_to_refuse() -> None:
    made = apply_overrides(RECIPE, {"epochs": "5", "steps": "100"})
    assert (made.epochs, made.steps) == (5, 100)
    assert override_notes(RECIPE, {"epochs": "5", "steps": "100"}) == []


def test_more_of_the_same_length_is_nothing_to_remark() -> None:
    assert override_notes(RECIPE, {"epochs": "20", "lr": "1"}) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("learning_rate", "lr"),
        ("batch_size", "batch"),
        ("num_epochs", "epochs"),
        ("max_grad_norm", "clip"),
        ("gradient_accumulation_steps", "accumulate"),
        ("num_workers", "workers"),
        ("scheduler", "schedule"),
        ("amp", "precision"),
        ("early_stopping", "patience"),
        ("warmup_steps", "warmup"),
        ("wieght_decay", "weight_decay"),
        ("Epochs", "epochs"),
        ("optimiser", "optimizer"),
    ],
)
def test_an_unknown_name_is_answered_with_the_one_that_was_meant(name: str, meant: str) -> None:
    assert f"unknown recipe field '{name}'. Did you mean {meant}?" in refused(**{name: "1"})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("lr", "fast", "lr=fast is not valid: it is a number, as in 3e-4"),
        ("lr", "", "lr= is not valid: it is a number"),
        ("batch", "1.5", "batch=1.5 is not valid: it is a whole number"),
        ("batch", "none", "batch=none is not valid: it is a whole number"),
        ("balanced", "maybe", "balanced=maybe is not valid: it is true or false"),
        ("schedule", "cosin", "schedule=cosin is not valid. Did you mean cosine? There are: constant, step,"),
        ("schedule", "OneCycle", "Did you mean one-cycle?"),
        ("precision", "half", "Did you mean fp16?"),
        ("precision", "bfloat16", "Did you mean bf16?"),
        ("compile", "true", "Did you mean default?"),
        ("compile", "max_autotune", "Did you mean max-autotune?"),
        ("where", "residnt", "Did you mean resident?"),
        ("task", "classification", "Did you mean multiclass?"),
        ("trackers", "tensorboard,tb", "trackers=tensorboard,tb is not valid. Did you mean tensorboard?"),
        ("betas", "0.9", "it is 2 numbers with a comma between them"),
        ("betas", "0.9,x", "betas=0.9,x is not valid: it is a number"),
        ("optimizer_options", "nesterov", "it is NAME=VALUE"),
        ("lr.x", "3", "lr has no entries: write --set lr=VALUE"),
        ("model", "Net", "model=Net is not valid: set it in the recipe's file"),
        ("hooks", "x", "set it in the recipe's file"),
    ],
)
def test_a_value_that_cannot_be_is_told_with_what_to_write(name: str, text: str, said: str) -> None:
    assert said in refused(**{name: text})


def test_all_mistakes_are_told_at_once_and_those_of_the_recipe_too() -> None:
    said = refused(learning_rate="1", lr="fast", schedule="cosin", batch="0", device="gpu")
    assert said.count("\n  - ") == 5
    assert "batch is 0" in said
    assert "Did you mean cuda?" in said
    assert "?." not in said


def test_no_field_makes_the_reader_fail_otherwise_than_by_a_refusal() -> None:
    for name in field_types():
        for text in ("", "x", "1", "none", "true", "a=b", "(,)"):
            with contextlib.suppress(BadRecipe):
                assert isinstance(apply_overrides(RECIPE, {name: text}), Recipe)
