"""five-native-functions: What does one entry of native_functions.yaml say about an operation, and is it true?

Every operator of torch is declared in one file, which the wheel ships: schema, kernels for each backend, tags. A second
file, derivatives.yaml, has the gradient formulas. Five entries, each with a different thing to learn, each compared
with what the operation does here.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trueloop.inspection.op_call import profiled_call
from trueloop.inspection.op_files import derivative, missing_files, native_entry
from trueloop.labs.lab import Lab, NotHere, Page
from trueloop.op_claims.sample import Sample

__all__ = ["LAB"]

OPERATIONS = ("add.Tensor", "relu", "softmax.int", "view", "bernoulli")


def entry(name: str) -> dict[str, Any]:
    """What both files say."""
    native = native_entry(name)
    tags, backends = native.get("tags", []), ", ".join(native.get("dispatch", {})).split(", ")
    return {
        "schema": native["func"],
        "kernels": native.get("structured_delegate") or _some(backends) or "none: a composite",
        "tags": [tags] if isinstance(tags, str) else list(tags),
        "formula": derivative(name).get("self") or derivative(name).get("self (Default)") or "none",
    }


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def parts_of_softmax() -> list[str]:
    """The operators that one call runs, outermost first."""
    call = profiled_call(lambda x: x.softmax(0), Sample((torch.ones(3),)))
    return [ran.name.partition("::")[2].partition(".")[0] for ran in call.ran]


@dataclass(frozen=True)
class Measured:
    entries: dict[str, dict[str, Any]]
    out_equals: bool
    relu_from_result: bool
    softmax_runs: list[str]
    softmax_backward: str
    view_shares: bool
    draws_differ: bool
    draws_repeat: bool


def measure() -> Measured:
    if why := missing_files():
        raise NotHere(why)
    x = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True)
    y = torch.relu(x)
    y.sum().backward()
    assert x.grad is not None
    half = torch.full((64,), 0.5)

    def drawn(seed: int) -> Tensor:
        return torch.bernoulli(half, generator=torch.Generator().manual_seed(seed))

    return Measured(
        {name: entry(name) for name in OPERATIONS},
        torch.equal(torch.add(x, x), torch.add(x.detach(), x.detach(), out=torch.empty(0))),
        torch.equal(x.grad, (y > 0).float()),
        parts_of_softmax(),
        type(x.softmax(0).grad_fn).__name__,
        x.view(3, 1).data_ptr() == x.data_ptr(),
        not torch.equal(drawn(1), drawn(2)),
        torch.equal(drawn(1), drawn(1)),
    )


def answer(page: Page, measured: Measured) -> None:
    found = measured.entries
    columns = ("operation", "schema", "kernels", "tags", "gradient of self")
    page.table(
        "native_functions.yaml and derivatives.yaml",
        columns,
        [
            (name, each["schema"], each["kernels"], ", ".join(each["tags"]), each["formula"])
            for name, each in found.items()
        ],
    )
    structured = found["add.Tensor"]["kernels"] == "add.out" and measured.out_equals
    page.says("add: `structured_delegate: add.out`. One kernel serves `add`, `add_` and `add(out=)`.", structured)
    from_result = "result" in found["relu"]["formula"] and measured.relu_from_result
    page.says("relu: the formula uses `result`, so ReLU keeps its output and not its input.", from_result)
    composite = found["softmax.int"]["formula"] == "none" and "_softmax" in measured.softmax_runs
    composite = composite and measured.softmax_backward.startswith("Softmax")
    page.says("softmax: no kernel and no formula. It calls `_softmax`, whose gradient is SoftmaxBackward.", composite)
    alias = "Tensor(a) self" in found["view"]["schema"] and measured.view_shares
    page.says("view: `Tensor(a)` on both sides says that the result shares memory, and it does.", alias)
    seeded = "nondeterministic_seeded" in found["bernoulli"]["tags"]
    page.says(
        "bernoulli: the tag `nondeterministic_seeded` is kept. Another seed draws differently, the same seed does not.",
        seeded and measured.draws_differ and measured.draws_repeat,
    )


LAB = Lab(code=(entry, parts_of_softmax), measure=measure, answer=answer, needs="package yaml")
