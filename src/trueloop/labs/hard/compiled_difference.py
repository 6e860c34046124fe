"""compiled-difference: The compiled model gives different numbers. Which of its operations is at fault?

A compiler takes the graph of a model in stages. First find the stage: tracing alone (`backend="eager"`), or with the
backward (`"aot_eager"`), or the kernels. Then halve the graph: operations up to a point by the compiler, the rest as
they were. The difference appears where the faulty operation crosses that point: 4 tries for 16 operations.

The compiler here is a small backend with a planted fault, so that the lab is quick and the fault known: it computes
GELU by its approximation with tanh, as a fast kernel might.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Code

__all__ = ["LAB"]

ROUNDING = 1e-5
Backend = Callable[[fx.GraphModule, list[Tensor]], Callable[..., Any]]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.up(self.norm(x)).relu()
        x = x + self.down(torch.nn.functional.gelu(wide * 2))
        return (x.tanh() + x.sigmoid()).softmax(-1).log() - x.mean(-1, keepdim=True)


def compiler(up_to: int) -> Backend:
    """Compiles the first `up_to` operations, and leaves the others as they are."""

    def backend(graph: fx.GraphModule, example: list[Tensor]) -> Callable[..., Any]:
        for node in operations(graph)[:up_to]:
            if "gelu" in str(node.target):
                node.kwargs = {**node.kwargs, "approximate": "tanh"}  # the fault
        graph.recompile()
        return graph.forward

    return backend


def operations(graph: fx.GraphModule) -> list[fx.Node]:
    return [node for node in graph.graph.nodes if node.op in ("call_function", "call_method", "call_module")]


def difference(model: nn.Module, x: Tensor, backend: Any) -> float:
    torch.compiler.reset()
    return (torch.compile(model, backend=backend)(x) - model(x)).abs().max().item()


def first_faulty(wrong: Callable[[int], bool], count: int) -> tuple[int, int]:
    """(the smallest number of compiled operations with a difference, tries)"""
    right, faulty, tries = 0, count, 0
    while faulty - right > 1:
        middle, tries = (right + faulty) // 2, tries + 1
        right, faulty = (right, middle) if wrong(middle) else (middle, faulty)
    return faulty, tries


def measure() -> dict[str, Any]:
    model, x = Block().eval(), torch.randn(16, 32)
    names: list[str] = []

    def listing(graph: fx.GraphModule, example: list[Tensor]) -> Callable[..., Any]:
        names.extend(str(getattr(node.target, "__name__", node.target)) for node in operations(graph))
        return graph.forward

    difference(model, x, listing)
    stages = {name: difference(model, x, name) for name in ("eager", "aot_eager")}
    stages["the compiler"] = difference(model, x, compiler(len(names)))
    number, tries = first_faulty(lambda count: difference(model, x, compiler(count)) > ROUNDING, len(names))
    torch.compiler.reset()
    return {"operations": names, "stages": stages, "found": names[number - 1], "number": number, "tries": tries}


def answer(page: Page, measured: dict[str, Any]) -> None:
    stages, names = measured["stages"], measured["operations"]
    page.table("Largest difference to eager", ("stage", "difference"), list(stages.items()))
    rows = [(str(at), name, "first difference" if at == measured["number"] else "") for at, name in enumerate(names, 1)]
    page.table("The traced operations", ("", "operation", ""), rows)
    traced = max(stages["eager"], stages["aot_eager"]) <= ROUNDING < stages["the compiler"]
    page.says("Tracing is right, with and without the backward: the fault is in what the compiler makes of it.", traced)
    page.says("The search names the planted fault: gelu.", "gelu" in measured["found"])
    few = 2 ** measured["tries"] <= 2 * len(names)
    page.says(f"It took {measured['tries']} tries for {len(names)} operations.", few and len(names) > 8)
    typed = "trueloop probe recipe.py eager-and-compiled-agree"
    page.show(Code(typed, title="With inductor, for your own model: stage, layer, operation and line"))


LAB = Lab(code=(Block, compiler, first_faulty), measure=measure, answer=answer)
