"""int8-language-model: What does a language model lose, and save, with linear layers in 8-bit integers?

Dynamic quantization stores weights as 8-bit integers with a scale for each row, and rounds activations at run time by
a scale of their own. It needs no calibration data. Each layer is quantized alone first, so that a layer that does not
bear it is seen.
"""

from typing import Any

import torch
from torch import Tensor, nn

from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import TrueloopError
from trueloop.labs.lab import Lab, NotHere, Page
from trueloop.labs.trained_here import trained_here
from trueloop.quantize.catalogue import find_scheme
from trueloop.quantize.quantize_model import quantize_model
from trueloop.results.document import Code

__all__ = ["LAB"]

VOCABULARY, LENGTH, WIDTH = 32, 24, 64


class SmallLanguageModel(nn.Module):
    """Predicts the next token from this one and the mean of all before."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.up, self.down = nn.Linear(2 * WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        places = torch.arange(1, x.shape[1] + 1, device=x.device).view(1, -1, 1)
        past = x.cumsum(1) / places
        scores: Tensor = self.head(x + self.down(self.up(torch.cat((x, past), -1)).relu()))
        return scores


def text() -> Splits:
    """A language in which the next token is mostly 5 times this one plus 3."""
    draws = torch.Generator().manual_seed(0)
    tokens = torch.randint(VOCABULARY, (400, LENGTH + 1), generator=draws)
    for place in range(LENGTH):
        follows = torch.rand(400, generator=draws) < 0.8
        tokens[follows, place + 1] = (5 * tokens[follows, place] + 3) % VOCABULARY
    parts = [Tensors(tokens[part, :-1], tokens[part, 1:]) for part in (slice(0, 300), slice(300, None))]
    return Splits(parts[0], parts[1], facts=Facts(inputs=(LENGTH,), vocabulary=VOCABULARY))


def quantized(scheme: str) -> Any:
    """By the machinery of `trueloop quantize`, which measures each layer alone, too."""
    torch.manual_seed(0)
    trained = trained_here(SmallLanguageModel(), text(), "small-language-model", "language")
    chosen = find_scheme(scheme)
    try:
        chosen.require()
    except TrueloopError as error:
        raise NotHere(str(error).partition(". ")[0] + ".") from None
    return quantize_model(trained, chosen, "pt2", max_drop=0.01, samples=None).report


def measure() -> dict[str, Any]:
    report = quantized("int8-dynamic")
    return {
        "metric": report.metric,
        "before": report.before,
        "after": report.after,
        "drop": report.drop,
        "guessing": float(torch.tensor(float(VOCABULARY)).log()),
        "smaller": report.smaller,
        "layers": {each.name: (each.before, each.after, each.error, each.drop) for each in report.layers},
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    rows = [(name, *values) for name, values in measured["layers"].items()]
    page.table("Each layer alone", ("layer", "bytes", "quantized", "relative error", "drop of the metric"), rows)
    whole = [("float", measured["before"]), ("int8 dynamic", measured["after"])]
    page.table("All layers", ("model", measured["metric"]), whole)
    page.says("The model has learned its language.", measured["before"] < 0.6 * measured["guessing"])
    fewer = f"Its weights are {measured['smaller']:.1f} times smaller: one byte instead of four, and the scales."
    page.says(fewer, 3 < measured["smaller"] < 4)
    page.says("The loss grows by less than 1 %.", measured["drop"] < 0.01)
    small = all(error < 0.05 for _, _, error, _ in measured["layers"].values())
    page.says("Every layer alone changes the outputs by less than 5 % of their size.", small)
    page.show(Code("trueloop quantize runs/NAME --scheme int8-dynamic --to pt2", title="The same for a run"))


LAB = Lab(code=(SmallLanguageModel, quantized), measure=measure, answer=answer, needs="package torchao", seconds=30)
