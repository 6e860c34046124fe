"""three-autograd-bugs: Why does backward fail although the forward was right, and what is the fix?

Three errors that everyone meets: the graph was freed, a tensor that the backward needs was overwritten, a leaf was
written in place. Each has a message that names the rule that was broken, and a fix of one word.

You will learn what each message means, by making it and by making it disappear.
"""

from collections.abc import Callable

import torch

from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]


def graph_freed() -> None:
    """The first backward frees what the graph saved; the second needs it again."""
    x = torch.ones(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    loss.backward()


def graph_kept() -> None:
    x = torch.ones(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)  # or add both losses, and call backward once
    loss.backward()


def overwritten() -> None:
    """sigmoid saved its output for the backward; `mul_` changes it."""
    x = torch.ones(3, requires_grad=True)
    y = torch.sigmoid(x)
    y.mul_(2)
    y.sum().backward()


def not_overwritten() -> None:
    x = torch.ones(3, requires_grad=True)
    y = torch.sigmoid(x)
    y = y * 2  # a new tensor
    y.sum().backward()


def leaf_written() -> None:
    """A parameter changed in place while its operations are recorded."""
    weight = torch.ones(3, requires_grad=True)
    weight -= 0.1


def leaf_written_unrecorded() -> None:
    weight = torch.ones(3, requires_grad=True)
    with torch.no_grad():  # what every optimizer does
        weight -= 0.1


BUGS = {
    "graph freed": (graph_freed, graph_kept, "backward through the graph a second time"),
    "overwritten": (overwritten, not_overwritten, "modified by an inplace operation"),
    "leaf written": (leaf_written, leaf_written_unrecorded, "leaf Variable that requires grad"),
}
"""Bug -> broken, fixed, words of the message."""


def message_of(function: Callable[[], None]) -> str:
    """Of the error that it raises; empty: it runs."""
    try:
        function()
    except RuntimeError as error:
        return str(error).strip().partition("\n")[0]
    return ""


def measure() -> dict[str, dict[str, str]]:
    return {
        name: {"broken": message_of(broken), "fixed": message_of(fixed)} for name, (broken, fixed, _) in BUGS.items()
    }


def answer(page: Page, measured: dict[str, dict[str, str]]) -> None:
    rows = [
        (name, said["broken"].partition(". ")[0].partition(", which")[0][:120], said["fixed"] or "runs")
        for name, said in measured.items()
    ]
    page.table("What torch says", ("bug", "message", "fixed"), rows)
    meaning = {
        "graph freed": "A graph serves one backward: saved tensors are freed by it, unless `retain_graph=True`.",
        "overwritten": "What the backward saved must not be written: torch counts writes and compares at the backward.",
        "leaf written": "A leaf that requires gradients is written under `no_grad` only.",
    }
    for name, sentence in meaning.items():
        said, words = measured[name], BUGS[name][2]
        page.says(sentence, words in said["broken"] and not said["fixed"])


LAB = Lab(
    code=(graph_freed, graph_kept, overwritten, not_overwritten, leaf_written, leaf_written_unrecorded),
    measure=measure,
    answer=answer,
)
