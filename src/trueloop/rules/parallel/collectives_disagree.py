"""PAR106 collectives-disagree: the ranks of a run call different collectives, so some wait for others who never come.

What it sees
------------
Each rank writes down every collective (all_reduce, broadcast, barrier ..., and what DistributedDataParallel does in its
own forward and backward) before it enters it. Beside one another these journals show the first call that is not the
same on all ranks of its group: another function, or another number of elements. They also show a rank that waits in a
call, or failed in it, which another rank will never make, because its script or its process has ended, because it has
waited for one batch of its loader as long (in the dataset, or for worker processes that neither compute nor read), or
because its process is stopped (SIGSTOP). `trueloop check` compares the journals when a run ends, and while it runs,
when a rank has stood still for `--hang-after` (5 minutes unless you say otherwise); `trueloop train` and
`resume`, and `trueloop.train()` under torchrun, do so while they run. `check` sees the ranks of one machine, started by
torchrun; a run of ours also asks the other machines, and says so when one cannot be reached (a cable, the machine
itself) or no longer answers. A rank that is busy elsewhere (a long evaluation) is no finding: one line on stderr then
says who waits for whom, and the run goes on.

Why it hurts
------------
A collective returns when every rank of its group has called it. If one takes another branch, all others wait: the run
hangs without a word, often for half an hour, and then fails with a time-out or a closed connection that names the wrong
line on the wrong rank.

Evidence
--------
Who is in which call: its number in the group, the line, the seconds; and what the source shows to be the cause: the
condition on the rank around the call, or the loop that one rank has left and the other has not.

Use instead
-----------
    loss = reduce_over_ranks(loss)      # every rank calls it
    if rank == 0:
        print(loss)                     # only what follows depends on the rank

With loaders of unequal length use a DistributedSampler, which gives each rank as many batches, or `with
Join([model]):`.

When it is fine
---------------
Never, within one group. Ranks that call different collectives in different groups (`new_group`) are not compared, nor
are calls to which each rank may give another size (all_gather, all_to_all ...).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Final, final

from trueloop.event import Collective, CollectivesCalled, Place, RankStalled, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import shown_path, source_of

__all__ = ["CollectivesDisagree"]

WAITING: Final = 1.0
"""Seconds in a call, at least, before a rank that has not ended counts as waiting in it: others may be about to
arrive."""
LOST: Final = ("unreachable", "silent")
"""What is said of ranks on another machine of which nothing is heard: whatever they have called, they cannot answer."""
NEVER_COMES: Final = ("finished", "exception", "exit", "died")
"""Ends after which a rank makes no more calls, and which nobody asked for: a run that was interrupted or cut short is
torn apart anyway."""
AS_MANY_BATCHES: Final = "Give every rank as many batches: by a DistributedSampler, drop_last=True, or `with Join([model]):` around the loop."
_ASKS_FOR_RANK: Final = re.compile(
    r"\b(\w+_)?rank\b|get_rank|is_(main|master|first|primary|rank)|(main|master)_process", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Condition:
    """`if rank == 0:`, and the line it decides about."""

    place: Place
    test: str
    line: int

    def at(self, seen_from: Place | None) -> str:
        elsewhere = seen_from is None or seen_from.path != self.place.path
        return f"{shown_path(self.place.path)}:{self.line}" if elsewhere else f"line {self.line}"


@dataclass(frozen=True, slots=True)
class _Loop:
    """A `for` or a `while`, by its lines."""

    path: str
    first: int
    last: int

    def holds(self, call: Collective) -> bool:
        return any(place.path == self.path and self.first <= place.line <= self.last for place in call.places)


@dataclass(frozen=True, slots=True)
class _Stand:
    """One rank and the call it made, is in, or failed in."""

    rank: int
    call: Collective

    @property
    def place(self) -> Place | None:
        return self.call.places[0] if self.call.places else None

    def doing(self) -> str:
        return {"inside": "waits in", "left": "went through", "failed": "failed in"}[self.call.state]

    def amount(self) -> str:
        return "" if self.call.size is None else f" of {self.call.size:,} x {self.call.dtype.removeprefix('torch.')}"

    def condition(self) -> _Condition | None:
        """The nearest condition on the rank around this call, or around the calls of the functions it stands in."""
        return next((found for place in self.call.places if (found := _condition_at(place)) is not None), None)

    def where(self) -> str:
        return "called by a library" if self.place is None else _shown(self.place)

    def named(self, amount: str = "") -> str:
        """'all_reduce #812 (train.py:88)', and what decides that it is called."""
        condition = self.condition()
        because = f", because of the `{condition.test}` at {condition.at(self.place)}" if condition else ""
        return f"{self.call.name} #{self.call.number}{amount} ({self.where()}){because}"


@final
class CollectivesDisagree(Rule):
    code = "PAR106"
    name = "collectives-disagree"
    severity = Severity.ERROR
    not_applicable = "the run had one rank"

    def __init__(self) -> None:
        self._ranks: dict[int, CollectivesCalled] = {}
        self._stood: dict[int, RankStalled] = {}

    def why_not_checked(self) -> str:
        return "" if len(self._ranks) > 1 else "the run had one rank"

    def on_collectives_called(self, event: CollectivesCalled) -> None:
        self._ranks[event.rank] = event

    def on_rank_stalled(self, event: RankStalled) -> None:
        self._stood[event.rank] = event

    def on_run_ended(self, event: RunEnded) -> Findings:
        if len(self._ranks) < 2:
            return
        if (waiting := next(self._cut_off(), None)) is not None:
            yield self._lost(event, *waiting)
            return
        for group in dict.fromkeys(call.group for told in self._ranks.values() for call in told.calls):
            stands = self._first_difference(group, lambda call: (call.name, call.size, call.dtype))
            alone = None if stands else next(self._left_alone(group), None)
            if stands:
                yield self._differing(event, stands)
            elif alone is not None:
                yield self._abandoned(event, *alone)

    # -- comparing --

    def _first_difference(self, group: str, of: Callable[[Collective], object]) -> list[_Stand]:
        """The calls of all ranks with the first number at which they are not the same; none if there is no such
        number."""
        by_rank = {rank: [call for call in told.calls if call.group == group] for rank, told in self._ranks.items()}
        stuck = any(call.state != "left" for calls in by_rank.values() for call in calls)
        # What DistributedDataParallel does may differ where all went well: inside `Join` a rank that is through shadows
        # the others.
        numbered = [
            {(call.number if stuck else call.direct): _Stand(rank, call) for call in calls if stuck or call.direct}
            for rank, calls in by_rank.items()
        ]
        for number in sorted({number for calls in numbered for number in calls}):
            stands = [calls[number] for calls in numbered if number in calls]
            if len({of(stand.call) for stand in stands}) > 1:
                return stands
        return []

    def _left_alone(self, group: str) -> Iterator[tuple[_Stand, CollectivesCalled]]:
        """A rank in a call, or that failed in it, and one of its group that never made it, and never will."""
        for rank, told in self._ranks.items():
            for call in told.calls:
                waits = call.state == "failed" or (call.state == "inside" and call.seconds >= WAITING)
                if call.group != group or not waits:
                    continue
                for other in call.members:
                    absent = self._ranks.get(other)
                    if absent is not None and _never_makes(absent, rank, call, stood=other in self._stood):
                        yield _Stand(rank, call), absent

    def _cut_off(self) -> Iterator[tuple[_Stand, list[RankStalled]]]:
        """A rank in a call, and those of its group on a machine that cannot be reached, or no longer answers."""
        for rank, told in self._ranks.items():
            for call in told.calls:
                lost = [
                    self._stood[other]
                    for other in call.members
                    if other in self._stood and self._stood[other].doing in LOST
                ]
                if lost and call.state == "inside" and call.seconds >= WAITING:
                    yield _Stand(rank, call), [stood for stood in lost if stood.fetching == lost[0].fetching]

    # -- saying it --

    def _lost(self, event: RunEnded, stand: _Stand, lost: list[RankStalled]) -> Finding:
        node, _, reason = lost[0].fetching.partition(": ")
        who = f"{_numbered([stood.rank for stood in lost])} on {node}"
        unreachable = lost[0].doing == "unreachable"
        state = (
            f"that machine cannot be reached since {lost[0].since} ({reason}): the network between the two is cut, or it is down"
            if unreachable
            else f"nothing is heard of it since {lost[0].since}, though that machine can be reached: its process is stopped, or stuck"
        )
        return self.finding(
            event,
            f"Rank {stand.rank} {stand.doing()} {stand.named()} for {who}, and {state}.",
            fix=f"Bring back {'the connection to ' * unreachable}{node} and go on with the run; `launch --restarts` tries by itself.",
            evidence={
                **_evidence([stand], None),
                **{f"rank {stood.rank}": f"{stood.doing}, {stood.fetching}" for stood in lost},
            },
            place=stand.place,
        )

    def _differing(self, event: RunEnded, stands: list[_Stand]) -> Finding:
        sizes = len({stand.call.name for stand in stands}) == 1
        odd = _odd_one(stands)
        condition = odd.condition()
        shown = "; ".join(
            f"{_ranks(same)} {same[0].doing()} {same[0].named(same[0].amount() if sizes else '')}"
            for same in _alike(stands)
        )
        uneven = "" if sizes or condition else _uneven(stands)
        fix = (
            "Give tensors of the same size and type on every rank."
            if sizes
            else "Call the same collectives, in the same order, on every rank."
        )
        return self.finding(
            event,
            f"The ranks disagree at collective {odd.call.number} of their group: {shown}{uneven}.",
            fix=f"Take the collective out of `{condition.test}`: every rank must call it."
            if condition and not sizes
            else (AS_MANY_BATCHES if uneven else fix),
            evidence=_evidence(stands, condition),
            place=condition.place if condition else odd.place,
        )

    def _abandoned(self, event: RunEnded, stand: _Stand, absent: CollectivesCalled) -> Finding:
        parted = [one for one in self._first_difference(stand.call.group, lambda call: call.places) if one.condition()]
        cause = parted[0] if parted and absent.ended in ("finished", "running", "hung") else stand
        condition = cause.condition()
        named = cause is not stand and condition is not None
        since = f"; they part at {cause.named()}" if named else "" if condition else _longer(stand, absent)
        stood = self._stood.get(absent.rank)
        why = f"{_why(absent) if stood is None else _standing(stood)}{_after(absent, stand.call.group)}"
        return self.finding(
            event,
            f"Rank {stand.rank} {stand.doing()} {stand.named()}, and rank {absent.rank} never comes: {why}{since}.",
            fix=_remedy(stand.call, absent, condition) if stood is None else _way_out(stood),
            evidence={
                **_evidence([stand], condition),
                f"rank {absent.rank}": f"{_made(absent, stand.call.group)} collectives, {why}",
            },
            place=condition.place
            if condition
            else stand.place
            if stood is None or stood.place is None
            else stood.place,
        )


def _never_makes(absent: CollectivesCalled, rank: int, call: Collective, *, stood: bool) -> bool:
    """Has that rank ended, does it stand still, or wait for this one in another group, without having made the call?"""
    if absent.rank == rank or any(c.group == call.group and c.number >= call.number for c in absent.calls):
        return False
    crossed = any(
        c.state == "inside" and c.seconds >= WAITING and c.group != call.group and rank in c.members
        for c in absent.calls
    )
    return absent.ended in NEVER_COMES or ((crossed or stood) and call.state == "inside")


def _alike(stands: list[_Stand]) -> list[list[_Stand]]:
    """Those in the same call together, by their first rank."""
    together: dict[object, list[_Stand]] = {}
    for stand in sorted(stands, key=lambda one: one.rank):
        together.setdefault((stand.call.name, stand.call.size, stand.call.dtype, stand.place), []).append(stand)
    return list(together.values())


def _odd_one(stands: list[_Stand]) -> _Stand:
    """The call that is most likely the wrong one: under a condition on the rank, or made by the fewest."""
    groups = _alike(stands)
    conditional = [same[0] for same in groups if same[0].condition()]
    return conditional[0] if conditional else min(reversed(groups), key=len)[0]


def _ranks(stands: list[_Stand]) -> str:
    return _numbered([stand.rank for stand in stands])


def _numbered(ranks: list[int]) -> str:
    numbers = list(map(str, ranks))
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(numbers[:-1])} and {numbers[-1]}"


def _made(told: CollectivesCalled, group: str) -> int:
    return max((call.number for call in told.calls if call.group == group), default=0)


def _why(absent: CollectivesCalled) -> str:
    waiting = [_Stand(absent.rank, call) for call in absent.calls if call.state == "inside"]
    match absent.ended:
        case "finished":
            return "its script has ended"
        case "exit":
            return "its script has ended by sys.exit"
        case "exception":
            at = f" at {_shown(absent.place)}" if absent.place else ""
            return f"its script has failed{at} ({absent.exception})"
        case "died":
            return "its process died"
        case _:
            return f"it waits in {waiting[-1].named()} of another group" if waiting else "it is elsewhere"


def _standing(stood: RankStalled) -> str:
    at = f" {_shown(stood.place)}" if stood.place is not None else " a line of a library"
    if stood.doing == "stopped":
        return f"its process is stopped (SIGSTOP), and nothing is heard of it since {stood.since}, when it was at{at}"
    return f"since {stood.since} it waits for one batch, in{at} (data of {stood.fetching})"


def _after(absent: CollectivesCalled, group: str) -> str:
    """The last call that a rank made in a group."""
    last = [_Stand(absent.rank, call) for call in absent.calls if call.group == group]
    return f", after {last[-1].call.name} #{last[-1].call.number} ({last[-1].where()})" if last else ""


def _way_out(stood: RankStalled) -> str:
    if stood.doing == "stopped":
        return (
            f"Let rank {stood.rank} go on by `kill -CONT`, or start the run again; --hang-after says how long to wait."
        )
    return f"Mend what rank {stood.rank} waits for there, a lock, a connection or a file; --hang-after waits longer for slow data."


def _uneven(stands: list[_Stand]) -> str:
    """Why ranks part without a condition: one is still in a loop that another has left."""
    for inside, outside in permutations(stands, 2):
        for loop in filter(None, map(_loop_at, inside.call.places)):
            left = [place.line for place in outside.call.places if place.path == loop.path and place.line > loop.last]
            if left and not loop.holds(outside.call):
                which = f"the loop of line {loop.first}, which rank {outside.rank} has left"
                return f": rank {inside.rank} is still in {which}: it has more batches"
    return ""


def _longer(stand: _Stand, absent: CollectivesCalled) -> str:
    """As above, where the other rank's script has come to its end."""
    if absent.ended not in ("finished", "exit"):
        return ""
    loop = next(
        (loop for loop in filter(None, map(_loop_at, stand.call.places)) if any(map(loop.holds, absent.calls))), None
    )
    return (
        "" if loop is None else f": rank {stand.rank} is still in the loop of line {loop.first}, so it has more batches"
    )


def _remedy(call: Collective, absent: CollectivesCalled, condition: _Condition | None) -> str:
    if condition is not None:
        return f"Take the collective out of `{condition.test}`: every rank must call it."
    if absent.ended in ("exception", "died"):
        return f"Mend what ended rank {absent.rank}: the others only wait for it."
    if "DistributedDataParallel" in call.name:
        return AS_MANY_BATCHES
    return "Call the same collectives, in the same order, on every rank."


def _evidence(stands: list[_Stand], condition: _Condition | None) -> dict[str, object]:
    shown: dict[str, object] = {
        f"rank {s.rank}": f"{s.call.name} #{s.call.number}{s.amount()}, {s.where()}, {s.call.state}" for s in stands
    }
    if condition is not None:
        shown["condition"] = f"{condition.test} (line {condition.line})"
    return shown


def _condition_at(place: Place) -> _Condition | None:
    """The nearest `if` on the rank that decides whether a line is reached: around it, or one before it that leaves."""
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
            if _ASKS_FOR_RANK.search(ast.unparse(decision.test)):
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


def _shown(place: Place) -> str:
    return f"{shown_path(place.path)}:{place.line}"


def _before(above: ast.AST | None, node: ast.AST) -> list[ast.If]:
    """The `if`s that stand before a statement in its block."""
    blocks = [
        block for name in ("body", "orelse") if isinstance(block := getattr(above, name, None), list) and node in block
    ]
    return [one for block in blocks for one in block[: block.index(node)] if isinstance(one, ast.If)]
