"""Our kernels beside torch's own and torch.compile's, on a GPU: time, memory speed, arithmetic speed, rounding.

    python benchmarks/kernels.py [--only softmax,matmul,mlp,attention,norm,adamw,reglu] [--layouts] [--json FILE]

Each group is one process's interleaved turns: every contender in each round, each call timed by CUDA events after the
L2 cache was overwritten; medians. `error`: distance from the result in float64, relative to its norm. `--layouts`
instead times every layout of the products and of attention, to choose the ones in the source. A minute or two.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from trueloop.engine.fused_adam import FusedStep
from trueloop.kernels import adamw, attention, matmul, mlp, norm, reglu, softmax

ROUNDS = 7
CALLS = 5  # of a contender in a round
BUSY = 3_000_000  # cycles: 1.5 ms
Call = Callable[[], Any]


class Group(NamedTuple):
    """Contenders for one job; `ours` is compared with the fastest other one."""

    name: str
    calls: dict[str, Call]
    gigabytes: float = 0.0  # the least that must be moved
    teraflop: float = 0.0
    exact: Callable[[], Tensor] | None = None  # the result in float64


class Clock:
    """Times calls by events. Before each the L2 cache is overwritten, and the device kept busy during the launch: what
    Python and a custom operator cost on the host is hidden in training too, by graphs or by the kernels before."""

    def __init__(self) -> None:
        size = torch.cuda.get_device_properties(0).L2_cache_size
        self.buffer = torch.empty(4 * size, dtype=torch.uint8, device="cuda")

    def milliseconds(self, call: Call) -> float:
        self.buffer.zero_()
        torch.cuda._sleep(BUSY)
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begun.record()
        call()
        ended.record()
        ended.synchronize()
        return begun.elapsed_time(ended)

    def medians(self, calls: dict[str, Call]) -> dict[str, float]:
        for call in calls.values():
            for _ in range(3):
                call()
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                times[name] += [self.milliseconds(call) for _ in range(CALLS)]
        return {name: median(each) for name, each in times.items()}


def drawn(*shape: int, dtype: torch.dtype = torch.bfloat16, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape, device="cuda") * scale).to(dtype).requires_grad_()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def forward_and_backward(function: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Call:
    arrived = torch.randn_like(function(*inputs))
    return lambda: torch.autograd.grad(function(*inputs), inputs, arrived)


def forward_only(function: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Call:
    frozen = tuple(each.detach() for each in inputs)
    return lambda: function(*frozen)


def softmax_groups() -> list[Group]:
    groups = []
    for dtype in (torch.bfloat16, torch.float32):
        x = drawn(16384, 4096, dtype=dtype)
        moved = 2 * x.numel() * x.element_size() / 1e9
        contenders = {"ours": softmax.softmax, "torch": softmax.reference, "compiled": compiled(softmax.reference)}
        kind = str(dtype).removeprefix("torch.")
        forward = {name: forward_only(each, (x,)) for name, each in contenders.items()}
        exact = x.detach().double().softmax(-1)
        groups.append(Group(f"softmax 16384 x 4096 {kind}", forward, moved, exact=lambda exact=exact: exact))
        both = {name: forward_and_backward(each, (x,)) for name, each in contenders.items()}
        groups.append(Group(f"softmax 16384 x 4096 {kind}, forward + backward", both, 2.5 * moved))
    return groups


def matmul_groups() -> list[Group]:
    groups = []
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 3072, 768)):
        a, b = drawn(m, k).detach(), drawn(n, k).detach()
        calls: dict[str, Call] = {
            "ours": lambda a=a, b=b: matmul.matmul(a, b.t()),
            "torch": lambda a=a, b=b: a @ b.t(),
        }
        exact = a.double() @ b.double().t() if m == 4096 else None
        wanted = None if exact is None else (lambda exact=exact: exact)
        groups.append(Group(f"matmul {m} x {n} x {k} bf16", calls, teraflop=2 * m * n * k / 1e12, exact=wanted))
    return groups


def mlp_groups() -> list[Group]:
    groups = []
    for rows, width in ((16384, 768), (16384, 1024), (8192, 4096)):
        hidden = 4 * width
        inputs = (
            drawn(rows, width), drawn(hidden, width, scale=width**-0.5), drawn(hidden),
            drawn(width, hidden, scale=hidden**-0.5), drawn(width),
        )  # fmt: skip
        contenders = {"ours": mlp.mlp, "torch": mlp.reference, "compiled": compiled(mlp.reference)}
        flops = 4 * rows * width * hidden / 1e12
        name = f"mlp {rows} x {width} x {hidden} bf16"
        exact = mlp.reference(*(each.detach().double() for each in inputs)) if width < 4096 else None
        wanted = None if exact is None else (lambda exact=exact: exact)
        forward = {each: forward_only(function, inputs) for each, function in contenders.items()}
        groups.append(Group(name, forward, teraflop=flops, exact=wanted))
        both = {each: forward_and_backward(function, inputs) for each, function in contenders.items()}
        groups.append(Group(f"{name}, forward + backward", both, teraflop=3 * flops))
    return groups


def attention_groups() -> list[Group]:
    groups = []
    backends = {
        "cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
    }  # fmt: skip
    for size in (64, 128):
        for length in (1024, 2048, 4096, 8192):
            heads = 2048 // size
            inputs = tuple(drawn(16384 // length, heads, length, size) for _ in range(3))
            flops = 2 * 16384 * length * heads * size / 1e12  # causal: half of all scores, two products
            contenders: dict[str, Callable[..., Tensor]] = {"ours": attention.attention}
            contenders |= {name: _sdpa(backend) for name, backend in backends.items()}
            exact = attention.reference(*(each.detach()[:, :1].double() for each in inputs)) if length < 4096 else None
            wanted = None if exact is None else (lambda exact=exact: exact)
            name = f"attention D={size} T={length} causal bf16"
            forward = {each: forward_only(function, inputs) for each, function in contenders.items()}
            groups.append(Group(name, forward, teraflop=flops, exact=wanted))
            if length in (1024, 4096):
                both = {each: forward_and_backward(function, inputs) for each, function in contenders.items()}
                groups.append(Group(f"{name}, forward + backward", both, teraflop=3.5 * flops))
    return groups


def _sdpa(backend: SDPBackend) -> Callable[..., Tensor]:
    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return call


def norm_groups() -> list[Group]:
    groups = []
    for width in (768, 4096):
        x, weight, bias = drawn(16384, width), drawn(width), drawn(width)
        moved = 2 * x.numel() * 2 / 1e9
        for kind, function, plain, inputs in (
            ("layer_norm", norm.layer_norm, norm.layer_norm_reference, (x, weight, bias)),
            ("rms_norm", norm.rms_norm, norm.rms_norm_reference, (x, weight)),
        ):
            contenders: dict[str, Callable[..., Tensor]] = {
                "ours": function, "torch": plain, "compiled": compiled(plain)
            }  # fmt: skip
            exact = plain(*(each.detach().double() for each in inputs))
            forward = {each: forward_only(call, inputs) for each, call in contenders.items()}
            groups.append(Group(f"{kind} 16384 x {width} bf16", forward, moved, exact=lambda exact=exact: exact))
            both = {each: forward_and_backward(call, inputs) for each, call in contenders.items()}
            groups.append(Group(f"{kind} 16384 x {width} bf16, forward + backward", both, 2.5 * moved))
    return groups


def adamw_groups() -> list[Group]:
    """Host time counts here: what many small tensors cost is launches and lists, so nothing runs before the call."""
    groups = []
    for count, numbers in ((1000, 256), (300, 65536)):
        contenders: dict[str, Call] = {}
        for name, build in (
            ("ours", adamw.AdamW),
            ("torch fused", lambda each: torch.optim.AdamW(each, fused=True)),
            ("torch foreach", lambda each: torch.optim.AdamW(each, foreach=True)),
            ("engine, torch", lambda each: FusedStep(torch.optim.AdamW(each, fused=True))),
        ):
            parameters = [torch.randn(numbers, device="cuda", requires_grad=True) for _ in range(count)]
            for parameter in parameters:
                parameter.grad = torch.randn_like(parameter)
            contenders[name] = build(parameters).step  # type: ignore[no-untyped-call]
        groups.append(
            Group(f"adamw, {count} tensors of {numbers} (host and device)", contenders, 28e-9 * count * numbers)
        )
    return groups


def reglu_groups() -> list[Group]:
    gate, value = drawn(16384, 4096), drawn(16384, 4096)
    contenders: dict[str, Callable[..., Tensor]] = {
        "ours": reglu.reglu, "torch": reglu.reference, "compiled": compiled(reglu.reference)
    }  # fmt: skip
    forward = {name: forward_only(each, (gate, value)) for name, each in contenders.items()}
    exact = reglu.reference(gate.detach().double(), value.detach().double())
    return [Group("reglu (C++) 16384 x 4096 bf16", forward, 3 * gate.numel() * 2 / 1e9, exact=lambda: exact)]


GROUPS: dict[str, Callable[[], list[Group]]] = {
    "softmax": softmax_groups,
    "matmul": matmul_groups,
    "mlp": mlp_groups,
    "attention": attention_groups,
    "norm": norm_groups,
    "adamw": adamw_groups,
    "reglu": reglu_groups,
}


def bandwidth(clock: Clock) -> float:
    """GB/s of a large copy, read and written: the ceiling of what only moves memory."""
    one, other = (torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    return 2 * (1 << 30) / 1e6 / clock.medians({"copy": lambda: other.copy_(one)})["copy"]


def error(call: Call, exact: Tensor) -> float:
    result = call().detach()
    if result.shape != exact.shape:  # attention: one head was computed in float64
        result = result[:, :1]
    return float((result.double() - exact).norm() / exact.norm())


def host_milliseconds(calls: dict[str, Call]) -> dict[str, float]:
    import time

    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            for number in range(CALLS + 2):
                torch.cuda.synchronize()
                begun = time.perf_counter()
                call()
                torch.cuda.synchronize()
                if number > 1:
                    times[name].append((time.perf_counter() - begun) * 1e3)
    return {name: median(each) for name, each in times.items()}


def show(group: Group, clock: Clock, ceiling: float) -> dict[str, Any]:
    times = host_milliseconds(group.calls) if "host" in group.name else clock.medians(group.calls)
    best = min((time for name, time in times.items() if name != "ours"), default=0.0)
    print(f"\n{group.name}")
    rows: dict[str, Any] = {}
    for name, milliseconds in times.items():
        line = f"  {name:14} {milliseconds:9.4f} ms  {best / milliseconds:6.3f} of the fastest other"
        row = {"ms": milliseconds, "of_best_other": best / milliseconds}
        if group.gigabytes:
            row["gb_per_s"] = group.gigabytes / milliseconds * 1e3
            line += f"  {row['gb_per_s']:7.0f} GB/s ({row['gb_per_s'] / ceiling:.2f} of a copy)"
        if group.teraflop:
            row["tflop_per_s"] = group.teraflop / milliseconds * 1e3
            line += f"  {row['tflop_per_s']:6.0f} TFLOP/s"
        if group.exact is not None:
            row["error"] = error(group.calls[name], group.exact())
            line += f"  error {row['error']:.1e}"
        print(line, flush=True)
        rows[name] = row
    return rows


def layouts(clock: Clock, given_attention: bool) -> None:
    from trueloop.kernels import attention_triton, matmul_triton

    for m, n, k in ((4096, 4096, 4096), (16384, 3072, 768), (8192, 16384, 4096)):
        a, b = drawn(m, k).detach(), drawn(n, k).detach()
        calls: dict[str, Call] = {"torch": lambda a=a, b=b: a @ b.t()}
        for name in matmul_triton.LAYOUTS:
            calls[name] = lambda a=a, b=b, name=name: matmul_triton.matmul(a, b.t(), name)
        _show_choices(f"matmul {m} x {n} x {k}", _that_run(calls), clock)
    x, weight1, bias = drawn(16384, 768).detach(), drawn(3072, 768).detach(), drawn(3072).detach()
    before = drawn(16384, 3072).detach()
    _show_choices("linear + GELU 16384 x 3072 x 768", _that_run({
        name: lambda name=name: matmul_triton.matmul_gelu(x, weight1.t(), bias, True, name)
        for name in matmul_triton.LAYOUTS
    }), clock)  # fmt: skip
    _show_choices("GELU's gradient 16384 x 3072 x 768", _that_run({
        name: lambda name=name: matmul_triton.matmul_gelu_backward(x, weight1.t(), before, name)
        for name in matmul_triton.LAYOUTS
    }), clock)  # fmt: skip
    if not given_attention:
        return
    blocks = [
        attention_triton.Blocks(queries, keys, warps, stages)
        for queries in (64, 128) for keys in (64, 128) for warps in (4, 8) for stages in (2, 3)
    ]  # fmt: skip
    for size in (64, 128):
        q, k, v = (drawn(4, 2048 // size, 4096, size).detach() for _ in range(3))
        out, total = attention_triton.attention(q, k, v, True)
        calls = {
            f"forward {each}": lambda each=each, q=q, k=k, v=v: attention_triton.attention(q, k, v, True, each)
            for each in blocks
        }
        _show_choices(f"attention D={size}", _that_run(calls), clock)
        calls = {
            f"backward {each}": lambda each=each, all_=(out, q, k, v, out, total): attention_triton.attention_backward(
                *all_, True, each
            )
            for each in blocks
            if each.queries == 64
        }
        _show_choices(f"attention D={size}, backward", _that_run(calls), clock)


def _that_run(calls: dict[str, Call]) -> dict[str, Call]:
    """Without those that ask for more shared memory or registers than there are."""
    fitting = {}
    for name, call in calls.items():
        try:
            call()
            torch.cuda.synchronize()
        except Exception as problem:  # noqa: BLE001 - Triton's own class differs from version to version; it is shown
            print(f"  {name}: does not run: {str(problem).splitlines()[0][:80]}")
        else:
            fitting[name] = call
    return fitting


def _show_choices(title: str, calls: dict[str, Call], clock: Clock) -> None:
    print(f"\n{title}")
    for name, milliseconds in sorted(clock.medians(calls).items(), key=lambda pair: pair[1])[:8]:
        print(f"  {milliseconds:8.4f} ms  {name}", flush=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--only", default=",".join(GROUPS), help="names, with commas")
    asked.add_argument("--layouts", action="store_true")
    asked.add_argument("--json", type=Path)
    given = asked.parse_args()
    unknown = [name for name in given.only.split(",") if name not in GROUPS]
    if unknown:
        asked.error(f"There is no {', '.join(unknown)}. There are: {', '.join(GROUPS)}.")
    if not torch.cuda.is_available():
        asked.error("There is no CUDA device, so nothing was measured.")
    torch.manual_seed(0)
    clock = Clock()
    if given.layouts:
        layouts(clock, "attention" in given.only)
        return
    ceiling = bandwidth(clock)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; a copy moves {ceiling:.0f} GB/s")
    found: dict[str, Any] = {"copy": ceiling}
    for name in given.only.split(","):
        for group in GROUPS[name]():
            found[group.name] = show(group, clock, ceiling)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
