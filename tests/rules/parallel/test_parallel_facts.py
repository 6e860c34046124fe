"""The parallel rules on constructed events of several ranks: each threshold from both sides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from trueloop.event import (
    BatchDigested,
    Collective,
    CollectivesCalled,
    Event,
    GradientsNotExchanged,
    GradientsShared,
    ParametersSampled,
    Place,
    PrefixSaved,
    RankStalled,
    RunEnded,
    SampledParameter,
    SamplerPass,
    StateWritten,
)
from trueloop.event.thresholds import PARAMETER_DRIFT
from trueloop.finding import Finding
from trueloop.rules.checker import Checker
from trueloop.rules.parallel.collective_mismatch import WAITING, CollectiveMismatch
from trueloop.rules.parallel.ddp_bypassed import DdpBypassed
from trueloop.rules.parallel.every_rank_saves import EveryRankSaves
from trueloop.rules.parallel.parameters_differ_across_ranks import ParametersDifferAcrossRanks
from trueloop.rules.parallel.ranks_see_same_batches import RanksSeeSameBatches
from trueloop.rules.parallel.set_epoch_not_called import SetEpochNotCalled
from trueloop.rules.parallel.wrapper_prefix_in_checkpoint import WrapperPrefixInCheckpoint
from trueloop.rules.rule import Rule

HERE, THERE = Place("gone.py", 7), Place("gone.py", 9)
END = RunEnded(step=99, place=None, reason="finished", epochs=0, forwards=0, unwatched_steps=0)
SHARED = GradientsShared(
    step=9,
    place=HERE,
    rank=0,
    by="DistributedDataParallel",
    members=(0, 1),
    sharded=False,
    averaged=False,
    swapped=False,
    broadcasts=0,
)


def judged(rule: type[Rule], events: Iterable[Event]) -> list[Finding]:
    checker = Checker([rule])
    for event in (*events, END):
        checker.check(event)
    assert not checker.failures
    return checker.findings()


def shared(**changes: Any) -> list[Event]:
    return [replace(SHARED, rank=rank, **changes) for rank in (0, 1)]


# -- ranks-see-same-batches --


def batches(*digests: str, rank: int = 0) -> list[Event]:
    return [BatchDigested(index, HERE, rank, 0, index, digest, None) for index, digest in enumerate(digests)]


def on_both(*digests: str) -> list[Event]:
    return [*batches(*digests), *batches(*digests, rank=1)]


@pytest.mark.parametrize(
    ("digests", "speaks"), [("abcd", True), ("abc", False), ("abab", False), ("abca", True), ("aaaaaaaa", False)]
)
def test_four_equal_batches_of_which_three_are_distinct(digests: str, speaks: bool) -> None:
    assert bool(judged(RanksSeeSameBatches, [*on_both(*digests), *shared()])) is speaks


def test_one_batch_that_differs_is_enough_to_be_silent() -> None:
    assert not judged(RanksSeeSameBatches, [*batches(*"abcde"), *batches(*"abcdf", rank=1), *shared()])


@pytest.mark.parametrize(
    "changes", [{"by": ""}, {"sharded": True}, {"swapped": True}, {"members": (0, 2)}, {"broadcasts": 4}]
)
def test_ranks_that_must_or_mean_to_see_the_same_are_left_alone(changes: dict[str, Any]) -> None:
    assert not judged(RanksSeeSameBatches, [*on_both(*"abcde"), *shared(**changes)])


def test_fewer_broadcasts_than_batches_do_not_hand_them_out() -> None:
    assert judged(RanksSeeSameBatches, [*on_both(*"abcde"), *shared(broadcasts=3)])


def test_exchange_by_hand_needs_equal_weights_to_be_a_copy() -> None:
    equal = [sampled(rank, 4, 1.0) for rank in (0, 1)]
    parts = [sampled(0, 4, 1.0), sampled(1, 4, 1.5)]
    assert judged(RanksSeeSameBatches, [*on_both(*"abcd"), *equal, *shared(by="all_reduce")])
    assert not judged(RanksSeeSameBatches, [*on_both(*"abcd"), *parts, *shared(by="all_reduce")])
    assert not judged(RanksSeeSameBatches, [*on_both(*"abcd"), *shared(by="all_reduce")])


# -- set-epoch-not-called --


def passes(*epochs: int, trained: int = 4, seeds: tuple[int, ...] = ()) -> list[Event]:
    seeds = seeds or (0,) * len(epochs)
    return [
        SamplerPass(index * 4, HERE, 0, 0, epoch, seed, 2, trained if index else 0)
        for index, (epoch, seed) in enumerate(zip(epochs, seeds, strict=True))
    ]


@pytest.mark.parametrize(
    ("epochs", "speaks"), [((0,), False), ((0, 0), True), ((0, 0, 0), True), ((0, 1), False), ((0, 0, 1), False)]
)
def test_the_epoch_never_moves(epochs: tuple[int, ...], speaks: bool) -> None:
    assert bool(judged(SetEpochNotCalled, passes(*epochs))) is speaks


def test_passes_without_training_or_with_other_seeds_are_fine() -> None:
    assert not judged(SetEpochNotCalled, passes(0, 0, 0, trained=0))
    assert not judged(SetEpochNotCalled, passes(0, 0, 0, seeds=(1, 2, 3)))


def test_it_is_said_at_the_third_pass_and_not_before() -> None:
    checker = Checker([SetEpochNotCalled])
    assert [len(checker.check(event)) for event in passes(0, 0, 0, 0)] == [0, 0, 1, 0]


def test_a_run_that_was_cut_after_two_passes_proves_nothing() -> None:
    checker = Checker([SetEpochNotCalled])
    for event in (*passes(0, 0), replace(END, reason="cut")):
        checker.check(event)
    assert not checker.findings()


# -- parameters-differ-across-ranks --


def sampled(rank: int, index: int, *values: float, exchanged: bool = True, shape: tuple[int, ...] = (4,)) -> Event:
    parameter = SampledParameter("fc.weight", shape, values, exchanged)
    return ParametersSampled(index, THERE, rank, 0, "SGD", index, (parameter,))


def looks(*distances: float, exchanged: bool = True) -> list[Event]:
    """Looks before steps 0, 1, 2, 4 ... with weights that lie so far apart."""
    steps = [0, *(1 << power for power in range(len(distances) - 1))]
    pairs = zip(steps, distances, strict=True)
    return [sampled(rank, step, 1.0 - rank * apart, exchanged=exchanged) for step, apart in pairs for rank in (0, 1)]


@pytest.mark.parametrize(
    ("distances", "speaks"),
    [
        ((0, 0, 0), False),
        ((0, 0, 0.1), False),
        ((0, 0.1, 0.1), True),
        ((0.1, 0.1, 0.1), True),
        ((0, 0.1, 0, 0.1, 0.1), False),
        ((0, 2 * PARAMETER_DRIFT, 2 * PARAMETER_DRIFT), True),
        ((0, PARAMETER_DRIFT / 2, PARAMETER_DRIFT / 2), False),
    ],
)
def test_weights_differ_in_the_last_looks_and_were_never_equal_again(
    distances: tuple[float, ...], speaks: bool
) -> None:
    assert bool(judged(ParametersDifferAcrossRanks, [*looks(*distances), *shared()])) is speaks


@pytest.mark.parametrize(
    "changes", [{"by": ""}, {"sharded": True}, {"averaged": True}, {"swapped": True}, {"members": (0,)}]
)
def test_ranks_that_need_not_be_equal_are_left_alone(changes: dict[str, Any]) -> None:
    assert not judged(ParametersDifferAcrossRanks, [*looks(0, 0.1, 0.1), *shared(**changes)])


def test_what_is_not_exchanged_must_have_begun_equal() -> None:
    assert judged(ParametersDifferAcrossRanks, [*looks(0, 0.1, 0.1, exchanged=False), *shared()])
    assert not judged(ParametersDifferAcrossRanks, [*looks(0.2, 0.1, 0.1, exchanged=False), *shared()])


def test_the_start_is_blamed_where_the_ranks_never_were_equal() -> None:
    (early,) = judged(ParametersDifferAcrossRanks, [*looks(0.1, 0.1, 0.1), *shared()])
    (later,) = judged(ParametersDifferAcrossRanks, [*looks(0, 0.1, 0.1), *shared()])
    assert "before the first step" in early.message
    assert "since step 1" in later.message
    assert early.fix != later.fix


def test_distance_is_relative_and_blind_to_what_cannot_be_compared() -> None:
    one = SampledParameter("w", (2,), (100.0, 1.0))
    assert one.distance(SampledParameter("w", (2,), (99.0, 1.0))) == pytest.approx(0.01)
    assert one.distance(SampledParameter("w", (3,), (9.0, 1.0))) == 0
    assert one.distance(SampledParameter("w", (2,), (float("nan"), 1.0))) == 0
    assert SampledParameter("w", (1,), (0.0,)).distance(SampledParameter("w", (1,), (0.0,))) == 0


# -- wrapper-prefix-in-checkpoint, every-rank-saves, ddp-bypassed --


def test_a_prefix_is_fine_where_it_is_loaded_back() -> None:
    saved = PrefixSaved(3, HERE, "DataParallel", "module.", 4, "module.fc.weight", THERE, loaded_back=False)
    (found,) = judged(WrapperPrefixInCheckpoint, [saved])
    assert "module.fc.weight" in found.message
    assert not judged(WrapperPrefixInCheckpoint, [replace(saved, loaded_back=True)])


@pytest.mark.parametrize(
    "line",
    ['model.load_state_dict(torch.load("x"))', 'strip = "module."', "consume_prefix_in_state_dict_if_present(s, p)"],
)
def test_a_script_that_knows_the_prefix_is_left_alone(tmp_path: Path, line: str) -> None:
    script = tmp_path / "train.py"
    saved = PrefixSaved(
        3, Place(str(script), 1), "DataParallel", "module.", 4, "module.fc.weight", None, loaded_back=False
    )
    script.write_text("torch.save(model.state_dict(), path)\n", encoding="utf-8")
    (found,) = judged(WrapperPrefixInCheckpoint, [saved])
    assert "+torch.save(model.module.state_dict(), path)" in found.diff
    other = tmp_path / "other.py"
    other.write_text(f"torch.save(model.state_dict(), path)\n{line}\n", encoding="utf-8")
    assert not judged(WrapperPrefixInCheckpoint, [replace(saved, place=Place(str(other), 1))])


def test_one_file_two_ranks_one_step() -> None:
    first = StateWritten(4, HERE, 0, "/runs/model.pt")
    assert judged(EveryRankSaves, [first, replace(first, rank=1)])
    assert not judged(EveryRankSaves, [first, first])
    assert not judged(EveryRankSaves, [first, replace(first, rank=1, path="/runs/other.pt")])
    assert not judged(EveryRankSaves, [first, replace(first, rank=1, step=8)])


def test_many_parameters_are_named_by_the_first_three() -> None:
    event = GradientsNotExchanged(2, HERE, "Net", "replaced", ("a", "b", "c", "d", "e"), 2, 4)
    (found,) = judged(DdpBypassed, [event])
    assert "a, b, c and 2 more of Net were added after" in found.message
    (thawed,) = judged(DdpBypassed, [replace(event, how="thawed", parameters=("a",))])
    assert "a of Net were unfrozen after" in thawed.message


# -- collective-mismatch --


def call(number: int, name: str = "all_reduce", **changes: Any) -> Collective:
    made = Collective("0", (0, 1), number, number, name, 4 if name == "all_reduce" else None, "", "left", 0.01, (HERE,))
    return replace(made, **changes)


def told(rank: int, *calls: Collective, ended: str = "finished", exception: str = "") -> Event:
    return CollectivesCalled(9, None, rank, calls, ended, exception)  # type: ignore[arg-type]


def test_the_first_call_that_differs_is_named() -> None:
    (found,) = judged(
        CollectiveMismatch,
        [
            told(0, call(1), call(2, "barrier", state="inside", seconds=9.0, places=(THERE,)), ended="hung"),
            told(1, call(1), call(2, state="inside", seconds=9.0), ended="hung"),
        ],
    )
    assert found.message == (
        "Collective 2 of the group differs between ranks: rank 0 waits in barrier #2 (gone.py:9); "
        "rank 1 waits in all_reduce #2 (gone.py:7)."
    )


def test_a_mismatch_is_found_though_nobody_waits() -> None:
    assert judged(CollectiveMismatch, [told(0, call(1)), told(1, call(1, "broadcast"))])
    (found,) = judged(CollectiveMismatch, [told(0, call(1)), told(1, call(1, size=5))])
    assert "all_reduce #1 of 4 x " in found.message
    assert "all_reduce #1 of 5 x " in found.message


def test_calls_alike_are_fine_wherever_they_are_written() -> None:
    assert not judged(CollectiveMismatch, [told(0, call(1)), told(1, call(1, places=(THERE,)))])


def test_what_the_wrapper_does_may_differ_where_all_went_well() -> None:
    """Inside Join a rank that is through makes other calls than the rest."""
    wrapper = call(1, "backward of DistributedDataParallel", direct=0)
    later = call(2, direct=1)
    ranks = [told(0, wrapper, later), told(1, call(1, direct=1))]
    assert not judged(CollectiveMismatch, ranks)
    assert judged(CollectiveMismatch, [told(0, wrapper, replace(later, state="failed")), told(1, call(1, direct=1))])


def test_other_groups_are_not_compared() -> None:
    assert not judged(
        CollectiveMismatch,
        [told(0, call(1, group="a", members=(0,))), told(1, call(1, "barrier", group="b", members=(1,)))],
    )


@pytest.mark.parametrize(("ended", "speaks"), [
    ("finished", True), ("exception", True), ("exit", True), ("died", True),
    ("running", False), ("cut", False), ("interrupted", False), ("hung", False),
])  # fmt: skip
def test_a_rank_that_waits_for_one_that_will_never_come(ended: str, speaks: bool) -> None:
    waiting = told(0, call(1), call(2, state="inside", seconds=WAITING), ended="running")
    assert (
        bool(judged(CollectiveMismatch, [waiting, told(1, call(1), ended=ended, exception="ValueError: x")])) is speaks
    )


@pytest.mark.parametrize(("seconds", "speaks"), [(WAITING * 0.9, False), (WAITING * 1.1, True)])
def test_who_has_just_entered_does_not_wait_yet(seconds: float, speaks: bool) -> None:
    waiting = told(0, call(2, state="inside", seconds=seconds), ended="running")
    assert bool(judged(CollectiveMismatch, [waiting, told(1, call(1))])) is speaks


def test_a_rank_that_has_made_the_call_is_not_missed() -> None:
    assert not judged(
        CollectiveMismatch, [told(0, call(2, state="failed"), ended="exception"), told(1, call(2), ended="died")]
    )


def test_two_groups_crossed_wait_for_one_another() -> None:
    mine = call(1, group="a", state="inside", seconds=9.0)
    theirs = call(1, group="b", state="inside", seconds=9.0, places=(THERE,))
    (found, *_) = judged(CollectiveMismatch, [told(0, mine, ended="running"), told(1, theirs, ended="running")])
    assert "it waits in all_reduce #1 (gone.py:9) of a different group" in found.message
    apart = replace(theirs, members=(1, 2))
    assert not judged(CollectiveMismatch, [told(0, mine, ended="running"), told(1, apart, ended="running")])


def lost(
    rank: int,
    doing: Literal["unreachable", "silent"] = "unreachable",
    node: str = "node 1 (10.0.0.2): No route to host",
) -> RankStalled:
    return RankStalled(9, None, rank, doing, 60.0, "12:30:00", node)


@pytest.mark.parametrize("made", [(), (call(2, state="inside", seconds=0.0),)])
@pytest.mark.parametrize(("seconds", "speaks"), [(WAITING * 0.9, False), (WAITING * 1.1, True)])
def test_a_machine_that_cannot_be_reached_is_named_to_who_waits_for_it(
    seconds: float, speaks: bool, made: tuple[Collective, ...]
) -> None:
    """Also where its rank has made the call: the cable was pulled while both were in it."""
    waiting = told(0, call(1), call(2, state="inside", seconds=seconds), ended="running")
    found = judged(CollectiveMismatch, [waiting, told(1, *made, ended="running"), lost(1)])
    assert [finding.message for finding in found] == [
        "Rank 0 waits in all_reduce #2 (gone.py:7) for rank 1 on node 1 (10.0.0.2), but that machine has been "
        "unreachable "
        "since 12:30:00 (No route to host): the network is cut, or the machine is down."
    ] * speaks


def test_all_ranks_of_a_lost_machine_are_named_and_those_of_another_are_not() -> None:
    waiting = told(0, call(2, state="inside", seconds=9.0, members=(0, 1, 2, 3, 4)), ended="running")
    elsewhere = [lost(4, node="node 2 (10.0.0.3): timed out")]
    (found,) = judged(
        CollectiveMismatch,
        [waiting, *(told(rank, ended="running") for rank in (2, 3, 4)), lost(2), lost(3), *elsewhere],
    )
    assert "Rank 0 waits in all_reduce #2 (gone.py:7) for ranks 2 and 3 on node 1 (10.0.0.2), but " in found.message
    assert found.fix.startswith("Restore the connection to node 1 (10.0.0.2) and resume")


def test_a_rank_that_gives_no_answer_is_not_called_unreachable() -> None:
    waiting = told(0, call(2, state="inside", seconds=9.0), ended="running")
    (found,) = judged(CollectiveMismatch, [waiting, told(1, ended="running"), lost(1, "silent")])
    assert (
        "it has not answered since 12:30:00, although that machine is reachable: its process is stopped or stuck."
        in found.message
    )
    assert found.fix.startswith("Restore node 1 (10.0.0.2) and")


def test_a_lost_machine_that_nobody_waits_for_is_no_finding() -> None:
    inside = call(2, state="inside", seconds=9.0, members=(0, 2))
    assert not judged(CollectiveMismatch, [told(0, inside, ended="running"), told(1, ended="running"), lost(1)])


@pytest.mark.parametrize(("seconds", "made", "speaks"), [(9.0, 1, True), (0.5, 1, False), (9.0, 2, False)])
def test_a_rank_that_stands_in_its_data_is_missed_by_who_waits_for_it(seconds: float, made: int, speaks: bool) -> None:
    waiting = told(0, call(1), call(2, state="inside", seconds=seconds), ended="running")
    stuck = told(1, *(call(number) for number in range(1, made + 1)), ended="running")
    stood = RankStalled(9, THERE, 1, "loading", 60.0, "12:30:00", "Images, by worker process 4711 (asleep)")
    found = judged(CollectiveMismatch, [waiting, stuck, stood])
    assert bool(found) is speaks
    for finding in found:
        assert finding.place == THERE
        assert finding.message == (
            "Rank 0 waits in all_reduce #2 (gone.py:7), but rank 1 never calls it: it has waited since "
            "12:30:00 for one batch, at gone.py:9 (data of Images, by worker process 4711 (asleep)), after all_reduce "
            "#1 (gone.py:7)."
        )


def test_a_stopped_rank_that_nobody_waits_for_is_no_finding() -> None:
    stopped = RankStalled(9, None, 1, "stopped", 60.0, "12:30:00", "")
    assert not judged(
        CollectiveMismatch, [told(0, call(1), ended="running"), told(1, call(1), ended="running"), stopped]
    )
    waiting = told(0, call(1), call(2, state="inside", seconds=9.0), ended="running")
    (found,) = judged(CollectiveMismatch, [waiting, told(1, call(1), ended="running"), stopped])
    assert "its process is stopped (SIGSTOP) and silent since 12:30:00, at a line of a library" in found.message
    assert "`kill -CONT`" in found.fix


LOOPS = """\
for epoch in range(2):
    for batch in loader:
        dist.all_reduce(batch)
dist.barrier()
"""


@pytest.mark.parametrize(("line", "uneven"), [(4, True), (3, False)])
def test_a_loop_that_one_rank_has_left_is_the_cause(tmp_path: Path, line: int, uneven: bool) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOPS, encoding="utf-8")
    inside = told(1, call(1, state="inside", seconds=9.0, places=(Place(str(script), 3),)), ended="hung")
    other = told(0, call(1, "barrier", state="inside", seconds=9.0, places=(Place(str(script), line),)), ended="hung")
    (found,) = judged(CollectiveMismatch, [other, inside])
    assert (
        "rank 1 is still in the loop on line 1, which rank 0 has left: it has more batches" in found.message
    ) is uneven


SCRIPT = """\
if rank == 0:
    dist.barrier()
def log():
    dist.all_reduce(x)
if is_main_process():
    log()
for step in steps:
    if local_rank > 0:
        continue
    dist.broadcast(x, 0)
if ranks > 1:
    dist.all_reduce(x)
"""


@pytest.mark.parametrize(("lines", "condition", "place"), [
    ((2,), "if rank == 0:", 2), ((4, 6), "if is_main_process():", 6), ((10,), "if local_rank > 0:", 10), ((12,), "", 12),  # noqa: E501
])  # fmt: skip
def test_the_condition_on_the_rank_is_found(tmp_path: Path, lines: tuple[int, ...], condition: str, place: int) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    places = tuple(Place(str(script), line) for line in lines)
    odd = told(0, call(1, "barrier", state="inside", seconds=9.0, places=places), ended="hung")
    (found,) = judged(CollectiveMismatch, [odd, told(1, call(1, places=places if not condition else ()), ended="hung")])
    assert found.place is not None
    assert found.place.line == place
    assert ("condition" in found.evidence) is bool(condition)
    assert condition in found.message


def test_alone_there_is_nothing_to_compare() -> None:
    for rule in (CollectiveMismatch, RanksSeeSameBatches, ParametersDifferAcrossRanks):
        checker = Checker([rule])
        for event in (told(0, call(1, state="failed")), SHARED, *batches(*"abcd"), *looks(0, 0.1, 0.1)[::2], END):
            checker.check(event)
        assert not checker.findings()
        assert [because for _, because in checker.not_applicable()] == ["the run had one rank"]
