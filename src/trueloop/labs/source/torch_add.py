"""torch-add: What happens between `torch.add(a, b)` and the loop that adds?

One line of Python passes a binding in C++, the choice of an overload, the dispatcher (a table of kernels for each kind
of tensor), autograd's kernel, and at last a loop over memory that was generated from a template. All of it can be
asked of the installed torch, without its sources:

    trueloop inspect op torch.add

You will see the stations of one call, and what they cost for one number and for a million.
"""

import inspect
from dataclasses import dataclass

import torch
from torch import Tensor

from trueloop.inspection.op_call import profiled_call
from trueloop.inspection.op_files import derivative, missing_files, native_entry, native_function
from trueloop.inspection.op_table import entries, walk
from trueloop.labs.interleaved import interleaved
from trueloop.labs.lab import Lab, NotHere, Page
from trueloop.op_claims.sample import Sample

__all__ = ["LAB"]

SPELLINGS = {
    "torch.add(a, b)": lambda a, b: torch.add(a, b),
    "a + b": lambda a, b: a + b,
    "a.add(b)": lambda a, b: a.add(b),
    "a + 1": lambda a, _: a + 1,
}


def operator_behind(text: str) -> str:
    """Which operator the dispatcher was asked for, by the profiler."""
    call = profiled_call(SPELLINGS[text], Sample((torch.ones(3), torch.ones(3))))
    return next(ran.name for ran in call.ran if "add" in ran.name)


def stations(*inputs: Tensor) -> list[tuple[str, str]]:
    """Dispatch keys of a call of aten::add.Tensor, in order, and what happens at each."""
    return [(key, what) for key, _, what in walk(entries("aten::add.Tensor"), inputs).steps]


@dataclass(frozen=True)
class Measured:
    has_python_source: bool
    operators: dict[str, str]
    stations: list[tuple[str, str]]
    delegate: str
    kernel: str
    formula: dict[str, str]
    seconds: dict[str, float]


def measure() -> Measured:
    if why := missing_files():
        raise NotHere(why)
    last = walk(entries("aten::add.Tensor"), [torch.ones(3)]).last
    small, large = torch.ones(1), torch.ones(1_000_000)
    return Measured(
        inspect.isroutine(torch.add) and not inspect.isbuiltin(torch.add),
        {text: operator_behind(text) for text in SPELLINGS},
        stations(torch.ones(3, requires_grad=True), torch.ones(3)),
        native_entry("add.Tensor").get("structured_delegate", ""),
        native_function("add.Tensor", last)[0] if last else "",
        derivative("add.Tensor"),
        interleaved({"1": lambda: small + small, "1,000,000": lambda: large + large}, rounds=31),
    )


def answer(page: Page, measured: Measured) -> None:
    rows = [
        ("1. Python", "torch.add is bound in C++: it has no Python source"),
        ("2. overload", f"aten::add.Tensor, of {len(SPELLINGS)} spellings"),
        *((f"3. key {key}", what) for key, what in measured.stations),
        ("4. structured kernel", f"shared with {measured.delegate}: shapes and dtypes once, for all variants"),
        ("5. native function", measured.kernel),
        ("6. backward", f"self: {measured.formula.get('self', '')}; other: {measured.formula.get('other', '')}"),
    ]
    page.table("The stations of one call", ("station", "what was found in this torch"), rows)
    page.table("Spellings", ("Python", "operator"), measured.operators.items())
    seconds = measured.seconds
    page.table("Time", ("numbers", "microseconds a call"), [(n, s * 1e6) for n, s in seconds.items()])
    page.says("There is nothing to step into: `torch.add` is compiled.", not measured.has_python_source)
    same = set(measured.operators.values()) == {"aten::add.Tensor"}
    page.says("All spellings are one operator, aten::add.Tensor; even `a + 1` wraps its number as a tensor.", same)
    keys = [key for key, _ in measured.stations]
    page.says(
        "Autograd is a station before the kernel, not part of it.",
        "CPU" in keys and any(key.startswith("Autograd") for key in keys[: keys.index("CPU")]),
    )
    page.says("The loop is generated from one line of native_functions.yaml.", measured.kernel.startswith("ufunc_add"))
    ratio = seconds["1"] / (seconds["1,000,000"] / 1e6)
    page.says(f"The way to the loop costs as much as adding {ratio:,.0f} numbers.", ratio > 100)


LAB = Lab(code=(operator_behind, stations), measure=measure, answer=answer, needs="package yaml")
