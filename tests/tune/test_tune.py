"""The whole search with its cache and the recipe that it writes, on an imagined machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tune.worlds import CPU, FILE, SAME, recipe, tuning
from trueloop.errors import BadRecipe, Misuse
from trueloop.recipes.catalogue import find_recipe
from trueloop.results.tune import Changes, Trial, Tuning, front, read_tuning, words_of
from trueloop.tune.measurer import FakeMeasurer, FakeTrial
from trueloop.tune.recipe_file import MARK, check_writable, file_for, write_recipe
from trueloop.tune.tune import TuneRequest, cache_key, read_cached, tune, write_cached


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of its own; and files that are modules only while a test is on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "small.py").write_text(FILE, encoding="utf-8")
    yield
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]
    for name in ("digits_tuned", "small_tuned", "apart_tuned"):
        sys.modules.pop(name, None)


def machine(**more: Any) -> FakeMeasurer:
    def world(changes: Changes) -> FakeTrial:
        return FakeTrial(1e-3 / (1.5 if changes.get("compile") == "default" else 1.0))

    return FakeMeasurer(world, batch=32, **more)


def tuned(**asked: Any) -> Tuning:
    return tune(TuneRequest(str(Path("small.py").absolute()), **asked), lambda _: None, machine())


# -- the search, whole --


def test_it_says_what_was_chosen_on_what_and_what_could_not_be_tried() -> None:
    told: list[Trial] = []
    made = tune(TuneRequest(str(Path("small.py").absolute())), told.append, machine())
    assert made.best.changes.get("compile") in ("default", None)
    assert tuple(told) == made.trials
    assert made.place.device == "cpu"
    assert "steps per replay" in {each.knob for each in made.idle}  # CUDA graphs, on a CPU
    assert made.when > 0
    assert made.batches is not None
    assert not made.cached


def test_what_is_known_is_told_from_memory_and_says_so() -> None:
    first = tuned()
    again = tune(TuneRequest(str(Path("small.py").absolute())), lambda _: None, machine(seconds=0.0))
    assert again.cached
    assert replace(again, cached=False) == first


@pytest.mark.parametrize(
    "changes",
    [{"fresh": True}, {"objective": "latency"}, {"seeds": 2}, {"settings": {"lr": "0.1"}}, {"seconds": 900.0}],
    ids=str,
)
def test_another_question_is_measured(changes: dict[str, Any]) -> None:
    tuned()
    assert not tuned(**changes).cached


def test_a_model_that_was_changed_is_measured_anew() -> None:
    tuned()
    Path("small.py").write_text(FILE.replace("nn.ReLU()", "nn.GELU()"), encoding="utf-8")
    del sys.modules["small"]
    assert not tuned().cached


def test_a_shorter_budget_is_answered_by_a_longer_one() -> None:
    tuned(seconds=600.0)
    assert tuned(seconds=60.0).cached


def test_what_is_set_is_fixed_and_told() -> None:
    made = tuned(settings={"threads": "1", "batch": "16"})
    assert made.fixed == {"threads": 1, "batch": 16}
    assert made.batches is None
    assert made.subject.endswith("small.py --set threads=1 --set batch=16")
    assert all("threads" not in trial.changes for trial in made.trials)


def test_a_recipe_that_cannot_be_trained_is_refused_before_anything_is_measured() -> None:
    fake = machine()
    with pytest.raises(BadRecipe, match="cannot be trained"):
        tune(
            TuneRequest(str(Path("small.py").absolute()), settings={"device": "cpu", "precision": "tf32"}),
            lambda _: None,
            fake,
        )
    assert not fake.measured


# -- the cache --


def test_a_damaged_cache_is_no_cache(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "trueloop" / "tunings.json"
    write_cached("key", tuning())
    assert read_cached("key") == tuning()
    assert read_cached("other") is None
    known = json.loads(file.read_text())
    for damage in ("{", "[]", json.dumps({"key": {"trials": []}}), json.dumps({"key": {**known["key"], "winner": 99}})):
        file.write_text(damage)
        assert read_cached("key") is None
        write_cached("other", tuning())
        assert read_cached("other") == tuning()


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    write_cached("key", tuning())
    assert read_cached("key") is None


def test_the_key_holds_all_that_an_answer_depends_on() -> None:
    start = recipe()
    keys = {
        cache_key(start, CPU, "throughput", 3, (), {}),
        cache_key(replace(start, lr=0.1), CPU, "throughput", 3, (), {}),
        cache_key(start, replace(CPU, shapes="other"), "throughput", 3, (), {}),
        cache_key(start, replace(CPU, place=replace(CPU.place, name="other")), "throughput", 3, (), {}),
        cache_key(start, replace(CPU, threads=2), "throughput", 3, (), {}),
        cache_key(start, CPU, "memory", 3, (), {}),
        cache_key(start, CPU, "throughput", 5, (), {}),
        cache_key(start, CPU, "throughput", 3, ("batch",), {}),
        cache_key(start, CPU, "throughput", 3, (), {"lr": "0.01"}),
    }
    assert len(keys) == 9
    assert cache_key(recipe(), CPU, "throughput", 3, (), {}) in keys


# -- the values --


def test_a_tuning_comes_back_from_its_plain_values() -> None:
    made = tuning()
    assert read_tuning(json.loads(json.dumps(made.plain()))) == made


def test_changes_read_as_set_takes_them() -> None:
    assert (
        words_of({"precision": "bf16", "channels_last": True, "clip": None})
        == "precision=bf16 channels_last=true clip=none"
    )
    assert (
        words_of({"optimizer_options": {"fused": True, "eps": 1e-8}})
        == "optimizer_options.fused=true optimizer_options.eps=1e-08"
    )
    assert words_of({"optimizer_options": {}}) == "optimizer_options=none"
    assert words_of({}) == ""


def test_the_front_is_of_proved_ones_that_nobody_beats_in_both() -> None:
    made = tuning()
    assert [trial.number for trial in front(made.trials)] == [
        1
    ]  # faster and smaller than the reference; 2 is refused, 4 is not proved
    larger = replace(made.trials[1], pace=replace(made.trials[1].pace, peak_bytes=10**9))  # type: ignore[type-var]
    assert [trial.number for trial in front((made.trials[0], larger))] == [1, 0]


# -- the recipe that is written --


@pytest.mark.parametrize(
    ("name", "file"),
    [("fashion-mlp", "fashion_mlp_tuned.py"), ("my net.v2", "my_net_v2_tuned.py"), ("3d", "recipe_3d_tuned.py")],
)
def test_its_name_can_be_imported(name: str, file: str) -> None:
    assert file_for(name) == Path(file)
    assert file_for(name).stem.isidentifier()


def test_the_written_recipe_is_the_winner_and_says_its_numbers() -> None:
    made = tuning(
        subject="digits --set lr=0.01", trials=(*tuning().trials[:1], replace(tuning().trials[1], agreement=SAME))
    )
    start = replace(find_recipe("digits", {}), lr=0.01)
    text = write_recipe(Path("digits_tuned.py"), made, start, "digits", {}, {"lr": "0.01"})
    found = find_recipe("digits_tuned.py", {})
    assert found == replace(start, threads=1)
    for words in (
        MARK,
        "Test processor",
        "2,000 samples/s",
        "2.00x",
        "0.9100 against 0.9050 over 2 seeds",
        "torch 2.13.0",
    ):
        assert words in text


def test_a_recipe_of_the_users_is_found_beside_it_and_elsewhere(tmp_path: Path) -> None:
    mine = str(Path("small.py").absolute())
    start = find_recipe(mine, {})
    beside = write_recipe(Path("small_tuned.py"), tuning(), start, mine, {}, {})
    assert "with_name('small.py')" in beside
    assert str(tmp_path) not in beside
    Path("elsewhere").mkdir()
    apart = write_recipe(Path("elsewhere/apart_tuned.py"), tuning(), start, mine, {}, {})
    assert str(tmp_path) in apart
    for file in ("small_tuned.py", "elsewhere/apart_tuned.py"):
        found = find_recipe(file, {})
        assert (found.name, found.threads) == ("small", 1)


def test_hyperparameters_of_the_users_own_go_to_the_recipes_function() -> None:
    made = "def recipe(hidden: int = 8):\n    return Recipe('own', dict, str, epochs=hidden)\n"
    Path("own_sized.py").write_text(f"from trueloop import Recipe\n{made}", encoding="utf-8")
    mine, settings = str(Path("own_sized.py").absolute()), {"hidden": "3", "lr": "0.5"}
    start = find_recipe(mine, {}, settings)
    written = write_recipe(Path("own_sized_tuned.py"), tuning(), start, mine, {}, settings)
    assert "{'hidden': '3'})," in written
    found = find_recipe("own_sized_tuned.py", {})
    assert (found.epochs, found.lr, found.threads, found.hyperparameters) == (3, 0.5, 1, {"hidden": 3})


def test_mappings_and_arguments_are_written_as_values() -> None:
    changes = {"optimizer_options": {"fused": True}}
    made = tuning(trials=(replace(tuning().trials[0], number=1, changes=changes),))
    text = write_recipe(Path("t.py"), made, recipe(), "tabular", {"table": "a.csv", "target": "y"}, {})
    assert "find_recipe('tabular', {'table': 'a.csv', 'target': 'y'})" in text
    assert "optimizer_options={'fused': True}," in text
    compile(text, "t.py", "exec")


def test_a_file_that_is_not_ours_is_never_overwritten() -> None:
    Path("mine.py").write_text("precious = 1\n")
    with pytest.raises(Misuse, match="was not written by trueloop"):
        check_writable(Path("mine.py"))
    Path("ours.py").write_text(f'"""x\n\n{MARK} on a day.\n"""\n')
    check_writable(Path("ours.py"))
    check_writable(Path("new.py"))
    assert not list(Path().glob("*.part"))
    with pytest.raises(Misuse, match=r"ends in \.py"):
        check_writable(Path("recipe.txt"))
    with pytest.raises(Misuse, match="there is no folder"):
        check_writable(Path("nowhere/x.py"))


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(Misuse, match="is a folder"):
        check_writable(tmp_path / "folder.py")

    def full(self: Path, *_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "touch", full)
    with pytest.raises(Misuse, match=r"cannot be written \(No space left on device\)\. Nothing was run"):
        check_writable(tmp_path / "new.py")
