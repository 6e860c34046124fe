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

from trueloop.errors import BadRecipe
from trueloop.recipe.field_names import field_meant
from trueloop.recipe.parse import NOTHING, guess_value, read_value
from trueloop.recipe.recipe import Recipe, field_types
from trueloop.recipe.validate import bullet_list, find_problems

__all__ = ["apply_overrides", "override_notes"]

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
        raise ValueError(f"unknown recipe field {field!r}.{field_meant(field, [*own, *field_types()])}")


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
