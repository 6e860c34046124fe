"""Attention with online softmax as Triton kernels, forward and backward: `attention` says what they compute.

Tensors are [B, H, T, D], contiguous. Exponentials are of base 2, so scores carry log2(e). Imported only where Triton is
installed.
"""

import math
from typing import Final, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from trueloop.kernels.triton_here import launching_on

__all__ = ["BACKWARD", "FORWARD", "Blocks", "attention", "attention_backward"]

LOG2_E: Final = 1.4426950408889634


class Blocks(NamedTuple):
    """Queries and keys at once."""

    queries: int
    keys: int
    warps: int
    stages: int


FORWARD: Final = Blocks(64, 64, 4, 3)
BACKWARD: Final = Blocks(64, 64, 4, 2)
"""The fastest of 16 and of 8 on an H200, for heads of 64 and of 128 (`benchmarks/kernels.py --layouts`)."""


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, blocks: Blocks | None = None) -> tuple[Tensor, Tensor]:
    batch, heads, length, size = q.shape
    out = torch.empty_like(q)
    total = torch.empty((batch, heads, length), dtype=torch.float32, device=q.device)
    chosen = blocks or FORWARD
    with launching_on(q):
        _forward[(triton.cdiv(length, chosen.queries), batch * heads)](
            q, k, v, out, total, length, LOG2_E / math.sqrt(size), CAUSAL=causal, D=size, M=chosen.queries,
            N=chosen.keys, num_warps=chosen.warps, num_stages=chosen.stages,
        )  # fmt: skip
    return out, total


def attention_backward(
    arrived: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, total: Tensor, causal: bool,
    blocks: Blocks | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    batch, heads, length, size = q.shape
    of_q, of_k, of_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    # The gradient of a softmax needs, for each row, the sum of gradient x share: that is out . d(out).
    shared = (out.float() * arrived.float()).sum(-1)
    chosen = blocks or BACKWARD
    common = {"CAUSAL": causal, "D": size, "num_warps": chosen.warps, "num_stages": chosen.stages}
    scale = 1 / math.sqrt(size)
    with launching_on(q):
        _backward_keys[(triton.cdiv(length, chosen.keys), batch * heads)](
            q, k, v, arrived, total, shared, of_k, of_v, length, scale, M=chosen.queries, N=chosen.keys, **common
        )
        _backward_queries[(triton.cdiv(length, chosen.keys), batch * heads)](
            q, k, v, arrived, total, shared, of_q, length, scale, M=chosen.keys, N=chosen.queries, **common
        )
    return of_q, of_k, of_v


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    q, k, v, out, total, length, scale, CAUSAL: tl.constexpr, D: tl.constexpr, M: tl.constexpr,  # noqa: N803
    N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    # The last queries see the most keys under a causal mask: they begin first.
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * length
    row = block * M + tl.arange(0, M)
    lane = tl.arange(0, D)
    queries = tl.load(q + (base + row)[:, None] * D + lane[None, :], mask=row[:, None] < length, other=0.0)
    largest = tl.full([M], float("-inf"), dtype=tl.float32)
    weight = tl.zeros([M], dtype=tl.float32)
    result = tl.zeros([M, D], dtype=tl.float32)
    seen = tl.minimum((block + 1) * M, length) if CAUSAL else length
    # Blocks of keys that every query sees wholly need no mask.
    whole = (block * M) // N * N if CAUSAL else length // N * N
    result, weight, largest = _walk(
        queries, k, v, base, row, result, weight, largest, 0, whole, length, scale, False, CAUSAL, D, N
    )
    result, weight, largest = _walk(
        queries, k, v, base, row, result, weight, largest, whole, seen, length, scale, True, CAUSAL, D, N
    )
    place = (base + row)[:, None] * D + lane[None, :]
    tl.store(out + place, (result / weight[:, None]).to(out.dtype.element_ty), mask=row[:, None] < length)
    tl.store(total + base + row, largest + tl.log2(weight), mask=row < length)


@triton.jit  # type: ignore[untyped-decorator]
def _walk(  # type: ignore[no-untyped-def]
    queries, k, v, base, row, result, weight, largest, begin, end, length, scale,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr, N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    lane = tl.arange(0, D)
    for start in range(begin, end, N):
        column = start + tl.arange(0, N)
        place = (base + column)[:, None] * D + lane[None, :]
        keys = tl.load(k + place, mask=column[:, None] < length, other=0.0) if MASKED else tl.load(k + place)
        score = tl.dot(queries, tl.trans(keys))
        if MASKED:
            visible = column[None, :] < length
            if CAUSAL:
                visible = visible & (column[None, :] <= row[:, None])
            score = tl.where(visible, score * scale, float("-inf"))
            larger = tl.maximum(largest, tl.max(score, 1))
            # Of a row that has seen no key yet, nothing may become -inf less -inf.
            power = tl.exp2(score - tl.where(larger == float("-inf"), 0.0, larger)[:, None])
        else:
            larger = tl.maximum(largest, tl.max(score, 1) * scale)
            power = tl.exp2(score * scale - larger[:, None])
        shrink = tl.exp2(largest - larger)
        if MASKED:
            shrink = tl.where(larger == float("-inf"), 1.0, shrink)
            values = tl.load(v + place, mask=column[:, None] < length, other=0.0)
        else:
            values = tl.load(v + place)
        weight = weight * shrink + tl.sum(power, 1)
        result = result * shrink[:, None]
        result = tl.dot(power.to(values.dtype), values, result)
        largest = larger
    return result, weight, largest


@triton.jit  # type: ignore[untyped-decorator]
def _backward_keys(  # type: ignore[no-untyped-def]
    q, k, v, arrived, total, shared, of_k, of_v, length, scale, CAUSAL: tl.constexpr, D: tl.constexpr,  # noqa: N803
    M: tl.constexpr, N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Of a block of keys and values: walks over the queries that see it."""
    block = tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * length
    column = block * N + tl.arange(0, N)
    lane = tl.arange(0, D)
    here = (base + column)[:, None] * D + lane[None, :]
    keys = tl.load(k + here, mask=column[:, None] < length, other=0.0)
    values = tl.load(v + here, mask=column[:, None] < length, other=0.0)
    key_gradient = tl.zeros([N, D], dtype=tl.float32)
    value_gradient = tl.zeros([N, D], dtype=tl.float32)
    for start in range(block * N // M * M if CAUSAL else 0, length, M):
        row = start + tl.arange(0, M)
        inside = row < length
        there = (base + row)[:, None] * D + lane[None, :]
        queries = tl.load(q + there, mask=inside[:, None], other=0.0)
        incoming = tl.load(arrived + there, mask=inside[:, None], other=0.0)
        sums = tl.load(total + base + row, mask=inside, other=float("inf"))  # a share of 0 beyond the end
        common = tl.load(shared + base + row, mask=inside, other=0.0)
        score = tl.dot(keys, tl.trans(queries)) * (scale * 1.4426950408889634)
        share = tl.exp2(score - sums[None, :])
        if CAUSAL:
            share = tl.where(column[:, None] <= row[None, :], share, 0.0)
        value_gradient = tl.dot(share.to(incoming.dtype), incoming, value_gradient)
        of_share = tl.dot(values, tl.trans(incoming))
        of_score = share * (of_share - common[None, :])
        key_gradient = tl.dot(of_score.to(queries.dtype), queries, key_gradient)
    tl.store(of_k + here, (key_gradient * scale).to(of_k.dtype.element_ty), mask=column[:, None] < length)
    tl.store(of_v + here, value_gradient.to(of_v.dtype.element_ty), mask=column[:, None] < length)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_queries(  # type: ignore[no-untyped-def]
    q, k, v, arrived, total, shared, of_q, length, scale, CAUSAL: tl.constexpr, D: tl.constexpr,  # noqa: N803
    M: tl.constexpr, N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Of a block of queries: walks over the keys that it sees."""
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * length
    row = block * M + tl.arange(0, M)
    inside = row < length
    lane = tl.arange(0, D)
    here = (base + row)[:, None] * D + lane[None, :]
    queries = tl.load(q + here, mask=inside[:, None], other=0.0)
    incoming = tl.load(arrived + here, mask=inside[:, None], other=0.0)
    sums = tl.load(total + base + row, mask=inside, other=0.0)
    common = tl.load(shared + base + row, mask=inside, other=0.0)
    gradient = tl.zeros([M, D], dtype=tl.float32)
    for start in range(0, tl.minimum((block + 1) * M, length) if CAUSAL else length, N):
        column = start + tl.arange(0, N)
        there = (base + column)[:, None] * D + lane[None, :]
        keys = tl.load(k + there, mask=column[:, None] < length, other=0.0)
        values = tl.load(v + there, mask=column[:, None] < length, other=0.0)
        score = tl.dot(queries, tl.trans(keys)) * (scale * 1.4426950408889634)
        share = tl.exp2(score - sums[:, None])
        visible = column[None, :] < length
        if CAUSAL:
            visible = visible & (column[None, :] <= row[:, None])
        share = tl.where(visible, share, 0.0)
        of_share = tl.dot(incoming, tl.trans(values))
        of_score = share * (of_share - common[:, None])
        gradient = tl.dot(of_score.to(keys.dtype), keys, gradient)
    tl.store(of_q + here, (gradient * scale).to(of_q.dtype.element_ty), mask=inside[:, None])
