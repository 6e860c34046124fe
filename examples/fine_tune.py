"""Even or odd? A network that knows the ten digits is fine-tuned on 150 labels: a new head, slow layers below it.

trueloop train digits                        # the weights to start from
trueloop train examples/fine_tune.py         # --set weights=runs/digits-2 for another run
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from trueloop import Recipe, Splits, Tensors
from trueloop.recipes import digits


def read(request: Any) -> Splits:
    """The digits, labeled by parity; 150 of them have a label."""
    splits = digits.read(request)
    train, valid, test = (
        Tensors(part.inputs[:count], part.targets[:count] % 2)
        for part, count in ((splits.train, 150), (splits.valid, None), (splits.test, None))
    )
    return replace(splits, train=train, valid=valid, test=test, facts=replace(splits.facts, classes=("even", "odd")))


def network() -> nn.Module:
    return nn.Sequential(*list(digits.network())[:-1], nn.Linear(64 * 4 * 4, 2))


def groups(model: Any) -> list[dict[str, Any]]:
    return [
        {"params": model[:-1].parameters(), "lr_scale": 0.1, "name": "body"},
        {"params": model[-1].parameters(), "name": "head"},
    ]


def recipe(weights: str = "runs/digits") -> Recipe:
    return Recipe(
        name="fine-tune", model=network, data=read, start_from=weights, start_map={"9.*": None}, groups=groups,
        epochs=20, batch=25, lr=3e-3, schedule="cosine", weight_decay=0.01, trackers=(),
    )  # fmt: skip
