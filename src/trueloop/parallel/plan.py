"""Plans a training on several GPUs: searches the ways to spread it for the fastest that fits. No torch.

    made = plan(facts, Terms(gpus=8, memory=80e9, bandwidth=600e9, batch=64))
    made.recommended, made.commands[made.chosen], made.reasons, made.assumed

The search: none, ddp, fsdp, hsdp x tp x pp x cp, each with and without activation checkpointing, each with the
fewest micro-batches that fit. What `train` does not run is listed, never recommended.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Final, get_args

from trueloop.parallel.estimate import RESERVE, Terms, computing, memory_of, row_of
from trueloop.recipe.recipe import field_types
from trueloop.results.plan import ModelFacts, Plan, Refused, Row, Scaled, Way

__all__ = ["MOST_GPUS", "Terms", "memory_of", "plan", "row_of", "why_not"]

MOST_GPUS: Final = 1024  # Beyond it two bandwidths say too little about a real network
SPLITS: Final = (1, 2, 4, 8)  # GPUs that may share a layer or a sequence: heads can be divided by them
STAGES: Final = (1, 2, 4, 8, 16)
NEAR: Final = 0.15
"""Ways whose estimated speeds lie this near are equally fast, and the simplest wins: ddp, fsdp, hsdp, tp, pp. It is
about the estimate's own error: torchtitan's published runs that set no constant differ from it by 1, 6 and 18 %, those
of another cluster by more (benchmarks/plan.py)."""
EQUAL: Final = 0.01  # Of one way: numbers of micro-batches whose speeds lie this near; the fewest win
FEW: Final = 3  # ways that are named as the best
ON_PAPER: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

Support = Callable[[Way, int], str]
"""Why `train` does not run a way with so many micro-batches; empty: it does."""
Command = Callable[[Row], str]
"""What to type for a row."""


# -- the ways --


def _ways(terms: Terms) -> Iterator[Way]:
    """The simplest first."""
    yield Way("none")
    if terms.gpus == 1:
        return
    sizes = sorted(product(SPLITS, STAGES, SPLITS), key=lambda each: (sum(size > 1 for size in each), each[::-1]))
    for data in ("ddp", "fsdp", "hsdp"):
        yield from _kinds(data, 1, 1, 1, terms)
    for tensor, pipeline, context in sizes[1:]:
        ranks = tensor * pipeline * context
        if ranks == terms.gpus:
            yield from _kinds("none", tensor, pipeline, context, terms)
        elif terms.gpus % ranks == 0:
            for data in ("ddp", "fsdp", "hsdp"):
                yield from _kinds(data, tensor, pipeline, context, terms)
    if not any(size == terms.gpus for size in SPLITS):
        yield Way("tp", tensor=terms.gpus)  # to say why not


def _kinds(data: str, tensor: int, pipeline: int, context: int, terms: Terms) -> Iterator[Way]:
    named = (("tp", tensor), ("pp", pipeline), ("cp", context))
    kind = "+".join([*([data] if data != "none" else []), *(name for name, size in named if size > 1)])
    copies = terms.gpus // (tensor * pipeline)
    shards = [size for size in ON_PAPER[1:] if size < copies and copies % size == 0] if data == "hsdp" else [1]
    for size in shards:
        yield Way(kind, tensor=tensor, pipeline=pipeline, context=context, shards=size)


def why_not(facts: ModelFacts, way: Way, terms: Terms) -> str:
    """Why a way cannot be gone; empty: it can."""
    replicas = 1 if way.kind == "none" else max(1, terms.gpus // way.ranks)
    if way.recompute and not facts.blocks:
        return "the model has no repeated blocks to compute again"
    if way.tensor > 1 and not facts.splittable:
        return "the model has no repeated blocks whose matrices could be split"
    if way.tensor > 1 and way.tensor not in SPLITS:
        return f"a layer is shared by {', '.join(map(str, SPLITS[1:]))} GPUs of one machine, not by {way.tensor:,}"
    if way.tensor > terms.node:
        return f"a layer is shared by the {terms.node:,} GPUs of one machine at most, not by {way.tensor:,}"
    if way.pipeline > 1 and (not facts.blocks or facts.blocks % way.pipeline):
        return f"{facts.blocks:,} repeated blocks cannot be split into {way.pipeline} equal stages"
    if way.context > 1 and (not facts.positions or facts.positions % (2 * way.context)):
        seen = f"sequences of {facts.positions:,}" if facts.positions else "samples without a sequence"
        return f"{seen} cannot be split into {2 * way.context} equal parts"
    if replicas > terms.batch:
        return f"a batch of {terms.batch:,} cannot be split over {replicas:,}: give --set batch={replicas}, or more"
    if way.pipeline > 1 and math.ceil(terms.batch / replicas) < way.pipeline:
        return f"{way.pipeline} stages need {way.pipeline} micro-batches, and a share of the batch has fewer samples"
    return ""


def _counts(way: Way, terms: Terms) -> Iterator[int]:
    """Micro-batches of a share, from the number in the recipe on."""
    share, count = math.ceil(terms.batch / (1 if way.kind == "none" else terms.gpus // way.ranks)), terms.accumulate
    while count < way.pipeline:
        count *= 2
    yield count
    while count * 2 <= share:
        count *= 2
        yield count


def _best_of(facts: ModelFacts, ways: Iterable[Way], terms: Terms) -> Row:
    """The fastest that fits; where none does, the smallest. Of equally fast ones the first, with the fewest splits."""
    rows = [row_of(facts, way, replace(terms, accumulate=count)) for way in ways for count in _counts(way, terms)]
    fitting = [row for row in rows if row.fits]
    if not fitting:
        return min(rows, key=lambda row: row.memory.total)
    fastest = max(row.speedup.value for row in fitting)
    return next(row for row in fitting if row.speedup.value >= fastest * (1.0 - EQUAL))


def supported(way: Way, _: int = 1) -> str:
    """Does `train` have a word for it? What the recipe's other fields allow is unknown here."""
    words = get_args(field_types()["parallel"])
    if way.kind in words:
        return ""
    if way.context > 1:
        return "torch splits sequences over CUDA devices only, which was not tested"
    return f"parallel takes {', '.join(words[2:])}"


# -- the choice --


def plan(
    facts: ModelFacts,
    terms: Terms,
    subject: str = "",
    optimizer: str = "",
    support: Support = supported,
    command: Command = lambda row: row.way.name,
) -> Plan:
    """Every way, and the fastest that fits: of equally fast ones the simplest."""
    refused, rows, unsupported = _rows(facts, terms, support)
    fitting = [number for number, row in enumerate(rows) if row.fits]
    fastest = max((rows[number].speedup.value for number in fitting), default=0.0)
    chosen = next((number for number in fitting if rows[number].speedup.value >= fastest * (1.0 - NEAR)), None)
    others = sorted((each for each in fitting if each != chosen), key=lambda each: rows[each].step.value)
    best = () if chosen is None else (chosen, *others[: FEW - 1])
    reasons = _reasons(facts, terms, rows, chosen, refused)
    return Plan(
        subject, facts, terms.gpus, terms.memory, terms.bandwidth, terms.network.between, terms.node, terms.batch,
        terms.accumulate, terms.precision, optimizer,
        tuple(rows), tuple(refused), tuple(unsupported), chosen, best, tuple(map(command, rows)),
        tuple(reasons), tuple(_assumptions(facts, terms)),
        tuple(_scaling(facts, rows[chosen], terms)) if chosen is not None else (),
    )  # fmt: skip


def _rows(facts: ModelFacts, terms: Terms, support: Support) -> tuple[list[Refused], list[Row], list[Refused]]:
    """What `train` knows but this model cannot do, the best row of each kind, and of each kind that it does not run."""
    kinds: dict[tuple[str, bool], list[Way]] = {}
    for way in _ways(terms):
        for recompute in (False, True):
            kinds.setdefault((way.kind, recompute), []).append(replace(way, recompute=recompute))
    refused: list[Refused] = []
    rows: list[Row] = []
    unsupported: list[Refused] = []
    for ways in kinds.values():
        possible = [way for way in ways if not why_not(facts, way, terms)]
        able = [way for way in possible if not support(way, terms.accumulate)]
        if able:
            rows.append(_best_of(facts, able, terms))
        elif possible:
            row = _best_of(facts, possible, terms)
            unsupported.append(Refused(row.way, support(row.way, row.accumulate), row))
        elif not support(ways[0], terms.accumulate):
            refused.append(Refused(ways[0], why_not(facts, ways[0], terms)))
    return refused, rows, unsupported


def _scaling(facts: ModelFacts, row: Row, terms: Terms) -> Iterator[Scaled]:
    """On paper: what a GPU computes stays as it is."""
    seconds, way = computing(facts, terms).value, row.way
    for gpus in ON_PAPER:
        together = way.ranks * (way.shards if way.data == "hsdp" else 1)
        if way.kind not in ("none", "ddp", "fsdp"):
            alone = way.data == "none"
            if (alone and gpus != way.ranks) or (not alone and (gpus < 2 * together or gpus % together)):
                continue
        here = replace(way, kind="none" if gpus == 1 else "ddp" if way.kind == "none" else way.kind)
        batch = row.share * (gpus // way.ranks)
        larger = replace(terms, gpus=gpus, batch=batch, step=seconds, accumulate=row.accumulate)
        estimate = row_of(facts, here, larger)
        speedup, efficiency = estimate.speedup.value, estimate.efficiency.value
        yield Scaled(gpus, batch, estimate.memory.total, estimate.wire_seconds.value, speedup, efficiency)


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.3g} GB"


def _reasons(facts: ModelFacts, terms: Terms, rows: list[Row], chosen: int | None, no: list[Refused]) -> Iterator[str]:
    usable = terms.memory * (1.0 - RESERVE)
    room = f"{_gigabytes(usable)} of {_gigabytes(terms.memory)}"
    if chosen is None:
        yield from _no_way(facts, terms, rows, no, room)
        return
    best = rows[chosen]
    each = "" if best.way.kind == "none" else " on each GPU"
    yield f"{best.way.name} needs {_gigabytes(best.memory.total)}{each}; {room} is usable."
    over = [row for row in rows[:chosen] if not row.fits]
    if over:
        taken = ", ".join(f"{row.way.name} needs {_gigabytes(row.memory.total)}" for row in over)
        yield f"Simpler strategies do not fit: {taken}."
    slower = [row for number, row in enumerate(rows) if row.fits and number != chosen]
    ahead = [row for row in slower if row.speedup.value > best.speedup.value]
    if ahead:
        fastest = max(ahead, key=lambda row: row.speedup.value)
        slower_by = 1.0 - best.speedup.value / fastest.speedup.value
        within = f"{slower_by:.0%} slower than {fastest.way.name}, within the error of the estimate ({NEAR:.0%})"
        yield f"{best.way.name} is {within}, and simpler."
    if best.accumulate > terms.accumulate:
        micro = f"{best.accumulate} micro-batches of {best.micro:,}"
        yield f"A share of {best.share:,} samples is computed in {micro}: the batch, and the results, stay as they are."
    if terms.gpus > 1:
        yield _sharing(best, rows, terms)
    smallest = min((row for row in rows if row.fits), key=lambda row: row.memory.total)
    if smallest.way != best.way and smallest.memory.total < 0.8 * best.memory.total:
        least = f"{_gigabytes(smallest.memory.total)} at {smallest.speedup.value:.3g}x"
        yield f"If memory becomes scarce, {smallest.way.name} needs {least}."


def _sharing(best: Row, rows: list[Row], terms: Terms) -> str:
    """The gain of several GPUs, or why there is none."""
    others = [row for row in rows if row.way.kind != "none" and row.fits]
    if best.way.kind != "none":
        share = best.exposed.value / best.step.value if best.step.value else 0.0
        return (
            f"{best.exposed.value * 1e3:.3g} of {best.wire_seconds.value * 1e3:.3g} ms of communication are not "
            f"overlapped ({share:.1%} of a step): {best.speedup.value:.3g}x with {terms.gpus:,} GPUs; "
            f"{best.speedup_unhidden.value:.3g}x without any overlap."
        )
    if not others:
        return f"No strategy for {terms.gpus:,} GPUs is possible or fits."
    other = max(others, key=lambda row: row.speedup.value)
    return (
        f"There is too little to compute: with {other.way.name}, communication takes about as long as the split saves "
        f"({other.speedup.value:.3g}x). A larger batch or a faster link changes that."
    )


def _no_way(facts: ModelFacts, terms: Terms, rows: list[Row], refused: list[Refused], room: str) -> Iterator[str]:
    if not rows:
        yield f"No strategy is possible: {refused[0].way.name}: {refused[0].why}."
        return
    least = min(rows, key=lambda row: row.memory.total)
    need = f"{least.way.name}, needs {_gigabytes(least.memory.total)} on each GPU"
    yield f"No strategy fits: the smallest, {need}; {room} is usable."
    if least.memory.activations.value + least.memory.workspace.value < least.memory.total / 2:
        yield "Most of it is weights, gradients and optimizer state: with offload=true, fsdp keeps them on the host."
    for gpus in ON_PAPER:
        way = replace(least.way, kind="fsdp", shards=1) if least.way.data in ("none", "hsdp") else least.way
        more = replace(terms, gpus=gpus, step=0.0, batch=max(gpus, terms.batch))
        if gpus > terms.gpus and not why_not(facts, way, more) and _best_of(facts, [way], more).fits:
            grown = f", with --set batch={gpus}" if gpus > terms.batch else ""
            yield f"With {gpus:,} GPUs {way.name} fits{grown}."
            return


def _assumptions(facts: ModelFacts, terms: Terms) -> Iterator[str]:
    if not terms.step:
        gpu = terms.gpu
        yield (
            f"A GPU computes {gpu.rate(terms.precision) / 1e12:.3g} TFLOP/s in {terms.precision}: {gpu.reached:.0%} "
            f"of {gpu.name}'s peak. A measured time is better: --step 45ms, one GPU's time for its share of a batch "
            "(`trueloop profile`)."
        )
    if terms.gpus > 1:
        sent, far = f"{terms.bandwidth / 1e9:.3g} GB/s", f"{terms.network.between / 1e9:.3g} GB/s"
        waits = f"{terms.latency * 1e6:.3g} and {terms.latency_between * 1e6:.3g} us"
        yield (
            f"Every GPU sends {sent} in rings inside a node of {terms.node}, {far} to other nodes; latency {waits}. "
            "Busy or uneven networks are slower."
        )
        yield ("ddp overlaps gradients with the backward, but the last 25 MiB; fsdp weights with the previous block.")
        yield (f"fsdp gathers in {terms.precision}, reduces in fp32, in each micro-batch; weights outside blocks stay.")
        yield ("tp splits matrices of blocks, not norms, embeddings, the residual stream; it overlaps no all-reduce.")
        yield ("pp is 1F1B with equal stages, weights outside blocks on all of them; cp hides no keys and values.")
    yield "Gradients and activations are in memory together; freeing gradients before the forward lowers the peak."
    yield ("Weights, gradients and optimizer state are in fp32. Eager: compiled programs usually keep less.")
    yield f"{RESERVE:.0%} of the memory stays free for CUDA, NCCL and fragmentation; workspace is an estimate."
    yield f"All samples are like the measured ones: {facts.how}."
