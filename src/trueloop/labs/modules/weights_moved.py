"""weights-moved: How do I move trained weights into a different architecture, and know that they arrived?

A state dict is names and tensors. Where the names or the layouts differ, rename and reshape the entries: nothing else
is in a checkpoint. The proof is not that loading raised no error: it is that both models give the same output.

You will move torch's attention (one matrix for query, key and value) into three separate layers, and see what
`strict=False` hides.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]


class Attention(nn.Module):
    """The target: separate projections, other names."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        result: Tensor = self.out(mixed)
        return result


def moved(source: dict[str, Tensor]) -> dict[str, Tensor]:
    """From the names of nn.MultiheadAttention; its rows are stacked: query, key, value."""
    target = {}
    for kind in ("weight", "bias"):
        for name, part in zip("qkv", source[f"in_proj_{kind}"].chunk(3), strict=True):
            target[f"{name}.{kind}"] = part
        target[f"out.{kind}"] = source[f"out_proj.{kind}"]
    return target


def output_error(source: nn.MultiheadAttention, target: nn.Module) -> float:
    x = torch.randn(2, 7, 32)
    with torch.no_grad():
        return (source(x, x, x, need_weights=False)[0] - target(x)).abs().max().item()


@dataclass(frozen=True)
class Measured:
    before: float
    after: float
    wrong_order: float
    missing: int  # names that strict=False did not find
    unexpected: int
    strict_error: str
    shape_error: str


def message_of(model: nn.Module, state: dict[str, Tensor], strict: bool) -> str:
    try:
        model.load_state_dict(state, strict=strict)
    except RuntimeError as error:
        return str(error).strip().split("\n")[1].strip()
    return ""


def measure() -> Measured:
    source, target = nn.MultiheadAttention(32, 4, batch_first=True), Attention(32, 4)
    nn.init.normal_(source.in_proj_bias)
    before = output_error(source, target)
    prefixed = {f"module.{name}": value for name, value in moved(source.state_dict()).items()}
    found = target.load_state_dict(prefixed, strict=False)
    strict_error = message_of(target, prefixed, strict=True)
    untouched = output_error(source, target)
    target.load_state_dict(moved(source.state_dict()))
    after = output_error(source, target)
    state = moved(source.state_dict())
    target.load_state_dict({**state, "q.weight": state["k.weight"], "k.weight": state["q.weight"]})
    wrong = output_error(source, target)
    shape_error = message_of(nn.Linear(32, 5), {"weight": torch.zeros(10, 32), "bias": torch.zeros(10)}, strict=False)
    return Measured(
        min(before, untouched), after, wrong, len(found.missing_keys), len(found.unexpected_keys), strict_error,
        shape_error,
    )  # fmt: skip


def answer(page: Page, measured: Measured) -> None:
    rows = [
        ("nothing moved, or a prefix `module.` and strict=False", measured.before),
        ("moved", measured.after),
        ("moved, query and key exchanged", measured.wrong_order),
    ]
    page.table("Largest difference of the outputs", ("weights", "difference"), rows)
    messages = [("strict=True", measured.strict_error[:110]), ("another shape", measured.shape_error[:110])]
    page.table("What torch says", ("case", "message"), messages)
    page.says("After renaming and splitting, both models agree to rounding.", measured.after < 1e-5 < measured.before)
    silent = measured.missing == measured.unexpected == 8 and measured.before > 1e-3
    page.says("With a prefix on every name, `strict=False` loads nothing and raises nothing: 8 names missing.", silent)
    page.says("`strict=True` names the missing keys.", "Missing key(s)" in measured.strict_error)
    shaped = "size mismatch" in measured.shape_error
    page.says("A wrong shape is an error with `strict=False` too: leave out a head with other classes.", shaped)
    page.says(
        "Exchanged parts of equal shape load without an error: only outputs show it.", measured.wrong_order > 1e-3
    )


LAB = Lab(code=(Attention, moved, output_error), measure=measure, answer=answer)
