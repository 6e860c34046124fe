"""GPT-2 124M on random tokens: tokens per second and memory of plain torch and of our engine.

    python benchmarks/gpt2.py [--only NAMES] [--steps 150] [--rounds 1] [--json FILE] [--tiny] [--kernels]

12 layers, 12 heads, width 768, vocabulary 50,304, tied embedding, no dropout; steps of 16 x 1024 tokens; AdamW on
float32 weights. Each contender trains in a process of its own, one after the other; with --rounds 2 all of them again,
and the better of each counts.

    eager-fp32 ... eager-bf16   the loop by hand, default AdamW (foreach)
    compiled                    the loop by hand: bf16 autocast, model and cross entropy compiled together, fused AdamW;
    holds the logits compiled-fused              the same with our fused linear + cross entropy: what ours costs beside
    it is the engine
    ours                        `Loop.of(recipe)`: the same compiled, the model answers Unprojected; with the guard, the
    gradients' norm
                                and the facts for the rules in it. Its speed is what its own lines of metrics say
    ours-graphed                the same with its steps recorded as CUDA graphs and played two at once
    *-narrow                    the same with the stream between the blocks in bf16, as where a whole model is cast;
    else it is float32
    *-cudnn                     the same with cuDNN's attention instead of torch's flash attention
    *-mlp                       the same with our linear + GELU + linear (`trueloop.kernels.mlp`)
    *-fp8-scores                the scores of the vocabulary as products in float8, their gradients in bf16
    *-32                        32 x 1024 tokens a step
    *-fp8                       the same with the products of the blocks' linear layers in float8 (forward and the
                                gradient of the input; the gradient of the weight in bf16)
    ours-autotuned              compile=max-autotune-no-cudagraphs; takes minutes, so only with --only

--kernels shows, for each contender that is an own loop, which kernels a step's time goes to.
Memory is the most that torch had allocated during the timed steps. --tiny: a small model on whatever is there, nothing
compiled; it shows that this file runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

import trueloop
from trueloop.hook import Row
from trueloop.kernels import linear_cross_entropy
from trueloop.kernels.mlp import mlp
from trueloop.recipes.shakespeare import GPT

WARM_UP = 5
"""Steps before the clock: compiling, the first allocations."""
LINE = 50
"""Steps between two lines of metrics, as recipes have it. The first line holds the compiling and the sixteen steps that
our engine looks into for its rules, and does not count."""


class Size(NamedTuple):
    vocabulary: int
    block: int
    depth: int
    heads: int
    width: int
    batch: int

    def model(self, *, unprojected: bool, narrow: bool = False) -> GPT:
        return GPT(
            self.vocabulary,
            block=self.block,
            depth=self.depth,
            heads=self.heads,
            width=self.width,
            dropout=0.0,
            unprojected=unprojected,
            narrow=narrow,
        )

    def tokens(self) -> int:
        """Of a step."""
        return self.batch * self.block

    def data(self, steps: int) -> tuple[Tensor, Tensor]:
        drawn = torch.randint(
            0, self.vocabulary, (steps * self.batch, self.block + 1), generator=torch.Generator().manual_seed(0)
        )
        return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


GPT2 = Size(50304, 1024, 12, 12, 768, 16)
TINY = Size(251, 32, 2, 2, 32, 4)


class Job(NamedTuple):
    size: Size
    steps: int
    device: str
    may_compile: bool
    kernels: bool = False


class Measured(NamedTuple):
    tokens_per_second: float
    gigabytes: float


class Scored(nn.Module):
    """The model with its loss, so that both are compiled as one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        answer = self.model(tokens).flatten(0, -2)
        if isinstance(answer, trueloop.Unprojected):
            return answer.loss_sum(targets.flatten(), -100) / targets.numel()
        return F.cross_entropy(answer, targets.flatten())


def by_hand(
    precision: str,
    compiled: bool,
    job: Job,
    *,
    fused_loss: bool = False,
    narrow: bool = False,
    change: Callable[[GPT], None] = lambda _: None,
) -> Measured:
    """zero_grad, forward, loss, backward, step."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.manual_seed(0)
    network = job.size.model(unprojected=fused_loss, narrow=narrow)
    change(network)
    model = Scored(network).to(job.device)
    options: dict[str, Any] = {"fused": True} if compiled else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, **options)
    forward = torch.compile(model) if compiled and job.may_compile else model
    slow = precision == "fp32"
    warm_up, steps = (min(2, job.steps), min(3, job.steps)) if slow else (WARM_UP, job.steps)
    inputs, targets = (each.to(job.device) for each in job.size.data(warm_up + steps))
    around = torch.autocast(job.device, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    begun = time.perf_counter()
    for number in range(warm_up + steps):
        if number == warm_up:
            begun = _now(job.device)
            _forget_memory(job.device)
        part = slice(number * job.size.batch, (number + 1) * job.size.batch)
        optimizer.zero_grad()
        with around:
            loss = forward(inputs[part], targets[part])
        loss.backward()
        optimizer.step()
    rate = job.size.tokens() * steps / (_now(job.device) - begun)
    if job.kernels:
        _show_kernels(lambda: _step(forward, optimizer, around, inputs[part], targets[part]))
    return Measured(rate, _gigabytes(job.device))


def _step(forward: Any, optimizer: torch.optim.Optimizer, around: Any, inputs: Tensor, targets: Tensor) -> None:
    optimizer.zero_grad()
    with around:
        loss = forward(inputs, targets)
    loss.backward()
    optimizer.step()


def _show_kernels(step: Callable[[], None]) -> None:
    """On standard error, since the parent reads the last line of standard output."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
    events = sorted(profiled.key_averages(), key=lambda each: -each.self_device_time_total)
    whole = sum(each.self_device_time_total for each in events)
    print(f"{whole / 5e3:.2f} ms of kernels a step", file=sys.stderr)
    for event in events[:28]:
        share = event.self_device_time_total / whole
        print(
            f"{event.self_device_time_total / 5e3:8.3f} ms {share:6.1%} {event.count // 5:4} x {event.key[:110]}",
            file=sys.stderr,
        )


class OurMLP(nn.Module):
    """A block's MLP by our kernel; its weights are the ones of the `nn.Sequential` it replaces."""

    def __init__(self, plain: nn.Sequential) -> None:
        super().__init__()
        self.first, self.second = plain[0], plain[2]

    def forward(self, stream: Tensor) -> Tensor:
        return mlp(stream, self.first.weight, self.first.bias, self.second.weight, self.second.bias)  # type: ignore[arg-type]


def with_our_mlp(model: GPT) -> None:
    for block in model.blocks:
        block.mlp = OurMLP(block.mlp)  # type: ignore[arg-type]


E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def _float8(tensor: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Scaled so that its largest value is the largest of float8; and what undoes the scale."""
    scale = (tensor.abs().amax().float() / torch.finfo(kind).max).clamp(min=1e-12)
    return (tensor.float() / scale).to(kind), scale


class _Float8Product(torch.autograd.Function):
    """x @ weight.T with both in float8; in the backward the gradient of x too, and that of the weight in bf16."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        (left, scale), (right, other) = _float8(x, E4M3), _float8(weight, E4M3)
        return torch._scaled_mm(left, right.t(), scale_a=scale, scale_b=other, out_dtype=x.dtype, use_fast_accum=True)

    @staticmethod
    def backward(ctx: Any, arrived: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        (left, scale), (right, other) = _float8(arrived, E5M2), _float8(weight.t(), E4M3)
        of_x = torch._scaled_mm(left, right.contiguous().t(), scale_a=scale, scale_b=other, out_dtype=x.dtype)
        return of_x, arrived.t() @ x


class Float8Linear(nn.Module):
    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = plain.weight, plain.bias

    def forward(self, x: Tensor) -> Tensor:
        kind = torch.get_autocast_dtype(x.device.type)
        y: Tensor = _Float8Product.apply(x.flatten(0, -2).to(kind), self.weight.to(kind))  # type: ignore[no-untyped-call]
        return (y + self.bias.to(kind)).view(*x.shape[:-1], len(self.weight))


def with_float8(model: GPT) -> None:
    for block in model.blocks:
        block.attention.qkv = Float8Linear(block.attention.qkv)  # type: ignore[arg-type, union-attr]
        block.attention.out = Float8Linear(block.attention.out)  # type: ignore[arg-type, union-attr]
        block.mlp[0], block.mlp[2] = Float8Linear(block.mlp[0]), Float8Linear(block.mlp[2])  # type: ignore


class Rates(trueloop.Hook):
    """What each line of metrics says: samples per second, and the most memory since the first line."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.rates: list[float] = []
        self.gigabytes = 0.0

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            self.rates.append(row.values["samples_per_second"])
            self.gigabytes = _gigabytes(self.device)
            if len(self.rates) == 1:
                _forget_memory(self.device)


def ours(job: Job, compile: str = "default", *, narrow: bool = False, **changes: Any) -> Measured:
    """Our engine, as a recipe has it."""
    line = LINE if job.may_compile else 2
    steps = line + -(-job.steps // line) * line
    rates = Rates(job.device)
    recipe = trueloop.Recipe(
        name="gpt2",
        model=lambda: job.size.model(unprojected=True, narrow=narrow),
        data=lambda _: trueloop.Splits(
            trueloop.Tensors(*job.size.data(steps)), facts=trueloop.Facts(vocabulary=job.size.vocabulary)
        ),
        task="language",
        lr=6e-4,
        betas=(0.9, 0.95),
        weight_decay=0.1,
        steps=steps,
        batch=job.size.batch,
        precision="bf16",
        compile=compile if job.may_compile else "off",  # type: ignore[arg-type]
        device=job.device,
        log_every=line,
        hooks=(rates,),
        **changes,
    )
    trueloop.Loop.of(recipe).train()
    return Measured(statistics.median(rates.rates[1:]) * job.size.block, rates.gigabytes)


def graphed(job: Job, **changes: Any) -> Measured:
    return ours(job, program="cuda_graphs" if job.device == "cuda" else "eager", steps_per_replay=2, **changes)


def with_cudnn(contender: Callable[[Job], Measured]) -> Callable[[Job], Measured]:
    """For the whole process; where cuDNN cannot do it, torch says so."""

    def run(job: Job) -> Measured:
        if job.device == "cuda":
            torch.backends.cuda.enable_cudnn_sdp(True)
            for other in (
                torch.backends.cuda.enable_flash_sdp,
                torch.backends.cuda.enable_mem_efficient_sdp,
                torch.backends.cuda.enable_math_sdp,
            ):
                other(False)
        return contender(job)

    return run


def with_float8_scores(contender: Callable[[Job], Measured]) -> Callable[[Job], Measured]:
    """The scores of the vocabulary as products of float8 numbers, one scale for the weight; their gradients in bf16."""
    last: list[Any] = [None, None, None]

    def score(hidden: Tensor, table: Tensor, scores: Tensor) -> None:
        if last[0] is not table:  # the chunks of a step share it
            last[:] = table, *_float8(table, E4M3)
        left, scale = _float8(hidden, E4M3)
        kind = scores.dtype
        torch._scaled_mm(left, last[1].t(), scale, last[2], out_dtype=kind, use_fast_accum=True, out=scores)

    def run(job: Job) -> Measured:
        linear_cross_entropy._score = score
        return contender(job)

    return run


def _twice(job: Job) -> Job:
    """Twice the tokens a step: another training, with half as many launches and updates for a token."""
    return job._replace(size=job.size._replace(batch=2 * job.size.batch), steps=job.steps // 2)


CONTENDERS: dict[str, Callable[[Job], Measured]] = {
    "eager-fp32": lambda job: by_hand("fp32", False, job),
    "eager-tf32": lambda job: by_hand("tf32", False, job),
    "eager-bf16": lambda job: by_hand("bf16", False, job),
    "compiled": lambda job: by_hand("bf16", True, job),
    "compiled-fused": lambda job: by_hand("bf16", True, job, fused_loss=True),
    "ours": ours,
    "compiled-cudnn": with_cudnn(lambda job: by_hand("bf16", True, job)),
    "ours-cudnn": with_cudnn(ours),
    "ours-graphed": graphed,
    "compiled-narrow": lambda job: by_hand("bf16", True, job, fused_loss=True, narrow=True),
    "ours-narrow": lambda job: ours(job, narrow=True),
    "ours-graphed-narrow": lambda job: graphed(job, narrow=True),
    "compiled-narrow-cudnn": with_cudnn(lambda job: by_hand("bf16", True, job, fused_loss=True, narrow=True)),
    "ours-graphed-narrow-cudnn": with_cudnn(lambda job: graphed(job, narrow=True)),
    "compiled-narrow-mlp": lambda job: by_hand("bf16", True, job, fused_loss=True, narrow=True, change=with_our_mlp),
    "compiled-narrow-fp8": lambda job: by_hand("bf16", True, job, fused_loss=True, narrow=True, change=with_float8),
    "compiled-narrow-fp8-scores": with_float8_scores(
        lambda job: by_hand("bf16", True, job, fused_loss=True, narrow=True)
    ),
    "compiled-narrow-32": lambda job: by_hand("bf16", True, _twice(job), fused_loss=True, narrow=True),
    "compiled-narrow-mlp-fp8-scores-32": with_float8_scores(
        lambda job: by_hand("bf16", True, _twice(job), fused_loss=True, narrow=True, change=with_our_mlp)
    ),
    "ours-graphed-narrow-32": lambda job: graphed(_twice(job), narrow=True),
    "ours-autotuned": lambda job: ours(job, "max-autotune-no-cudagraphs"),
}
SLOW = ("ours-autotuned",)
"""Compile for minutes: only when asked for by name."""


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _gigabytes(device: str) -> float:
    return torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0.0


def _forget_memory(device: str) -> None:
    """The most is counted from here."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def _in_its_own_process(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """What it measured, or why it could not."""
    command = [
        sys.executable,
        __file__,
        "--child",
        name,
        "--steps",
        str(given.steps),
        *(["--tiny"] if given.tiny else []),
        *(["--kernels"] if given.kernels else []),
    ]
    begun = time.perf_counter()
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    if given.kernels and not ran.returncode:
        print(name, ran.stderr, sep="\n", flush=True)
    if ran.returncode:
        said = (ran.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return {"failed": said, "seconds": seconds}
    return {**json.loads(ran.stdout.strip().splitlines()[-1]), "seconds": seconds}


def _better(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return max(one, other, key=lambda each: each.get("tokens_per_second", 0.0))


def _show(found: dict[str, dict[str, Any]]) -> None:
    base = found.get("compiled", {}).get("tokens_per_second")
    print(f"{'':16} {'tokens/s':>10} {'of compiled':>12} {'GB':>7} {'s in all':>9}")
    for name, values in found.items():
        if "failed" in values:
            print(f"{name:16} failed after {values['seconds']:.0f} s: {values['failed']}")
            continue
        ratio = f"{values['tokens_per_second'] / base:12.3f}" if base else f"{'':12}"
        print(
            f"{name:16} {values['tokens_per_second']:10,.0f} {ratio} {values['gigabytes']:7.2f} "
            f"{values['seconds']:9.0f}"
        )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument(
        "--only", default=",".join(name for name in CONTENDERS if name not in SLOW), help="names, with commas"
    )
    asked.add_argument("--steps", type=int, default=150, help="timed steps of each; eager-fp32 takes 3 at most")
    asked.add_argument("--rounds", type=int, default=1)
    asked.add_argument("--json", type=Path)
    asked.add_argument("--tiny", action="store_true")
    asked.add_argument("--kernels", action="store_true")
    asked.add_argument("--child", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.child:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        job = Job(TINY if given.tiny else GPT2, given.steps, device, may_compile=not given.tiny, kernels=given.kernels)
        print(json.dumps(CONTENDERS[given.child](job)._asdict()))
        return
    unknown = [name for name in given.only.split(",") if name not in CONTENDERS]
    if unknown:
        asked.error(f"There is no {', '.join(unknown)}. There are: {', '.join(CONTENDERS)}.")
    found: dict[str, dict[str, Any]] = {}
    for _ in range(given.rounds):
        for name in given.only.split(","):
            values = _in_its_own_process(name, given)
            found[name] = _better(found.get(name, {}), values) if name in found else values
            print(name, values, flush=True)
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(
        f"\n{where}, torch {torch.__version__}{', tiny' if given.tiny else ', GPT-2 124M, 16 x 1024 tokens a step'}\n"
    )
    _show(found)
    if given.json:
        given.json.write_text(
            json.dumps({"device": where, "torch": torch.__version__, "found": found}, indent=2) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
