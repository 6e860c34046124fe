"""leak-hunt: Memory grows with every step. What holds it, and how do you find it?

A tensor with a `grad_fn` holds the graph that computed it, and the graph holds every activation that its backward
needs. A list of losses is therefore a list of complete forwards. Python's garbage collector does not see this: the
activations belong to C++ objects.

You will measure four loops by what is still alive after each step, and follow the references from a leaked tensor to
the name that holds it.
"""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Code

__all__ = ["LAB"]

STEPS = 6


def keeps_the_loss(kept: list[Any], loss: Tensor, model: nn.Module) -> None:
    kept.append(loss)


def keeps_a_number(kept: list[Any], loss: Tensor, model: nn.Module) -> None:
    kept.append(loss.item())


def adds_up_losses(kept: list[Any], loss: Tensor, model: nn.Module) -> None:
    kept[:] = [kept[0] + loss if kept else loss]  # total_loss += loss


def adds_a_hook(kept: list[Any], loss: Tensor, model: nn.Module) -> None:
    model.register_forward_hook(lambda *called: kept.append(called[2]))  # never removed


LOOPS = {each.__name__: each for each in (keeps_the_loss, keeps_a_number, adds_up_losses, adds_a_hook)}


class Saved:
    """What a graph saved for its backward; counted while it lives."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def alive_after_each_step(habit: Callable[..., None]) -> list[int]:
    """Bytes saved for a backward that are still held."""
    alive: weakref.WeakSet[Saved] = weakref.WeakSet()
    kept: list[Any] = []
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))

    def pack(tensor: Tensor) -> Saved:
        saved = Saved(tensor.detach())  # without its graph, which would hold it
        alive.add(saved)
        return saved

    sizes = []
    for _ in range(STEPS):
        with saved_tensors_hooks(pack, lambda saved: saved.tensor):
            loss = model(torch.randn(100, 32)).square().mean()
        habit(kept, loss, model)
        del loss
        sizes.append(sum(each.tensor.nbytes for each in alive))
    return sizes


def name_of_holder(thing: Any, names: dict[str, Any]) -> str:
    """The variable whose value refers to this object."""
    holders = {id(each) for each in gc.get_referrers(thing)}
    return next((name for name, value in names.items() if id(value) in holders), "")


def measure() -> dict[str, Any]:
    sizes = {name: alive_after_each_step(habit) for name, habit in LOOPS.items()}
    history, other = [torch.ones(3, requires_grad=True).sum()], [1.0]
    found = name_of_holder(history[0], {"other": other, "history": history})
    x = torch.ones(1000, requires_grad=True)
    seen_by_python = gc.get_referents((x * 2).exp().grad_fn)
    return {"sizes": sizes, "holder": found, "tensors_seen": sum(isinstance(each, Tensor) for each in seen_by_python)}


def answer(page: Page, measured: dict[str, Any]) -> None:
    sizes = measured["sizes"]
    columns = ("loop", *(f"step {step + 1}" for step in range(STEPS)))
    page.table("Bytes for a backward that are still held", columns, [(name, *sizes[name]) for name in sizes])

    def grows(name: str) -> bool:
        return all(later > earlier for earlier, later in zip(sizes[name], sizes[name][1:], strict=False))

    page.says("A list of losses holds the graph of every step.", grows("keeps_the_loss"))
    page.says("`total += loss` does the same: the sum is one long graph.", grows("adds_up_losses"))
    page.says("`loss.item()` holds nothing.", not any(sizes["keeps_a_number"]))
    hook = sizes["adds_a_hook"]
    worse = grows("adds_a_hook") and hook[-1] - hook[-2] >= hook[2] - hook[1]
    page.says("A hook that is registered in each step is called by all later ones, and keeps all outputs.", worse)
    page.says(
        "`gc.get_referrers` leads from a leaked tensor to the name that holds it.", measured["holder"] == "history"
    )
    blind = "Counting tensors by `gc` does not find what a graph saved: it belongs to C++."
    page.says(blind, measured["tensors_seen"] == 0)
    typed = "trueloop check train.py             # GRD110 names the line\ntrueloop probe train.py no-memory-growth"
    page.show(Code(typed, title="In your own script"))


LAB = Lab(code=(*LOOPS.values(), alive_after_each_step, name_of_holder), measure=measure, answer=answer)
