"""PAR106 collective-mismatch: ranks call different collectives, so some wait for calls that never come.

What it sees
------------
Each rank records every collective (all_reduce, broadcast, barrier ..., and the calls inside DistributedDataParallel)
before it enters it. Comparing these records shows the first call that is not the same on all ranks of its group: a
different function or a different number of elements. It also shows a rank that waits or failed in a call that another
rank will never make, because that rank's script or process has ended, waits just as long for one batch (in the dataset,
or for worker processes that are idle), or is stopped (SIGSTOP). `trueloop check` compares when a run ends, and during
the run when a rank makes no progress for `--hang-after` (default: 5 minutes); `trueloop train`, `resume` and
`trueloop.train()` under torchrun compare during the run. `check` sees the ranks of one machine, started by torchrun;
trueloop's own runs also ask the other machines and report a machine that is unreachable or silent. A rank that is busy
elsewhere (a long evaluation) is not a finding: one line on stderr says which rank waits for which, and the run
continues.

Why it hurts
------------
A collective returns when every rank of its group has called it. If one rank takes a different branch, all others wait:
the run hangs silently, often for half an hour, and then fails with a timeout or a closed connection that names the
wrong line on the wrong rank.

Evidence
--------
The call of each rank: its number in the group, the line, the state; and the cause found in the source: the condition on
the rank around the call, or the loop that one rank has left and the other has not.

Use instead
-----------
    loss = reduce_over_ranks(loss)      # every rank calls it
    if rank == 0:
        print(loss)                     # only this depends on the rank

For loaders of different lengths use a DistributedSampler, which gives each rank the same number of batches, or `with
Join([model]):`.

When it is fine
---------------
Never, within one group. Not compared: collectives of different groups (`new_group`), and the sizes of calls where they
may differ (all_gather, all_to_all ...).
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from trueloop.event import Collective, CollectivesCalled, Place, RankStalled, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity, path_and_line
from trueloop.usercode.source import source_of

__all__ = ["CollectiveMismatch"]

WAITING: Final = 1.0  # Seconds in a call before a running rank counts as waiting: others may be about to arrive
LOST: Final = ("unreachable", "silent")  # States of ranks on a machine that does not answer: they cannot respond
NEVER_COMES: Final = ("finished", "exception", "exit", "died")
"""Ends after which a rank makes no more calls; not those of a run that the user interrupted."""
SAME_BATCHES: Final = (
    "Give every rank the same number of batches: use a `DistributedSampler`, `drop_last=True`, or "
    "`with Join([model]):` around the loop."
)
SAME_CALLS: Final = "Call the same collectives, in the same order, on every rank."
_TESTS_RANK: Final = re.compile(
    r"\b(\w+_)?rank\b|get_rank|is_(main|master|first|primary|rank)|(main|master)_process", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Condition:
    """`if rank == 0:`, and the line that it controls."""

    place: Place
    test: str
    line: int

    def at(self, near: Place | None) -> str:
        same_file = near is not None and near.path == self.place.path
        return f"line {self.line}" if same_file else path_and_line(Place(self.place.path, self.line))


@dataclass(frozen=True, slots=True)
class _Loop:
    """A `for` or a `while`, by its lines."""

    path: str
    first: int
    last: int

    def holds(self, call: Collective) -> bool:
        return any(place.path == self.path and self.first <= place.line <= self.last for place in call.places)


@dataclass(frozen=True, slots=True)
class _RankCall:
    """A rank, and the call it made, waits in, or failed in."""

    rank: int
    call: Collective

    @property
    def place(self) -> Place | None:
        return self.call.places[0] if self.call.places else None

    def doing(self) -> str:
        return {"inside": "waits in", "left": "completed", "failed": "failed in"}[self.call.state]

    def amount(self) -> str:
        return "" if self.call.size is None else f" of {self.call.size:,} x {self.call.dtype.removeprefix('torch.')}"

    def condition(self) -> _Condition | None:
        """The nearest condition on the rank around this call, or around the calls of the functions around it."""
        return next((found for place in self.call.places if (found := _condition_at(place)) is not None), None)

    def where(self) -> str:
        return path_and_line(self.place) or "called by a library"

    def named(self, amount: str = "") -> str:
        """'all_reduce #812 (train.py:88)', and the condition around it."""
        condition = self.condition()
        because = f", because of the `{condition.test}` at {condition.at(self.place)}" if condition else ""
        return f"{self.call.name} #{self.call.number}{amount} ({self.where()}){because}"


class CollectiveMismatch(Rule, code="PAR106", severity=Severity.ERROR):
    not_applicable = "the run had one rank"

    def __init__(self) -> None:
        self._ranks: dict[int, CollectivesCalled] = {}
        self._stalled: dict[int, RankStalled] = {}

    def why_not_checked(self) -> str:
        return "" if len(self._ranks) > 1 else self.not_applicable

    def on_collectives_called(self, event: CollectivesCalled) -> None:
        self._ranks[event.rank] = event

    def on_rank_stalled(self, event: RankStalled) -> None:
        self._stalled[event.rank] = event

    def on_run_ended(self, event: RunEnded) -> Findings:
        if len(self._ranks) < 2:
            return
        if (waiting := next(self._cut_off(), None)) is not None:
            yield self._report_lost_machine(event, *waiting)
            return
        for group in dict.fromkeys(call.group for record in self._ranks.values() for call in record.calls):
            calls = self._first_difference(group, lambda call: (call.name, call.size, call.dtype))
            alone = None if calls else next(self._left_alone(group), None)
            if calls:
                yield self._report_difference(event, calls)
            elif alone is not None:
                yield self._report_absent(event, *alone)

    # -- comparing --

    def _first_difference(self, group: str, of: Callable[[Collective], object]) -> list[_RankCall]:
        """The calls of all ranks with the first number at which they differ; empty if they never do."""
        by_rank = {rank: [call for call in one.calls if call.group == group] for rank, one in self._ranks.items()}
        stuck = any(call.state != "left" for calls in by_rank.values() for call in calls)
        # In a successful run the calls of DistributedDataParallel may differ: in `Join` a finished rank shadows others.
        numbered = [
            {(call.number if stuck else call.direct): _RankCall(rank, call) for call in calls if stuck or call.direct}
            for rank, calls in by_rank.items()
        ]
        for number in sorted({number for calls in numbered for number in calls}):
            same_number = [calls[number] for calls in numbered if number in calls]
            if len({of(one.call) for one in same_number}) > 1:
                return same_number
        return []

    def _left_alone(self, group: str) -> Iterator[tuple[_RankCall, CollectivesCalled]]:
        """A rank that waits or failed in a call, and one of its group that never made it and never will."""
        for rank, record in self._ranks.items():
            for call in record.calls:
                waits = call.state == "failed" or (call.state == "inside" and call.seconds >= WAITING)
                if call.group != group or not waits:
                    continue
                for other in call.members:
                    absent = self._ranks.get(other)
                    if absent is not None and _never_makes(absent, rank, call, stalled=other in self._stalled):
                        yield _RankCall(rank, call), absent

    def _cut_off(self) -> Iterator[tuple[_RankCall, list[RankStalled]]]:
        """A rank in a call, and the ranks of its group on a machine that is unreachable or silent."""
        for rank, record in self._ranks.items():
            for call in record.calls:
                stalled = [self._stalled[other] for other in call.members if other in self._stalled]
                lost = [one for one in stalled if one.doing in LOST]
                if lost and call.state == "inside" and call.seconds >= WAITING:
                    yield _RankCall(rank, call), [one for one in lost if one.fetching == lost[0].fetching]

    # -- reporting --

    def _report_lost_machine(self, event: RunEnded, waiting: _RankCall, lost: list[RankStalled]) -> Finding:
        node, _, reason = lost[0].fetching.partition(": ")
        unreachable = lost[0].doing == "unreachable"
        state = (
            f"that machine has been unreachable since {lost[0].since} ({reason}): the network is cut, or the "
            "machine is down"
            if unreachable
            else f"it has not answered since {lost[0].since}, although that machine is reachable: its process is "
            "stopped or stuck"
        )
        return self.finding(
            event,
            f"Rank {waiting.rank} {waiting.doing()} {waiting.named()} for {_numbered([one.rank for one in lost])} on "
            f"{node}, but {state}.",
            fix=f"Restore {'the connection to ' * unreachable}{node} and resume the run; `launch --restarts` retries "
            "automatically.",
            evidence={
                **_evidence([waiting], None),
                **{f"rank {one.rank}": f"{one.doing}, {one.fetching}" for one in lost},
            },
            place=waiting.place,
        )

    def _report_difference(self, event: RunEnded, calls: list[_RankCall]) -> Finding:
        sizes = len({one.call.name for one in calls}) == 1
        odd = _odd_one(calls)
        condition = odd.condition()
        shown = "; ".join(
            f"{_numbered([one.rank for one in same])} {same[0].doing()} "
            f"{same[0].named(same[0].amount() if sizes else '')}"
            for same in _by_call(calls)
        )
        uneven = "" if sizes or condition else _uneven(calls)
        fix = "Pass tensors of the same size and dtype on every rank." if sizes else SAME_CALLS
        return self.finding(
            event,
            f"Collective {odd.call.number} of the group differs between ranks: {shown}{uneven}.",
            fix=f"Move the collective out of `{condition.test}`: every rank must call it."
            if condition and not sizes
            else (SAME_BATCHES if uneven else fix),
            evidence=_evidence(calls, condition),
            place=condition.place if condition else odd.place,
        )

    def _report_absent(self, event: RunEnded, waiting: _RankCall, absent: CollectivesCalled) -> Finding:
        group = waiting.call.group
        parted = [one for one in self._first_difference(group, lambda call: call.places) if one.condition()]
        cause = parted[0] if parted and absent.ended in ("finished", "running", "hung") else waiting
        condition = cause.condition()
        named = cause is not waiting and condition is not None
        since = f"; they differ at {cause.named()}" if named else "" if condition else _longer(waiting, absent)
        stalled = self._stalled.get(absent.rank)
        why = f"{_why(absent) if stalled is None else _why_stalled(stalled)}{_after(absent, group)}"
        made = max((call.number for call in absent.calls if call.group == group), default=0)
        place = stalled.place if stalled is not None and stalled.place is not None else waiting.place
        return self.finding(
            event,
            f"Rank {waiting.rank} {waiting.doing()} {waiting.named()}, but rank {absent.rank} never calls it: "
            f"{why}{since}.",
            fix=_fix(waiting.call, absent, condition) if stalled is None else _fix_stalled(stalled),
            evidence={**_evidence([waiting], condition), f"rank {absent.rank}": f"{made} collectives, {why}"},
            place=condition.place if condition else place,
        )


def _never_makes(absent: CollectivesCalled, rank: int, call: Collective, *, stalled: bool) -> bool:
    """Has that rank ended, stalled, or does it wait for this one in a different group, before making the call?"""
    if absent.rank == rank or any(c.group == call.group and c.number >= call.number for c in absent.calls):
        return False
    crossed = any(
        c.state == "inside" and c.seconds >= WAITING and c.group != call.group and rank in c.members
        for c in absent.calls
    )
    return absent.ended in NEVER_COMES or ((crossed or stalled) and call.state == "inside")


def _by_call(calls: list[_RankCall]) -> list[list[_RankCall]]:
    """Ranks in the same call, grouped, in the order of their first rank."""
    groups: dict[object, list[_RankCall]] = {}
    for one in sorted(calls, key=lambda one: one.rank):
        groups.setdefault((one.call.name, one.call.size, one.call.dtype, one.place), []).append(one)
    return list(groups.values())


def _odd_one(calls: list[_RankCall]) -> _RankCall:
    """The call that is most likely wrong: under a condition on the rank, or made by the fewest ranks."""
    groups = _by_call(calls)
    conditional = [same[0] for same in groups if same[0].condition()]
    return conditional[0] if conditional else min(reversed(groups), key=len)[0]


def _numbered(ranks: list[int]) -> str:
    numbers = list(map(str, ranks))
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(numbers[:-1])} and {numbers[-1]}"


def _why(absent: CollectivesCalled) -> str:
    waiting = [_RankCall(absent.rank, call) for call in absent.calls if call.state == "inside"]
    match absent.ended:
        case "finished":
            return "its script ended"
        case "exit":
            return "its script called sys.exit"
        case "exception":
            at = f" at {path_and_line(absent.place)}" if absent.place else ""
            return f"its script failed{at} ({absent.exception})"
        case "died":
            return "its process died"
        case _:
            return f"it waits in {waiting[-1].named()} of a different group" if waiting else "it is elsewhere"


def _why_stalled(stalled: RankStalled) -> str:
    at = path_and_line(stalled.place) or "a line of a library"
    if stalled.doing == "stopped":
        return f"its process is stopped (SIGSTOP) and silent since {stalled.since}, at {at}"
    return f"it has waited since {stalled.since} for one batch, at {at} (data of {stalled.fetching})"


def _after(absent: CollectivesCalled, group: str) -> str:
    """The last call of a rank in a group."""
    last = [_RankCall(absent.rank, call) for call in absent.calls if call.group == group]
    return f", after {last[-1].call.name} #{last[-1].call.number} ({last[-1].where()})" if last else ""


def _fix_stalled(stalled: RankStalled) -> str:
    if stalled.doing == "stopped":
        return (
            f"Continue rank {stalled.rank} with `kill -CONT`, or restart the run; `--hang-after` sets how long to wait."
        )
    return (
        f"Fix what rank {stalled.rank} waits for (a lock, a connection, a file), or raise `--hang-after` for slow data."
    )


def _uneven(calls: list[_RankCall]) -> str:
    """The cause without a condition: one rank is still in a loop that another has left."""
    for inside, outside in permutations(calls, 2):
        for loop in filter(None, map(_loop_at, inside.call.places)):
            left = [place.line for place in outside.call.places if place.path == loop.path and place.line > loop.last]
            if left and not loop.holds(outside.call):
                which = f"the loop on line {loop.first}, which rank {outside.rank} has left"
                return f": rank {inside.rank} is still in {which}: it has more batches"
    return ""


def _longer(waiting: _RankCall, absent: CollectivesCalled) -> str:
    """The same if the other rank's script has ended."""
    if absent.ended not in ("finished", "exit"):
        return ""
    loops = filter(None, map(_loop_at, waiting.call.places))
    loop = next((loop for loop in loops if any(map(loop.holds, absent.calls))), None)
    still = f": rank {waiting.rank} is still in the loop on line {{}}, so it has more batches"
    return "" if loop is None else still.format(loop.first)


def _fix(call: Collective, absent: CollectivesCalled, condition: _Condition | None) -> str:
    if condition is not None:
        return f"Move the collective out of `{condition.test}`: every rank must call it."
    if absent.ended in ("exception", "died"):
        return f"Fix the failure of rank {absent.rank}: the other ranks only wait for it."
    return SAME_BATCHES if "DistributedDataParallel" in call.name else SAME_CALLS


def _evidence(calls: list[_RankCall], condition: _Condition | None) -> dict[str, object]:
    shown: dict[str, object] = {
        f"rank {c.rank}": f"{c.call.name} #{c.call.number}{c.amount()}, {c.where()}, {c.call.state}" for c in calls
    }
    if condition is not None:
        shown["condition"] = f"{condition.test} (line {condition.line})"
    return shown


def _condition_at(place: Place) -> _Condition | None:
    """The nearest `if` on the rank that controls a line: around it, or before it with a return, break or continue."""
    source = source_of(place.path)
    statement = source.statement(place.line)
    if statement is None:
        return None
    for node in (statement, *source.parents(statement)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return None
        above = next(source.parents(node), None)
        left = [one for one in _before(above, node) if isinstance(one.body[-1], (ast.Continue, ast.Return, ast.Break))]
        around = [node] if isinstance(node, ast.If) and node is not statement else []
        for decision in (*around, *left):
            if _TESTS_RANK.search(ast.unparse(decision.test)):
                return _Condition(place, f"if {ast.unparse(decision.test)}:", decision.lineno)
    return None


def _loop_at(place: Place) -> _Loop | None:
    """The outermost loop around a line, within its function."""
    source = source_of(place.path)
    statement = source.statement(place.line)
    found = None
    for node in (statement, *source.parents(statement)) if statement is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
        if isinstance(node, (ast.For, ast.While)):
            found = _Loop(place.path, node.lineno, node.end_lineno or node.lineno)
    return found


def _before(above: ast.AST | None, node: ast.AST) -> list[ast.If]:
    """The `if`s before a statement in its block."""
    blocks = [
        block for name in ("body", "orelse") if isinstance(block := getattr(above, name, None), list) and node in block
    ]
    return [one for block in blocks for one in block[: block.index(node)] if isinstance(one, ast.If)]
