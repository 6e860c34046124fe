"""Variants of the pages where a careless diff would break the script or hide a bug: the diff is correct or absent."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.conftest import check_script
from tests.patching import apply, assert_fixed

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
"""


def training(loss: str, model: str = "Net()") -> str:
    return f"""
model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(8):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    {loss}.backward()
    optimizer.step()
"""


def module(constructor: str, forward: str, ahead: str = "", of_class: str = "") -> str:
    parts = [
        of_class and indent(f"{of_class}\n", "    "),
        "    def __init__(self):\n",
        ahead and indent(f"{ahead}\n", " " * 8),
    ]
    body = "        super().__init__()\n" + indent(dedent(constructor), " " * 8) + "\n\n    def forward(self, x):\n"
    return "class Net(nn.Module):\n" + "".join(parts) + body + indent(dedent(forward), " " * 8) + "\n"


CLASSES = "F.cross_entropy(model(x), x[:, :3].argmax(1))"
NUMBERS = "F.mse_loss(model(x), x.sum(1, keepdim=True))"
YES_NO = "F.binary_cross_entropy_with_logits(model(x), (x[:, :1] > 0).float())"

MENDED = {
    "softmax-before-cross-entropy": {
        "a function of a module under another name": "import torch.nn.functional as fn\n"
        + module("self.head = nn.Linear(4, 3)", "return fn.softmax(self.head(x), dim=1)")
        + training(CLASSES),
        "a layer called softmax": module(
            "self.head = nn.Linear(4, 3)\nself.softmax = nn.Softmax(dim=1)", "return self.softmax(self.head(x))"
        )
        + training(CLASSES),
        "a layer in the middle of a line": training(
            CLASSES, "nn.Sequential(\n    nn.Linear(4, 3), nn.Softmax(dim=1), nn.Identity(),\n)"
        ),
    },
    "gradients-never-cleared": {
        "a scaler steps": """
model = nn.Linear(4, 1)
optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.01), torch.amp.GradScaler("cpu")
for _ in range(8):
    x = torch.randn(8, 4)
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    },
    "layers-in-a-plain-list": {
        "a tuple without parentheses": module(
            "self.layers = nn.Linear(4, 4), nn.Linear(4, 4)\nself.head = nn.Linear(4, 1)",
            "return self.head(self.layers[1](self.layers[0](x).relu()).relu())",
        )
        + training(NUMBERS),
    },
    "graph-never-freed": {
        "a sum in which the loss stands twice": """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
total = 0.0
for _ in range(60):
    x = torch.randn(8, 4)
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss * len(x) + loss / 2
""",
    },
    "evaluation-without-no-grad": {
        "a static method": """
class Loop:
    @staticmethod
    def measure(model):
        return sum(F.mse_loss(model(x), x.sum(1, keepdim=True)).item() for x in torch.randn(4, 8, 4))

"""
        + training(NUMBERS, "nn.Linear(4, 1)")
        + "    model.eval()\n    print(Loop.measure(model))\n    model.train()\n",
    },
    "accumulation-not-averaged": {
        "a comment and an argument": """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(16):
    x = torch.randn(8, 4)
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
    loss.backward(retain_graph=False)  # adds up
    if i % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
""",
    },
    "whole-model-pickled": {
        "two models, over several lines, and another file that is read": """
maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
torch.save({
    "names": ["é", "maker"], "maker": maker,
    "judge": judge, "epoch": 3,
}, "both.pt")
torch.save(torch.ones(3), "numbers.pt")
print(torch.load("numbers.pt"))
""",
    },
    "optimizer-recreated-every-step": {
        "an epoch around the batches": """
model = nn.Linear(4, 1)
for epoch in range(2):
    for _ in range(4):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # in every step
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
""",
    },
}

BY_HAND = {
    "whole-model-pickled": {
        "a function of the same file reads it": """
import os, tempfile
path = os.path.join(tempfile.mkdtemp(), "model.pt")
def read(path):
    model = torch.load(path, weights_only=False)
    return model.eval()
model = nn.Linear(4, 1)
torch.save(model, path)
with torch.no_grad():
    print(read(path)(torch.ones(1, 4)))
""",
        "made in the call": """
import os, tempfile
torch.save(nn.Linear(4, 1), os.path.join(tempfile.mkdtemp(), "model.pt"))
""",
    },
    "sigmoid-before-bce-with-logits": {
        "a threshold reads the probabilities": module(
            "self.head = nn.Linear(4, 1)", "return torch.sigmoid(self.head(x))"
        )
        + training(YES_NO)
        + "    print((model(x).detach() > 0.5).sum())\n",
    },
    "softmax-before-cross-entropy": {
        "a named layer of an ordered dict": "from collections import OrderedDict\n"
        + training(CLASSES, 'nn.Sequential(OrderedDict([("head", nn.Linear(4, 3)), ("out", nn.Softmax(dim=1))]))'),
        "an argument of a class of one's own": module(
            "self.head, self.out = head, out", "return self.out(self.head(x))"
        ).replace("__init__(self)", "__init__(self, head, out)")
        + training(CLASSES, "Net(nn.Linear(4, 3), nn.Softmax(dim=1))"),
    },
    "tensor-not-a-buffer": {
        "a name that exists": module(
            "self.scale = None\nself.scale = torch.rand(4)\nself.head = nn.Linear(4, 1)",
            "return self.head(x * self.scale)",
        )
        + training(NUMBERS),
        "a name of the class": module(
            "self.scale = torch.rand(4)\nself.head = nn.Linear(4, 1)",
            "return self.head(x * self.scale)",
            of_class="scale = None\n",
        )
        + training(NUMBERS),
        "before the constructor of Module": module(
            "self.head = nn.Linear(4, 1)", "return self.head(x * self.scale)", ahead="self.scale = torch.rand(4)"
        )
        + training(NUMBERS),
    },
    "layers-in-a-plain-list": {
        "two attributes in one assignment": module(
            "self.one, self.two = [nn.Linear(4, 4)], [nn.Linear(4, 4)]\nself.head = nn.Linear(4, 1)",
            "return self.head(self.two[0](self.one[0](x).relu()).relu())",
        )
        + training(NUMBERS),
        "keys with a dot": module(
            "self.scales = {str(s): nn.Linear(4, 4) for s in (0.5, 1.5)}\nself.head = nn.Linear(4, 1)",
            "return self.head(sum(layer(x) for layer in self.scales.values()))",
        )
        + training(NUMBERS),
        "together with functions": module(
            "self.layers = [nn.Linear(4, 4), torch.relu, nn.Linear(4, 4)]\nself.head = nn.Linear(4, 1)",
            "for layer in self.layers:\n    x = layer(x)\nreturn self.head(x)",
        )
        + training(NUMBERS),
    },
    "graph-never-freed": {
        "a function that returns two things": """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def train_step(x):
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, len(x)

history = []
for _ in range(60):
    history.append(train_step(torch.randn(8, 4)))
""",
    },
    "clipped-after-step": {
        "a scaler steps, and nothing unscales": """
model = nn.Linear(4, 1)
optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.01), torch.amp.GradScaler("cpu")
for _ in range(8):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.update()
""",
    },
    "gradients-never-cleared": {
        "a window that is one batch long today": """
model, window = nn.Linear(4, 1), 1
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(8):
    x = torch.randn(8, 4)
    (F.mse_loss(model(x), x.sum(1, keepdim=True)) / window).backward()
    if (i + 1) % window == 0:
        optimizer.step()
""",
    },
}


def cases(table: dict[str, dict[str, str]]) -> list[object]:
    return [
        pytest.param(rule, text, id=f"{rule}: {title}")
        for rule, scripts in table.items()
        for title, text in scripts.items()
    ]


@pytest.mark.parametrize(("rule", "text"), cases(MENDED))
def test_the_diff_is_right(rule: str, text: str, tmp_path: Path) -> None:
    before = check_script(tmp_path, HEAD + text)
    (finding,) = [finding for finding in before.findings if finding.name == rule]
    assert finding.diff
    assert_fixed(before, apply(tmp_path, HEAD + text, finding.diff), rule, finding.diff)


@pytest.mark.parametrize(("rule", "text"), cases(BY_HAND))
def test_there_is_no_diff(rule: str, text: str, tmp_path: Path) -> None:
    result = check_script(tmp_path, HEAD + text)
    assert result.verdict.outcome.reason == "finished", result.output
    found = [finding for finding in result.findings if finding.name == rule]
    assert found
    assert [finding.diff for finding in found] == [""] * len(found)
