"""The verdict so far: what the end would say, from copies; the run itself is not changed by asking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import in_child
from tests.pages import EXAMPLES, Example
from trueloop.doctor.examine import examine
from trueloop.doctor.launch import find_script
from trueloop.doctor.watch import Watch
from trueloop.results.check import Outcome, Verdict

PAGES = (
    "data/no_seed_set",
    "gradient/gradients_never_cleared",
    "loss/softmax_before_cross_entropy",
    "loss/loss_at_chance",
    "mode/evaluated_in_train_mode",
    "model/unused_parameters",
    "optimizer/scheduler_never_stepped",
    "optimizer/parameters_not_in_optimizer",
)


class Asked(Watch):
    """Asked for the verdict right before it ends, twice."""

    answers: tuple[Verdict, ...] = ()

    def stop(self, outcome: Outcome | None = None, error: BaseException | None = None) -> Verdict:
        if self.verdict is None:
            self.answers = (self.so_far(), self.so_far())
        return super().stop(outcome, error)


def said(verdict: Verdict) -> list[tuple[Any, ...]]:
    return sorted((f.code, f.place.line if f.place else 0, f.message, f.count) for f in verdict.findings)


@pytest.mark.parametrize("page", PAGES)
def test_the_verdict_so_far_is_the_verdict_at_the_end(tmp_path: Path, page: str) -> None:
    chosen = [example for example in EXAMPLES if example.page == page and example.ranks == 1 and not example.cuda]
    broken = next(example for example in chosen if example.broken)
    healthy = next(example for example in chosen if not example.broken)
    for example in (broken, healthy):
        so_far, again, end = _verdicts(tmp_path, example)
        assert so_far == again == end
        assert bool(so_far) == example.broken


def _verdicts(folder: Path, example: Example) -> Any:
    script = folder / "train.py"
    script.write_text(example.text, encoding="utf-8")

    def work() -> list[list[tuple[Any, ...]]]:
        torch.seed()  # a fresh interpreter's: this process may have been seeded by another test
        watch = Asked(script="train.py")
        verdict, _ = examine(find_script(str(script), ()), watch)
        assert not [failure for answer in watch.answers for failure in answer.failures]
        return [said(one) for one in (*watch.answers, verdict)]

    return in_child(work)


def test_asking_in_every_step_changes_neither_weights_nor_verdict(tmp_path: Path) -> None:
    text = "import torch\ntorch.manual_seed(0)\nmodel = torch.nn.Linear(4, 2)\nx = torch.randn(16, 4)\n"
    text += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\nfor _ in range(20):\n"
    text += "    loss = model(torch.nn.functional.dropout(x)).square().mean()\n    loss.backward()\n"
    text += "    optimizer.step()\n    ASK()\nprint(model.weight.sum().item())\n"
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")

    def run(asks: bool) -> Any:
        def work() -> Any:
            import builtins

            watch = Watch(script="train.py")
            vars(builtins)["ASK"] = watch.so_far if asks else int
            verdict, error = examine(find_script(str(script), ()), watch)
            assert error is None
            import sys

            weight: torch.Tensor = sys.modules["__main__"].model.weight
            return said(verdict), weight.tolist()

        return in_child(work)

    assert run(asks=True) == run(asks=False)
