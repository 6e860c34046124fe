"""Plans on paper: the published worked example, what must hold by construction, the choice and its reasons."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parallel.worlds import EXAMPLE, LARGE, PLAIN, facts, terms
from trueloop.parallel.estimate import BUCKET, FIRST_BUCKET, LIBRARIES, RESERVE, memory_of, row_of
from trueloop.parallel.gpus import UNKNOWN
from trueloop.parallel.network import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from trueloop.parallel.plan import FEW, MOST_GPUS, NEAR, plan, why_not
from trueloop.recipe.recipe import field_types
from trueloop.results.plan import Plan, Way

BLOCKS = facts(1_000_000_000, blocks=24)
SEQUENCES = replace(BLOCKS, positions=2048)
SHARED = (Way("ddp"), Way("fsdp"), Way("fsdp+tp", tensor=2), Way("fsdp+tp", tensor=8))
WAYS = [replace(way, recompute=recompute) for way in SHARED for recompute in (False, True)]


# -- the published worked example: 350 M parameters in fp32, 4 GPUs, 600 GB/s --


def test_the_gradients_of_the_example_are_1_4_gigabytes_and_2_1_go_over_the_wire() -> None:
    row = row_of(EXAMPLE, Way("ddp"), terms(4))
    assert row.memory.gradients.value == pytest.approx(1.4e9)
    assert row.bus.value == pytest.approx(2 * (4 - 1) / 4 * 1.4e9) == pytest.approx(2.1e9)


def test_its_ring_all_reduce_takes_three_and_a_half_milliseconds() -> None:
    row = row_of(EXAMPLE, Way("ddp"), terms(4))
    assert row.wire_seconds.value == pytest.approx(3.5e-3)
    assert row.wire_seconds.basis == "computed"


@pytest.mark.parametrize(("step", "speedup"), [(0.040, 3.68), (0.043, 3.70), (0.045, 3.71)])
def test_without_overlap_it_is_3_7_times_as_fast_for_steps_of_40_to_45_milliseconds(
    step: float, speedup: float
) -> None:
    row = row_of(EXAMPLE, Way("ddp"), terms(4, step=step))
    assert row.speedup_unhidden.value == pytest.approx(4 * step / (step + 3.5e-3))
    assert row.speedup_unhidden.value == pytest.approx(speedup, abs=0.005)
    assert row.speedup_unhidden.basis == "computed"
    assert "measured step" in row.speedup_unhidden.how


def test_3_7_times_is_the_speed_of_a_step_of_43_milliseconds() -> None:
    """4 s / (s + 3.5 ms) = 3.7, solved for s."""
    step = 3.7 * 3.5e-3 / (4 - 3.7)
    assert step == pytest.approx(0.0432, abs=1e-4)
    assert row_of(EXAMPLE, Way("ddp"), terms(4, step=step)).speedup_unhidden.value == pytest.approx(3.7)


def test_with_overlap_only_the_last_bucket_is_left_of_it() -> None:
    row = row_of(EXAMPLE, Way("ddp"), terms(4, step=0.045))
    assert row.exposed.value == pytest.approx(3.5e-3 * BUCKET / 1.4e9)
    assert 3.98 < row.speedup.value < 4.0
    assert row.speedup.basis == "assumed"


# -- collectives --


@pytest.mark.parametrize("gpus", [1, 2, 3, 8, 1024])
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(gpus: int) -> None:
    assert ring_all_reduce(1e9, gpus) == pytest.approx(ring_reduce_scatter(1e9, gpus) + ring_all_gather(1e9, gpus))
    assert ring_all_reduce(1e9, gpus) < 2e9


def test_nobody_sends_to_itself() -> None:
    assert ring_all_reduce(1e9, 1) == ring_all_gather(1e9, 1) == ring_reduce_scatter(1e9, 1) == 0.0


def test_fsdp_in_fp32_sends_half_as_much_again_as_ddp_and_as_much_in_bf16() -> None:
    ddp = row_of(BLOCKS, Way("ddp"), terms(8)).bus.value
    assert row_of(BLOCKS, Way("fsdp"), terms(8)).bus.value == pytest.approx(1.5 * ddp)
    assert row_of(BLOCKS, Way("fsdp"), terms(8, precision="bf16")).bus.value == pytest.approx(ddp)


def test_accumulation_costs_ddp_nothing_and_fsdp_a_gather_more() -> None:
    for way, times in ((Way("ddp"), 1), (Way("fsdp"), 4)):
        once, four = (row_of(BLOCKS, way, terms(8, accumulate=count)).bus.value for count in (1, 4))
        assert four == pytest.approx(times * once)


def test_tp_sends_four_all_reduces_for_each_block_and_six_where_it_is_computed_again() -> None:
    message = 1e6 * 64 * 4
    assert row_of(BLOCKS, Way("tp", tensor=8), terms(8)).bus.value == pytest.approx(
        4 * 24 * ring_all_reduce(message, 8)
    )
    assert row_of(BLOCKS, Way("tp", True, 8), terms(8)).bus.value == pytest.approx(6 * 24 * ring_all_reduce(message, 8))


def test_nothing_hides_what_tp_sends() -> None:
    row = row_of(BLOCKS, Way("tp", tensor=8), terms(8))
    assert row.exposed.value == pytest.approx(row.wire_seconds.value)
    assert row.speedup.value == pytest.approx(row.speedup_unhidden.value)


def test_a_faster_link_takes_less_time_and_sends_the_same() -> None:
    slow, fast = (row_of(BLOCKS, Way("ddp"), terms(8, bandwidth=rate)) for rate in (25e9, 600e9))
    assert slow.bus.value == fast.bus.value
    assert slow.wire_seconds.value == pytest.approx(24 * fast.wire_seconds.value)
    assert slow.speedup.value < fast.speedup.value


def test_gradients_that_fit_in_the_first_bucket_cannot_be_hidden() -> None:
    tiny = facts(FIRST_BUCKET // 4)
    row = row_of(tiny, Way("ddp"), terms(4))
    assert row.exposed.value == pytest.approx(row.wire_seconds.value)


# -- memory, by construction --


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_the_parts_add_up(way: Way) -> None:
    memory = memory_of(BLOCKS, way, terms(16))
    named = (memory.parameters, memory.gradients, memory.optimizer, memory.activations, memory.workspace)
    assert memory.total == pytest.approx(sum(part.value for part in named))
    assert all(part.value >= 0 and math.isfinite(part.value) for part in named)


@pytest.mark.parametrize("gpus", [2, 3, 8, 64, 1024])
def test_fsdp_holds_its_share_of_the_states(gpus: int) -> None:
    whole, share = memory_of(BLOCKS, Way("none"), terms(1)), memory_of(BLOCKS, Way("fsdp"), terms(gpus))
    for part in ("parameters", "gradients", "optimizer"):
        assert getattr(share, part).value == pytest.approx(getattr(whole, part).value / gpus)


@pytest.mark.parametrize("recompute", [False, True])
def test_ddp_on_one_gpu_is_the_plain_training(recompute: bool) -> None:
    assert memory_of(BLOCKS, Way("ddp", recompute), terms(1)) == memory_of(BLOCKS, Way("none", recompute), terms(1))
    alone, ddp = (row_of(BLOCKS, way, terms(1)) for way in (Way("none", recompute), Way("ddp", recompute)))
    assert (ddp.speedup, ddp.step, ddp.bus.value) == (alone.speedup, alone.step, 0.0)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("batch", [1024, 1000, 1537])
def test_more_gpus_never_take_more_memory_each(way: Way, batch: int) -> None:
    counts = [count for count in (1, 2, 4, 8, 16, 64, 256, 1024) if count >= way.tensor]
    totals = [memory_of(BLOCKS, way, terms(count, batch=batch)).total for count in counts]
    assert totals == sorted(totals, reverse=True)


def test_more_gpus_that_share_layers_never_take_more_memory_each() -> None:
    totals = [memory_of(BLOCKS, Way("tp", tensor=count), terms(count)).total for count in (2, 4, 8)]
    assert totals == sorted(totals, reverse=True)


def test_ddp_holds_all_states_and_a_share_of_the_activations() -> None:
    one, eight = memory_of(BLOCKS, Way("none"), terms(1)), memory_of(BLOCKS, Way("ddp"), terms(8))
    assert eight.parameters.value == one.parameters.value
    assert eight.activations.value == pytest.approx(one.activations.value / 8)


def test_checkpointing_keeps_what_enters_blocks_and_one_block_at_a_time() -> None:
    kept = BLOCKS.kept
    memory = memory_of(BLOCKS, Way("ddp", True), terms(8))
    assert memory.activations.value == pytest.approx(8 * (kept.per_sample - kept.in_blocks + kept.block_inputs))
    assert memory.workspace.value == pytest.approx(8 * (2 * kept.largest_tensor + kept.largest_block) + LIBRARIES)


def test_copies_of_weights_do_not_grow_with_the_batch_and_fsdp_has_none() -> None:
    copied = replace(BLOCKS, kept=replace(BLOCKS.kept, fixed=1e9))
    for batch in (8, 64):
        more, plain = (
            memory_of(each, Way("ddp"), terms(8, batch=batch)).activations.value for each in (copied, BLOCKS)
        )
        assert more - plain == pytest.approx(1e9)
    assert memory_of(copied, Way("fsdp"), terms(8)).activations == memory_of(BLOCKS, Way("fsdp"), terms(8)).activations


def test_scores_of_a_fused_loss_take_no_more_than_a_chunk() -> None:
    scored = replace(
        BLOCKS, kept=replace(BLOCKS.kept, scores=1e9, scores_most=4e8, scores_fixed=1e7, largest_tensor=1.0)
    )
    assert memory_of(scored, Way("none"), terms(1, batch=1)).workspace.value == pytest.approx(4.1e8 + LIBRARIES)
    assert memory_of(scored, Way("none"), terms(1, batch=64)).workspace.value == pytest.approx(4.1e8 + LIBRARIES)


def test_accumulation_divides_the_activations() -> None:
    one, four = (memory_of(BLOCKS, Way("ddp"), terms(8, accumulate=count)).activations.value for count in (1, 4))
    assert four == pytest.approx(one / 4)


def test_tp_splits_matrices_of_blocks_and_what_lies_between() -> None:
    one, eight = memory_of(BLOCKS, Way("none"), terms(1)), memory_of(BLOCKS, Way("tp", tensor=8), terms(8))
    share = 0.1 + 0.9 / 8
    assert eight.parameters.value == pytest.approx(one.parameters.value * share)
    assert eight.optimizer.value == pytest.approx(one.optimizer.value * share)
    assert eight.activations.value == pytest.approx(64 * (1e8 - 6e7 * 7 / 8))


# -- time --


def test_a_given_step_is_measured_and_else_a_rate_is_assumed() -> None:
    assumed = row_of(BLOCKS, Way("ddp"), terms(8, precision="bf16"))
    seconds = BLOCKS.flops * 64 / 8 / UNKNOWN.rate("bf16")
    assert assumed.step.value == pytest.approx(seconds + assumed.exposed.value)
    assert "assumed rate" in assumed.speedup_unhidden.how
    assert assumed.speedup_unhidden.basis == "assumed"
    given = row_of(BLOCKS, Way("ddp"), terms(8, step=0.5))
    assert given.step.value == pytest.approx(0.5 + given.exposed.value)


def test_computing_blocks_again_costs_their_forward() -> None:
    plain, again = (row_of(BLOCKS, Way("none", recompute), terms(1, step=1.0)) for recompute in (False, True))
    assert again.step.value / plain.step.value == pytest.approx(1 + 1.8 / 6)
    assert again.speedup.value == pytest.approx(1 / 1.3)


def test_a_batch_that_cannot_be_split_evenly_is_as_slow_as_its_largest_share() -> None:
    even, uneven = (row_of(BLOCKS, Way("ddp"), terms(8, batch=batch, bandwidth=1e15)) for batch in (64, 65))
    assert (even.share, uneven.share) == (8, 9)
    assert even.efficiency.value == pytest.approx(1.0, abs=1e-3)
    assert uneven.efficiency.value == pytest.approx(65 / 72, abs=1e-3)


def test_one_gpu_does_alone_what_all_would_share() -> None:
    row = row_of(BLOCKS, Way("none"), terms(8, step=0.1))
    assert (row.share, row.bus.value) == (64, 0.0)
    assert row.speedup.value == pytest.approx(1.0)
    assert row.step.value == pytest.approx(0.8)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_no_way_is_faster_than_its_gpus(way: Way) -> None:
    for gpus in (8, 64, 1024):
        row = row_of(BLOCKS, way, terms(gpus, batch=1024))
        assert 0 < row.speedup_unhidden.value <= row.speedup.value <= gpus
        assert row.efficiency.value == pytest.approx(row.speedup.value / gpus)
        assert 0 <= row.exposed.value <= row.wire_seconds.value


# -- the choice --


def _names(made: Plan) -> list[str]:
    return [row.way.name for row in made.rows]


def test_what_fits_and_hides_its_traffic_is_ddp() -> None:
    made = plan(EXAMPLE, terms(8))
    assert made.recommended is not None
    assert made.recommended.way == Way("ddp")
    assert made.reasons[0].startswith("ddp needs ")
    assert "73.6 GB of 80 GB is usable" in made.reasons[0]
    assert any("not overlapped" in reason and "with 8 GPUs" in reason for reason in made.reasons)


def test_what_does_not_fit_is_sharded_and_the_reasons_say_so() -> None:
    made = plan(LARGE, terms(8, precision="bf16"))
    assert made.recommended is not None
    assert made.recommended.way.sharded
    assert any(
        reason.startswith("Simpler strategies do not fit: one GPU needs ") and "ddp needs 1" in reason
        for reason in made.reasons
    )
    assert all(row.memory.total > 73.6e9 for row in made.rows if not row.fits)


def test_less_memory_never_makes_it_faster() -> None:
    speeds = []
    for memory in (160e9, 80e9, 40e9, 24e9):
        best = plan(LARGE, terms(8, memory=memory, precision="bf16", bandwidth=50e9)).recommended
        speeds.append(best.speedup.value if best else 0.0)
    assert all(later <= earlier / (1 - NEAR) for earlier, later in pairwise(speeds))


def test_where_sending_takes_longer_than_sharing_saves_one_gpu_is_enough() -> None:
    made = plan(PLAIN, terms(2, bandwidth=1e8))
    assert made.recommended is not None
    assert made.recommended.way == Way("none")
    assert any("too little to compute" in reason for reason in made.reasons)


def test_of_ways_that_are_equally_fast_the_simplest_is_taken() -> None:
    made = plan(BLOCKS, terms(8, step=10.0))
    fits = [row for row in made.rows if row.fits]
    best = made.recommended
    assert best is not None
    assert best.way == Way("ddp")
    assert max(row.speedup.value for row in fits) <= best.speedup.value / (1 - NEAR)


def test_the_simplest_comes_first() -> None:
    kinds = [row.way.kind for row in plan(BLOCKS, terms(8, step=10.0)).rows if not row.way.recompute]
    order = [kind for kind in kinds if kind in ("ddp", "fsdp", "hsdp", "tp", "pp")]
    assert order == [kind for kind in ("ddp", "fsdp", "hsdp", "tp", "pp") if kind in order]
    assert {"ddp", "fsdp", "hsdp", "tp"} <= set(order)


def test_where_nothing_fits_it_says_what_would() -> None:
    made = plan(LARGE, terms(4, memory=16e9, precision="bf16"))
    assert made.chosen is None
    assert made.recommended is None
    assert made.scaling == ()
    assert made.reasons[0].startswith("No strategy fits: the smallest, ")
    assert all(row.micro == 1 for row in made.rows if row.way.kind == "fsdp"), "the smallest micro-batches were tried"
    assert any(reason.startswith("With ") and reason.endswith(" fits.") for reason in made.reasons)


def test_the_number_of_gpus_that_would_fit_does_fit() -> None:
    small = terms(4, memory=24e9, precision="bf16")
    reason = next(reason for reason in plan(LARGE, small).reasons if reason.startswith("With "))
    count = int(reason.split()[1].replace(",", ""))
    assert any(row.fits for row in plan(LARGE, replace(small, gpus=count)).rows)


def test_a_reserve_is_left_free() -> None:
    need = memory_of(PLAIN, Way("none"), terms(1)).total
    assert not row_of(PLAIN, Way("none"), terms(1, memory=need)).fits
    assert row_of(PLAIN, Way("none"), terms(1, memory=need / (1 - RESERVE) * 1.0001)).fits


# -- what cannot be gone --


def test_without_blocks_there_is_nothing_to_compute_again_or_to_split() -> None:
    made = plan(PLAIN, terms(4))
    assert _names(made) == ["one GPU", "ddp", "fsdp", "hsdp 2"]
    whys = {each.way.name: each.why for each in made.refused}
    assert "no repeated blocks" in whys["ddp + checkpointing"]
    assert "no repeated blocks" in whys["tp 4"]


def test_more_gpus_than_samples_are_refused_with_what_to_type() -> None:
    why = why_not(BLOCKS, Way("ddp"), terms(1024))
    assert why == "a batch of 64 cannot be split over 1,024: give --set batch=1024, or more"
    assert not why_not(BLOCKS, Way("ddp"), terms(64))
    made = plan(BLOCKS, terms(1024))
    assert "ddp" not in _names(made)


def test_a_layer_is_shared_within_one_machine() -> None:
    assert "not by 16" in why_not(BLOCKS, Way("tp", tensor=16), terms(16))
    assert not why_not(BLOCKS, Way("tp", tensor=8), terms(8))
    assert "fsdp+tp 2" in _names(plan(BLOCKS, terms(16)))


def test_on_one_gpu_there_is_nothing_to_share() -> None:
    made = plan(BLOCKS, terms(1))
    assert _names(made) == ["one GPU", "one GPU + checkpointing"]
    assert not any("sends" in text for text in made.assumed)


# -- up to 1,024 on paper --


def test_the_chosen_way_is_followed_up_to_1024_gpus() -> None:
    made = plan(EXAMPLE, terms(8))
    assert [each.gpus for each in made.scaling] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, MOST_GPUS]
    assert [each.batch for each in made.scaling] == [8 * each.gpus for each in made.scaling]
    assert all(one.efficiency >= other.efficiency for one, other in pairwise(made.scaling))
    here = next(each for each in made.scaling if each.gpus == 8)
    assert made.recommended is not None
    assert here.speedup == pytest.approx(made.recommended.speedup.value)
    assert here.memory == pytest.approx(made.recommended.memory.total)


def test_a_plan_for_1024_gpus_is_made() -> None:
    made = plan(LARGE, terms(1024, batch=4096, precision="bf16"))
    assert made.recommended is not None
    assert 512 < made.recommended.speedup.value <= 1024


# -- where numbers are from --


def test_every_number_says_where_it_is_from() -> None:
    made = plan(BLOCKS, terms(8))
    for row in made.rows:
        for figure in (
            *row.memory.parts,
            row.bus,
            row.wire_seconds,
            row.exposed,
            row.step,
            row.speedup,
            row.efficiency,
        ):
            assert figure.basis in ("computed", "measured", "assumed")
            assert figure.how


def test_the_assumptions_follow_what_was_given() -> None:
    without, given = (" ".join(plan(BLOCKS, terms(8, step=step)).assumed) for step in (0.0, 0.1))
    assert "--step 45ms" in without
    assert "--step" not in given
    for text in (without, given):
        assert "600 GB/s" in text
        assert "latency 0 and 0 us" in text
        assert "made by hand" in text


def test_the_arithmetic_needs_no_torch() -> None:
    code = (
        "import sys, trueloop.results.plan, trueloop.parallel.plan; assert 'torch' not in sys.modules and 'numpy' "
        "not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# -- the search --


def test_the_search_goes_over_every_way_with_and_without_checkpointing() -> None:
    made = plan(SEQUENCES, terms(64, batch=512))
    kinds = {row.way.kind for row in made.rows} | {each.way.kind for each in made.unsupported}
    single = {"none", "ddp", "fsdp", "hsdp"}
    assert single | {"fsdp+tp", "ddp+pp", "fsdp+cp", "hsdp+tp+pp+cp"} <= kinds
    for kind in ("ddp", "fsdp"):
        assert {row.way.recompute for row in made.rows if row.way.kind == kind} == {False, True}


def test_fsdp_with_checkpointing_is_a_way_that_train_runs() -> None:
    made = plan(BLOCKS, terms(8))
    assert Way("fsdp", recompute=True) in [row.way for row in made.rows]


def test_what_train_does_not_run_is_listed_and_never_chosen() -> None:
    made = plan(SEQUENCES, terms(64, batch=512), support=lambda way, _: "" if way.kind == "ddp" else "not here")
    assert {row.way.kind for row in made.rows} == {"ddp"}
    assert made.unsupported
    assert all(each.why == "not here" and each.row is not None for each in made.unsupported)
    assert made.recommended is not None
    assert made.recommended.way.kind == "ddp"


def test_every_way_that_is_offered_is_a_word_that_train_takes() -> None:
    words = get_args(field_types()["parallel"])
    made = plan(SEQUENCES, terms(64, batch=512))
    assert all(row.way.settings["parallel"] in words for row in made.rows)
    assert not any(each.way.settings["parallel"] in words for each in made.unsupported)


def test_a_split_sequence_is_refused_with_the_reason() -> None:
    made = plan(SEQUENCES, terms(8, batch=64))
    reasons = {each.way.kind: each.why for each in made.unsupported}
    assert "CUDA devices only" in reasons["cp"]
    assert reasons["ddp+pp"] == "parallel takes ddp, fsdp, hsdp, tp, fsdp+tp, pp"


def test_micro_batches_are_taken_where_one_batch_does_not_fit() -> None:
    """64 samples of 0.1 GB each beside 16 GB of states: 20 GB hold a part of them."""
    tight = plan(BLOCKS, terms(1, memory=20e9), support=lambda way, _: "no" if way.recompute else "")
    assert tight.recommended is not None
    assert tight.recommended.accumulate == 4
    assert tight.recommended.micro == 16
    assert any("4 micro-batches of 16" in reason for reason in tight.reasons)
    roomy = plan(BLOCKS, terms(1, memory=80e9))
    assert roomy.recommended is not None
    assert roomy.recommended.accumulate == 1


def test_no_fewer_micro_batches_than_were_asked_for() -> None:
    assert all(row.accumulate >= 4 for row in plan(BLOCKS, terms(8, accumulate=4)).rows)


def test_the_best_few_begin_with_the_recommended_one_and_all_fit() -> None:
    made = plan(BLOCKS, terms(8))
    assert made.best[0] == made.chosen
    assert len(made.best) == FEW
    assert all(made.rows[number].fits for number in made.best)


@given(gpus=st.sampled_from([2, 8, 16, 64, 512]), batch=st.integers(1, 600), memory=st.floats(1e9, 200e9))
@settings(max_examples=6, deadline=None)
def test_whatever_is_asked_the_recommended_way_fits_and_is_among_the_fastest(
    gpus: int, batch: int, memory: float
) -> None:
    made = plan(SEQUENCES, terms(gpus, batch=batch, memory=memory, between=50e9, latency=3e-6, latency_between=15e-6))
    best = made.recommended
    if best is None:
        assert not any(row.fits for row in made.rows)
        return
    assert best.fits
    assert best.speedup.value >= (1 - NEAR) * max(row.speedup.value for row in made.rows if row.fits)


# -- two bandwidths and latency --


def test_slower_links_between_nodes_slow_down_what_crosses_them() -> None:
    for gpus, slower in ((8, False), (16, True)):
        near, far = (row_of(BLOCKS, Way("fsdp"), terms(gpus, between=rate)).wire_seconds.value for rate in (600e9, 5e9))
        assert (far > near) is slower


def test_hsdp_keeps_gathers_inside_a_node() -> None:
    slow = terms(64, between=5e9, batch=512)
    whole, inside = (row_of(BLOCKS, way, slow) for way in (Way("fsdp"), Way("hsdp", shards=8)))
    assert inside.wire_seconds.value < whole.wire_seconds.value
    assert inside.memory.parameters.value == pytest.approx(8 * whole.memory.parameters.value)


def test_latency_counts_messages_not_bytes() -> None:
    fast, slow = (row_of(BLOCKS, Way("fsdp"), terms(8, latency=wait)) for wait in (0.0, 1e-5))
    assert slow.bus.value == fast.bus.value
    assert slow.wire_seconds.value - fast.wire_seconds.value == pytest.approx(3 * 25 * 7 * 1e-5)


# -- pipelines and sequences --


def test_more_micro_batches_leave_stages_less_idle() -> None:
    def step(count: int) -> float:
        return row_of(BLOCKS, Way("pp", pipeline=8), terms(8, accumulate=count, bandwidth=1e15)).step.value

    ideal = row_of(BLOCKS, Way("ddp"), terms(8, bandwidth=1e15)).step.value
    assert step(8) == pytest.approx(ideal * (1 + 7 / 8), rel=1e-3)
    assert step(64) == pytest.approx(ideal * (1 + 7 / 64), rel=1e-3)


def test_stages_hold_their_blocks_and_the_first_keeps_as_many_micro_batches_as_there_are_stages() -> None:
    one, stage = memory_of(BLOCKS, Way("none"), terms(1)), memory_of(BLOCKS, Way("pp", pipeline=8), terms(8))
    assert stage.parameters.value == pytest.approx(one.parameters.value * (0.1 + 0.9 / 8))
    many = memory_of(BLOCKS, Way("pp", pipeline=8), terms(8, accumulate=16))
    assert many.activations.value == pytest.approx(4 * 1e8)


def test_a_sequence_over_eight_keeps_an_eighth_and_all_weights() -> None:
    one, part = memory_of(SEQUENCES, Way("none"), terms(1)), memory_of(SEQUENCES, Way("cp", context=8), terms(8))
    assert part.activations.value == pytest.approx(one.activations.value / 8)
    assert part.parameters.value == one.parameters.value


@pytest.mark.parametrize(
    ("way", "world", "said"),
    [
        (Way("pp", pipeline=16), 16, "24 repeated blocks cannot be split into 16 equal stages"),
        (Way("cp", context=8), 8, "samples without a sequence cannot be split"),
        (Way("ddp+pp", pipeline=8), 512, "8 stages need 8 micro-batches"),
        (Way("fsdp+tp", tensor=8), 16, "a layer is shared by the 4 GPUs of one machine at most"),
    ],
)
def test_what_cannot_be_is_a_sentence(way: Way, world: int, said: str) -> None:
    assert said in why_not(BLOCKS, way, terms(world, node=4))
