"""model-walked: What does a module know about its parts, and what can it not see?

`state_dict`, `.to(device)`, `parameters()` and `train()` all walk the same tree: modules, parameters and buffers that
were assigned as attributes. What is not in the tree is not trained, not moved and not saved, without an error.

You will walk a small model and find a shared weight, a hidden layer in a list, and a tensor that should be a buffer.
"""

import io
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Text

__all__ = ["LAB"]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
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
    return [
        (
            name or "(the model)",
            type(module).__name__,
            sum(each.numel() for each in module.parameters(recurse=False)),
            len(list(module.buffers(recurse=False))),
        )
        for name, module in model.named_modules()
    ]


@dataclass(frozen=True)
class Measured:
    rows: list[tuple[str, str, int, int]]
    parameters: int  # each once
    counted_twice: int  # by the sum over modules
    names: list[str]  # of the state_dict
    hidden_learns: bool
    scale_moves: bool
    file_holds_shared_once: bool


def measure() -> Measured:
    model = Model()
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
