"""weights-into-another-architecture: How do trained weights move into a model with different names and shapes?

A `state_dict` is a dict of tensors. Names can be mapped, prefixes cut, matrices joined or reshaped, and the result can
be compared: the new model must give the outputs of the old one. What must not happen is `strict=False` without a look
at what it returns: a typing error in a name leaves a layer at its random initial weights, silently.

You will move an attention layer with three projections into one with a fused projection, and a linear layer into a
1x1 convolution.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]


class Separate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.classifier = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        mixed = F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        return self.classifier(mixed)


class Fused(nn.Module):
    """One matrix product for all three; a 1x1 convolution as the classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.head = nn.Conv1d(32, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        mixed = F.scaled_dot_product_attention(*self.qkv(x).chunk(3, dim=-1))
        return self.head(mixed.transpose(1, 2)).transpose(1, 2)


def converted(old: dict[str, Tensor]) -> dict[str, Tensor]:
    new = {f"qkv.{part}": torch.cat([old[f"{name}.{part}"] for name in ("query", "key", "value")])
           for part in ("weight", "bias")}  # fmt: skip
    new["head.weight"] = old["classifier.weight"].unsqueeze(-1)  # [5, 32] -> [5, 32, 1]
    new["head.bias"] = old["classifier.bias"]
    return new


@dataclass(frozen=True)
class Measured:
    before: float  # largest difference of the outputs
    after: float
    scale: float  # of the outputs
    typing_error: float  # of the difference, after a load with strict=False and a wrong name
    reported: list[str]  # by the load
    strict_refuses: bool


def measure() -> Measured:
    x = torch.randn(2, 7, 32)
    old, new = Separate().eval(), Fused().eval()
    wanted = old(x)

    def off() -> float:
        return (new(x) - wanted).abs().max().item()

    before = off()
    new.load_state_dict(converted(old.state_dict()))
    after = off()
    new = Fused().eval()
    wrong = {name.replace("head", "heads"): value for name, value in converted(old.state_dict()).items()}
    said = new.load_state_dict(wrong, strict=False)
    try:
        Fused().load_state_dict(wrong)
        refused = False
    except RuntimeError:
        refused = True
    return Measured(
        before, after, wanted.abs().max().item(), off(), [*said.missing_keys, *said.unexpected_keys], refused
    )


def answer(page: Page, measured: Measured) -> None:
    rows = [
        ("before loading", measured.before),
        ("converted weights", measured.after),
        ("`heads` for `head`, strict=False", measured.typing_error),
    ]
    page.table("Largest difference of the outputs", ("", "difference"), rows)
    page.says(
        "The converted model gives the old outputs, to rounding.", measured.after < 1e-5 * max(1.0, measured.scale)
    )
    silent = measured.typing_error > 100 * measured.after and len(measured.reported) == 4
    page.says(
        "With `strict=False` a wrong name passes, and only the return value says so: 2 missing, 2 unexpected.", silent
    )
    page.says("`load_state_dict` as it is refuses: keep it strict.", measured.strict_refuses)
    page.says(
        "So compare outputs after every conversion: shapes prove nothing.", measured.before > 100 * measured.after
    )


LAB = Lab(code=(Separate, Fused, converted), measure=measure, answer=answer)
