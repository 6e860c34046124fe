"""cpp-extension: What does an operation of your own in C++ give, and what must it tell PyTorch?

torch computes relu(gate) * value in two passes over memory: relu writes a tensor that the product reads again. Compiled
C++ makes one pass. The operator is declared in C++ (its schema, a kernel for the CPU), and completed in Python: the
shape of its result for compilers, and its gradient.

The first run compiles, which takes about a minute; torch keeps the result.
"""

from typing import Any

import torch

from trueloop.kernels import reglu
from trueloop.kernels.reglu import compiled, reference
from trueloop.labs.interleaved import interleaved
from trueloop.labs.lab import Lab, NotHere, Page

__all__ = ["LAB"]


def gradient_is_right() -> bool:
    gate, value = (torch.randn(5, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    return torch.autograd.gradcheck(reglu.reglu, (gate, value))


def measure() -> dict[str, Any]:
    try:
        compiled()
    except RuntimeError as error:
        raise NotHere("The extension could not be compiled: it needs a C++ compiler and ninja.") from error
    gate, value = torch.randn(1500, 1500), torch.randn(1500, 1500)
    edge = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0])
    ones = torch.ones(4)
    checked = torch.library.opcheck(torch.ops.trueloop_cpp.reglu.default, (gate[:3], value[:3]))
    seconds = interleaved({"C++": lambda: reglu.reglu(gate, value), "torch": lambda: reference(gate, value)})
    return {
        "equal": torch.equal(reglu.reglu(gate, value), reference(gate, value)),
        "edges": torch.equal(reglu.reglu(edge, ones).nan_to_num(7), reference(edge, ones).nan_to_num(7)),
        "gradient": gradient_is_right(),
        "opcheck": {name: said == "SUCCESS" for name, said in checked.items()},
        "milliseconds": {name: value * 1e3 for name, value in seconds.items()},
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    times = measured["milliseconds"]
    rows = [(name, time, times["torch"] / time) for name, time in times.items()]
    page.table("1,500 x 1,500 in float32, this CPU", ("", "ms", "times as fast as torch"), rows)
    page.table(
        "torch.library.opcheck", ("test", "passed"), [(name, str(ok)) for name, ok in measured["opcheck"].items()]
    )
    page.says("The extension gives the bits of torch's two operations.", measured["equal"])
    page.says("NaN stays NaN, which `x < 0 ? 0 : x` does and `x > 0 ? x : 0` does not.", measured["edges"])
    page.says("Its gradient is that of finite differences.", measured["gradient"])
    page.says("Schema, fake tensors, autograd and AOT dispatch are complete.", all(measured["opcheck"].values()))
    page.says(
        "One pass is not slower than two (how much faster depends on the memory).", times["C++"] < 1.5 * times["torch"]
    )


LAB = Lab(code=(compiled, reference), measure=measure, answer=answer, needs="program g++", seconds=120)
