"""nan-forensics: The loss is NaN at step 7. Which line, at which step, made it so?

NaN spreads: one bad sample gives one bad gradient, the step writes it into every weight, and the next forward shows it
everywhere. What the log shows is later than the fault, and elsewhere.

Here the forward is finite all the time; only a gradient is not: the derivative of a square root at 0 is infinite, and
infinity times 0 is NaN. You will compare what the log says, what `detect_anomaly` says and what `trueloop check` says.
"""

import inspect
import textwrap
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from trueloop.labs.check_script import check_script
from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]

BAD_STEP = 5


class Distance(nn.Module):
    """How far apart two points are, after a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        apart = self.project(a) - self.project(b)
        return apart.square().sum(1).sqrt()


class SafeDistance(Distance):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        apart = self.project(a) - self.project(b)
        return (apart.square().sum(1) + 1e-12).sqrt()  # never 0


def train(model: nn.Module, steps: int = 8) -> list[float]:
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        a, b = torch.randn(2, 16, 4)
        if step == 5:
            b[3] = a[3]  # a pair of equal points
        loss = (model(a, b) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def anomaly() -> str:
    """What torch says if asked to look at every gradient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.autograd.detect_anomaly():
                train(Distance())
        except RuntimeError as error:
            return str(error).partition("\n")[0]
    return ""


def script() -> str:
    head = "import torch\nfrom torch import Tensor, nn\n\n\n"
    parts = [textwrap.dedent(inspect.getsource(each)) for each in (Distance, train)]
    return head + "\n\n".join(parts) + "\n\ntrain(Distance())\n"


def measure() -> dict[str, Any]:
    text = script()
    findings = check_script(text, "--select", "LOS110")["findings"]
    return {
        "losses": [str(round(loss, 4)) for loss in train(Distance())],
        "fixed": all(loss == loss for loss in train(SafeDistance())),  # NaN is not equal to itself
        "anomaly": anomaly(),
        "message": findings[0]["message"] if findings else "",
        "line": findings[0]["line"] if findings else 0,
        "sqrt": next(number for number, line in enumerate(text.splitlines(), 1) if ".sqrt()" in line),
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    losses = measured["losses"]
    page.table("The log", ("step", "loss"), [(str(step + 1), loss) for step, loss in enumerate(losses)])
    said = [("detect_anomaly", measured["anomaly"]), ("trueloop check", measured["message"])]
    page.table("What is reported", ("by", "message"), said)
    first = losses.index("nan") if "nan" in losses else -1
    late = "The log shows NaN one step after the fault: the loss of the faulty step is finite."
    page.says(late, first == BAD_STEP + 1)
    anomaly = measured["anomaly"]
    square = "`detect_anomaly` names the square, where infinity times 0 became NaN; the root gave infinity before."
    page.says(square, "returned nan values" in anomaly and "Sqrt" not in anomaly)
    page.says("`trueloop check` names the line with the square root.", measured["line"] == measured["sqrt"])
    page.says("With a number above 0 under the root, every loss is finite.", measured["fixed"])


LAB = Lab(code=(Distance, SafeDistance, train), measure=measure, answer=answer, seconds=30)
