<<<<<<< HEAD
"""activations-by-hook: How do you see, and keep, what a layer computes inside a model that you cannot change?

A forward hook is called with a module, its inputs and its output. It needs no change of the model, works on every layer
by its name, and goes away by `remove()`. What it keeps must be detached: a kept output holds the whole graph behind it.

You will collect the outputs of one layer over some batches, export them as safetensors, and read them again.
=======
"""activations-by-hook: How do I get the output of a layer in the middle of a model, and save it?

A forward hook is called with a module, its inputs and its output, each time the module runs. The model's code stays
as it is. What the hook keeps belongs to the graph, and may still be written by the next layer.

You will collect an activation, write it to a file, and see two traps: a layer that works in place, and a hook that
nobody removed.
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
"""

from __future__ import annotations

<<<<<<< HEAD
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
=======
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
<<<<<<< HEAD
from torch.multiprocessing.reductions import StorageWeakRef
=======
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)

from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]


<<<<<<< HEAD
def collected(model: nn.Module, layer: str, batches: list[Tensor]) -> Tensor:
    """The outputs of a layer, batch after batch, as one tensor."""
    kept: list[Tensor] = []
    handle = model.get_submodule(layer).register_forward_hook(lambda _, __, output: kept.append(output.detach().cpu()))
    try:
        with torch.no_grad():
            for batch in batches:
                model(batch)
    finally:
        handle.remove()
    return torch.cat(kept)


def inner_is_alive(detach: bool) -> bool:
    """Keep the last output only. Does the first layer's output stay in memory with it?"""
    model = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 1))
    first: list[StorageWeakRef] = []
    model[1].register_forward_hook(lambda _, __, output: first.append(StorageWeakRef(output.untyped_storage())))
    output = model(torch.ones(4, 8))
    kept = output.detach() if detach else output
    del output
    return kept is not None and not first[0].expired()
=======
@contextmanager
def activations(model: nn.Module, layer: str) -> Iterator[list[Tensor]]:
    """The outputs of a layer while the block runs, copied: later layers may write in place."""
    kept: list[Tensor] = []

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
        kept.append(output.detach().clone())

    handle = model.get_submodule(layer).register_forward_hook(hook)
    try:
        yield kept
    finally:
        handle.remove()


def collect_and_export(model: nn.Module, layer: str, batches: list[Tensor], file: Path) -> Tensor:
    with activations(model, layer) as kept, torch.no_grad():
        for batch in batches:
            model(batch)
    save_file({layer: torch.cat(kept)}, file)
    return torch.cat(kept)


def kept_without_copy(model: nn.Module, layer: str, batch: Tensor) -> Tensor:
    """As above, but the hook keeps the tensor itself."""
    kept: list[Tensor] = []
    handle = model.get_submodule(layer).register_forward_hook(lambda *call: kept.append(call[2].detach()))
    model(batch)
    handle.remove()
    return kept[0]
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)


@dataclass(frozen=True)
class Measured:
    shape: tuple[int, ...]
<<<<<<< HEAD
    reloaded_equal: bool
    output_unchanged: bool
    hooks_left: int
    right: bool
    alive_if_kept: bool
    alive_if_detached: bool


def measure() -> Measured:
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    batches = [torch.randn(size, 16) for size in (8, 8, 3)]
    before = model(batches[0])
    values = collected(model, "1", batches)
    with TemporaryDirectory() as folder:
        file = Path(folder, "activations.safetensors")
        save_file({"1": values}, file)
        again = load_file(file)["1"]
    wanted = torch.relu(model[0](torch.cat(batches))).detach()
    return Measured(
        tuple(values.shape),
        torch.equal(values, again),
        torch.equal(before, model(batches[0])),
        len(collected(model, "1", batches[:1])) - len(batches[0]),
        torch.allclose(values, wanted, atol=1e-6),
        inner_is_alive(detach=False),
        inner_is_alive(detach=True),
    )


def answer(page: Page, measured: Measured) -> None:
    rows = [
        ("shape of the collected outputs", "x".join(map(str, measured.shape))),
        ("an earlier layer's output is alive while the last output is kept", measured.alive_if_kept),
        ("the same if it is kept detached", measured.alive_if_detached),
    ]
    page.table("Layer 1 of a small model, three batches", ("measured", "value"), rows)
    page.says(
        "The hook sees what the layer computes, for every sample once.", measured.right and measured.shape[0] == 19
    )
    page.says("The file gives back the same numbers.", measured.reloaded_equal)
    gone = measured.output_unchanged and measured.hooks_left == 0
    page.says("The model's outputs do not change, and after `remove()` the hook is gone.", gone)
    held = measured.alive_if_kept and not measured.alive_if_detached
    page.says("An output that is kept without `detach()` keeps the graph behind it in memory.", held)


LAB = Lab(code=(collected, inner_is_alive), measure=measure, answer=answer)
=======
    equals_manual: bool  # the same layers called one by one
    equals_file: bool
    smallest_copied: float
    smallest_kept: float
    output_unchanged: bool
    calls_after_removal: int


def measure() -> Measured:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(inplace=True), nn.Linear(16, 4)).eval()
    batches = [torch.randn(5, 8) for _ in range(3)]
    before = model(batches[0])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "activations.safetensors"
        found = collect_and_export(model, "0", batches, file)
        from_file = load_file(file)["0"]
    manual = torch.cat([model[0](batch) for batch in batches])
    aliased = kept_without_copy(model, "0", batches[0])
    with activations(model, "0") as kept:
        pass
    model(batches[0])
    return Measured(
        tuple(found.shape), torch.equal(found, manual), torch.equal(found, from_file), found.min().item(),
        aliased.min().item(), torch.equal(before, model(batches[0])), len(kept),
    )  # fmt: skip


def answer(page: Page, measured: Measured) -> None:
    rows = [("copied by the hook", measured.smallest_copied), ("kept without a copy", measured.smallest_kept)]
    page.table("Smallest output of layer `0`, a Linear", ("", "smallest"), rows, note="A ReLU in place follows it.")
    all_rows = measured.shape == (15, 16) and measured.equals_manual
    page.says("The hook saw every batch: 15 rows, bit-identical to the layer called alone.", all_rows)
    page.says("The exported file holds bit-identical numbers.", measured.equals_file)
    written = measured.smallest_kept == 0 > measured.smallest_copied
    page.says("Without a copy, an in-place layer overwrites what the hook kept: no negative numbers are left.", written)
    page.says("A hook that returns None changes nothing in the output.", measured.output_unchanged)
    page.says("A removed hook is not called: use `try`/`finally`.", measured.calls_after_removal == 0)


LAB = Lab(code=(activations, collect_and_export, kept_without_copy), measure=measure, answer=answer)
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
