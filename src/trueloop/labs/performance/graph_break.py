"""graph-break: Why is a compiled model cut into pieces, and how is the place found?

`torch.compile` records operations into a graph. Python that depends on the values of tensors cannot be recorded: the
graph ends there, Python runs, and another graph begins. Each break costs fusion and a return to Python. Nothing is
printed.

You will count graphs with a backend of your own, get the reason from `fullgraph=True`, and remove the break.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Code

__all__ = ["LAB"]

TRY = """\
TORCH_LOGS=graph_breaks python train.py   # each break with its line
trueloop profile train.py                 # breaks of your script, beside where its time goes
"""


def broken(x: Tensor) -> Tensor:
    x = torch.relu(x) * 2
    if x.sum() > 0:  # depends on values: the graph ends here
        x = x - 1
    return torch.sin(x)


def fixed(x: Tensor) -> Tensor:
    x = torch.relu(x) * 2
    x = torch.where(x.sum() > 0, x - 1, x)  # both are computed, one is chosen
    return torch.sin(x)


def printing(x: Tensor) -> Tensor:
    x = torch.relu(x)
    print(end="")  # a debug print  # noqa: T201
    return torch.sin(x)


def by_shape(x: Tensor) -> Tensor:
    if x.shape[0] > 2:  # shapes are known while recording: no break
        x = x - 1
    return torch.sin(x)


def graphs(function: Callable[[Tensor], Tensor], x: Tensor) -> list[int]:
    """Operations of each graph that the compiler records."""
    sizes: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        sizes.append(sum(node.op in ("call_function", "call_method") for node in graph.graph.nodes))
        return graph.forward  # runs it as it is

    torch.compiler.reset()
    torch.compile(function, backend=backend)(x)
    return sizes


def reason(function: Callable[[Tensor], Tensor], x: Tensor) -> str:
    """What `fullgraph=True` says; empty: one graph."""
    torch.compiler.reset()
    try:
        torch.compile(function, backend="eager", fullgraph=True)(x)
    except Exception as error:  # noqa: BLE001 - the compiler's errors have no public class
        return str(error).strip()
    return ""


@dataclass(frozen=True)
class Measured:
    graphs: dict[str, list[int]]
    reasons: dict[str, str]
    equal: bool


def measure() -> Measured:
    x = torch.randn(8)
    functions = (broken, fixed, printing, by_shape)
    equal = all(torch.equal(broken(each), fixed(each)) for each in (x, -x.abs(), torch.zeros(8)))
    found = Measured(
        {each.__name__: graphs(each, x) for each in functions}, {each.__name__: reason(each, x) for each in functions},
        equal,
    )  # fmt: skip
    torch.compiler.reset()
    return found


def answer(page: Page, measured: Measured) -> None:
    rows = [
        (name, len(sizes), ", ".join(map(str, sizes)), measured.reasons[name].partition("\n")[0][:70] or "none")
        for name, sizes in measured.graphs.items()
    ]
    page.table("Compiled", ("function", "graphs", "operations in each", "fullgraph=True says"), rows)
    page.show(Code(TRY, title="Try it"))
    found, reasons = measured.graphs, measured.reasons
    page.says("A branch on a value cuts the function into two graphs.", len(found["broken"]) == 2)
    page.says("`fullgraph=True` makes the break an error with its reason.", "branching" in reasons["broken"].lower())
    named = "if x.sum() > 0" in reasons["broken"]
    page.says("The message shows the line.", named)
    page.says("`torch.where` gives the same values in one graph.", len(found["fixed"]) == 1 and measured.equal)
    page.says("A branch on a shape is not a break.", len(found["by_shape"]) == 1 and not reasons["by_shape"])
    count = len(found["printing"])
    page.says(f"A print: {count} graphs with torch {torch.__version__}. This depends on the version.", count >= 1)


LAB = Lab(code=(broken, fixed, printing, by_shape, graphs, reason), measure=measure, answer=answer)
