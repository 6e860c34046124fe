<<<<<<< HEAD
"""model-walked: What does a module know about its parts, and what can it not see?

`state_dict`, `.to(device)`, `parameters()` and `train()` all walk the same tree: modules, parameters and buffers that
were assigned as attributes. What is not in the tree is not trained, not moved and not saved, without an error.

You will walk a small model and find a shared weight, a hidden layer in a list, and a tensor that should be a buffer.
=======
"""model-walked: What does a model consist of, and what does it not know about itself?

A module knows its children, its parameters and its buffers, because `__setattr__` registers what you assign.
`state_dict`, `.to(device)`, `parameters()` and the optimizer see only what is registered.

You will walk a model with three traps in it: a weight that two layers share, statistics that are not parameters, and
a layer in a plain Python list.
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
"""

from __future__ import annotations

<<<<<<< HEAD
import io
=======
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trueloop.labs.lab import Lab, Page
<<<<<<< HEAD
from trueloop.results.document import Text
=======
from trueloop.results.document import Code
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)

__all__ = ["LAB"]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
<<<<<<< HEAD
        self.embedding = nn.Embedding(100, 16)
        self.block = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16))
        self.hidden = [nn.Linear(16, 16)]  # a list: nn.ModuleList is meant
        self.scale = torch.ones(16)  # a plain tensor: register_buffer is meant
        self.head = nn.Linear(16, 100, bias=False)
        self.head.weight = self.embedding.weight  # shared

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.block(self.embedding(tokens)) * self.scale
        return self.head(self.hidden[0](x))


def walked(model: nn.Module) -> list[tuple[str, str, int, int]]:
    """Name, class, own parameters (not those of parts), buffers."""
=======
        self.embed = nn.Embedding(100, 16)
        self.norm = nn.BatchNorm1d(16)
        self.blocks = nn.ModuleList([nn.Linear(16, 16), nn.Linear(16, 16)])
        self.forgotten = [nn.Linear(16, 16)]  # a plain list: not registered
        self.head = nn.Linear(16, 100, bias=False)
        self.head.weight = self.embed.weight  # shared with the embedding

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.norm(self.embed(tokens))
        for layer in (*self.blocks, *self.forgotten):
            x = torch.relu(layer(x))
        result: Tensor = self.head(x)
        return result


def walk(model: nn.Module) -> list[tuple[str, str, int, int]]:
    """Name, class, own parameters, own buffers (elements): of each module, without its children's."""
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
    return [
        (
            name or "(the model)",
            type(module).__name__,
            sum(each.numel() for each in module.parameters(recurse=False)),
<<<<<<< HEAD
            len(list(module.buffers(recurse=False))),
=======
            sum(each.numel() for each in module.buffers(recurse=False)),
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
        )
        for name, module in model.named_modules()
    ]


@dataclass(frozen=True)
class Measured:
    rows: list[tuple[str, str, int, int]]
<<<<<<< HEAD
    parameters: int  # each once
    counted_twice: int  # by the sum over modules
    names: list[str]  # of the state_dict
    hidden_learns: bool
    scale_moves: bool
    file_holds_shared_once: bool
=======
    parameters: int  # as parameters() counts
    names: list[str]  # of state_dict
    buffers: list[str]
    shared: bool
    gradients: dict[str, bool]
    forgotten_in_double: str  # dtype of the forgotten layer after model.double()
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)


def measure() -> Measured:
    model = Model()
<<<<<<< HEAD
    before = model.hidden[0].weight.clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(torch.arange(8)).square().mean().backward()
    optimizer.step()
    learned = not torch.equal(before, model.hidden[0].weight)
    rows, names = walked(model), list(model.state_dict())
    saved = io.BytesIO()
    torch.save(model.state_dict(), saved)
    return Measured(
        rows,
        sum(each.numel() for each in model.parameters()),
        sum(own for _, _, own, _ in rows),
        names,
        learned,
        model.to(torch.float64).scale.dtype == torch.float64,
        len(saved.getvalue()) < 4 * 2 * 1600 + 4000,
    )


def answer(page: Page, measured: Measured) -> None:
    page.table("named_modules()", ("name", "class", "own parameters", "own buffers"), measured.rows)
    page.show(Text(", ".join(measured.names), "state_dict()"))
    twice = measured.counted_twice - measured.parameters == 1600
    page.says("A shared weight is counted once by `parameters()`, and twice by a sum over modules.", twice)
    both = {"embedding.weight", "head.weight"} <= set(measured.names)
    page.says(
        "`state_dict` lists it under both names, and the file holds its numbers once.",
        both and measured.file_holds_shared_once,
    )
    unseen = not any("hidden" in name for name in measured.names) and not measured.hidden_learns
    page.says("A layer in a plain list is neither saved nor trained (`trueloop explain MDL101`).", unseen)
    lost = "scale" not in measured.names and not measured.scale_moves
    page.says("A plain tensor is neither saved nor moved by `.to()`.", lost)


LAB = Lab(code=(Model, walked), measure=measure, answer=answer)
=======
    model(torch.randint(0, 100, (8,))).sum().backward()
    gradients = {
        "blocks.0": model.blocks[0].weight.grad is not None,
        "forgotten": model.forgotten[0].weight.grad is not None,
    }
    rows = walk(model)
    registered = sum(each.numel() for each in model.parameters())
    names, buffers = list(model.state_dict()), [name for name, _ in model.named_buffers()]
    shared = model.head.weight.data_ptr() == model.embed.weight.data_ptr()
    model.double()
    return Measured(rows, registered, names, buffers, shared, gradients, str(model.forgotten[0].weight.dtype))


def answer(page: Page, measured: Measured) -> None:
    page.table("Every module, itself only", ("name", "class", "parameters", "buffers"), measured.rows)
    page.show(Code("trueloop inspect model FILE:MODEL   # the same of your own model", title="Try it"))
    summed = sum(row[2] for row in measured.rows)
    facts = [("parameters()", measured.parameters), ("sum over all modules", summed)]
    page.table("Two ways to count parameters", ("count", "elements"), facts)
    twice = measured.shared and summed - measured.parameters == 100 * 16
    page.says("A shared weight is one parameter: `parameters()` counts it once, a sum over modules twice.", twice)
    both = {"embed.weight", "head.weight"} <= set(measured.names)
    page.says("`state_dict` holds a shared weight under both names.", both)
    kept = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"} == set(measured.buffers)
    page.says("BatchNorm's statistics are buffers: saved and moved, not trained.", kept)
    hidden = not any("forgotten" in name for name in (*measured.names, *(row[0] for row in measured.rows)))
    page.says("A layer in a plain list is not found: not saved, not trained.", hidden)
    page.says("It still takes part in forward and backward, so nothing fails.", measured.gradients["forgotten"])
    left = measured.forgotten_in_double == "torch.float32"
    page.says("`model.double()` and `model.to(device)` leave it behind.", left)


LAB = Lab(code=(Model, walk), measure=measure, answer=answer)
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
