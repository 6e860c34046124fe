"""Every wrong recipe is refused before anything runs, with all its mistakes at once. Right ones pass."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import torch

from trueloop.data.source import Facts
from trueloop.engine.precision import PRECISIONS
from trueloop.engine.schedule import SHAPES
from trueloop.engine.task import TASKS, build_task
from trueloop.errors import BadRecipe
from trueloop.recipe.recipe import Recipe, defaults, field_types
from trueloop.recipe.validate import METRICS, bullet_list, find_problems, unused_fields, validate
from trueloop.recipes.catalogue import bundled, find_recipe

RECIPE = Recipe(name="mine", model=dict, data=str, epochs=10)
NAN, INFINITY = float("nan"), float("inf")


def told(**values: Any) -> str:
    """The one mistake of a recipe with these values."""
    found = find_problems(replace(RECIPE, **values))
    assert len(found) == 1, found
    return found[0]


def test_a_recipe_with_nothing_but_defaults_passes() -> None:
    assert find_problems(RECIPE) == []
    assert validate(RECIPE) is RECIPE


@pytest.mark.parametrize("name", [name for name in bundled() if name != "tabular"])
def test_every_bundled_recipe_passes(name: str) -> None:
    recipe = find_recipe(name, {})
    assert find_problems(recipe) == []
    assert unused_fields(recipe) == []


@pytest.mark.parametrize(
    "values",
    [
        {"epochs": None, "steps": 100, "warmup": 99},
        {"batch": 8, "accumulate": 8},
        {"lr": 1},
        {"gamma": 0.0, "schedule": "step"},
        {"gamma": 1.0, "schedule": "step"},
        {"seed": 2**63 - 1},
        {"ema": 0.999, "clip": 0.1, "patience": 1},
        {"label_smoothing": 0.99},
        {"task": "binary", "balanced": True, "metric": "f1"},
        {"task": "regression", "metric": "r2"},
        {"loss": max, "metric": "loss", "balanced": True},
        {"device": "cuda:3", "precision": "fp16"},
        {"device": "cpu", "precision": "bf16"},
        {"compile": "default", "compile_dynamic": False, "compile_fullgraph": True},
        {"where": "loader", "workers": 4},
        {"schedule": "plateau", "plateau": 2, "patience": 3},
        {"on_nonfinite": "rollback", "epochs": None, "steps": 100, "save_every": 50},
        {"optimizer": torch.optim.SGD, "trackers": ()},
        {"statistics_every": 0, "workers": 0, "warmup": 0, "step_size": 0, "weight_decay": 0},
    ],
)
def test_what_is_right_passes(values: dict[str, Any]) -> None:
    assert find_problems(replace(RECIPE, **values)) == []


# -- kinds --


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"lr": "3e-4"}, "lr cannot be '3e-4': it is a number"),
        ({"lr": None}, "lr cannot be None: it is a number"),
        ({"batch": 6.5}, "batch cannot be 6.5: it is a whole number"),
        ({"batch": True}, "batch cannot be True: it is a whole number"),
        ({"epochs": "5"}, "epochs cannot be '5': it is a whole number or None"),
        ({"clip": "1"}, "clip cannot be '1': it is a number or None"),
        ({"balanced": 1}, "balanced cannot be 1: it is True or False"),
        ({"betas": (0.9,)}, "betas cannot be (0.9,): it is a tuple of 2 numbers"),
        ({"betas": [0.9, 0.99]}, "betas cannot be [0.9, 0.99]: it is a tuple of 2 numbers"),
        ({"optimizer": None}, "optimizer cannot be None: it is a text or a function"),
        ({"optimizer_options": 3}, "optimizer_options cannot be 3: it is a dict"),
        ({"model": 3}, "model cannot be 3: it is a function"),
        ({"data": object()}, "data cannot be a object: it is a function"),
        ({"loss": "mse"}, "loss cannot be 'mse': it is a function or None"),
        ({"hooks": (3,)}, "hooks cannot be 3: it is a Hook"),
        ({"hooks": print}, "hooks cannot be a builtin_function_or_method: it is a tuple"),
        ({"trackers": ("tb",)}, "trackers cannot be 'tb'. Did you mean tensorboard?"),
        ({"trackers": "wandb"}, "trackers cannot be 'wandb': it is a tuple"),
        ({"task": "regresion"}, "task cannot be 'regresion'. Did you mean regression? There are: multiclass,"),
        ({"task": None}, "task cannot be None: it is one of multiclass,"),
        ({"schedule": "cos"}, "Did you mean cosine?"),
        ({"precision": "float16"}, "Did you mean fp16?"),
        ({"compile": "max-autotun"}, "Did you mean max-autotune?"),
        ({"on_nonfinite": "raise"}, "Did you mean stop?"),
        ({"where": "device"}, "Did you mean resident?"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_the_right_one(values: dict[str, Any], said: str) -> None:
    assert said in told(**values)


@pytest.mark.parametrize("name", [name for name in field_types() if name in defaults()])
@pytest.mark.parametrize(
    "value",
    [object(), "nonsense", -1, NAN, (), None, [], {}],
    ids=["object", "text", "negative", "nan", "tuple", "none", "list", "dict"],
)
def test_no_value_makes_the_vet_itself_fail(name: str, value: Any) -> None:
    found = find_problems(replace(RECIPE, **{name: value}))
    assert all(isinstance(said, str) and said for said in found)


# -- ranges --


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lr", [0, -1, NAN, INFINITY]),
        ("weight_decay", [-0.1, NAN]),
        ("momentum", [-0.1, 1.0]),
        ("betas", [(0.9, 1.0), (-0.1, 0.9)]),
        ("label_smoothing", [-0.1, 1.0]),
        ("warmup", [-1, 1.5]),
        ("final", [-0.1, 1.1]),
        ("step_size", [-1]),
        ("gamma", [-0.1, 1.1]),
        ("plateau", [0]),
        ("epochs", [0, -1]),
        ("batch", [0]),
        ("accumulate", [0]),
        ("clip", [0, -1.0, INFINITY]),
        ("ema", [0.0, 1.0, 1]),
        ("patience", [0]),
        ("max_nonfinite", [0]),
        ("workers", [-1]),
        ("seed", [-1, 2**63]),
        ("log_every", [0]),
        ("evaluate_every", [0]),
        ("save_every", [0]),
        ("keep", [0]),
        ("statistics_every", [-1]),
    ],
)
def test_a_number_out_of_its_range_is_refused_with_the_range(name: str, values: list[Any]) -> None:
    for value in values:
        assert told(**{name: value}).startswith(f"{name} is {value!r}: ")


def test_steps_have_a_range_too() -> None:
    assert "steps is 0" in told(epochs=None, steps=0)


# -- what goes together --


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"steps": 100}, "epochs=10 and steps=100 both set the length: set one of them"),
        ({"epochs": None}, "the recipe has no length: set epochs"),
        ({"batch": 4, "accumulate": 8}, "a batch of 4 cannot be split into accumulate=8 micro-batches"),
        ({"batch": 4, "accumulate": 8}, "for 8 times as many samples per step set batch=32"),
        ({"epochs": None, "steps": 100, "warmup": 100}, "warmup=100 is as long as the run (steps=100)"),
        ({"epochs": None, "steps": 100, "on_nonfinite": "rollback", "save_every": 100}, "on_nonfinite=skip"),
        (
            {"task": "regression", "label_smoothing": 0.1},
            "label_smoothing=0.1 is for task=multiclass, not regression: set 0",
        ),
        ({"loss": max, "label_smoothing": 0.1}, "label_smoothing=0.1 has no effect on a loss of your own"),
        ({"task": "regression", "balanced": True}, "task=regression has no classes"),
        ({"task": "language", "balanced": True}, "task=language has no classes"),
        ({"schedule": "plateau", "plateau": 3, "patience": 3}, "set a patience of more than 3"),
        ({"device": "cpu", "precision": "fp16"}, "set precision=bf16"),
        ({"device": "cpu", "precision": "tf32"}, "not device=cpu: set precision=fp32"),
        ({"device": "mps", "precision": "tf32"}, "not device=mps: set precision=fp32"),
        ({"compile_fullgraph": True}, "compile_fullgraph=True does nothing while compile is off"),
        ({"compile_dynamic": False}, "compile_dynamic=False does nothing while compile is off"),
        ({"where": "resident", "workers": 2}, "set workers=0, or where=loader"),
        ({"device": "gpu"}, "device cannot be 'gpu'. Did you mean cuda?"),
        ({"device": "cuda:x"}, "device cannot be 'cuda:x'"),
        ({"metric": "acuracy"}, "metric cannot be 'acuracy' with task=multiclass. Did you mean accuracy?"),
        ({"metric": "mae"}, "There are: accuracy, loss"),
        ({"metric": "accuracy", "loss": max}, "metric cannot be 'accuracy' with a loss of your own. There are: loss"),
        ({"name": ""}, "name is ''"),
        ({"name": "a/b"}, "no slash and no leading dot"),
        ({"start_from": "nowhere/at/all"}, "there is no such file or folder"),
        ({"model": torch.nn.Linear(2, 2)}, "model is a Linear built before the seed is set"),
        ({"loss": torch.nn.MSELoss}, "loss is the class MSELoss: create one, as in loss=MSELoss()"),
    ],
)
def test_values_that_do_not_go_together_are_refused_with_the_cure(values: dict[str, Any], said: str) -> None:
    assert said in told(**values)


def test_a_checkpoint_to_start_from_must_be_there(tmp_path: Path) -> None:
    assert find_problems(replace(RECIPE, start_from=str(tmp_path))) == []


# -- all at once --


def test_mistakes_of_all_kinds_are_told_together_and_each_once() -> None:
    mistakes: dict[str, Any] = {"lr": "x", "keep": 0, "steps": 5, "device": "gpu", "accumulate": 128}
    wrong = replace(RECIPE, **mistakes, precision="half", compile_fullgraph=True)  # type: ignore[arg-type]
    with pytest.raises(BadRecipe) as raised:
        validate(wrong, ["and one that only the machine knows"])
    said = str(raised.value)
    assert said.startswith("The recipe 'mine' cannot be trained:\n  - ")
    assert said.count("\n  - ") == 8
    assert said.endswith(".\nNothing was run.")


def test_a_wrong_length_is_not_told_twice() -> None:
    assert len(find_problems(replace(RECIPE, epochs="5", steps=None))) == 1  # type: ignore[arg-type]
    assert len(find_problems(replace(RECIPE, epochs=0, steps=None))) == 1


def test_a_sentence_that_ends_by_asking_gets_no_full_stop() -> None:
    assert bullet_list(["did you mean x?", "write y"]) == "\n  - did you mean x?\n  - write y."


# -- what is said, and not refused --


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"momentum": 0.95}, "momentum=0.95 does nothing with optimizer=adamw: it is for momentum."),
        ({"betas": (0.5, 0.9), "optimizer": "sgd"}, "betas=(0.5, 0.9) does nothing with optimizer=sgd"),
        ({"final": 0.1}, "final=0.1 does nothing with schedule=constant"),
        ({"step_size": 5, "schedule": "cosine"}, "step_size=5 does nothing with schedule=cosine"),
        ({"gamma": 0.5}, "gamma=0.5 does nothing"),
        ({"plateau": 5}, "plateau=5 does nothing"),
        ({"max_nonfinite": 3}, "max_nonfinite=3 does nothing with on_nonfinite=stop"),
    ],
)
def test_a_value_that_does_nothing_is_said(values: dict[str, Any], said: str) -> None:
    recipe = replace(RECIPE, **values)
    assert find_problems(recipe) == []
    assert [note for note in unused_fields(recipe) if note.startswith(said)]


def test_values_that_are_used_are_no_remark() -> None:
    assert (
        unused_fields(replace(RECIPE, optimizer="momentum", momentum=0.95, schedule="step", gamma=0.5, step_size=3))
        == []
    )
    assert unused_fields(replace(RECIPE, optimizer=torch.optim.SGD, betas=(0.1, 0.2))) == []


# -- one fact in one place --


@pytest.mark.parametrize(("name", "known"), [("schedule", tuple(SHAPES)), ("precision", PRECISIONS), ("task", TASKS)])
def test_the_engine_knows_the_very_names_that_the_recipe_allows(name: str, known: tuple[str, ...]) -> None:
    kind = field_types()[name]
    words = next(part for part in (kind, *get_args(kind)) if get_origin(part) is Literal)
    assert set(get_args(words)) == set(known)


@pytest.mark.parametrize("task", TASKS)
def test_the_metrics_that_may_be_asked_for_are_those_that_the_task_gives(task: Any) -> None:
    built = build_task(replace(RECIPE, task=task), Facts())
    totals = dict.fromkeys(("loss", "count", *built.sums), 1.0)
    assert set(METRICS[task]) == set(built.metrics(totals))
    assert METRICS[task][0] == built.metric


def test_vetting_needs_no_torch() -> None:
    code = (
        "import sys; from trueloop.recipe.recipe import Recipe; from trueloop.recipe.overrides import "
        "apply_overrides; from trueloop.recipe.validate import validate;validate(apply_overrides(Recipe(name='x', "
        "model=dict, data=dict), {'epochs': '3'})); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
