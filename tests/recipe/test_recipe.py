"""The recipe as a value: its meanings, kinds and defaults are read from one place, and it can be shown without being
run."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, replace
from functools import partial

import pytest

from trueloop.hook import Hook
from trueloop.recipe.recipe import GROUPS, DataRequest, Recipe, defaults, describe, field_docs, field_types


class Net:
    pass


def read(request: DataRequest) -> None:
    return None


RECIPE = Recipe(name="mine", model=Net, data=read, epochs=1)
NAMES = [each.name for each in fields(Recipe)]


def test_a_recipe_cannot_be_changed_only_varied() -> None:
    with pytest.raises(FrozenInstanceError):
        RECIPE.lr = 1.0  # type: ignore[misc]
    assert replace(RECIPE, lr=1.0).lr == 1.0
    assert RECIPE.lr == defaults()["lr"]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_says_in_one_line_what_it_means(name: str) -> None:
    meaning = field_docs()[name]
    assert len(meaning) > 10
    assert meaning.endswith(".")
    assert "\n" not in meaning


def test_meanings_and_kinds_know_the_same_fields_in_the_same_order() -> None:
    assert list(field_docs()) == NAMES
    assert list(field_types()) == NAMES


def test_only_name_model_and_data_must_be_given() -> None:
    assert set(NAMES) - set(defaults()) == {"name", "model", "data"}


def test_groups_begin_at_fields_in_their_order() -> None:
    starts = [NAMES.index(first) for _, first in GROUPS]
    assert starts == sorted(starts)
    assert starts[0] == 0


def test_a_description_is_plain_enough_for_json() -> None:
    class Watch(Hook):
        pass

    recipe = replace(RECIPE, hooks=(Watch(),), optimizer_options={"eps": 1e-9}, optimizer=partial(print, end=""))
    plain = json.loads(json.dumps(describe(recipe)))
    assert list(plain) == NAMES
    assert plain["model"].endswith("test_recipe.Net")
    assert plain["data"].endswith("test_recipe.read")
    assert plain["betas"] == [0.9, 0.999]
    assert plain["optimizer_options"] == {"eps": 1e-9}
    assert plain["optimizer"] == "builtins.print(end='')"
    assert plain["hooks"][0].endswith("Watch")
    assert plain["loss"] is None


def test_two_descriptions_differ_exactly_where_the_recipes_do() -> None:
    one, other = describe(RECIPE), describe(replace(RECIPE, seed=1, schedule="cosine"))
    assert {name for name in one if one[name] != other[name]} == {"seed", "schedule"}


def test_data_are_looked_for_nowhere_and_fetched_never_unless_asked() -> None:
    assert DataRequest() == DataRequest(folder=None, download=False, seed=0)
