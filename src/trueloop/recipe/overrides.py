"""`--set name=value`: a recipe with other values, parsed by the types of its fields.

lr=3e-4                            a number
epochs=none                        None, where a field may be None
schedule=cosine                    one of several names
betas=0.9,0.95                     several values
optimizer_options.nesterov=true    one entry of a mapping
optimizer_options=nesterov=true    the mapping itself
"""

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

_SYNONYMS: Final = {
    "lr": "learning_rate max_lr",
    "batch": "batch_size bs train_batch_size",
    "epochs": "num_epochs max_epochs num_train_epochs n_epochs",
    "steps": "max_steps num_steps iterations max_iters",
    "weight_decay": "wd l2",
    "accumulate": "gradient_accumulation_steps accumulate_grad_batches grad_accum",
    "clip": "gradient_clip_val max_grad_norm grad_clip",
    "schedule": "scheduler lr_scheduler",
    "warmup": "warmup_steps",
    "final": "min_lr",
    "precision": "amp dtype fp16 bf16 mixed_precision",
    "workers": "num_workers",
    "patience": "early_stopping",
    "seed": "random_seed",
    "loss": "loss_fn criterion",
    "optimizer": "opt optim",
    "ema": "ema_decay",
    "activation_checkpointing": "gradient_checkpointing",
    "log_every": "log_interval logging_steps",
    "evaluate_every": "eval_every eval_interval eval_steps val_check_interval",
    "save_every": "save_steps",
    "keep": "save_total_limit",
    "balanced": "sampler",
    "trackers": "logger report_to",
    "start_from": "pretrained init_from checkpoint",
    "label_smoothing": "smoothing",
    "compile": "torch_compile",
    "data": "dataset",
}
"""A field, and what other frameworks call it. Used in suggestions only."""
_FIELD_OF: Final = {word: field for field, words in _SYNONYMS.items() for word in words.split()}

_NOTHING: Final = ("none", "off", "null", "")
_LENGTHS: Final = {"epochs": "steps", "steps": "epochs"}  # Two ways to set the length: one replaces the other


def apply_overrides(recipe: Recipe, settings: Mapping[str, str]) -> Recipe:
    """Raises BadRecipe with all unknown fields, invalid values and other problems at once."""
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
    changed = replace(recipe, **values)
    if mistakes:
        problems = bullet_list([*mistakes, *find_problems(changed)])
        raise BadRecipe(
            f"These settings do not fit the recipe {recipe.name!r}:{problems}\n"
            "Nothing was run: `--show` lists the fields."
        )
    return changed


def override_notes(recipe: Recipe, settings: Mapping[str, str]) -> list[str]:
    """What settings change besides the field they name."""
    return [
        f"{name}={settings[name]} replaces the recipe's {other}={getattr(recipe, other)}."
        for name, other in _LENGTHS.items()
        if name in settings
        and other not in settings
        and settings[name].lower() not in _NOTHING
        and getattr(recipe, other) is not None
    ]


def _entered(before: Any, field: str, entry: str, text: str) -> Any:
    """The new value of a field; with an entry, the mapping with that entry."""
    if field not in field_types():
        meant = _FIELD_OF.get(field.lower())
        hint = f" Did you mean {meant}?" if meant else did_you_mean(field.lower(), field_types())
        raise ValueError(f"unknown recipe field {field!r}.{hint}")
    if entry:
        if not isinstance(before, Mapping):
            raise ValueError(f"{field} has no entries: write --set {field}=VALUE")
        return {**before, entry: _guessed(text)}
    try:
        return _read(text.strip(), field_types()[field], field)
    except ValueError as error:
        raise ValueError(f"{field}={text} is not valid{error}") from None


def _read(text: str, kind: Any, field: str) -> Any:
    """The text as a value of that type. Raises ValueError with the rest of a sentence."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if type(None) in inside and text.lower() in _NOTHING:
            return None
        if {int, float} <= set(inside):
            number = _number(text, float)
            return int(number) if number == int(number) else number
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
    raise ValueError(": set it in the recipe's file")


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
