"""Where recipes are found: by the name of a bundled one, or in a file of the user's; whatever is wrong there is said in
a sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trueloop.errors import BadRecipe
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.catalogue import bundled, find_recipe, summaries

GOOD = """\
from trueloop.recipe.recipe import Recipe

recipe = Recipe(name="mine", model=dict, data=str, epochs=1)
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """A recipe's file becomes a module, and its folder a place to import from: not for the next test."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("mine", "beside")):
            del sys.modules[name]


def written(folder: Path, text: str, name: str = "mine_recipe.py") -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def refused(word: str, **arguments: str) -> BadRecipe:
    with pytest.raises(BadRecipe) as raised:
        find_recipe(word, arguments)
    assert "Nothing was run" in str(raised.value)
    return raised.value


# -- bundled --


@pytest.mark.parametrize("name", [name for name in bundled() if name != "tabular"])
def test_a_bundled_recipe_is_found_by_its_name(name: str) -> None:
    recipe = find_recipe(name, {})
    assert isinstance(recipe, Recipe)
    assert recipe.name == name


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_recipe_says_in_one_line_what_it_is(name: str) -> None:
    line = summaries()[name]
    assert len(line) > 20
    assert not line.startswith(name)


def test_the_summaries_load_no_torch() -> None:
    code = (
        "import sys; from trueloop.recipes.catalogue import summaries; assert summaries(); assert 'torch' not in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_name_is_answered_with_the_nearest_and_all() -> None:
    said = str(refused("digit"))
    assert "There is no recipe 'digit'. Did you mean digits?" in said
    assert all(name in said for name in bundled())


@pytest.mark.parametrize("word", ["catalogue", "__init__", "", "../digits"])
def test_a_file_of_the_house_that_is_no_recipe_is_none(word: str) -> None:
    assert "There is no recipe" in str(refused(word))


def test_a_file_named_without_its_ending_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)
    assert "Did you mean mine_recipe.py?" in str(refused("mine_recipe"))


# -- arguments --


def test_arguments_that_a_recipe_does_not_take_are_refused_as_they_were_typed(tmp_path: Path) -> None:
    assert "The recipe digits takes no --target (y)" in str(refused("digits", target="y"))
    assert "takes no TABLE (a.csv) and no --target (y)" in str(refused("digits", table="a.csv", target="y"))
    assert "takes no --target (y)" in str(refused(written(tmp_path, GOOD), target="y"))


def test_arguments_that_a_recipe_misses_are_told_with_the_command() -> None:
    assert "The recipe tabular needs TABLE and --target" in str(refused("tabular"))
    assert "The recipe tabular needs --target" in str(refused("tabular", table="a.csv"))


def test_a_function_of_the_users_gets_its_arguments(tmp_path: Path) -> None:
    text = GOOD.replace("recipe = Recipe(name=", "def recipe(target='x'):\n    return Recipe(name=target + ")
    assert find_recipe(written(tmp_path, text), {"target": "y"}).name == "ymine"
    assert find_recipe(written(tmp_path, text), {}).name == "xmine"


def test_a_function_that_wants_what_nobody_can_give_is_refused(tmp_path: Path) -> None:
    said = str(refused(written(tmp_path, "def recipe(width):\n    return None\n")))
    assert "recipe() has parameters without a value: width" in said


# -- the user's file --


def test_a_file_with_a_recipe_is_a_recipe(tmp_path: Path) -> None:
    assert find_recipe(written(tmp_path, GOOD), {}).name == "mine"


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    written(tmp_path, "NAME = 'from beside'\n", "beside_it.py")
    text = "from beside_it import NAME\n" + GOOD.replace('"mine"', "NAME")
    assert find_recipe(written(tmp_path, text), {}).name == "from beside"


def test_its_classes_can_be_found_again_by_workers(tmp_path: Path) -> None:
    import pickle

    recipe = find_recipe(
        written(
            tmp_path, GOOD.replace("recipe =", "class Net:\n    pass\n\nrecipe =").replace("model=dict", "model=Net")
        ),
        {},
    )
    assert pickle.loads(pickle.dumps(recipe.model)) is recipe.model


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "has no `recipe`. Nothing was run: end the file with `recipe = Recipe("),
        ("recipe = 3\n", "has a `recipe` of type int"),
        ("def recipe():\n    return None\n", "recipe() returned a NoneType, not a Recipe"),
    ],
)
def test_a_file_without_a_recipe_is_told_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    error = refused(written(tmp_path, text))
    assert said in str(error)
    assert error.__cause__ is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [("def f(:\n", SyntaxError), ("import no_such_package\n", ModuleNotFoundError), ("1 / 0\n", ZeroDivisionError)],
)
def test_what_the_file_raises_is_kept_as_the_cause(tmp_path: Path, text: str, kind: type[Exception]) -> None:
    error = refused(written(tmp_path, text))
    assert isinstance(error.__cause__, kind)
    assert f"cannot be loaded: {kind.__name__}" in str(error)
    assert "mine_recipe" not in sys.modules


def test_what_its_function_raises_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        find_recipe(written(tmp_path, "def recipe():\n    return 1 / 0\n"), {})


def test_a_file_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    assert "Did you mean mine_recipe.py?" in str(refused(str(tmp_path / "mine_recip.py")))
    assert "There is no file" in str(refused("nowhere/at/all.py"))


def test_a_file_called_like_a_module_in_use_is_refused(tmp_path: Path) -> None:
    import random

    assert "rename the file" in str(refused(written(tmp_path, GOOD, "random.py")))
    assert sys.modules["random"] is random


def test_the_same_file_may_be_loaded_again(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    find_recipe(file, {})
    written(tmp_path, GOOD.replace("mine", "other"))
    assert find_recipe(file, {}).name == "other"
    assert sys.path.count(str(tmp_path)) == 1
