"""`--set name=value`: a recipe with other values, read by the types of its fields.

lr=3e-4                            a number                       epochs=none                       nothing, where a
field may be None schedule=cosine                    one of several names           betas=0.9,0.95
several values optimizer_options.nesterov=true    one entry of a mapping         optimizer_options=nesterov=true   the
whole mapping
"""

from __future__ import annotations

import ast
import types
import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from trueloop.errors import BadRecipe, did_you_mean
from trueloop.recipe.recipe import Recipe, field_types
from trueloop.recipe.validate import bullet_list, find_problems, suggestion

__all__ = ["apply_overrides", "override_notes"]

_MEANT: Final[Mapping[str, str]] = {
    "learning_rate": "lr",
    "max_lr": "lr",
    "batch_size": "batch",
    "bs": "batch",
    "train_batch_size": "batch",
    "num_epochs": "epochs",
    "max_epochs": "epochs",
    "num_train_epochs": "epochs",
    "n_epochs": "epochs",
    "max_steps": "steps",
    "num_steps": "steps",
    "iterations": "steps",
    "max_iters": "steps",
    "wd": "weight_decay",
    "l2": "weight_decay",
    "gradient_accumulation_steps": "accumulate",
    "accumulate_grad_batches": "accumulate",
    "grad_accum": "accumulate",
    "gradient_clip_val": "clip",
    "max_grad_norm": "clip",
    "grad_clip": "clip",
    "scheduler": "schedule",
    "lr_scheduler": "schedule",
    "warmup_steps": "warmup",
    "min_lr": "final",
    "amp": "precision",
    "dtype": "precision",
    "fp16": "precision",
    "bf16": "precision",
    "mixed_precision": "precision",
    "num_workers": "workers",
    "early_stopping": "patience",
    "random_seed": "seed",
    "loss_fn": "loss",
    "criterion": "loss",
    "opt": "optimizer",
    "optim": "optimizer",
    "ema_decay": "ema",
    "gradient_checkpointing": "activation_checkpointing",
    "log_interval": "log_every",
    "logging_steps": "log_every",
    "eval_every": "evaluate_every",
    "eval_interval": "evaluate_every",
    "eval_steps": "evaluate_every",
    "val_check_interval": "evaluate_every",
    "save_steps": "save_every",
    "save_total_limit": "keep",
    "sampler": "balanced",
    "logger": "trackers",
    "report_to": "trackers",
    "pretrained": "start_from",
    "init_from": "start_from",
    "checkpoint": "start_from",
    "smoothing": "label_smoothing",
    "torch_compile": "compile",
    "dataset": "data",
}
"""What other frameworks call it -> what a recipe calls it. A suggestion only: one thing has one name here."""

_NOTHING: Final = ("none", "off", "null", "")
_LENGTHS: Final = {"epochs": "steps", "steps": "epochs"}
"""Two ways to say how long: setting one takes the other back."""


def apply_overrides(recipe: Recipe, settings: Mapping[str, str]) -> Recipe:
    """Raises BadRecipe with all wrong names and values at once, and with whatever else is then wrong with the
    recipe."""
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    for name, text in settings.items():
        field, _, entry = name.partition(".")
        try:
            values[field] = _entered(values.get(field, getattr(recipe, field, None)), field, entry, text)
        except ValueError as error:
            mistakes.append(str(error))
    for name, other in _LENGTHS.items():
        if values.get(name) is not None and other not in settings:
            values[other] = None
    made = replace(recipe, **values)
    if mistakes:
        told = bullet_list([*mistakes, *find_problems(made)])
        raise BadRecipe(
            f"The recipe {recipe.name!r} cannot be set so:{told}\nNothing was run: `--show` lists the fields."
        )
    return made


def override_notes(recipe: Recipe, settings: Mapping[str, str]) -> list[str]:
    """What settings do besides setting what they name."""
    return [
        f"{name}={settings[name]} takes the place of the recipe's {other}={getattr(recipe, other)}."
        for name, other in _LENGTHS.items()
        if name in settings
        and other not in settings
        and settings[name].lower() not in _NOTHING
        and getattr(recipe, other) is not None
    ]


def _entered(before: Any, field: str, entry: str, text: str) -> Any:
    """The new value of a field; with an entry, the mapping that it was, and that entry."""
    if field not in field_types():
        meant = _MEANT.get(field.lower())
        hint = f" Did you mean {meant}?" if meant else did_you_mean(field.lower(), field_types())
        raise ValueError(f"a recipe has no {field!r}.{hint}")
    if entry:
        if not isinstance(before, Mapping):
            raise ValueError(f"{field} has no entries: write --set {field}=VALUE")
        return {**before, entry: _guessed(text)}
    try:
        return _read(text.strip(), field_types()[field], field)
    except ValueError as error:
        raise ValueError(f"{field} cannot be {text!r}{error}") from None


def _read(text: str, kind: Any, field: str) -> Any:
    """The text as a value of that kind. Raises ValueError with the rest of a sentence."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if type(None) in inside and text.lower() in _NOTHING:
            return None
        return _read(text, next(part for part in inside if part is not type(None)), field)
    if origin is Literal:
        if text in inside:
            return text
        raise ValueError(f".{suggestion(field, text, inside)}")
    if origin is tuple:
        return _several(text, inside, field)
    if origin is Mapping:
        return _entries(text)
    if kind is bool:
        return _truth(text)
    if kind in (int, float):
        return _number(text, kind)
    if kind is str:
        return text
    raise ValueError(": it can be set in a recipe's file only")


def _truth(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.lower() not in words:
        raise ValueError(": it is true or false")
    return words[text.lower()]


def _number(text: str, kind: type[int] | type[float]) -> int | float:
    try:
        number = float(text) if kind is float else int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f": it is a {'whole number, as in 10' if kind is int else 'number, as in 3e-4'}") from None
        if not number.is_integer():
            raise ValueError(": it is a whole number, as in 10") from None
        number = int(number)  # 1e4 is how many people write ten thousand
    return number


def _several(text: str, inside: tuple[Any, ...], field: str) -> tuple[Any, ...]:
    plain = text.strip("()[] ")
    parts = (
        [] if plain.lower() in _NOTHING else [part.strip().strip("'\"") for part in plain.split(",") if part.strip()]
    )
    values = tuple(_read(part, inside[0], field) for part in parts)
    if inside[1:] != (...,) and len(values) != len(inside):
        raise ValueError(f": it is {len(inside)} numbers with a comma between them, as in 0.9,0.999")
    return values


def _entries(text: str) -> dict[str, Any]:
    if text.lower() in _NOTHING:
        return {}
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and sign for name, sign, _ in pairs):
        raise ValueError(": it is NAME=VALUE, with commas between several")
    return {name.strip(): _guessed(value) for name, _, value in pairs}


def _guessed(text: str) -> Any:
    """What a value of an open mapping most likely is: torch tells if it is not."""
    words = {"true": True, "yes": True, "false": False, "no": False, "none": None}
    text = text.strip()
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
