"""`trueloop check book.ipynb`: findings and crashes name cell and line, in every format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_check import trueloop

CELLS = [
    "%load_ext autoreload\n!pip install torch\nimport torch\nfrom torch import nn\ntorch.manual_seed(0)",
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(8, 3)\n\n"
    "    def forward(self, x):\n        return torch.softmax(self.fc(x), 1)",
    "%%bash\nls",
    "model = Net()\noptimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)\nx = torch.randn(64, 8)\n"
    "y = x[:, :3].argmax(1)\nfor _ in range(12):\n    loss = nn.functional.cross_entropy(model(x), y)\n"
    "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\ndisplay(get_ipython())",
]


def write(folder: Path, *cells: str) -> None:
    shown = [{"cell_type": "code", "source": text} for text in cells]
    (folder / "book.ipynb").write_text(json.dumps({"cells": shown, "nbformat": 4}), encoding="utf-8")


@pytest.mark.parametrize("form", ["text", "json", "markdown", "github", "sarif", "html"])
def test_a_finding_names_cell_and_line(tmp_path: Path, form: str) -> None:
    write(tmp_path, *CELLS)
    ended = trueloop(tmp_path, "check", "--format", form, "book.ipynb")
    said = ended.out + ended.err
    assert ended.code == 1, said
    assert "ipykernel" not in said
    if form == "json":
        finding = json.loads(ended.out)["findings"][0]
        assert (finding["path"], finding["line"]) == ("book.ipynb, cell 2", 7)
    else:
        assert "book.ipynb, cell 2, line 7" in said
    if form == "github":
        assert "file=book.ipynb," in said
    for left_out in (
        "cell 1, line 1: %load_ext autoreload",
        "cell 1, line 2: !pip",
        "cell 3, line 1: %%bash (the whole",
    ):
        assert left_out in said.replace("%25", "%").replace("\\", ""), said


def test_a_crash_names_cell_and_line(tmp_path: Path) -> None:
    write(tmp_path, "import torch", "layer = torch.nn.Linear(4, 2)\nlayer(torch.randn(3, 5))")
    ended = trueloop(tmp_path, "check", "book.ipynb")
    assert ended.code == 1
    assert "what the crash means  book.ipynb, cell 2, line 2" in ended.err
    assert 'book.ipynb, cell 2", line 2' in ended.err  # in the traceback, with its source
    assert "layer(torch.randn(3, 5))" in ended.err


def test_fixes_of_a_notebook_are_not_tried(tmp_path: Path) -> None:
    write(tmp_path, *CELLS)
    ended = trueloop(tmp_path, "check", "--try", "book.ipynb")
    assert ended.code == 4
    assert "Nothing was run" in ended.err


def test_a_file_that_is_no_notebook(tmp_path: Path) -> None:
    (tmp_path / "book.ipynb").write_text("x = 1")
    ended = trueloop(tmp_path, "check", "book.ipynb")
    assert ended.code == 4
    assert "is not a valid notebook" in ended.err
