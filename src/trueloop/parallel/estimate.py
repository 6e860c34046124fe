"""What one way to spread a training costs: memory of a GPU, what it sends, the time of a step. No torch.

    row = row_of(facts, Way("fsdp", recompute=True), Terms(gpus=8, memory=80e9, bandwidth=450e9, batch=64))
    row.memory.total, row.step.value

GPUs are numbered so that those of a split layer are neighbors, then those of a sequence, of a copy of the weights,
and last the stages of a pipeline: what is sent most stays inside a node.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from trueloop.parallel.gpus import UNKNOWN, Gpu
from trueloop.parallel.network import Group, Network, Sent, ring_all_gather, ring_all_reduce, ring_reduce_scatter
from trueloop.results.plan import Figure, Memory, ModelFacts, Row, Way

__all__ = ["RESERVE", "Terms", "computing", "memory_of", "row_of"]

RESERVE: Final = 0.08  # of a GPU's memory, for what nobody counts: CUDA itself, NCCL's buffers, gaps between tensors
BUCKET: Final = 25 << 20  # bytes that DistributedDataParallel sends at once; the last of them cannot be hidden
FIRST_BUCKET: Final = 1 << 20  # Bytes of its first one, which is smaller so that sending begins early
LIBRARIES: Final = 32 << 20  # Bytes that cuBLAS takes as its workspace on recent GPUs
SIZES: Final = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}  # Bytes of a number that is computed with


@dataclass(frozen=True, slots=True)
class Terms:
    """What a plan is made for."""

    gpus: int
    memory: float  # Bytes of one
    bandwidth: float  # Bytes per second that each sends inside a node
    batch: int  # Samples per optimizer step, over all GPUs
    accumulate: int = 1
    precision: str = "fp32"
    step: float = 0.0  # measured seconds that a GPU computes in a step, on its share of the batch; 0: by FLOPs
    between: float = 0.0  # Bytes per second that each sends to other nodes; 0: as inside
    node: int = 8  # GPUs of a node
    latency: float = 0.0  # Seconds until a message arrives inside a node
    latency_between: float = 0.0  # and at another node
    gpu: Gpu = UNKNOWN

    @property
    def size(self) -> int:
        return SIZES[self.precision]

    @property
    def network(self) -> Network:
        between = self.between or self.bandwidth
        return Network(self.bandwidth, between, self.node, self.latency, self.latency_between)


# -- how work and weights are divided --


def _replicas(way: Way, terms: Terms) -> int:
    """Shares that a batch is split into."""
    return terms.gpus // way.ranks


def _share(way: Way, terms: Terms) -> int:
    return math.ceil(terms.batch / _replicas(way, terms))


def _micro(way: Way, terms: Terms) -> int:
    """Samples of one forward."""
    return math.ceil(_share(way, terms) / terms.accumulate)


def _shards(way: Way, terms: Terms) -> int:
    """Parts of the weights: GPUs of a sequence have the same ones, and share them too."""
    if not way.sharded:
        return 1
    return way.shards if way.data == "hsdp" else _replicas(way, terms) * way.context


def _held(facts: ModelFacts, way: Way) -> float:
    """The share of the numbers that a GPU of a split layer, or of a stage, works with: of one stage, the largest."""
    inside = facts.numbers - facts.outside
    split = facts.splittable * (1.0 - 1.0 / way.tensor)
    return (facts.outside + (inside - split) / way.pipeline) / facts.numbers


# -- memory --


def _computed(value: float, how: str) -> Figure:
    return Figure(value, "computed", how)


def memory_of(facts: ModelFacts, way: Way, terms: Terms) -> Memory:
    """Of one GPU, when most is alive: gradients are counted in full beside the activations."""
    shards = _shards(way, terms)
    held = _held(facts, way) / shards
    of = f"1/{shards} of them" if shards > 1 else "all of them"
    if way.tensor > 1:
        of += f", matrices of blocks split over {way.tensor}"
    if way.pipeline > 1:
        of += f", blocks in {way.pipeline} stages"
    return Memory(
        parameters=_computed(facts.parameter_bytes * held, f"{of}, in fp32"),
        gradients=_computed(facts.gradient_bytes * held, f"{of}, in fp32"),
        optimizer=_computed(facts.state_bytes * held, f"{of}; {facts.state_how}" if facts.state_how else of),
        activations=_activations(facts, way, terms),
        workspace=_workspace(facts, way, terms),
    )


def _activations(facts: ModelFacts, way: Way, terms: Terms) -> Figure:
    kept, micro = facts.kept, _micro(way, terms)
    inside = kept.block_inputs if way.recompute else kept.in_blocks - kept.split * (1.0 - 1.0 / way.tensor)
    waiting = min(terms.accumulate, way.pipeline)  # micro-batches whose backward the first stage waits for (1F1B)
    per_sample = (kept.per_sample - kept.in_blocks + inside * waiting / way.pipeline) / way.context
    # A sharded model gathers its weights in the precision that it computes in: autocast keeps no copies of them.
    fixed = 0.0 if way.sharded else kept.fixed * _held(facts, way)
    how = "what blocks are given, and what is kept outside of them" if way.recompute else "what the backward needs"
    return _computed(per_sample * micro + fixed, f"{how}, for {micro:,} samples; {facts.how}")


def _workspace(facts: ModelFacts, way: Way, terms: Terms) -> Figure:
    kept, micro = facts.kept, _micro(way, terms) / way.context
    scores = min(kept.scores * micro, kept.scores_most) + (kept.scores_fixed if kept.scores else 0.0)
    flowing = 2 * kept.largest_tensor * micro
    again = kept.largest_block * micro if way.recompute else 0.0
    if way.tensor > 1 and kept.in_blocks:
        again *= 1.0 - kept.split / kept.in_blocks * (1.0 - 1.0 / way.tensor)
    gathered = 0.0
    if way.sharded:
        part = facts.largest_block or facts.outside
        split = 1.0 - facts.splittable / facts.numbers * (1.0 - 1.0 / way.tensor)
        gathered = split * (terms.size * (facts.outside + 2 * facts.largest_block) + 4 * part)
    how = "two gradients as large as the largest tensor, or the scores of the loss; buffers; cuBLAS"
    how += "; one block that is computed again" if way.recompute else ""
    how += "; two gathered blocks, what is in no block, and a gradient before it is reduced" if way.sharded else ""
    return Figure(max(scores, flowing + again) + gathered + facts.buffer_bytes + LIBRARIES, "assumed", how)


# -- time --


def _weights_sent(facts: ModelFacts, way: Way, terms: Terms) -> Sent:
    """Weights and gradients, in a step."""
    network, held, units = terms.network, _held(facts, way), facts.blocks / way.pipeline + 1
    ring = Group(_replicas(way, terms) * way.context, way.tensor)
    gradients = facts.gradient_bytes * held
    if not way.sharded:
        return network.send(ring_all_reduce(gradients, ring.size), ring, trees=math.ceil(gradients / BUCKET))
    shards = _shards(way, terms)
    parts, copies = Group(shards, way.tensor), Group(ring.size // shards, way.tensor * shards)
    gathers = 2 * ring_all_gather(facts.numbers * terms.size * held, shards)
    once = gathers + ring_reduce_scatter(gradients, shards)  # for each micro-batch: gradients stay in parts
    sent = network.send(terms.accumulate * once, parts, rings=3 * units * terms.accumulate)
    between = terms.accumulate * ring_all_reduce(gradients / shards, copies.size)
    return sent + network.send(between, copies, trees=units * terms.accumulate)


def _activations_sent(facts: ModelFacts, way: Way, terms: Terms) -> Sent:
    """What nothing hides: results of split layers, keys and values of a split sequence, what goes between stages."""
    network, blocks = terms.network, facts.blocks / way.pipeline
    message = facts.stream * _micro(way, terms) * terms.size / way.context
    times = (6 if way.recompute else 4) * blocks * terms.accumulate
    layers, sequence = Group(way.tensor), Group(way.context, way.tensor)
    sent = network.send(times * ring_all_reduce(message, way.tensor), layers, trees=times)
    passes = (4 if way.recompute else 3) * blocks * terms.accumulate  # keys and values, forward; and their gradients
    sent += network.send(passes * 2 * message / way.tensor * (way.context - 1), sequence, rings=passes)
    stages = Group(way.pipeline, terms.gpus // way.pipeline)
    hops = 2 * terms.accumulate if way.pipeline > 1 else 0  # to the next stage and back, for each micro-batch
    sent += network.send(hops * message, stages, hops=hops)
    outside = ring_all_reduce(4.0 * facts.outside, way.pipeline)  # gradients of weights that all stages have
    return sent + network.send(outside, stages, trees=1 if way.pipeline > 1 else 0)


def computing(facts: ModelFacts, terms: Terms) -> Figure:
    """Seconds of one GPU's part of a step, if all were split evenly."""
    if terms.step:
        return Figure(terms.step, "measured", "given as --step")
    rate = terms.gpu.rate(terms.precision)
    how = f"{facts.flops:.3g} FLOPs a sample, computed, at {rate / 1e12:.3g} TFLOP/s, assumed"
    return Figure(facts.flops * terms.batch / terms.gpus / rate, "assumed", how)


def _exposed(facts: ModelFacts, way: Way, terms: Terms, seconds: float) -> float:
    """`seconds`: of computing."""
    states, activations = _weights_sent(facts, way, terms).seconds, _activations_sent(facts, way, terms).seconds
    if way.sharded:
        hidden = max(states / (facts.blocks / way.pipeline + 1), states - seconds)
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
    share, replicas = _share(way, terms), _replicas(way, terms)
    ideal = computing(facts, terms)
    again = facts.flops_blocks / facts.flops if way.recompute and facts.flops else 0.0
    seconds = ideal.value * (1.0 + again) * (share * replicas / terms.batch)
    idle = seconds * (way.pipeline - 1) / terms.accumulate  # stages that wait for the first and the last micro-batch
    sent = _weights_sent(facts, way, terms) + _activations_sent(facts, way, terms)
    exposed = _exposed(facts, way, terms, seconds)
    memory = memory_of(facts, way, terms)
    speedup, unhidden = (terms.gpus * ideal.value / (seconds + idle + waiting) for waiting in (exposed, sent.seconds))
    on = "from a measured step" if terms.step else "from an assumed rate"
    basis = ideal.basis if ideal.basis == "assumed" else "computed"
    waits = ", and stages that wait" if way.pipeline > 1 else ""
    return Row(
        way=way,
        replicas=replicas,
        share=share,
        accumulate=terms.accumulate,
        micro=_micro(way, terms),
        memory=memory,
        fits=memory.total <= terms.memory * (1.0 - RESERVE),
        bus=_computed(sent.bytes, _collectives(way)),
        wire_seconds=_computed(sent.seconds, "bytes over the bandwidths, and the latencies, that were given"),
        exposed=Figure(exposed, "assumed", "what the backward, or the next block, cannot hide"),
        step=Figure(seconds + idle + exposed, "assumed", f"computing {on}, and what is exposed{waits}"),
        speedup=Figure(speedup, "assumed", f"over one GPU, {on}, with overlap"),
        speedup_unhidden=Figure(unhidden, basis, f"over one GPU, {on}, without overlap"),
        efficiency=Figure(speedup / terms.gpus, "assumed", f"{on}, with overlap"),
    )


def _collectives(way: Way) -> str:
    shards = "two all-gathers of the weights, one reduce-scatter of the gradients"
    parts = {
        "ddp": "one all-reduce of the gradients, in fp32",
        "fsdp": shards,
        "hsdp": f"{shards}, and one all-reduce of each part between the copies",
        "tp": f"{6 if way.recompute else 4} all-reduces of each block's activations",
        "pp": "activations to the next stage, and their gradients back; gradients of weights outside blocks",
        "cp": "keys and values of each block around the ring",
    }
    return "; ".join(parts[part] for part in way.kind.split("+") if part in parts) or "nobody to send to"
