"""static-or-dynamic: When is static quantization wrong although its calibration was right?

Static quantization fixes the range of every activation before, from calibration samples: kernels need no maximum at
run time. Dynamic quantization measures the range of each row when it comes. As long as inputs look like those of the
calibration, both agree. When they grow, the static range cuts them off.
"""

from typing import Any

import torch
from torch import Tensor, nn

from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import TrueloopError
from trueloop.export.trained_model import TrainedModel
from trueloop.labs.lab import Lab, NotHere, Page
from trueloop.labs.trained_here import trained_here
from trueloop.quantize.catalogue import find_scheme
from trueloop.quantize.scheme import Calibration
from trueloop.results.document import Code

__all__ = ["LAB"]

SCALES = (1, 2, 8)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 64), nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.last(self.first(x).relu())
        return scores


def trained() -> TrainedModel:
    """Four directions; which of them does a point lie in?"""
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(600, 16, generator=draws)
    y = x[:, :4].argmax(1)
    parts = [Tensors(x[part], y[part]) for part in (slice(0, 400), slice(400, None))]
    torch.manual_seed(0)
    return trained_here(Net(), Splits(parts[0], parts[1], facts=Facts(inputs=(16,), classes=tuple("abcd"))), "four")


def quantized(subject: TrainedModel, scheme: str) -> nn.Module:
    chosen = find_scheme(scheme)
    try:
        chosen.require()
    except TrueloopError as error:
        raise NotHere(str(error).partition(". ")[0] + ".") from None
    return chosen.quantize(subject.model, ["first", "last"], Calibration(subject, samples=256))


def relative_error(model: nn.Module, exact: nn.Module, x: Tensor) -> float:
    """Of the scores: relative to their size."""
    with torch.no_grad():
        wanted = exact(x)
        return ((model(x) - wanted).norm() / wanted.norm()).item()


def measure() -> dict[str, Any]:
    subject = trained()
    x = subject.splits.train.fetch(torch.arange(64)).inputs
    made = {name: quantized(subject, f"int8-{name}") for name in ("static", "dynamic")}
    return {
        name: {str(scale): relative_error(model, subject.model, x * scale) for scale in SCALES}
        for name, model in made.items()
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    static, dynamic = measured["static"], measured["dynamic"]
    rows = [(f"{scale} x", static[str(scale)], dynamic[str(scale)]) for scale in SCALES]
    page.table("Relative error of the scores", ("inputs, of those of the calibration", "static", "dynamic"), rows)
    both = max(static["1"], dynamic["1"]) < 0.05
    page.says("On inputs as in the calibration, both are within 5 %.", both)
    page.says("On inputs 8 times as large, static scores are wrong by more than half.", static["8"] > 0.5)
    page.says("Dynamic ones are as good as before: each row has a scale of its own.", dynamic["8"] < 0.05)
    typed = "trueloop quantize runs/NAME --scheme int8-static --to pt2 --calibrate 512"
    page.show(Code(typed, title="Calibrate with samples as they will come"))


LAB = Lab(code=(quantized, relative_error), measure=measure, answer=answer, needs="package torchao", seconds=40)
