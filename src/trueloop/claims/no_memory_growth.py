"""no-memory-growth: what a step leaves behind does not add up: no tensors, graphs, hooks or memory that grow from step
to step.

`losses.append(loss)` keeps the graph of every step; a hook that is registered in each step is called once more in the
next. Both are slow and end hours later, out of memory. Here the living tensors, the nodes of the graphs behind them,
hooks and the memory are counted after each of some dozens of steps. What fills up and stays (caches, an optimizer's
state, a full buffer) is no growth; nor is a list that is emptied after each pass over the data, or a log of one number
in a step.

Where something grows: what it is, who holds it, and the user's lines that make it and keep it. Tensors without a graph
that pile up during a single pass over a loader may yet be let go at its end: that is said, and counts as unproved. The
same holds for a growth of the process that no tensor and no line of the user's explains.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Final, final

from torch import Tensor

from trueloop.claims.claim import Claim
from trueloop.claims.leak import BEGIN, Kept, Seen, Watch
from trueloop.claims.subject import RecipeSubject, ScriptSubject, python
from trueloop.data.source import Batch, Source, Splits
from trueloop.engine.assemble import assemble
from trueloop.engine.loop import Loop
from trueloop.event import Place
from trueloop.results.proof import Cause, Proof

__all__ = ["Growth", "NoMemoryGrowth", "grows", "seen_by"]

STEPS: Final = 60
"""Of a recipe; of a script, as many as it may take."""
MOST: Final = 1000
"""Steps of a script that may run to its own end: what has not grown until then grows too slowly to see."""
FEWEST: Final = 16
"""Steps below which a growth and a beginning cannot be told apart."""
PASS: Final = 12
"""Steps of a pass over the data of a recipe here: so that several of them are seen."""
SAMPLES: Final = 8
"""In a micro-batch here: what is kept does not depend on it, and the time does."""
WARM: Final = 1 / 3
"""The share of the steps that may fill caches, buffers and the optimizer's state."""
PARTS: Final = 4
"""Of the steps after that: a growth goes on in every one of them."""
MOST_OF: Final = 0.75
"""Of a part's steps that must lie below all of the part after the next: a save under way in another thread holds copies
for a while."""
LEAST_MEGABYTES: Final = 8.0
"""Of growth that is laid to the process: less is what allocators do."""
LEAST_BYTES: Final = 2**20
"""Of growth on the GPU, where all that tensors take is counted exactly."""
EXPLAINED: Final = 0.5
"""The share of the process's growth that a line of the user's must account for, to be named as what grows."""

SELDOM: Final = 0.05
"""Kept graphs in a step: one in twenty is a log that keeps the loss itself."""
OFTEN: Final = 0.5
"""Kept tensors without a graph in a step: what comes once in a pass over the data, or in an evaluation, is a
history."""

KEEPS_GRAPHS: Final = Cause(
    "a loss or an output is kept with the graph that computed it",
    "keep a number: loss.item(), or a tensor without a graph: .detach()",
)
KEEPS_TENSORS: Final = Cause(
    "a list or dict collects tensors and is never emptied", "clear it, or bound it: collections.deque(maxlen=...)"
)
KEEPS_HOOKS: Final = Cause(
    "a hook is registered in each step", "register it once before the parts, or remove its handle: handle.remove()"
)
KEEPS_CHAIN: Final = Cause(
    "a state or a sum goes on from step to step with its graph", "detach it between the steps: state = state.detach()"
)
NOT_FULL: Final = Cause("it is a cache or a buffer that is not full yet", "watch more steps: --steps N")
KEEPS_MEMORY: Final = Cause(
    "arrays or objects of Python are collected and never let go", "look at what the line keeps, and for how long"
)


@final
class NoMemoryGrowth(Claim):
    name = "no-memory-growth"
    healthy = "after the first third of the steps, living tensors, graph nodes, hooks and memory stay where they are"
    causes: ClassVar[tuple[Cause, ...]] = (
        KEEPS_GRAPHS,
        KEEPS_TENSORS,
        KEEPS_HOOKS,
        KEEPS_CHAIN,
        KEEPS_MEMORY,
        NOT_FULL,
    )

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        seen = _watched(subject, lines=False)
        proof = self.judged(seen)
        return self.by_lines(seen, _watched(subject, lines=True)) if proof is None else proof

    def of_script(self, subject: ScriptSubject) -> Proof:
        last = subject.steps or MOST
        told = _child(subject, last)
        if told is not None and FEWEST <= told["taken"] < last:
            told = _child(
                subject, last := int(told["taken"])
            )  # it ended by itself: the same again, with its last step known
        if told is None:
            return self.unproved("the script did not come to an end while it was watched")
        if told["taken"] < FEWEST:
            return self.unproved(
                f"{told['taken']} optimizer steps are too few to see a growth: {FEWEST} are needed; type --steps N"
            )
        seen = seen_by(told)
        proof = self.judged(seen)
        if proof is not None:
            return proof
        again = _child(subject, last, "--lines")
        return self.by_lines(seen, seen if again is None else seen_by(again))

    def judged(self, seen: Seen) -> Proof | None:
        """None: the process grows, and it has still to be asked which line does it."""
        facts = _facts(seen)
        if (hooks := grows(seen.hooks)) and seen.hooked is not None:
            return self._grown(hooks, "registered hooks", seen.hooked, facts, KEEPS_HOOKS)
        tensors, graphs = grows(seen.tensors), grows(seen.nodes)
        first = next((each for each in seen.kept if _leaks(each, seen.aged)), None)
        if tensors and first is not None:
            if first.graph or _crossed(seen.passes):
                return self._grown(
                    tensors, "living tensors", first, facts, KEEPS_GRAPHS if first.graph else KEEPS_TENSORS
                )
            return self.unproved(
                f"living tensors grow by {tensors.per_step:.2g} a step ({first.what}, held by {first.holder}), but all steps that were "
                "watched lie in one pass over the loader, and they may be let go at its end: type --steps N for more than a pass has",
                facts,
            )
        bounded = [each for each in seen.kept if each.bounded]
        if graphs and seen.chain is not None and not seen.chain.bounded and not any(each.graph for each in bounded):
            return self._grown(graphs, "nodes of graphs", seen.chain, facts, KEEPS_CHAIN)
        if on_device := grows(seen.device, LEAST_BYTES):
            said = f"tensors on the GPU take {on_device.per_step / 2**20:.2g} MB more with each step, and no object of Python's holds them"
            return self.fails(said, facts, (KEEPS_CHAIN, KEEPS_MEMORY, NOT_FULL))
        if grows(seen.megabytes, LEAST_MEGABYTES) and _crossed(seen.passes) and not tensors:
            return None
        return self.holds(
            f"{seen.tensors[-1]:,} living tensors, {seen.nodes[-1]:,} graph nodes and {seen.hooks[-1]} new hooks after {seen.steps} steps, "
            f"{_remark(seen) if tensors else 'none of them growing'}",
            facts,
        )

    def _grown(self, growth: Growth, what: str, kept: Kept, facts: dict[str, object], cause: Cause) -> Proof:
        each = f"{growth.per_step:.2g}" if growth.per_step < 10 else f"{growth.per_step:.0f}"
        size = f", {kept.megabytes:.2g} MB so far" if kept.megabytes >= 0.1 else ""
        said = f"{what} grow by {each} a step ({growth.first:.0f} to {growth.last:.0f} in {growth.steps} steps): "
        said += f"{kept.count} {kept.what}{' with their graphs' if kept.graph and cause is KEEPS_GRAPHS else ''}{size}, held by {kept.holder}"
        more = {
            "held_by": kept.holder,
            "made_at": _words(kept.made),
            "kept_at": _words(kept.put),
            "per_step": growth.per_step,
        }
        return self.fails(said, facts | more, _first(cause, self.causes), kept.put or kept.made)

    def by_lines(self, seen: Seen, again: Seen) -> Proof:
        """The process grows, and no tensor does."""
        growth = grows(seen.megabytes, LEAST_MEGABYTES)
        assert growth is not None
        path, line, size = again.lines[0] if again.lines else ("", 0, 0.0)
        half = growth.per_step * again.steps / 2
        facts = _facts(seen) | {
            "megabytes_per_step": growth.per_step,
            "line": f"{path}:{line}" if path else "",
            "line_megabytes": size,
        }
        said = f"the process grows by {growth.per_step:.2g} MB a step ({growth.first:.0f} to {growth.last:.0f} MB in {growth.steps} steps)"
        if size < EXPLAINED * half:
            return self.unproved(
                f"{said}, and neither tensors nor a line of the user's account for it: type --steps N to watch longer",
                facts,
            )
        return self.fails(
            f"{said}; one line alone has added {size:.3g} MB",
            facts,
            _first(KEEPS_MEMORY, self.causes),
            Place(path, line),
        )


# -- is it growth? --


@dataclass(frozen=True, slots=True)
class Growth:
    """From the lowest of the first part to the lowest of the last."""

    first: float
    last: float
    steps: int

    @property
    def per_step(self) -> float:
        return (self.last - self.first) / self.steps


def grows(series: Sequence[float], least: float = 1.0) -> Growth | None:
    """Is each part's lowest above the lowest of the one before, and above most of the one before that? Then it is no
    noise.

    A list that is emptied now and then falls back; a batch that is larger than others is over with the next.
    """
    if len(series) < FEWEST - BEGIN:
        return None
    tail = list(series[int(len(series) * WARM) :])
    size = len(tail) // PARTS
    parts = [tail[len(tail) - (PARTS - number) * size :][:size] for number in range(PARTS)]
    floors = [min(part) for part in parts]
    rising = all(later > earlier for earlier, later in pairwise(floors))
    clear = all(
        min(later) > sorted(earlier)[int(len(earlier) * MOST_OF)]
        for earlier, later in zip(parts, parts[2:], strict=False)
    )
    grown = floors[-1] - floors[0]
    return Growth(floors[0], floors[-1], size * (PARTS - 1)) if rising and clear and grown >= least else None


def _leaks(kept: Kept, steps: int) -> bool:
    """A graph, however seldom; other tensors, if it is about one in each step, and more than a number: those are a
    log."""
    if kept.bounded:
        return False
    return kept.count > max(2, SELDOM * steps) if kept.graph else kept.numbers > 1 and kept.count >= OFTEN * steps


def _remark(seen: Seen) -> str:
    """Why a number of tensors that grows is none the less no growth."""
    if bounded := [each for each in seen.kept if each.bounded]:
        return f"none of them growing; {bounded[0].holder} fills up, and is bounded"
    return "and what there is more of them is a log: less than a tensor of several numbers in a step"


def _crossed(passes: Sequence[int]) -> bool:
    """Did a new pass over the data begin among the steps that count? Without a loader there is none to wait for."""
    counted = passes[int(len(passes) * WARM) :]
    return not any(passes) or len(set(counted)) > 1


# -- watching --


def _watched(subject: RecipeSubject, *, lines: bool) -> Seen:
    micro = min(subject.recipe.batch, SAMPLES * subject.recipe.accumulate)
    few = _few(subject.splits, PASS * micro)
    changes: dict[str, Any] = {
        "data": lambda _: few,
        "batch": micro,
        "epochs": None,
        "steps": STEPS,
        "keep": 1,
        "patience": None,
    }
    # A line of metrics in each step: what waits on a GPU for the next line would look like growth, or hide it.
    changes |= {
        "compile": "off",
        "program": "eager",
        "evaluate_every": None,
        "save_every": None,
        "log_every": 1,
        "statistics_every": 0,
    }
    parts = assemble(replace(subject.recipe, **changes), subject.request)
    watch = Watch(STEPS, lines=lines)
    with watch.on() as seen:
        Loop(parts).train()
    seen.passes = [1 + (step + BEGIN - 1) // parts.batches.steps_per_epoch for step in range(seen.steps)]
    return seen


def _few(splits: Splits, number: int) -> Splits:
    return replace(
        splits,
        train=_First(splits.train, number),
        valid=None if splits.valid is None else _First(splits.valid, number // PASS),
    )


@final
class _First(Source):
    """The first samples of a source."""

    def __init__(self, source: Source, number: int) -> None:
        self.source, self.number = source, min(number, len(source))

    def __len__(self) -> int:
        return self.number

    def fetch(self, numbers: Tensor) -> Batch:
        return self.source.fetch(numbers)

    def labels(self) -> Tensor | None:
        labels = self.source.labels()
        return None if labels is None else labels[: self.number]


def _child(subject: ScriptSubject, steps: int, *options: str) -> dict[str, Any] | None:
    out = subject.scratch / "leak.json"
    out.unlink(missing_ok=True)
    python("-m", "trueloop.claims.leak", str(out), str(steps), *options, *subject.command)
    if not out.is_file():
        return None
    told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return None if told["exit_code"] else told


def seen_by(told: dict[str, Any]) -> Seen:
    """From the child's words."""
    fields = {name: value for name, value in told.items() if name not in ("taken", "exit_code")}
    kept = [_kept(each) for each in fields.pop("kept")]
    lines = [(str(path), int(line), float(size)) for path, line, size in fields.pop("lines")]
    chain, hooked = (None if (each := fields.pop(name)) is None else _kept(each) for name in ("chain", "hooked"))
    return Seen(**fields, kept=kept, lines=lines, chain=chain, hooked=hooked)


def _kept(data: dict[str, Any]) -> Kept:
    made, put = (None if (place := data.pop(name)) is None else Place(**place) for name in ("made", "put"))
    return Kept(**data, made=made, put=put)


# -- words --


def _facts(seen: Seen) -> dict[str, object]:
    middle = seen.steps // 2
    facts: dict[str, object] = {
        "steps": seen.steps,
        "tensors": [seen.tensors[0], seen.tensors[middle], seen.tensors[-1]],
        "graph_nodes": [seen.nodes[0], seen.nodes[middle], seen.nodes[-1]],
        "hooks": [seen.hooks[0], seen.hooks[middle], seen.hooks[-1]],
        "process_megabytes": [
            round(seen.megabytes[0], 1),
            round(seen.megabytes[middle], 1),
            round(seen.megabytes[-1], 1),
        ],
    }
    return facts | ({"gpu_bytes": [seen.device[0], seen.device[middle], seen.device[-1]]} if any(seen.device) else {})


def _words(place: Place | None) -> str:
    return "" if place is None else f"{place.path}:{place.line}"


def _first(cause: Cause, every: tuple[Cause, ...]) -> tuple[Cause, ...]:
    return (cause, *(each for each in every if each is not cause))
