"""Plans a training on several GPUs: estimated memory, traffic and time of each strategy, and the best one. No torch.

    made = plan(facts, Terms(gpus=8, memory=80e9, bandwidth=600e9, batch=64))
    made.recommended, made.reasons, made.assumed

Collectives are rings: every GPU sends to the next one (`ring_*`: bytes that one GPU sends for a message of given size).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from trueloop.results.plan import Figure, Memory, ModelFacts, Plan, Refused, Row, Scaled, Way

__all__ = ["MOST_GPUS", "Terms", "memory_of", "plan"]

MOST_GPUS: Final = 1024  # Beyond it a ring of one bandwidth says nothing about a real network
TENSOR_SIZES: Final = (
    2,
    4,
    8,
)  # GPUs of one machine that may share a layer: its links are fast, and heads can be divided by them
RESERVE: Final = 0.08  # of a GPU's memory, for what nobody counts: CUDA itself, NCCL's buffers, gaps between tensors
BUCKET: Final = 25 << 20  # bytes that DistributedDataParallel sends at once; the last of them cannot be hidden
FIRST_BUCKET: Final = 1 << 20  # Bytes of its first one, which is smaller so that sending begins early
LIBRARIES: Final = 32 << 20  # Bytes that cuBLAS takes as its workspace on recent GPUs
SIZES: Final = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}  # Bytes of a number that is computed with
# FLOP/s of an A100 as its maker states them: the GPU that is assumed as long as no step time is given
PEAKS: Final = {"fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12, "fp16": 312e12}
REACHED: Final = 0.4  # The share of them that a training of large matrices reaches
NEAR: Final = 0.05  # ways whose speeds lie this near are equally fast, as far as paper can tell; the simpler one wins
ON_PAPER: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a plan is made for."""

    gpus: int
    memory: float  # Bytes of one
    bandwidth: float  # Bytes per second that each sends
    batch: int  # Samples per optimizer step, over all GPUs
    accumulate: int = 1
    precision: str = "fp32"
    step: float = 0.0  # measured seconds that a GPU computes in a step, on its share of the batch; 0: by FLOPs

    @property
    def size(self) -> int:
        return SIZES[self.precision]


# -- collectives --


def ring_all_reduce(message: float, gpus: int) -> float:
    """A reduce-scatter, and an all-gather of its results."""
    return ring_reduce_scatter(message, gpus) + ring_all_gather(message, gpus)


def ring_reduce_scatter(message: float, gpus: int) -> float:
    """`message`: what each GPU has, of which it keeps the sum of one part."""
    return message * (gpus - 1) / gpus


def ring_all_gather(message: float, gpus: int) -> float:
    """`message`: what each GPU has in the end."""
    return message * (gpus - 1) / gpus


# -- memory --


def _computed(value: float, how: str) -> Figure:
    return Figure(value, "computed", how)


def _held(facts: ModelFacts, way: Way) -> float:
    """The share of the model's numbers that the GPUs which split its layers hold each."""
    return 1.0 - facts.splittable / facts.numbers * (1.0 - 1.0 / way.tensor)


def _micro(way: Way, terms: Terms) -> int:
    """Samples of one forward."""
    return math.ceil(_share(way, terms) / terms.accumulate)


def _share(way: Way, terms: Terms) -> int:
    return math.ceil(terms.batch / (terms.gpus // way.tensor))


def memory_of(facts: ModelFacts, way: Way, terms: Terms) -> Memory:
    """Of one GPU, when most is alive: gradients are counted in full beside the activations."""
    replicas = terms.gpus // way.tensor
    shards = replicas if way.sharded else 1
    held = _held(facts, way) / shards
    of = f"1/{shards} of them" if shards > 1 else "all of them"
    if way.tensor > 1:
        of += f", matrices of blocks split over {way.tensor}"
    return Memory(
        parameters=_computed(facts.parameter_bytes * held, f"{of}, in fp32"),
        gradients=_computed(facts.gradient_bytes * held, f"{of}, in fp32"),
        optimizer=_computed(facts.state_bytes * held, f"{of}; {facts.state_how}" if facts.state_how else of),
        activations=_activations(facts, way, terms),
        workspace=_workspace(facts, way, terms),
    )


def _activations(facts: ModelFacts, way: Way, terms: Terms) -> Figure:
    kept, micro = facts.kept, _micro(way, terms)
    saved = 1.0 - 1.0 / way.tensor
    recomputed = kept.per_sample - kept.in_blocks + kept.block_inputs
    per_sample = recomputed if way.recompute else kept.per_sample - kept.split * saved
    # A sharded model gathers its weights in the precision that it computes in: autocast keeps no copies of them.
    fixed = 0.0 if way.sharded else kept.fixed * _held(facts, way)
    how = "what blocks are given, and what is kept outside of them" if way.recompute else "what the backward needs"
    return _computed(per_sample * micro + fixed, f"{how}, for {micro:,} samples; {facts.how}")


def _workspace(facts: ModelFacts, way: Way, terms: Terms) -> Figure:
    kept, micro, whole = facts.kept, _micro(way, terms), way.tensor
    scores = min(kept.scores * micro, kept.scores_most) + (kept.scores_fixed if kept.scores else 0.0)
    flowing = 2 * kept.largest_tensor * micro
    again = kept.largest_block * micro if way.recompute else 0.0
    if whole > 1 and kept.in_blocks:
        again *= 1.0 - kept.split / kept.in_blocks * (1.0 - 1.0 / whole)
    gathered = 0.0
    if way.sharded:
        part = facts.largest_block or facts.outside
        gathered = _held(facts, way) * (terms.size * (facts.outside + 2 * facts.largest_block) + 4 * part)
    how = "two gradients as large as the largest tensor, or the scores of the loss; buffers; cuBLAS"
    how += "; one block that is computed again" if way.recompute else ""
    how += "; two gathered blocks, what is in no block, and a gradient before it is reduced" if way.sharded else ""
    return Figure(max(scores, flowing + again) + gathered + facts.buffer_bytes + LIBRARIES, "assumed", how)


# -- time --


def _traffic(facts: ModelFacts, way: Way, terms: Terms) -> tuple[float, float]:
    """Bytes that a GPU sends in a step: of weights and gradients; of activations, which nothing hides."""
    replicas = terms.gpus // way.tensor
    held = _held(facts, way)
    if way.sharded:
        gathers = 2 * ring_all_gather(facts.numbers * terms.size * held, replicas)
        states = terms.accumulate * (gathers + ring_reduce_scatter(facts.gradient_bytes * held, replicas))
    else:
        states = ring_all_reduce(facts.gradient_bytes * held, replicas)
    message = facts.stream * _micro(way, terms) * terms.size
    times = (6 if way.recompute else 4) * facts.blocks * terms.accumulate
    return states, times * ring_all_reduce(message, way.tensor)


def _computing(facts: ModelFacts, terms: Terms) -> Figure:
    """Seconds of one GPU's part of a step, if all were split evenly."""
    if terms.step:
        return Figure(terms.step, "measured", "given as --step")
    rate = PEAKS[terms.precision] * REACHED
    how = f"{facts.flops:.3g} FLOPs a sample, computed, at {rate / 1e12:.3g} TFLOP/s, assumed"
    return Figure(facts.flops * terms.batch / terms.gpus / rate, "assumed", how)


def _exposed(facts: ModelFacts, way: Way, terms: Terms, seconds: float) -> float:
    """`seconds`: of computing."""
    states, activations = (sent / terms.bandwidth for sent in _traffic(facts, way, terms))
    if way.sharded:
        hidden = max(states / (facts.blocks + 1), states - seconds)
    else:
        backward = seconds * (1.0 - facts.flops_forward / facts.flops if facts.flops else 2 / 3) / terms.accumulate
        message = facts.gradient_bytes * _held(facts, way)
        last = message if message <= FIRST_BUCKET else min(BUCKET, message - FIRST_BUCKET)
        last = states * last / message if message else 0.0
        hidden = max(last, states - backward)
    return hidden + activations


def row_of(facts: ModelFacts, way: Way, terms: Terms) -> Row:
    """`none` is one GPU, which does alone what all of them would share."""
    if way.kind == "none" and terms.gpus > 1:
        terms = replace(terms, gpus=1, step=terms.step * terms.gpus)
    share, replicas = _share(way, terms), terms.gpus // way.tensor
    ideal = _computing(facts, terms)
    again = facts.flops_blocks / facts.flops if way.recompute and facts.flops else 0.0
    seconds = ideal.value * (1.0 + again) * (share * replicas / terms.batch)
    bus = sum(_traffic(facts, way, terms))
    exposed, alone = _exposed(facts, way, terms, seconds), bus / terms.bandwidth
    memory = memory_of(facts, way, terms)
    speedup, unhidden = (terms.gpus * ideal.value / (seconds + waiting) for waiting in (exposed, alone))
    on = "from a measured step" if terms.step else "from an assumed rate"
    basis = ideal.basis if ideal.basis == "assumed" else "computed"
    return Row(
        way=way,
        replicas=replicas,
        share=share,
        memory=memory,
        fits=memory.total <= terms.memory * (1.0 - RESERVE),
        bus=_computed(bus, _collectives(way)),
        wire_seconds=_computed(alone, "bytes over the bandwidth that was given, without latency"),
        exposed=Figure(exposed, "assumed", "what the backward, or the next block, cannot hide"),
        step=Figure(seconds + exposed, "assumed", f"computing {on}, and what is exposed"),
        speedup=Figure(speedup, "assumed", f"over one GPU, {on}, with overlap"),
        speedup_unhidden=Figure(unhidden, basis, f"over one GPU, {on}, without overlap"),
        efficiency=Figure(speedup / terms.gpus, "assumed", f"{on}, with overlap"),
    )


def _collectives(way: Way) -> str:
    return {
        "none": "nobody to send to",
        "ddp": "one all-reduce of the gradients, in fp32",
        "fsdp": "two all-gathers of the weights, one reduce-scatter of the gradients",
        "tp": f"{6 if way.recompute else 4} all-reduces of each block's activations",
    }.get(way.kind, "gathers and reduce-scatters of shards, and all-reduces of activations")


# -- the choice --


def _ways(facts: ModelFacts, terms: Terms) -> Iterator[Way]:
    """The simplest first."""
    kinds = [Way("none")]
    if terms.gpus > 1:
        kinds += [Way("ddp"), Way("fsdp")]
        both = [Way("fsdp+tp", tensor=size) for size in TENSOR_SIZES if size < terms.gpus and terms.gpus % size == 0]
        fitting = [way for way in both if memory_of(facts, way, terms).total <= terms.memory * (1.0 - RESERVE)]
        kinds += [Way("tp", tensor=terms.gpus), *(fitting or both[::-1])[:1]]
    for way in kinds:
        yield way
        yield replace(way, recompute=True)


def why_not(facts: ModelFacts, way: Way, terms: Terms) -> str:
    """Why a way cannot be gone; empty: it can."""
    replicas = 1 if way.kind == "none" else terms.gpus // way.tensor
    if way.recompute and not facts.blocks:
        return "the model has no repeated blocks to compute again"
    if way.tensor > 1 and not facts.splittable:
        return "the model has no repeated blocks whose matrices could be split"
    if way.kind == "tp" and way.tensor not in TENSOR_SIZES:
        return f"a layer is shared by {', '.join(map(str, TENSOR_SIZES))} GPUs of one machine, not by {way.tensor:,}"
    if replicas > terms.batch:
        return f"a batch of {terms.batch:,} cannot be split over {replicas:,}: give --set batch={replicas}, or more"
    return ""


def plan(facts: ModelFacts, terms: Terms, subject: str = "", optimizer: str = "") -> Plan:
    """Every way, and the fastest that fits: of equally fast ones the simplest."""
    refused: list[Refused] = []
    rows: list[Row] = []
    for way in _ways(facts, terms):
        why = why_not(facts, way, terms)
        if why:
            refused.append(Refused(way, why))
        else:
            rows.append(row_of(facts, way, terms))
    fitting = [number for number, row in enumerate(rows) if row.fits]
    fastest = max((rows[number].speedup.value for number in fitting), default=0.0)
    chosen = next((number for number in fitting if rows[number].speedup.value >= fastest * (1.0 - NEAR)), None)
    reasons = _reasons(facts, terms, rows, chosen, refused)
    return Plan(
        subject, facts, terms.gpus, terms.memory, terms.bandwidth, terms.batch, terms.accumulate,
        terms.precision, optimizer,
        tuple(rows), tuple(refused), chosen, tuple(reasons), tuple(_assumptions(facts, terms)),
        tuple(_scaling(facts, rows[chosen], terms)) if chosen is not None else (),
    )  # fmt: skip


def _scaling(facts: ModelFacts, row: Row, terms: Terms) -> Iterator[Scaled]:
    """On paper: what a GPU computes stays as it is."""
    seconds, way = _computing(facts, terms).value, row.way
    for gpus in ON_PAPER:
        if way.tensor > 1 and (gpus != way.tensor if way.kind == "tp" else gpus < 2 * way.tensor):
            continue
        here = replace(way, kind="none" if gpus == 1 else "ddp" if way.kind == "none" else way.kind)
        larger = replace(terms, gpus=gpus, batch=row.share * (gpus // way.tensor), step=seconds)
        told = row_of(facts, here, larger)
        speedup, efficiency = told.speedup.value, told.efficiency.value
        yield Scaled(gpus, larger.batch, told.memory.total, told.wire_seconds.value, speedup, efficiency)


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
        yield f"{ahead[0].way.name} is as fast within {NEAR:.0%}, but less simple."
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
    if _micro(least.way, terms) > 1:
        yield f"Use smaller micro-batches: --set accumulate={terms.accumulate * 2} or more; the results do not change."
    for gpus in ON_PAPER:
        way = replace(least.way, kind="fsdp") if least.way.kind == "none" else least.way
        more = replace(terms, gpus=gpus, step=0.0)
        if gpus > terms.gpus and not why_not(facts, way, more) and row_of(facts, way, more).fits:
            yield f"With {gpus:,} GPUs {way.name} fits."
            return


def _assumptions(facts: ModelFacts, terms: Terms) -> Iterator[str]:
    if not terms.step:
        yield (
            f"A GPU computes {PEAKS[terms.precision] * REACHED / 1e12:.3g} TFLOP/s in {terms.precision}: {REACHED:.0%} "
            "of an A100's peak. A measured time is better: --step 45ms, one GPU's time for its share of a batch "
            "(`trueloop profile`)."
        )
    if terms.gpus > 1:
        sent = f"{terms.bandwidth / 1e9:.3g} GB/s"
        yield f"Every GPU sends {sent} in rings, without latency; slower links between machines are not modeled."
        yield ("ddp overlaps gradients with the backward, but the last 25 MiB; fsdp weights with the previous block.")
        yield (f"fsdp gathers in {terms.precision}, reduces in fp32, in each micro-batch; weights outside blocks stay.")
        yield ("tp splits matrices of blocks, not norms, embeddings, the residual stream; it overlaps no all-reduce.")
    yield "Gradients and activations are in memory together; freeing gradients before the forward lowers the peak."
    yield ("Weights, gradients and optimizer state are in fp32. Eager: compiled programs usually keep less.")
    yield f"{RESERVE:.0%} of the memory stays free for CUDA, NCCL and fragmentation; workspace is an estimate."
    yield f"All samples are like the measured ones: {facts.how}."
