"""The verdict and the advice, on profiles made by hand: every kind, and both sides of every threshold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trueloop.event import Place
from trueloop.profile.advice import NODE, advice_for
from trueloop.profile.verdict import BUSY, LAUNCHED, PYTHON, ROOF, WAITS, WRAPPED, bound_of
from trueloop.results.profile import (
    PHASES,
    Advice,
    Ceilings,
    Host,
    HotLine,
    Loading,
    Machine,
    Memory,
    Operation,
    Phase,
    Profile,
    Steps,
    Updating,
    Work,
)

HERE = Place("/somewhere/train.py", 7)
CPU = Machine("cpu", "a processor", cores=8, threads=8, torch="2.13", python="3.12")
CUDA = replace(CPU, device="cuda:0", name="a device")
CEILINGS = Ceilings(
    {"float32": 1e11, "bfloat16": 4e11}, bandwidth=1e10, launch=1e-6, flops_all_cores=1e11, pinned=2e10, pageable=5e9
)
"""The ridge is at 10 FLOPs per byte."""
PRODUCT = Operation("addmm", 10, 0.008, flops=800_000_000, bytes=1_000_000)
ADDITION = Operation("add", 10, 0.002, flops=0, bytes=20_000_000)


def steps(**phases: float) -> Steps:
    """A step of a hundredth of a second, in shares of it; what is left is the forward's."""
    every: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
    every.update({phase: share * 0.01 for phase, share in phases.items()})  # type: ignore[misc]
    every["forward"] += 0.01 - sum(every.values())
    return Steps(40, 0.01, 0.01, 0.011, every)


def on_cpu(*, inside: float = 1.0, **phases: float) -> Profile:
    return Profile(
        "train.py",
        CPU,
        steps(**phases),
        host=Host(4, dict.fromkeys(("forward", "backward", "optimizer", "python"), inside)),
        operations=(PRODUCT, ADDITION),
        work=Work(50, 800_000_000, 21_000_000, roof=0.009, flops_by_type={"float32": 800_000_000}),
        ceilings=CEILINGS,
        memory=Memory(4_000_000, 4_000_000, 8_000_000, 0, 1_000_000, capacity=10**10),
    )


def on_cuda(*, busy: float, inside: float = 0.8, copying: float = 0.0, **phases: float) -> Profile:
    profile = on_cpu(inside=inside, **phases)
    assert profile.host is not None
    return replace(
        profile, machine=CUDA, host=replace(profile.host, busy=busy * 0.01, launches=300, copying=copying * 0.01)
    )


def kind(profile: Profile) -> str:
    bound = bound_of(profile)
    assert bound is not None
    return bound.kind


def advised(profile: Profile, key: str) -> Advice | None:
    return next((advice for advice in advice_for(profile) if advice.key == key), None)


def gain(profile: Profile, key: str) -> float:
    advice = advised(profile, key)
    assert advice is not None, [each.key for each in advice_for(profile)]
    return advice.gain


# -- what bounds it --


def test_waiting_for_data_bounds_from_a_share_on() -> None:
    assert kind(on_cpu(data=WAITS + 0.01)) == "data"
    assert kind(on_cpu(data=WAITS - 0.01)) == "compute"


def test_a_device_that_is_busy_meanwhile_is_not_waiting_for_data() -> None:
    assert kind(on_cuda(busy=BUSY - 0.01, data=0.5)) == "data"
    assert kind(on_cuda(busy=BUSY + 0.01, data=0.5)) == "compute"


def test_copying_bounds_from_a_share_on() -> None:
    assert kind(on_cuda(busy=0.9, copying=WAITS + 0.01)) == "copy"
    assert kind(on_cuda(busy=0.9, copying=WAITS - 0.01)) == "compute"


def test_exchanging_bounds_from_a_share_on() -> None:
    assert kind(on_cpu(communication=WAITS + 0.01)) == "communication"
    assert kind(on_cpu(communication=WAITS - 0.01)) == "compute"


def test_between_the_operations_of_the_backward_a_rank_waits_for_the_others() -> None:
    alone = on_cpu(backward=0.8)
    assert alone.host is not None
    alone = replace(alone, host=replace(alone.host, inside={"forward": 1.0, "backward": 0.5}))
    assert kind(alone) == "compute"
    assert kind(replace(alone, machine=replace(CPU, ranks=2))) == "communication"


def test_python_bounds_a_processor_when_it_is_most_of_its_work() -> None:
    assert kind(on_cpu(inside=1 - PYTHON - 0.01)) == "python"
    assert kind(on_cpu(inside=1 - PYTHON + 0.01)) == "compute"


def test_a_host_that_is_too_slow_for_its_device_launches_or_computes_in_python() -> None:
    assert kind(on_cuda(busy=BUSY - 0.01, inside=1 - WRAPPED + 0.01)) == "launch"
    assert kind(on_cuda(busy=BUSY - 0.01, inside=1 - WRAPPED - 0.01)) == "python"
    assert kind(on_cuda(busy=BUSY + 0.01, inside=1 - WRAPPED - 0.01)) == "compute"
    assert kind(on_cuda(busy=BUSY - 0.01, inside=0.0, python=PYTHON + 0.01)) == "python"


@pytest.mark.parametrize(
    ("launched", "roof", "expected"),
    [
        (LAUNCHED + 0.01, ROOF - 0.01, "launch"),
        (LAUNCHED - 0.01, ROOF - 0.01, "compute"),
        (LAUNCHED + 0.01, ROOF + 0.01, "compute"),
    ],
)
def test_many_small_operations_bound_a_processor(launched: float, roof: float, expected: str) -> None:
    work = Work(round(launched * 0.01 / CEILINGS.launch), 800_000_000, 21_000_000, roof=roof * 0.01)
    assert kind(replace(on_cpu(), work=work)) == expected


def test_python_around_many_small_operations_is_part_of_launching_them() -> None:
    many = Work(8000, 1000, 1000, roof=0.0001)
    assert kind(replace(on_cpu(inside=0.3), work=many)) == "launch"
    assert kind(on_cpu(inside=0.3)) == "python"  # few operations: the forward itself is Python
    assert kind(replace(on_cpu(inside=0.0, python=PYTHON + 0.01), work=many)) == "python"


def test_the_roofline_tells_computing_from_moving() -> None:
    assert kind(replace(on_cpu(), operations=(PRODUCT, replace(ADDITION, seconds=0.007)))) == "compute"
    assert kind(replace(on_cpu(), operations=(PRODUCT, replace(ADDITION, seconds=0.009)))) == "memory"
    below = replace(PRODUCT, bytes=PRODUCT.flops // 9)  # 9 FLOPs per byte, the ridge is at 10
    assert kind(replace(on_cpu(), operations=(below, ADDITION))) == "memory"


def test_a_verdict_is_a_sentence_with_its_evidence() -> None:
    loading = Loading(0, False, 1000, 10, 4000, 0.0, HERE)
    bound = bound_of(replace(on_cpu(data=0.6), loading=loading, lines=(HotLine(Place("/x.py", 3), "data", 0.5),)))
    assert bound is not None
    assert (
        bound.sentence
        == "data-bound: the loop waits for data in 60% of each step: the loader with no workers is slower than the "
        "model."
    )
    assert bound.evidence["loader"] == HERE
    assert bound.evidence["line"] == Place("/x.py", 3)


def test_without_steps_there_is_no_verdict() -> None:
    nothing = Profile("train.py", CPU, None)
    assert bound_of(nothing) is None
    assert advice_for(nothing) == ()


def test_phases_alone_are_enough_for_a_verdict() -> None:
    assert kind(Profile("train.py", CPU, steps(data=0.5))) == "data"
    assert kind(Profile("train.py", CPU, steps(python=0.6))) == "python"
    assert kind(Profile("train.py", CPU, steps())) == "compute"


# -- what to change --


def loaded(share: float, **facts: Any) -> Profile:
    known = {
        "workers": 0,
        "pinned": False,
        "samples": 1000,
        "batch_size": 10,
        "batch_bytes": 4000,
        "computed": 0.0,
        "place": HERE,
    }
    return replace(on_cpu(data=share), loading=Loading(**{**known, **facts}))


def test_workers_are_as_many_as_hide_the_loading() -> None:
    advice = advised(loaded(0.8), "workers")
    assert advice is not None
    assert "num_workers=4" in advice.what  # 8 ms of loading behind 2 ms of the rest
    assert advice.gain == pytest.approx(10 / 2.3, rel=0.06)
    assert advice.place == HERE


def test_workers_that_compute_need_cores() -> None:
    computing = replace(loaded(0.8, computed=1.0), machine=replace(CPU, cores=2))
    assert gain(computing, "workers") == pytest.approx(2.0)  # ten milliseconds of work on two cores


def test_more_workers_where_there_are_some_already() -> None:
    advice = advised(loaded(0.5, workers=2), "workers")
    assert advice is not None
    assert (
        "num_workers=4" in advice.what
    )  # two of them make a batch in 10 ms, so one takes 20; the rest of the step takes 5


def test_resident_data_leave_nothing_to_wait_for() -> None:
    assert gain(loaded(0.8), "resident") == pytest.approx(5.0, rel=0.01)
    assert advised(loaded(0.8, samples=10**9), "resident") is None  # they do not fit
    assert advised(loaded(0.8, samples=0), "resident") is None  # nobody knows


def test_a_loop_that_does_not_stand_still_stays_warm() -> None:
    cold = replace(CEILINGS, cold=10e-6)  # half a millisecond for fifty operations
    assert gain(replace(loaded(0.8), ceilings=cold), "resident") == pytest.approx(10 / 1.5, rel=0.01)
    much = replace(CEILINGS, cold=1e-3)  # never more than half of the rest
    assert gain(replace(loaded(0.8), ceilings=much), "resident") == pytest.approx(10.0, rel=0.01)


def test_pinned_copies_overlap() -> None:
    profile = replace(on_cuda(busy=0.9, copying=0.5), loading=Loading(4, False, 0, 10, 20_000_000, 0.0, HERE))
    assert gain(profile, "pin") == pytest.approx(2.0)  # copying takes 1 ms from pinned memory, computing 4 or 5


def test_who_copies_while_the_host_waits_saves_no_more_than_the_host_waited() -> None:
    """The numbers of `benchmarks/verdicts/copy_pageable.py` on an H200, about: there the gain was 13."""
    device = replace(CEILINGS, bandwidth=4e12, pinned=5.5e10)
    loading = Loading(4, False, 1000, 1, 8, 0.0, HERE)  # what the loader gives is not what is copied
    profile = replace(on_cuda(busy=0.99, copying=0.97, copy=0.92, data=0.01), loading=loading, ceilings=device)
    copied = 0.0097 * device.pageable
    found = advised(profile, "resident")
    assert found is not None
    assert found.gain == pytest.approx(
        0.01 / (0.0007 + 2 * copied / 4e12 + 4 * device.launch), rel=0.01
    )  # the host's own 7 %, a gather
    assert "9.8 ms of waiting and copying become a gather of 48.5 MB" in found.computed_from
    assert gain(profile, "pin") == pytest.approx(0.01 / (copied / 5.5e10), rel=0.01)  # as long as the faster copy takes
    cooled = replace(device, cold_share=0.4)  # the copying has emptied the caches
    after = 0.0007 * 0.6 + 2 * copied / 4e12 + 4 * device.launch
    assert gain(replace(profile, ceilings=cooled), "resident") == pytest.approx(0.01 / after, rel=0.01)
    busier = on_cuda(
        busy=0.99, copying=0.9, copy=0.92, data=0.01
    )  # a device with work of its own is no faster for a warm host
    assert gain(replace(busier, loading=loading, ceilings=cooled), "resident") == pytest.approx(0.01 / 0.0009, rel=0.05)


def test_a_graph_takes_as_long_as_the_device_and_a_little_for_each_kernel() -> None:
    assert gain(on_cuda(busy=0.2), "graph") == pytest.approx(0.01 / (0.002 + 300 * NODE))
    few = on_cuda(busy=0.2)
    assert few.host is not None
    assert gain(replace(few, host=replace(few.host, launches=1)), "graph") == pytest.approx(5.0, rel=0.01)
    assert advised(on_cuda(busy=BUSY), "graph") is None


def test_reading_from_the_device_less_often() -> None:
    assert gain(on_cuda(busy=0.5, device=0.4), "read") == pytest.approx(1 / 0.6)
    assert advised(on_cuda(busy=0.99, device=0.4), "read") is None  # the device has no time for more


def test_a_fused_optimizer_moves_what_it_must() -> None:
    adam = Updating("Adam", fused=False, foreach=False, fusable=True, tensors=40, place=HERE)
    profile = replace(on_cpu(optimizer=0.5), updating=adam)
    assert gain(profile, "fused") == pytest.approx(10 / (5 + 2.808))  # 28 MB at 10 GB/s, and eight starts
    assert advised(replace(profile, updating=replace(adam, fused=True)), "fused") is None
    assert advised(replace(profile, updating=replace(adam, fusable=False)), "fused") is None


def test_a_larger_batch_pays_the_launches_once() -> None:
    work = Work(8000, 1000, 1000, roof=0.0001)
    assert gain(replace(on_cpu(), work=work), "batch") == pytest.approx(10 / (2 + 8 / 4))
    assert advised(on_cpu(python=0.6), "batch") is None  # the user's own Python is not ours to promise


def test_the_compiler_fuses_what_is_moved_for_nothing() -> None:
    work = Work(50, 0, 80_000_000, pointwise=40, pointwise_bytes=60_000_000, fused_bytes=20_000_000)
    profile = replace(on_cpu(), work=work, operations=(replace(ADDITION, seconds=0.01),))
    assert gain(profile, "compile") == pytest.approx(10 / (10 - 4))


def test_a_shorter_type_of_number_by_the_measured_ceilings() -> None:
    assert gain(on_cpu(), "precision") == pytest.approx(10 / (10 - 8 * 0.75))
    slow = replace(CEILINGS, flops={"float32": 1e11, "bfloat16": 9e10})
    assert advised(replace(on_cpu(), ceilings=slow), "precision") is None


def test_all_cores_by_the_measured_ceilings() -> None:
    few = replace(on_cpu(), machine=replace(CPU, threads=2), ceilings=replace(CEILINGS, flops_all_cores=3e11))
    assert gain(few, "threads") == pytest.approx(10 / (10 - (10 - 0.05) * (2 / 3)))
    assert advised(on_cpu(), "threads") is None


def test_the_hottest_python_line_is_lifted() -> None:
    lines = (HotLine(Place("/x.py", 1, "<module>"), "forward", 0.9), HotLine(HERE, "python", 0.6))
    profile = replace(on_cpu(inside=0.0, python=0.6), lines=lines)
    advice = advised(profile, "lift")
    assert advice is not None
    assert advice.place == HERE  # a call of the model cannot be moved
    assert advice.gain == pytest.approx(2.5)
    inner = HotLine(Place("/x.py", 5, "Net.forward"), "forward", 0.9)
    assert gain(replace(profile, lines=(inner,)), "lift") == pytest.approx(10)


def test_gradients_are_exchanged_less_often() -> None:
    profile = replace(on_cpu(communication=0.8), machine=replace(CPU, ranks=2))
    assert gain(profile, "accumulate") == pytest.approx(10 / 4)
    assert advised(on_cpu(communication=0.8), "accumulate") is None


def test_three_changes_the_largest_gain_first_and_nothing_that_noise_hides() -> None:
    adam = Updating("Adam", fused=False, foreach=False, fusable=True, tensors=40, place=HERE)
    many = replace(
        loaded(0.6), updating=adam, machine=replace(CPU, threads=2), ceilings=replace(CEILINGS, flops_all_cores=3e11)
    )
    found = advice_for(many)
    assert len(found) == 3
    assert [each.gain for each in found] == sorted((each.gain for each in found), reverse=True)
    assert all(each.gain >= 1.05 and each.computed_from for each in found)
    assert advice_for(replace(on_cpu(), ceilings=replace(CEILINGS, flops={"float32": 1e11}))) == ()


def test_operations_that_were_not_measured_have_no_share() -> None:
    """A run of a few steps: "0% of the operations' time" contradicted "compute-bound"."""
    found = bound_of(Profile("train.py", CPU, steps()))
    assert found is not None
    assert "0% of the operations' time" not in found.sentence
    assert "not measured one by one" in found.sentence


@pytest.mark.parametrize(("roof", "far"), [(0.0005, True), (0.009, False)])
def test_operations_far_below_the_ceilings_are_not_only_compute_bound(roof: float, far: bool) -> None:
    profile = on_cpu()
    assert profile.work is not None
    found = bound_of(replace(profile, work=replace(profile.work, roof=roof)))
    assert found is not None
    assert found.kind == "compute"
    assert ("20 times as long as the measured ceilings allow" in found.sentence) is far
