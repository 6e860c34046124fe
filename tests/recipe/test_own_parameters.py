"""Hyperparameters of one's own: typed, fed by --set, refused in a sentence, and part of the recipe from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from trueloop.errors import BadRecipe
from trueloop.recipe.own_parameters import own_values
from trueloop.recipe.recipe import Recipe, describe
from trueloop.recipes.catalogue import find_recipe


def take(  # type: ignore[no-untyped-def]
    bare=3,
    switch: bool = False,
    size: int = 64,
    rate: float = 0.1,
    word: str = "a",
    kind: Literal["gelu", "relu"] = "relu",
    depth: Literal[1, 2] = 1,
    sizes: tuple[int, ...] = (1, 2),
    mixed: tuple[int, str] = (1, "a"),
    several: list[float] = [],  # noqa: B006
    maybe: int | None = None,
    either: int | str = 1,
    *,
    open=None,
) -> None: ...


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("bare", "5", 5),
        ("switch", "true", True),
        ("size", "1e3", 1000),
        ("rate", "1", 1.0),
        ("word", "12", "12"),
        ("kind", "gelu", "gelu"),
        ("depth", "2", 2),
        ("sizes", "4,5,6", (4, 5, 6)),
        ("sizes", "none", ()),
        ("mixed", "(4,b)", (4, "b")),
        ("several", "0.5, 1", [0.5, 1.0]),
        ("maybe", "none", None),
        ("maybe", "7", 7),
        ("either", "x", "x"),
        ("open", "[1, 2]", [1, 2]),
    ],
)
def test_a_text_is_read_by_annotation_or_default(name: str, text: str, value: Any) -> None:
    found = own_values(take, {name: text}, {})
    assert found[name] == value
    assert type(found[name]) is type(value)
    assert found | {name: None} == own_values(take, {}, {}) | {name: None}  # the others have their defaults


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("size", "big", "size=big is not valid: it is a whole number"),
        ("kind", "gely", "Did you mean gelu?"),
        ("switch", "perhaps", "it is true or false"),
        ("mixed", "1", "it is 2 values"),
    ],
)
def test_a_wrong_value_is_a_sentence(name: str, text: str, said: str) -> None:
    with pytest.raises(BadRecipe) as raised:
        own_values(take, {name: text, "size": text if name == "size" else "3"}, {})
    assert said in str(raised.value)
    assert "Nothing was run" in str(raised.value)


def test_an_annotation_that_names_nothing_is_a_sentence() -> None:
    def broken(size: Nowhere = 3) -> None: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(BadRecipe, match="its annotation 'Nowhere' cannot be read"):
        own_values(broken, {"size": "3"}, {})


def test_a_field_is_no_parameter_and_a_parameter_needs_a_value() -> None:
    def broken(width, lr=1e-3): ...  # type: ignore[no-untyped-def]

    with pytest.raises(BadRecipe) as raised:
        own_values(broken, {"lr": "1"}, {})
    assert "lr is a field of every recipe" in str(raised.value)
    assert "without a value: width. Type --set width=VALUE" in str(raised.value)
    assert own_values(lambda width: width, {"width": "4"}, {}) == {"width": 4}


FILE = """
from trueloop.recipe.recipe import Recipe

def recipe(hidden: int = 64, deep: bool = False) -> Recipe:
    return Recipe("mine_own", model=dict, data=str, epochs=hidden if deep else 1)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    import sys

    path = tmp_path / "mine_own.py"
    path.write_text(FILE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine_own", raising=False)
    return str(path)


def test_fields_and_own_parameters_are_set_together_and_described(file: str) -> None:
    recipe = find_recipe(file, {}, {"hidden": "128", "lr": "0.5", "deep": "yes"})
    assert (recipe.epochs, recipe.lr) == (128, 0.5)
    assert describe(recipe)["hyperparameters"] == {"hidden": 128, "deep": True}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hiden", "unknown recipe field 'hiden'. Did you mean hidden?"),
        ("learning_rate", "Did you mean lr?"),
        ("hyperparameters", "are set by their names: hidden, deep"),
        ("hyperparameters.hidden", "are set by their names: hidden, deep"),
    ],
)
def test_an_unknown_name_is_compared_with_fields_and_parameters(file: str, name: str, said: str) -> None:
    with pytest.raises(BadRecipe) as raised:
        find_recipe(file, {}, {name: "3"})
    assert said in str(raised.value)


def test_called_from_python_they_are_recorded_too(file: str) -> None:
    from trueloop.recipes.catalogue import load_file

    module = load_file(Path(file))
    assert module.recipe(hidden=9).hyperparameters == {"hidden": 9, "deep": False}
    assert Recipe("x", model=dict, data=str).hyperparameters == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epoch": 3}, "A recipe has no field 'epoch'. Did you mean epochs?"),
        ({"batch_size": 3}, "Did you mean batch?"),
        ({"epoch": 3, "zzzzz": 1}, "a recipe has no field 'zzzzz'."),
    ],
)
def test_an_unknown_field_in_python_gets_did_you_mean(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRecipe) as raised:
        Recipe("x", model=dict, data=str, **given)
    assert said in str(raised.value)


def test_a_recipe_without_its_three_required_fields_says_which() -> None:
    with pytest.raises(BadRecipe, match="A recipe needs model and data"):
        Recipe("x")  # type: ignore[call-arg]
