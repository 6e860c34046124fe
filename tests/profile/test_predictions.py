"""Whatever was measured, a verdict is a verdict and a prediction promises no more than the time that it would take
away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profile.test_verdict import CEILINGS, CPU, CUDA, HERE, on_cpu, on_cuda
from trueloop.event import Place
from trueloop.profile.advice import ADVISERS, LEAST, SHOWN, TIMES, advice_for
from trueloop.profile.verdict import BUSY, COMPUTING, WAITS, bound_of, python_lines, step_costs
from trueloop.results.profile import (
    PHASES,
    Advice,
    Host,
    HotLine,
    Loading,
    Memory,
    Operation,
    Phase,
    Profile,
    Steps,
    Updating,
    Work,
)

FEW = settings(max_examples=60)
"""A profile is made of some forty draws."""
share = st.floats(0, 1)
seconds = st.floats(1e-5, 10)


@st.composite
def phases(draw: st.DrawFn, step: float) -> dict[Phase, float]:
    """Of a step of so many seconds: they add up to it."""
    weights = {phase: draw(st.sampled_from([0.0, 0.01, 0.1, 1.0, 5.0])) for phase in PHASES}
    total = sum(weights.values())
    return {phase: step * weight / total for phase, weight in weights.items()} if total else {"forward": step}


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    step = draw(seconds)
    told = draw(phases(step))
    cuda = draw(st.booleans())
    busy = draw(share) * step if cuda else None
    inside: dict[Phase, float] = {phase: draw(share) for phase in COMPUTING}
    host = (
        Host(4, inside, launches=draw(st.floats(0, 1e4)), busy=busy, copying=draw(share) * (busy or 0.0))
        if cuda or draw(st.booleans())
        else None
    )
    machine = replace(
        CUDA if cuda else CPU,
        cores=draw(st.integers(1, 64)),
        threads=draw(st.integers(1, 64)),
        ranks=draw(st.integers(1, 3)),
    )
    loading = Loading(
        draw(st.integers(0, 8)),
        False,
        draw(st.integers(0, 10**6)),
        draw(st.integers(1, 512)),
        draw(st.integers(0, 10**8)),
        draw(share),
        HERE,
    )
    budget = busy if busy is not None else step
    operations = tuple(
        Operation(f"op{number}", 1, budget * draw(share) / 3, draw(st.integers(0, 10**10)), draw(st.integers(0, 10**9)))
        for number in range(3)
    )
    moved = draw(st.integers(0, 10**9))
    work = Work(
        draw(st.integers(0, 10**5)),
        draw(st.integers(0, 10**12)),
        10**8,
        pointwise=draw(st.integers(0, 10**4)),
        pointwise_bytes=moved,
        fused_bytes=int(moved * draw(share)),
        flops_by_type={"float32": 1},
    )
    ceilings = replace(
        CEILINGS,
        cold=draw(st.sampled_from([0.0, 1e-6, 1e-3])),
        flops_all_cores=draw(st.sampled_from([0.0, 1e11, 4e11])),
    )
    adam = Updating(
        "Adam", fused=draw(st.booleans()), foreach=False, fusable=draw(st.booleans()), tensors=40, place=HERE
    )
    lines = tuple(
        HotLine(Place("/x.py", number), draw(st.sampled_from(sorted(PHASES))), draw(share)) for number in range(2)
    )
    return Profile(
        "train.py",
        machine,
        Steps(40, step, step, step, told),
        host=host,
        operations=operations,
        work=draw(st.none() | st.just(work)),
        ceilings=draw(st.none() | st.just(ceilings)),
        memory=draw(st.none() | st.just(Memory(10**6, 10**6, 10**6, 0, 10**6, capacity=10**10))),
        loading=draw(st.none() | st.just(loading)),
        updating=draw(st.none() | st.just(adam)),
        lines=lines,
    )


def all_advice(profile: Profile) -> dict[str, Advice]:
    """Of every adviser, also what is too little to be told."""
    sums = step_costs(profile)
    return {advice.key: advice for adviser in ADVISERS if (advice := adviser(profile, sums)) is not None}


# -- the sums --


@given(profiles())
@FEW
def test_no_sum_is_negative_and_the_hosts_own_work_fits_into_the_step(profile: Profile) -> None:
    sums = step_costs(profile)
    step = sums.step * (1 + 1e-9)
    for name in ("data", "copy", "communication", "python", "operations", "launch", "cold", "computing", "moving"):
        assert getattr(sums, name) >= -1e-12, name
    assert sums.python + sums.operations <= step
    assert sums.launch <= sums.operations * (1 + 1e-9)
    assert sums.between >= -1e-9 * step
    assert sums.cold <= (sums.python + sums.operations) / 2 + 1e-12
    assert 0 <= sums.rest + 1e-12 <= step + 1e-12


# -- the advice --


@given(profiles())
@FEW
def test_of_all_advice_the_largest_gains_are_told_and_none_that_noise_hides(profile: Profile) -> None:
    told = advice_for(profile)
    gains = [advice.gain for advice in told]
    assert gains == sorted(gains, reverse=True)
    assert len(told) <= SHOWN
    assert all(LEAST <= gain <= 100 * (1 + 1e-9) for gain in gains)
    untold = [advice.gain for advice in all_advice(profile).values() if advice not in told]
    assert all(gain < LEAST or (len(told) == SHOWN and gain <= gains[-1]) for gain in untold)
    assert len({advice.key for advice in told}) == len(told)


@given(profiles())
@FEW
def test_a_prediction_is_never_of_less_than_no_time(profile: Profile) -> None:
    for advice in all_advice(profile).values():
        assert advice.gain > 0
        assert not re.search(r"(?<![\w)])-\d", advice.computed_from), advice.computed_from
        assert "nan" not in advice.computed_from
        assert advice.what


@dataclass(frozen=True)
class Most:
    """What a change can take away at the most: the seconds that it is about."""

    key: str

    def of(self, profile: Profile) -> float:
        sums = step_costs(profile)
        told: Mapping[Phase, float] = profile.steps.phases if profile.steps else {}
        device = profile.busy_share is not None and profile.busy_share < BUSY
        return {
            "workers": sums.data + sums.cold,
            "read": told.get("device", 0.0),
            "fused": told.get("optimizer", 0.0),
            "batch": sums.step * (1 - 1 / TIMES),
            "compile": 0.9 * max(sums.moving, sums.operations),
            "precision": sums.computing,
            "threads": sums.operations,
            "accumulate": sums.communication * (1 - 1 / TIMES),
            "graph": sums.step if device else 0.0,
        }[self.key]


CHANGES = ("workers", "read", "fused", "batch", "compile", "precision", "threads", "accumulate", "graph")


@given(profile=profiles())
@FEW
def test_no_change_gains_more_than_the_time_it_is_about(profile: Profile) -> None:
    found, step = all_advice(profile), step_costs(profile).step
    for key in CHANGES:
        if key in found:
            left = max(step - Most(key).of(profile), step * 0.01)
            assert found[key].gain <= step / left * (1 + 1e-6), (found[key], left / step)


def waiting(part: float, workers: int = 0) -> Profile:
    return replace(on_cpu(data=part), loading=Loading(workers, False, 1000, 10, 4000, 0.0, HERE))


@given(st.floats(0.05, 0.9), st.floats(0.001, 0.09))
@FEW
def test_who_waits_longer_gains_more_by_not_waiting(part: float, more: float) -> None:
    for key in ("workers", "resident"):
        less, longer = (all_advice(waiting(each))[key].gain for each in (part, part + more))
        assert longer >= less * (1 - 0.051), key  # fewer workers are taken where that costs at most a twentieth


@given(st.floats(0.05, 0.6), st.floats(0.01, 0.09))
@FEW
def test_a_device_that_does_more_leaves_less_to_gain_by_launching_faster(busy: float, more: float) -> None:
    less, longer = (all_advice(on_cuda(busy=each))["graph"].gain for each in (busy, busy + more))
    assert longer <= less


@given(st.integers(1, 64), st.floats(0, 1))
@FEW
def test_more_cores_never_make_a_loader_slower(cores: int, computed: float) -> None:
    def gain(count: int) -> float:
        profile = replace(waiting(0.8), machine=replace(CPU, cores=count))
        assert profile.loading is not None
        return all_advice(replace(profile, loading=replace(profile.loading, computed=computed)))["workers"].gain

    assert gain(cores + 1) >= gain(cores) * (1 - 0.051)


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_more_workers_are_advised_than_there_are(workers: int) -> None:
    found = re.search(r"num_workers=(\d+)", all_advice(waiting(0.5, workers))["workers"].what)
    assert found is not None
    assert int(found[1]) > workers


def test_without_a_clock_there_is_nothing_to_promise() -> None:
    assert advice_for(Profile("train.py", CPU, Steps(0, 0.0, 0.0, 0.0, {}))) == ()
    assert bound_of(Profile("train.py", CPU, Steps(0, 0.0, 0.0, 0.0, {}))) is None


# -- the verdict --

KINDS = {"data", "copy", "launch", "memory", "compute", "communication", "python"}


@given(profiles())
@FEW
def test_every_run_is_bound_by_something_that_is_named_first(profile: Profile) -> None:
    bound = bound_of(profile)
    assert bound is not None
    assert bound.kind in KINDS
    assert bound.sentence.lower().startswith(f"{bound.kind}-bound: ")
    assert bound.sentence.endswith(".")
    assert "nan" not in bound.sentence


@given(profiles())
@FEW
def test_shares_in_a_verdict_are_shares(profile: Profile) -> None:
    bound = bound_of(profile)
    assert bound is not None
    first = re.search(r"(-?\d+)%", bound.sentence)
    if first is not None:
        assert 0 <= int(first[1]) <= 100, bound.sentence
    for name in ("waiting", "device_busy", "python", "operations", "above_the_ridge", "by_their_number", "line_share"):
        value = bound.evidence.get(name)
        assert value is None or -1e-9 <= float(str(value)) <= 1 + 1e-9, (name, value)


@given(profiles())
@FEW
def test_only_who_waits_for_a_third_of_the_step_waits(profile: Profile) -> None:
    bound, sums = bound_of(profile), step_costs(profile)
    assert bound is not None
    waits = {"data": sums.data, "copy": sums.copy, "communication": sums.communication}
    if bound.kind in waits:
        assert waits[bound.kind] == max(waits.values())
        assert waits[bound.kind] / sums.step >= WAITS


@given(profiles(), st.floats(0, 1))
@FEW
def test_who_is_bound_by_data_is_not_freed_by_waiting_longer(profile: Profile, more: float) -> None:
    assert profile.steps is not None
    if profile.busy_share is not None or (bound := bound_of(profile)) is None or bound.kind != "data":
        return
    told = dict(profile.steps.phases)
    longer = {**told, "data": told["data"] + more * profile.steps.seconds}
    later = replace(profile.steps, seconds=profile.steps.seconds * (1 + more), phases=longer)
    found = bound_of(replace(profile, steps=later))
    assert found is not None
    assert found.kind == "data"


def test_lines_that_call_the_model_cannot_be_moved() -> None:
    call, own, inner = Place("/x.py", 1), Place("/x.py", 2), Place("/x.py", 3, "Net.forward")
    lines = (
        HotLine(call, "backward", 0.5),
        HotLine(call, "python", 0.4),
        HotLine(own, "python", 0.3),
        HotLine(inner, "forward", 0.2),
        HotLine(Place("/x.py", 4), "forward", 0.1),
    )
    assert [line.place for line in python_lines(replace(on_cpu(), lines=lines))] == [own, inner]


def test_a_step_that_is_compiled_is_not_told_to_compile() -> None:
    work = Work(50, 0, 80_000_000, pointwise=40, pointwise_bytes=60_000_000, fused_bytes=20_000_000, source="estimated")
    assert "compile" not in all_advice(replace(on_cpu(), work=work))
    assert "compile" in all_advice(replace(on_cpu(), work=replace(work, source="counted")))
