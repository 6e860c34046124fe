"""no-memory-growth: no tensors, graphs, hooks or memory accumulate from step to step.

`losses.append(loss)` keeps the graph of every step; a hook that is registered in each step is called once more in the
next. Both get slower and run out of memory hours later. Living tensors, the nodes of their graphs, hooks and the memory
are counted after each of some dozens of steps. What fills up and stays (caches, optimizer state, a full buffer) is not
growth; nor is a list that is cleared after each epoch, or a log of one number per step.

Of a growth: what it is, what holds it, and the user's lines that create and store it. Tensors without a graph that
accumulate during a single epoch may be released at its end: that is reported as unproved. So is a growth of the process
that no tensor and no line of the user explains.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Final, final

from torch import Tensor

from trueloop.claims.claim import Claim
from trueloop.claims.memory_watch import FIRST_COUNT, KeptObjects, MemoryLog, MemoryWatch
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.data.source import Batch, Source, Splits
from trueloop.engine.assemble import assemble
from trueloop.engine.loop import Loop
from trueloop.event import Place
from trueloop.results.proof import Cause, Proof

__all__ = ["NoMemoryGrowth"]

STEPS: Final = 60  # of a recipe
MOST_STEPS: Final = 1000  # of a script without --steps: a slower growth is not visible
FEWEST_STEPS: Final = 16
EPOCH: Final = 12  # steps per epoch of a recipe here, so that several are seen
SAMPLES: Final = 8  # in a micro-batch here: kept objects do not depend on it
WARM: Final = 1 / 3  # share of the steps that may fill caches, buffers and optimizer state
PARTS: Final = 4  # of the later steps: a growth continues in every one of them
MOST_OF: Final = 0.75  # of a part that must be below all of the part after the next: an async save holds copies
LEAST_MEGABYTES: Final = 8.0  # growth of the process: less is allocator noise
LEAST_BYTES: Final = 2**20  # growth on the GPU, where the count is exact
EXPLAINED: Final = 0.5  # share of the process growth that a line must account for
SELDOM: Final = 0.05  # kept graphs per step: one in twenty is a log of the loss
OFTEN: Final = 0.5  # kept tensors per step: one per epoch or evaluation is a history

KEEPS_GRAPHS = Cause(
    "a loss or an output is stored together with its graph",
    "store a number: `loss.item()`, or a tensor without a graph: `.detach()`",
)
KEEPS_TENSORS = Cause("a list or dict collects tensors and is never cleared", "clear it, or use `deque(maxlen=...)`")
KEEPS_HOOKS = Cause("a hook is registered in each step", "register it once, before the loop; or `handle.remove()`")
KEEPS_CHAIN = Cause("a state or a sum carries its graph from step to step", "detach it between the steps: `.detach()`")
NOT_FULL = Cause("it is a cache or a buffer that is not full yet", "watch more steps: `--steps N`")
KEEPS_MEMORY = Cause("arrays or Python objects are collected and never released", "look at what the line stores")


@final
class NoMemoryGrowth(Claim):
    name = "no-memory-growth"
    tests_own_step = True
    healthy = "after the first third of the steps, living tensors, graph nodes, hooks and memory stay constant"
    causes: ClassVar[tuple[Cause, ...]] = (
        *(KEEPS_GRAPHS, KEEPS_TENSORS, KEEPS_HOOKS),
        *(KEEPS_CHAIN, KEEPS_MEMORY, NOT_FULL),
    )

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        log = _watch(subject, lines=False)
        return self.result(log) or self.by_lines(log, _watch(subject, lines=True))

    def try_script(self, subject: ScriptSubject) -> Proof:
        last = subject.steps or MOST_STEPS
        data = _child(subject, last)
        if data is not None and FEWEST_STEPS <= data["taken"] < last:  # again, with its last step known
            data = _child(subject, last := int(data["taken"]))
        if data is None:
            return self.unproved("the script did not finish while its memory was watched")
        if data["taken"] < FEWEST_STEPS:
            said = f"{data['taken']} optimizer steps are too few to see a growth"
            return self.unproved(f"{said}: {FEWEST_STEPS} are needed; add `--steps N`")
        log = read_log(data)
        if (proof := self.result(log)) is not None:
            return proof
        again = _child(subject, last, "--lines")
        return self.by_lines(log, log if again is None else read_log(again))

    def result(self, log: MemoryLog) -> Proof | None:
        """None: the process grows, and the line is still unknown."""
        facts = _facts(log)
        if (hooks := growth_of(log.hooks)) and log.hooked is not None:
            return self._grown(hooks, "registered hooks", log.hooked, facts, KEEPS_HOOKS)
        tensors, graphs = growth_of(log.tensors), growth_of(log.nodes)
        first = next((each for each in log.kept if _leaks(each, log.aged)), None)
        if tensors and first is not None:
            if first.graph or _saw_new_epoch(log.passes):
                cause = KEEPS_GRAPHS if first.graph else KEEPS_TENSORS
                return self._grown(tensors, "living tensors", first, facts, cause)
            said = f"living tensors grow by {tensors.per_step:.2g} a step ({first.what}, held by {first.holder}), but "
            said += "all watched steps are in one pass over the loader, and they may be released at its end"
            return self.unproved(f"{said}: add `--steps N` for more than one pass", facts)
        bounded = any(each.bounded and each.graph for each in log.kept)
        if graphs and log.chain is not None and not log.chain.bounded and not bounded:
            return self._grown(graphs, "graph nodes", log.chain, facts, KEEPS_CHAIN)
        if on_device := growth_of(log.device, LEAST_BYTES):
            said = f"GPU tensors grow by {on_device.per_step / 2**20:.2g} MB a step, and no Python object holds them"
            return self.fails(said, facts, (KEEPS_CHAIN, KEEPS_MEMORY, NOT_FULL))
        if growth_of(log.megabytes, LEAST_MEGABYTES) and _saw_new_epoch(log.passes) and not tensors:
            return None
        counts = f"{log.tensors[-1]:,} living tensors, {log.nodes[-1]:,} graph nodes and {log.hooks[-1]} new hooks"
        remark = _remark(log) if tensors else "none of them growing"
        return self.holds(f"{counts} after {log.steps} steps, {remark}", facts)

    def _grown(self, growth: Growth, what: str, kept: KeptObjects, facts: dict[str, object], cause: Cause) -> Proof:
        rate = f"{growth.per_step:.2g}" if growth.per_step < 10 else f"{growth.per_step:.0f}"
        size = f", {kept.megabytes:.2g} MB so far" if kept.megabytes >= 0.1 else ""
        graphs = " with their graphs" if kept.graph and cause is KEEPS_GRAPHS else ""
        said = f"{what} grow by {rate} a step ({growth.first:.0f} to {growth.last:.0f} in {growth.steps} steps): "
        said += f"{kept.count} {kept.what}{graphs}{size}, held by {kept.holder}"
        facts |= {"held_by": kept.holder, "created_at": _line(kept.made), "stored_at": _line(kept.stored)}
        facts |= {"per_step": growth.per_step}
        return self.fails(said, facts, self.likely_first(cause), kept.stored or kept.made)

    def by_lines(self, log: MemoryLog, again: MemoryLog) -> Proof:
        """The process grows, and the tensors do not."""
        growth = growth_of(log.megabytes, LEAST_MEGABYTES)
        assert growth is not None
        path, line, size = again.lines[0] if again.lines else ("", 0, 0.0)
        facts = _facts(log) | {"megabytes_per_step": growth.per_step, "line_megabytes": size}
        facts |= {"line": f"{path}:{line}" if path else ""}
        said = f"the process grows by {growth.per_step:.2g} MB a step"
        said += f" ({growth.first:.0f} to {growth.last:.0f} MB in {growth.steps} steps)"
        if size < EXPLAINED * growth.per_step * again.steps / 2:
            said += ", and neither tensors nor a line of your code explain it"
            return self.unproved(f"{said}: add `--steps N` to watch longer", facts)
        said += f"; one line alone has added {size:.3g} MB"
        return self.fails(said, facts, self.likely_first(KEEPS_MEMORY), Place(path, line))


# -- is it growth? --


@dataclass(frozen=True, slots=True)
class Growth:
    """From the minimum of the first part to the minimum of the last."""

    first: float
    last: float
    steps: int

    @property
    def per_step(self) -> float:
        return (self.last - self.first) / self.steps


def growth_of(series: Sequence[float], least: float = 1.0) -> Growth | None:
    """Growth, if the minimum of each part is above that of the part before, and above most of the one before that. A
    list that is cleared now and then falls back; a larger batch is over with the next."""
    if len(series) < FEWEST_STEPS - FIRST_COUNT:
        return None
    tail = list(series[int(len(series) * WARM) :])
    size = len(tail) // PARTS
    parts = [tail[len(tail) - (PARTS - number) * size :][:size] for number in range(PARTS)]
    lows = [min(part) for part in parts]
    rising = all(later > earlier for earlier, later in pairwise(lows))
    pairs = zip(parts, parts[2:], strict=False)
    clear = all(min(later) > sorted(earlier)[int(len(earlier) * MOST_OF)] for earlier, later in pairs)
    enough = lows[-1] - lows[0] >= least
    return Growth(lows[0], lows[-1], size * (PARTS - 1)) if rising and clear and enough else None


def _leaks(kept: KeptObjects, steps: int) -> bool:
    """Graphs, however seldom; tensors of several elements, if about one per step: single numbers are a log."""
    if kept.bounded:
        return False
    return kept.count > max(2, SELDOM * steps) if kept.graph else kept.elements > 1 and kept.count >= OFTEN * steps


def _remark(log: MemoryLog) -> str:
    """Why a rising number of tensors is still no growth."""
    if bounded := [each for each in log.kept if each.bounded]:
        return f"none of them growing; {bounded[0].holder} fills up, and is bounded"
    return "and the additional ones are a log: less than one tensor of several elements per step"


def _saw_new_epoch(passes: Sequence[int]) -> bool:
    """A new epoch began among the counted steps, or there is no loader."""
    return not any(passes) or len(set(passes[int(len(passes) * WARM) :])) > 1


# -- watching --


def _watch(subject: RecipeSubject, *, lines: bool) -> MemoryLog:
    micro = min(subject.recipe.batch, SAMPLES * subject.recipe.accumulate)
    splits, train, valid = subject.splits, subject.splits.train, subject.splits.valid
    small: Splits = replace(splits, train=_First(train, EPOCH * micro), valid=valid and _First(valid, micro))
    changes: dict[str, Any] = {"data": lambda _: small, "batch": micro, "epochs": None, "steps": STEPS, "keep": 1}
    changes |= {"patience": None, "compile": "off", "program": "eager", "evaluate_every": None, "save_every": None}
    # A row of metrics in each step: values that wait on a GPU for the next row would look like growth, or hide it.
    changes |= {"log_every": 1, "statistics_every": 0}
    parts = assemble(replace(subject.recipe, **changes), subject.request)
    with MemoryWatch(STEPS, lines=lines).on() as log:
        Loop(parts).train()
    log.passes = [1 + (step + FIRST_COUNT - 1) // parts.batches.steps_per_epoch for step in range(log.steps)]
    return log


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
    out = subject.scratch / "memory.json"
    out.unlink(missing_ok=True)
    subject.run(out, "trueloop.claims.memory_watch", str(out), str(steps), *options)
    if not out.is_file():
        return None
    data: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return None if data["exit_code"] else data


def read_log(data: dict[str, Any]) -> MemoryLog:
    """The JSON of the child process."""
    fields = {name: value for name, value in data.items() if name not in ("taken", "exit_code")}
    fields["kept"] = [_kept(each) for each in fields["kept"]]
    fields["lines"] = [(str(path), int(line), float(size)) for path, line, size in fields["lines"]]
    fields |= {name: fields[name] and _kept(fields[name]) for name in ("chain", "hooked")}
    return MemoryLog(**fields)


def _kept(data: dict[str, Any]) -> KeptObjects:
    places = {name: data[name] and Place(**data[name]) for name in ("made", "stored")}
    return KeptObjects(**{**data, **places})


# -- evidence --


def _facts(log: MemoryLog) -> dict[str, object]:
    """The first, middle and last value of each series."""
    series: dict[str, Sequence[float]] = {"tensors": log.tensors, "graph_nodes": log.nodes, "hooks": log.hooks}
    series |= {"process_megabytes": [round(each, 1) for each in log.megabytes]}
    series |= {"gpu_bytes": log.device} if any(log.device) else {}
    ends = {name: [values[0], values[log.steps // 2], values[-1]] for name, values in series.items()}
    return {"steps": log.steps, **ends}


def _line(place: Place | None) -> str:
    return "" if place is None else f"{place.path}:{place.line}"
