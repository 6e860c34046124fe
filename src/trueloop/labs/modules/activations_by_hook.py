"""activations-by-hook: How do you see, and keep, what a layer computes inside a model that you cannot change?

A forward hook is called with a module, its inputs and its output. It needs no change of the model, works on every layer
by its name, and goes away by `remove()`. What it keeps must be detached: a kept output holds the whole graph behind it.

You will collect the outputs of one layer over some batches, export them as safetensors, and read them again. For a
recipe, a run or a file of yours, one command does it:

    trueloop inspect model digits --activations 1 --output layer.safetensors
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from trueloop.inspection.activations import layer_outputs
from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]


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


@dataclass(frozen=True)
class Measured:
    shape: tuple[int, ...]
    reloaded_equal: bool
    output_unchanged: bool
    hooks_left: int
    right: bool
    same_as_inspect: bool
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
        torch.equal(layer_outputs(model, "1", batches[0])["output"], values[:8]),
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
    page.says("`trueloop inspect model --activations` gives the same tensor.", measured.same_as_inspect)
    page.says("The file gives back the same numbers.", measured.reloaded_equal)
    gone = measured.output_unchanged and measured.hooks_left == 0
    page.says("The model's outputs do not change, and after `remove()` the hook is gone.", gone)
    held = measured.alive_if_kept and not measured.alive_if_detached
    page.says("An output that is kept without `detach()` keeps the graph behind it in memory.", held)


LAB = Lab(code=(collected, inner_is_alive), measure=measure, answer=answer)
