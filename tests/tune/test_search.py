"""The search on imagined machines: what it tries, keeps, refuses and leaves alone, and when it stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.tune.worlds import CPU, CUDA, recipe
from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes, Objective, Trial
from trueloop.tune.knobs import Knob
from trueloop.tune.machine_facts import MachineFacts
from trueloop.tune.measurer import FakeMeasurer, FakeTrial
from trueloop.tune.process import TrialFailed
from trueloop.tune.search import AGAIN, LEAST, SLOWEST, Search, reference_changes

GPU = recipe(device="auto")


@pytest.fixture(autouse=True)
def _any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """These machines are imagined: what the real one lacks is no mistake."""
    monkeypatch.setattr("trueloop.tune.search.machine_problems", lambda _: [])


def searched(
    world: Any, start: Recipe | None = None, here: MachineFacts = CUDA, objective: Objective = "throughput", **more: Any
) -> tuple[Search, FakeMeasurer]:
    machine = FakeMeasurer(world, more.pop("seconds", 300.0), batch=(start or GPU).batch)
    search = Search(start or GPU, here, machine, objective, **more)
    search.run()
    return search, machine


def small_model(changes: Changes) -> FakeTrial:
    """Bound by launching: graphs gain most, and compiling on top of them."""
    seconds = 1.2e-3
    if changes.get("program") == "cuda_graphs":
        seconds = 0.2e-3
        seconds *= 0.8 if changes.get("compile") == "default" else 1.0
        seconds *= 0.9 if changes.get("steps_per_replay") == 50 else 1.0
    if changes.get("precision"):
        seconds *= 1.1  # casts are launches too
    return FakeTrial(seconds)


def large_model(changes: Changes) -> FakeTrial:
    """Bound by arithmetic: bf16 and compiling gain, graphs next to nothing."""
    seconds = {"tf32": 0.1, "bf16": 0.055, "fp16": 0.054}.get(str(changes.get("precision")), 0.3)
    if changes.get("compile"):
        seconds *= 0.65
    if changes.get("program") == "cuda_graphs":
        seconds *= 0.99
    return FakeTrial(seconds)


# -- what it finds --


def test_it_finds_the_graphed_and_compiled_path_of_a_small_model() -> None:
    search, _ = searched(small_model)
    assert search.best.changes == {"program": "cuda_graphs", "compile": "default", "steps_per_replay": 50}
    assert search.best.speed == pytest.approx(1.2 / (0.2 * 0.8 * 0.9))


def test_it_finds_compiled_bf16_of_a_large_model() -> None:
    search, machine = searched(large_model)
    assert search.best.changes == {"precision": "bf16", "compile": "default"}
    tried = [words.split() for words in machine.measured if words]
    assert tried[0] == ["precision=bf16"]
    assert (
        "program=cuda_graphs" not in tried[0]
    )  # steps that take long have little to gain from graphs: tried after the rest
    assert any("program=cuda_graphs" in words for words in tried)


def test_each_gain_is_measured_on_top_of_the_best_so_far() -> None:
    search, _ = searched(large_model)
    kept = [trial for trial in search.trials if trial.outcome == "kept"]
    assert [trial.added for trial in kept] == [{"precision": "bf16"}, {"compile": "default"}]
    assert kept[1].gain == pytest.approx(1 / 0.65)
    assert kept[1].speed == pytest.approx(0.3 / (0.055 * 0.65))


def test_not_everything_is_tried() -> None:
    _, machine = searched(large_model)
    assert len(machine.measured) < 15
    assert len(set(machine.measured)) == len(machine.measured)  # and nothing twice


# -- noise --


@pytest.mark.parametrize(("factor", "kept"), [(1 + 2 * LEAST, True), (1 + LEAST / 2, False), (0.7, False)])
def test_what_gains_no_more_than_noise_is_left(factor: float, kept: bool) -> None:
    search, _ = searched(lambda changes: FakeTrial(1e-3 / (factor if changes.get("compile") == "default" else 1)))
    assert (search.best.changes == {"compile": "default"}) is kept


def test_a_gain_that_the_turns_deny_is_none() -> None:
    search, machine = searched(lambda changes: FakeTrial(1e-3 / (1.5 if changes else 1), sure=not changes))
    assert search.best.changes == {}
    assert not machine.proved
    assert any("the turns disagree" in trial.said for trial in search.trials)


# -- proofs --


def test_a_faster_path_that_is_another_training_is_refused_and_never_chosen() -> None:
    def world(changes: Changes) -> FakeTrial:
        wrong = ("its loss lies 70% from the reference's",) if changes.get("precision") in ("bf16", "fp16") else ()
        return FakeTrial(
            {"bf16": 0.01, "fp16": 0.01, "tf32": 0.05}.get(str(changes.get("precision")), 0.1), failures=wrong
        )

    search, _ = searched(world)
    refused = [trial for trial in search.trials if trial.outcome == "refused"]
    assert {trial.changes["precision"] for trial in refused} == {"bf16", "fp16"}
    assert all("70%" in trial.said and trial.agreement is not None for trial in refused)
    assert search.best.changes == {"precision": "tf32"}


def test_only_what_is_better_costs_a_proof() -> None:
    _, machine = searched(lambda _: FakeTrial(1e-3))
    assert machine.proved == []


def test_what_is_kept_has_been_proved() -> None:
    search, machine = searched(small_model)
    for trial in search.trials:
        if trial.outcome == "kept":
            assert trial.agreement is not None
            assert trial.agreement.same
    assert len(machine.proved) == sum(trial.outcome == "kept" for trial in search.trials)


def test_a_path_that_fails_in_its_proof_is_not_chosen() -> None:
    class Failing:
        def __call__(self, changes: Changes) -> FakeTrial:
            return FakeTrial(1e-3 / (2 if changes else 1))

    machine = FakeMeasurer(Failing())

    def broken(changes: Changes) -> Any:
        raise TrialFailed("killed by SIGSEGV")

    machine.agreement = broken  # type: ignore[method-assign]
    search = Search(GPU, CUDA, machine, "throughput")
    search.run()
    assert search.best.outcome == "reference"
    assert any(trial.outcome == "failed" and "SIGSEGV" in trial.said and trial.pace for trial in search.trials)


# -- crashes and time --


def test_a_crash_is_a_result_and_not_an_end() -> None:
    def world(changes: Changes) -> FakeTrial:
        if changes.get("program") == "cuda_graphs":
            return FakeTrial(fails="out of memory at 3.1 GB")
        return large_model(changes)

    search, _ = searched(world)
    assert search.best.changes == {"precision": "bf16", "compile": "default"}
    failed = [trial for trial in search.trials if trial.outcome == "failed"]
    assert failed
    assert all(trial.said == "out of memory at 3.1 GB" and trial.pace is None for trial in failed)


def test_a_reference_that_cannot_be_measured_ends_it() -> None:
    with pytest.raises(TrialFailed, match="no such file"):
        searched(lambda _: FakeTrial(fails="no such file"))


def test_it_stops_when_the_budget_is_spent_and_says_what_was_not_tried() -> None:
    search, machine = searched(large_model, seconds=2.0)
    assert len(machine.measured) <= 3
    assert any("no time was left" in why for why in search.idle.values())


def test_each_trial_is_told_when_it_is_done() -> None:
    told: list[Trial] = []
    search, _ = searched(large_model, report=told.append)
    assert told == search.trials
    assert [trial.number for trial in told] == list(range(len(told)))


# -- a second round --


def test_what_lost_a_little_is_tried_again_on_top_of_what_came_later() -> None:
    """Channels last is slower by itself, and faster once it is compiled."""

    def world(changes: Changes) -> FakeTrial:
        seconds = 1.0 if not changes.get("compile") else 0.5
        if changes.get("channels_last"):
            seconds *= 0.8 if changes.get("compile") else 1.05
        return FakeTrial(seconds)

    knobs = [_Knob("layout", {"channels_last": True}), _Knob("kernels", {"compile": "default"})]
    search, machine = searched(world, knobs=knobs)
    assert search.best.changes == {"compile": "default", "channels_last": True}
    assert machine.measured == ["", "channels_last=true", "compile=default", "compile=default channels_last=true"]


def test_what_lost_by_much_is_not_tried_again() -> None:
    def world(changes: Changes) -> FakeTrial:
        return FakeTrial(
            (0.5 if changes.get("compile") else 1.0) / ((AGAIN - 0.1) if changes.get("channels_last") else 1.0)
        )

    knobs = [_Knob("layout", {"channels_last": True}), _Knob("kernels", {"compile": "default"})]
    _, machine = searched(world, knobs=knobs)
    assert machine.measured == ["", "channels_last=true", "compile=default"]


def test_a_round_that_kept_nothing_is_the_last() -> None:
    _, machine = searched(lambda _: FakeTrial(), knobs=[_Knob("layout", {"channels_last": True})])
    assert machine.measured == ["", "channels_last=true"]


class _Knob(Knob):
    fields = ()

    def __init__(self, name: str, *options: Changes) -> None:
        self.name = name  # type: ignore[misc]
        self._all: Sequence[Changes] = options

    def options(self, recipe: Recipe, here: MachineFacts) -> list[Changes]:
        return [option for option in self._all if any(getattr(recipe, name) != value for name, value in option.items())]

    def why_not(self, recipe: Recipe, here: MachineFacts) -> str:
        return "there is nothing left"


# -- the recipe as it stands, and what is fixed --


def test_the_reference_is_the_recipe_in_fp32_eager_and_not_compiled() -> None:
    start = replace(GPU, precision="bf16", compile="default", compile_dynamic=True, compile_fullgraph=True)
    changed = {"precision": "fp32", "compile": "off", "compile_dynamic": None, "compile_fullgraph": False}
    assert reference_changes(start) == changed
    assert reference_changes(GPU) == {}
    search, _ = searched(large_model, start)
    assert search.trials[0].changes == changed
    assert search.trials[1].knob == "as it is"
    assert search.trials[1].changes == {}


def test_what_the_recipe_has_itself_is_refused_like_anything_else() -> None:
    def world(changes: Changes) -> FakeTrial:
        plain = changes.get("precision") == "fp32"
        return FakeTrial(0.3 if plain else 0.1, failures=() if plain else ("another training",))

    search, _ = searched(world, replace(GPU, precision="bf16"), knobs=[])
    assert search.best.changes == {"precision": "fp32"}
    assert search.trials[1].outcome == "refused"


def test_what_the_user_has_set_is_not_turned() -> None:
    search, machine = searched(large_model, fixed=["precision"])
    assert all("precision" not in words for words in machine.measured)
    assert search.idle["precision"] == "--set fixes precision"


def test_what_the_user_has_set_is_kept_though_it_gains_nothing() -> None:
    search, _ = searched(lambda _: FakeTrial(1e-3), replace(GPU, precision="bf16"), fixed=["precision"], knobs=[])
    assert search.best.changes == {}
    assert search.best.outcome == "kept"
    assert search.notes == []


def test_what_the_user_has_set_is_not_kept_if_it_is_another_training() -> None:
    def world(changes: Changes) -> FakeTrial:
        return FakeTrial(failures=() if changes.get("precision") == "fp32" else ("another training",))

    search, _ = searched(world, replace(GPU, precision="bf16"), fixed=["precision"], knobs=[])
    assert search.best.changes == {"precision": "fp32"}
    assert "not proved to be the same training" in search.notes[0]


def test_variants_that_a_recipe_cannot_have_are_not_run() -> None:
    """fp16 brings a scaler, which graphs cannot ask."""

    def world(changes: Changes) -> FakeTrial:
        assert not (changes.get("program") == "cuda_graphs" and changes.get("precision") == "fp16")
        return small_model(changes)

    searched(world)
    search, _ = searched(lambda _: FakeTrial(), knobs=[_Knob("both", {"program": "cuda_graphs", "precision": "fp16"})])
    assert "has no gradient scaler" in search.idle["both"]


# -- objectives --


def test_memory_is_saved_by_what_saves_it_and_speed_is_no_gain_there() -> None:
    def world(changes: Changes) -> FakeTrial:
        peak = 10**9 // int(changes.get("accumulate", 1)) // (2 if changes.get("activation_checkpointing") else 1)
        return FakeTrial(1e-3 * (1.3 if changes.get("activation_checkpointing") else 1.0), peak)

    search, _ = searched(world, here=replace(CPU, blocks=4), objective="memory")
    assert search.best.changes["activation_checkpointing"] is True
    assert search.best.changes["accumulate"] > 1
    assert search.best.pace is not None
    assert search.best.pace.peak_bytes < 10**9 / 4
    assert search.best.speed == pytest.approx(1 / 1.3)


def test_memory_is_not_bought_with_twice_the_time() -> None:
    def world(changes: Changes) -> FakeTrial:
        return FakeTrial(1e-3 / (SLOWEST * 0.9) if changes else 1e-3, 10**8 if changes else 10**9)

    search, _ = searched(world, here=replace(CPU, blocks=4), objective="memory")
    assert search.best.changes == {}
    assert any("the speed of the reference: too slow" in trial.said for trial in search.trials)


def test_the_batch_is_turned_only_if_the_user_allows_it() -> None:
    def world(changes: Changes) -> FakeTrial:
        return FakeTrial(1e-3)  # a step takes the same however many samples it has

    _, machine = searched(world)
    assert all("batch" not in words for words in machine.measured)
    search, _ = searched(world, allowed=["batch"])
    assert search.best.changes["batch"] > GPU.batch


def test_latency_prefers_small_batches_where_throughput_prefers_large_ones() -> None:
    def world(changes: Changes) -> FakeTrial:
        return FakeTrial(1e-3 + 1e-5 * int(changes.get("batch", 32)))

    fast, _ = searched(world, allowed=["batch"], objective="throughput")
    short, _ = searched(world, allowed=["batch"], objective="latency")
    assert fast.best.changes["batch"] > 32
    assert short.best.changes["batch"] < 32


def test_rates_are_in_proportion_to_what_was_measured_in_turns() -> None:
    search, _ = searched(large_model)
    first = search.trials[0].pace
    assert first is not None
    for trial in search.trials:
        assert trial.pace is not None
        assert trial.pace.samples_per_second == pytest.approx(first.samples_per_second * trial.speed)
