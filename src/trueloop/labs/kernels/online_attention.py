"""online-attention: How can attention over T tokens do without T x T scores in memory?

A block of queries walks over blocks of keys. For each query it keeps the largest score so far, the sum of exponentials
and the result so far; when a larger score comes, both are scaled down. The scores of one block are all that exists at
a time. On a GPU the lab times our Triton kernel beside torch's attention.

Exercise: write it, with a causal mask.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from trueloop.kernels.attention import attention, reference
from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page
from trueloop.labs.largest_tensor import LargestTensor
from trueloop.labs.on_gpu import gpu_medians

__all__ = ["LAB"]


def in_blocks(q: Tensor, k: Tensor, v: Tensor, block: int = 32) -> Tensor:
    result = torch.zeros_like(q)
    total = torch.zeros(len(q), 1)
    largest = torch.full((len(q), 1), -torch.inf)
    for start in range(0, len(k), block):
        scores = q @ k[start : start + block].T / q.shape[1] ** 0.5
        larger = torch.maximum(largest, scores.amax(1, keepdim=True))
        shrink, power = (largest - larger).exp(), (scores - larger).exp()
        result, total = result * shrink + power @ v[start : start + block], total * shrink + power.sum(1, keepdim=True)
        largest = larger
    return result / total


def at_once(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.T / q.shape[1] ** 0.5).softmax(1) @ v


def measure() -> dict[str, Any]:
    sizes: dict[str, list[int]] = {"at once": [], "in blocks": []}
    errors: list[float] = []
    for length in (128, 256, 512):
        q, k, v = (torch.randn(length, 16) for _ in range(3))
        for name, function in (("at once", at_once), ("in blocks", in_blocks)):
            with LargestTensor() as seen:
                result = function(q, k, v)
            sizes[name].append(seen.numbers)
        errors.append((result - at_once(q.double(), k.double(), v.double())).abs().max().item())
    times: dict[str, float] = {}
    if torch.cuda.is_available():
        q, k, v = (torch.randn(4, 32, 4096, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        times = gpu_medians({
            "ours": lambda: attention(q, k, v), "torch": lambda: scaled_dot_product_attention(q, k, v, is_causal=True)
        })  # fmt: skip
    return {"lengths": [128, 256, 512], "sizes": sizes, "error": max(errors), "milliseconds": times}


def answer(page: Page, measured: dict[str, Any]) -> None:
    sizes = measured["sizes"]
    rows = list(zip(measured["lengths"], sizes["at once"], sizes["in blocks"], strict=True))
    page.table("Numbers of the largest tensor", ("tokens", "at once", "in blocks"), rows)
    page.says("In blocks the result is that of all scores at once, to rounding.", measured["error"] < 1e-5)
    page.says("At once, four times the numbers for twice the tokens.", sizes["at once"][2] == 4 * sizes["at once"][1])
    page.says("In blocks, twice the numbers for twice the tokens.", sizes["in blocks"][2] <= 2 * sizes["in blocks"][1])
    times = measured["milliseconds"]
    if times:
        page.table("4 x 32 heads of 64, 4,096 tokens, causal, bf16", ("", "ms"), list(times.items()))
        page.says("Our kernel has at least 60 % of the speed of torch's.", times["torch"] >= 0.6 * times["ours"])


SKELETON = '''"""Write `attention(q, k, v, block)`: causal attention of [T, D] tensors, scores scaled by 1 / sqrt(D).

Never make a tensor with more than T x max(block, D) numbers: walk over blocks of keys, and keep for each query the
largest score, the sum of exponentials and the result so far. Query number i sees the keys 0 to i.

    trueloop lab online-attention THIS_FILE.py
"""

import torch


def attention(q, k, v, block):
    raise NotImplementedError
'''


def check(attempt: Attempt) -> None:
    function = attempt.get("attention")
    for length, width, block in ((64, 8, 16), (50, 4, 16), (5, 4, 16)):
        q, k, v = (torch.randn(length, width, dtype=torch.float64) for _ in range(3))
        wanted = reference(q[None, None], k[None, None], v[None, None])[0, 0]
        with LargestTensor() as seen:
            found = function(q, k, v, block)
        attempt.require("the result has the shape of q", found.shape == q.shape, "one row for each query")
        attempt.expect(
            f"no NaN with {length} tokens in blocks of {block}", bool(found.isfinite().all()),
            "a query that has seen no key yet has -inf as its largest score: -inf less -inf is NaN",
        )  # fmt: skip
        error = (found - wanted).abs().max().item()
        attempt.expect(
            f"{length} tokens in blocks of {block} equal all scores at once", error < 1e-9,
            "is what was added up scaled down when a larger score comes, result and sum? Is the mask causal?",
            f"largest difference {error:.2g}",
        )  # fmt: skip
        most = length * max(block, width)
        attempt.expect(
            f"no tensor of more than {most} numbers", seen.numbers <= most,
            "some tensor holds all scores, or a whole mask",
            f"the largest had {seen.numbers}",
        )  # fmt: skip
    large = torch.full((8, 4), 40.0, dtype=torch.float64)
    attempt.expect(
        "large scores do not overflow", bool(function(large, large, large, 4).isfinite().all()),
        "take the largest score off before exp",
    )  # fmt: skip


LAB = Lab(code=(in_blocks, at_once), measure=measure, answer=answer, exercise=Exercise(SKELETON, check))
