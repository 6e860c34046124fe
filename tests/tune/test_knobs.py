"""Each knob by itself: what it offers where, and what it says where it has nothing to offer."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from tests.tune.worlds import CPU, CUDA, read, recipe
from trueloop.recipe.recipe import DataRequest, Recipe, field_types
from trueloop.results.tune import OBJECTIVES, Changes
from trueloop.tune import knobs
from trueloop.tune import machine_facts as facts
from trueloop.tune.knobs import Knob, all_knobs
from trueloop.tune.machine_facts import MachineFacts, gather_facts

GPU = recipe(device="auto")


def knob(name: str) -> Knob:
    return next(each for each in all_knobs(CUDA) if each.name == name)


def offered(name: str, start: Recipe = GPU, here: MachineFacts = CUDA) -> list[Changes]:
    return knob(name).options(start, here)


def said(name: str, start: Recipe = GPU, here: MachineFacts = CUDA) -> str:
    assert not knob(name).options(start, here), "it has something to offer"
    return knob(name).why_not(start, here)


# -- all of them --


def test_every_knob_is_listed_and_names_are_their_own() -> None:
    classes = [each for each in vars(knobs).values() if isinstance(each, type) and issubclass(each, Knob)]
    assert {type(each) for each in all_knobs(CPU)} == set(classes) - {Knob}
    assert len({each.name for each in all_knobs(CPU)}) == len(all_knobs(CPU)) == 14


def test_a_knob_that_says_nothing_of_a_device_promises_no_gain() -> None:
    assert Knob.on_cuda == Knob.on_cpu == 1.0
    elsewhere = replace(CPU, device="mps")
    assert {each.hope(elsewhere) for each in all_knobs(CPU)} == {1.0}


@pytest.mark.parametrize("each", all_knobs(CPU), ids=lambda each: each.name)
def test_a_knob_turns_fields_of_a_recipe_and_says_what_it_helps(each: Knob) -> None:
    assert set(each.fields) <= set(field_types())
    assert set(each.helps) <= set(OBJECTIVES)
    assert each.helps


@pytest.mark.parametrize("each", all_knobs(CPU), ids=lambda each: each.name)
@pytest.mark.parametrize("here", [CPU, CUDA, replace(CPU, device="mps")], ids=lambda here: here.device)
def test_a_knob_offers_other_values_or_says_why_not(each: Knob, here: MachineFacts) -> None:
    options = each.options(GPU, here)
    for option in options:
        assert set(option) <= set(each.fields)
        assert any(getattr(GPU, name) != value for name, value in option.items())
    assert options or each.why_not(GPU, here)


def test_what_promises_most_comes_first() -> None:
    names = [each.name for each in all_knobs(CUDA)]
    assert (
        names.index("step program")
        < names.index("precision")
        < names.index("compile")
        < names.index("steps per replay")
    )
    slow = [each.name for each in all_knobs(replace(CUDA, step_seconds=0.3))]
    assert slow.index("precision") < slow.index("compile") < slow.index("step program")


def test_no_knob_knows_another() -> None:
    names = {type(each).__name__ for each in all_knobs(CUDA)}
    for each in all_knobs(CUDA):
        text = inspect.getsource(type(each))
        assert not [name for name in names - {type(each).__name__} if name in text], each.name


# -- one by one --


def test_precision() -> None:
    assert offered("precision") == [{"precision": "bf16"}, {"precision": "tf32"}, {"precision": "fp16"}]
    assert offered("precision", replace(GPU, program="cuda_graphs")) == [{"precision": "bf16"}, {"precision": "tf32"}]
    assert "the recipe uses bf16 already" in said("precision", replace(GPU, precision="bf16"))
    assert "no bf16 in hardware" in said("precision", here=CPU)
    assert offered("precision", here=replace(CPU, native_bf16=True)) == [{"precision": "bf16"}]


def test_compile() -> None:
    assert [option["compile"] for option in offered("compile")] == ["default", "reduce-overhead"]
    slow = offered("compile", here=replace(CUDA, step_seconds=0.3))
    assert [option["compile"] for option in slow] == ["default"]
    graphed = offered("compile", replace(GPU, program="cuda_graphs"))
    assert [option["compile"] for option in graphed] == ["default"]
    assert offered("compile", here=CPU) == [{"compile": "default"}]
    assert said("compile", here=replace(CPU, compiler="no compiler is here")) == "no compiler is here"
    assert "the only useful mode" in said("compile", replace(GPU, compile="default"), CPU)


def test_kernels_are_autotuned_only_where_compiling_is_kept() -> None:
    assert "torch.compile gains nothing here" in said("autotuned kernels")
    assert offered("autotuned kernels", replace(GPU, compile="default")) == [{"compile": "max-autotune-no-cudagraphs"}]
    assert "nothing" in said("autotuned kernels", replace(GPU, compile="reduce-overhead"))
    assert "CUDA" in said("autotuned kernels", replace(GPU, compile="default"), CPU)
    silent = replace(CUDA, compiler="no compiler is here")
    assert said("autotuned kernels", replace(GPU, compile="default"), silent) == "no compiler is here"


def test_step_program() -> None:
    assert offered("step program") == [{"program": "cuda_graphs"}]
    assert "CUDA graphs need a CUDA device" in said("step program", here=replace(CPU, device="mps"))
    assert offered("step program", here=CPU) == [{"program": "compiled_step"}]
    assert "compiles already" in said("step program", replace(GPU, compile="default"), CPU)
    assert said("step program", here=replace(CPU, compiler="no compiler is here")) == "no compiler is here"
    assert "program=compiled_step already" in said("step program", replace(GPU, program="compiled_step"), CPU)
    assert offered("step program", here=replace(CUDA, samples=300)) == [
        {"program": "cuda_graphs", "steps_per_replay": 9}
    ]  # one epoch
    slow = offered("step program", here=replace(CUDA, step_seconds=0.1))
    assert slow == [
        {"program": "cuda_graphs", "steps_per_replay": 2}
    ]  # a long graph of a large model takes long to record
    assert offered("step program", replace(GPU, where="loader")) == [{"program": "cuda_graphs"}]
    assert "already" in said("step program", replace(GPU, program="cuda_graphs"))


def test_steps_per_replay_divide_the_interval_of_the_metrics() -> None:
    graphed = replace(GPU, program="cuda_graphs")
    assert [option["steps_per_replay"] for option in offered("steps per replay", graphed)] == [50, 32]
    assert [option["steps_per_replay"] for option in offered("steps per replay", replace(graphed, log_every=64))] == [
        64,
        32,
    ]
    assert [option["steps_per_replay"] for option in offered("steps per replay", replace(graphed, log_every=7))] == [
        7,
        32,
    ]
    assert [
        option["steps_per_replay"] for option in offered("steps per replay", graphed, replace(CUDA, samples=32 * 30))
    ] == [10]
    assert "not cuda_graphs" in said("steps per replay")
    assert "no other number" in said("steps per replay", graphed, replace(CUDA, samples=32 * 3))


def test_resident_data() -> None:
    assert offered("resident data", replace(GPU, where="loader", workers=4)) == [{"where": "resident", "workers": 0}]
    assert "resident already" in said("resident data")
    assert "read on demand" in said("resident data", here=replace(CUDA, data_bytes=None, data_fit=False))
    assert "90.0 GB" in said(
        "resident data", replace(GPU, where="loader"), replace(CUDA, data_bytes=90 * 10**9, data_fit=False)
    )


def test_workers() -> None:
    loader = replace(GPU, where="loader")
    assert [option["workers"] for option in offered("workers", loader, CPU)] == [1, 2, 4, 8]
    assert {"pin": False} in offered("workers", loader)
    assert {"prefetch": 4} in offered("workers", replace(loader, workers=2))
    assert {"prefetch": 4} not in offered("workers", loader)
    assert "there is no loader" in said("workers")


def test_batch() -> None:
    assert [option["batch"] for option in offered("batch")] == [64, 128, 16]
    assert [option["batch"] for option in offered("batch", replace(GPU, batch=4096))] == [2048]
    assert "is 4,096 already" in knob("batch").why_not(replace(GPU, batch=4096), CUDA)


def test_accumulation() -> None:
    assert [option["accumulate"] for option in offered("accumulation")] == [4, 2]
    assert [option["accumulate"] for option in offered("accumulation", replace(GPU, batch=6))] == [2]
    assert "cannot be split" in said("accumulation", replace(GPU, batch=7))
    assert knob("accumulation").helps == ("memory",)


def test_channels_last() -> None:
    assert offered("channels last", here=replace(CPU, convolutions=True)) == [{"channels_last": True}]
    assert "no nn.Conv2d" in said("channels last", here=CPU)


def test_fused_optimizer() -> None:
    slow = replace(GPU, optimizer_options={"foreach": True, "amsgrad": True})
    assert offered("fused optimizer", slow) == [{"optimizer_options": {"amsgrad": True, "fused": True}}]
    assert "fused already" in said("fused optimizer")
    assert "has no fused step" in said("fused optimizer", slow, replace(CPU, can_fuse=False))
    assert "differentiable" in said("fused optimizer", replace(GPU, optimizer_options={"differentiable": True}))


def test_activation_checkpointing_saves_memory_and_leaving_it_saves_time() -> None:
    deep = replace(CUDA, blocks=12)
    assert offered("activation checkpointing", here=deep) == [{"activation_checkpointing": True}]
    assert "no repeated blocks" in said("activation checkpointing")
    again = replace(GPU, activation_checkpointing=True)
    assert "already" in said("activation checkpointing", again, deep)
    assert offered("activations kept", again) == [{"activation_checkpointing": False}]


def test_threads() -> None:
    assert [option["threads"] for option in offered("threads", here=CPU)] == [1, 2]
    assert [option["threads"] for option in offered("threads", replace(GPU, threads=1), CPU)] == [
        0,
        2,
    ]  # 0: torch's own number
    assert [option["threads"] for option in offered("threads", here=replace(CPU, threads=8, cores=4))] == [4, 1, 2]
    assert "the device does the work" in said("threads")
    assert "one core" in said("threads", here=replace(CPU, cores=1, threads=1))


# -- what they know --


def conv() -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(16, 4))


def test_the_machine_the_model_and_the_data_are_looked_at() -> None:
    found = gather_facts(recipe(), DataRequest())
    assert found.device == "cpu"
    assert 1 <= found.cores <= found.place.cores
    assert found.threads == torch.get_num_threads()
    assert (found.samples, found.convolutions, found.blocks, found.can_fuse, found.data_fit) == (
        256,
        False,
        0,
        True,
        True,
    )
    assert found.data_bytes == 256 * (16 * 4 + 8)
    assert gather_facts(recipe(model=conv), DataRequest()).convolutions


def test_the_digest_tells_models_apart_that_have_the_same_shapes() -> None:
    def other() -> nn.Module:
        return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 4))

    first, again = gather_facts(recipe(), DataRequest()).shapes, gather_facts(recipe(), DataRequest()).shapes
    assert first == again
    assert first != gather_facts(recipe(model=other), DataRequest()).shapes


def test_looking_around_draws_no_random_number() -> None:
    before = torch.get_rng_state()
    gather_facts(recipe(), DataRequest())
    assert torch.equal(before, torch.get_rng_state())


def test_samples_that_are_read_as_needed_have_no_size() -> None:
    def as_needed(request: DataRequest) -> Any:
        from trueloop.data.dataset import Dataset

        made = read(request).train
        return type(read(request))(Dataset([tuple(made.fetch(torch.tensor([number]))) for number in range(4)]))

    found = gather_facts(recipe(data=as_needed), DataRequest())
    assert found.data_bytes is None
    assert not found.data_fit


@pytest.mark.parametrize(
    ("flags", "supported", "native"),
    [("asimd bf16", True, True), ("asimd bf16", False, False), ("asimd", True, False), ("", True, False)],
)
def test_bf16_must_be_in_the_processor_and_in_torch(
    flags: str, supported: bool, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "_cpuinfo", lambda: f"processor : 0\nFeatures : fp {flags}\n")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
    assert facts._native_bf16(torch.device("cpu")) is native


def test_second_threads_of_a_core_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f"processor : {n}\nphysical id : 0\ncore id : {n % 2}\n" for n in range(4))
    monkeypatch.setattr(facts, "_cpuinfo", lambda: lines)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert facts._physical_cores() == 2


def test_a_machine_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert "neither g++ nor clang++" in facts._why_no_compiler(torch.device("cpu"))
    monkeypatch.setenv("CXX", "clang++")
    assert facts._why_no_compiler(torch.device("cpu")) == ""


def test_an_optimizer_of_the_users_own_is_not_fused() -> None:
    assert not gather_facts(recipe(optimizer=torch.optim.SGD), DataRequest()).can_fuse
    assert not gather_facts(recipe(optimizer="rprop"), DataRequest()).can_fuse
