"""`--set name=value`: a recipe with other values, parsed by the types of its fields.

lr=3e-4                            a number
epochs=none                        None, where a field may be None
schedule=cosine                    one of several names
betas=0.9,0.95                     several values
optimizer_options.nesterov=true    one entry of a mapping
optimizer_options=nesterov=true    the mapping itself
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from trueloop.errors import BadRecipe, did_you_mean
from trueloop.recipe.parse import NOTHING, guess_value, read_value
from trueloop.recipe.recipe import Recipe, field_types
from trueloop.recipe.validate import bullet_list, find_problems

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

_LENGTHS: Final = {"epochs": "steps", "steps": "epochs"}  # Two ways to set the length: one replaces the other


def apply_overrides(recipe: Recipe, settings: Mapping[str, str]) -> Recipe:
    """Raises BadRecipe with all unknown fields, invalid values and other problems at once."""
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    for name, text in settings.items():
        field, _, entry = name.partition(".")
        try:
            _check_name(field, recipe.hyperparameters)
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
        and settings[name].lower() not in NOTHING
        and getattr(recipe, other) is not None
    ]


def _check_name(field: str, own: Iterable[str]) -> None:
    """`own`: the recipe's own hyperparameters, which its function has been called with."""
    if field in own:
        raise ValueError(f"{field} is a parameter of recipe(): call it with that value, as in recipe({field}=...)")
    if field == "hyperparameters":
        raise ValueError(f"hyperparameters are set by their names: {', '.join(own) or 'this recipe has none'}")
    if field not in field_types():
        raise ValueError(f"unknown recipe field {field!r}.{field_meant(field, own)}")


def field_meant(word: str, own: Iterable[str] = ()) -> str:
    """' Did you mean x?' for a word that is neither a field nor one of the recipe's own hyperparameters."""
    meant = _FIELD_OF.get(word.lower())
    return f" Did you mean {meant}?" if meant else did_you_mean(word.lower(), [*own, *field_types()])


def _entered(before: Any, field: str, entry: str, text: str) -> Any:
    """The new value of a field; with an entry, the mapping with that entry."""
    if entry:
        if not isinstance(before, Mapping):
            raise ValueError(f"{field} has no entries: write --set {field}=VALUE")
        return {**before, entry: guess_value(text)}
    try:
        return read_value(text.strip(), field_types()[field], field)
    except ValueError as error:
        raise ValueError(f"{field}={text} is not valid{error}") from None
