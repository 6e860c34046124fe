"""`trueloop check book.ipynb`: findings and crashes name cell and line, in every format; magics run where they can."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_check import Ended, trueloop

CELLS = [
    "%load_ext autoreload\n!echo from the shell\nimport torch\nfrom torch import nn\ntorch.manual_seed(0);",
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(8, 3)\n\n"
    "    def forward(self, x):\n        return torch.softmax(self.fc(x), 1)",
    "%%bash\necho from bash",
    "%%time\nmodel = Net()\noptimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)\nx = torch.randn(64, 8)\n"
    "y = x[:, :3].argmax(1)\nfor _ in range(12):\n    loss = nn.functional.cross_entropy(model(x), y)\n"
    "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\ndisplay(type(get_ipython()).__name__)",
]


def write(folder: Path, *cells: str, name: str = "book.ipynb") -> None:
    shown = [{"cell_type": "code", "source": text} for text in cells]
    (folder / name).write_text(json.dumps({"cells": shown, "nbformat": 4}), encoding="utf-8")


def without_ipython(folder: Path, *words: str) -> Ended:
    """The command where IPython is not installed."""
    code = "import sys; sys.modules['IPython'] = None; from trueloop.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    return Ended(done.returncode, done.stdout, done.stderr)


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
        assert finding["source"].strip() == "return torch.softmax(self.fc(x), 1)"
    else:
        assert "book.ipynb, cell 2, line 7" in said
    if form == "github":
        assert "file=book.ipynb," in said
    assert "from the shell\n" in said
    assert "from bash\n" in said
    assert "cell 4, line 1: %%time" in said.replace("%25", "%"), said


def test_without_ipython_its_lines_are_left_out_and_listed(tmp_path: Path) -> None:
    write(tmp_path, *CELLS)
    ended = without_ipython(tmp_path, "check", "book.ipynb")
    assert ended.code == 1, ended.err
    assert "book.ipynb, cell 2, line 7" in ended.err
    assert "cell 1, line 1: %load_ext autoreload; cell 1, line 2: !echo from the shell" in ended.err
    assert "cell 3, line 1: %%bash (the whole cell)" in ended.err
    assert "pip install 'trueloop[notebook]'" in ended.err
    assert ended.out == "_NoShell\n"


def test_cells_run_as_in_jupyter(tmp_path: Path) -> None:
    """In the notebook's folder, with magics, `await`, shown values, and the arguments of the command."""
    (tmp_path / "books").mkdir()
    write(
        tmp_path / "books",
        "import os, sys\nfiles = !ls\nfiles",
        "import asyncio\nasync def three():\n    await asyncio.sleep(0)\n    return 3\nawait three()",
        "if True:\n    %cd ..\nprint(os.path.basename(os.getcwd()), sys.argv[1:])",
        "1 + 1;",
        "import pickle\nclass Pair: pass\ntype(pickle.loads(pickle.dumps(Pair()))).__module__",
    )
    ended = trueloop(tmp_path, "check", "--fail-on", "never", "books/book.ipynb", "--lr", "3")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[:2] == ["Out[1]: ['book.ipynb']", "Out[2]: 3"]
    assert lines[-2:] == [f"{tmp_path.name} ['--lr', '3']", "Out[5]: '__main__'"]


@pytest.mark.parametrize(
    ("cell", "code"),
    [("import sys\nsys.exit(17)", 17), ("exit()", 0), ("1 / 0", 1), ("def f(:\n    pass", 1), ("%nonsense", 1)],
)
def test_a_notebook_keeps_its_own_exit_code(tmp_path: Path, cell: str, code: int) -> None:
    write(tmp_path, "a = 1", cell, "print('never')")
    ended = trueloop(tmp_path, "check", "book.ipynb")
    assert ended.code == code, ended.err
    assert ended.out == ""
    assert "trueloop/doctor" not in ended.err


def test_a_crash_names_cell_and_line(tmp_path: Path) -> None:
    write(tmp_path, "import torch", "layer = torch.nn.Linear(4, 2)\nlayer(torch.randn(3, 5))")
    ended = trueloop(tmp_path, "check", "book.ipynb")
    assert ended.code == 1
    assert "what the crash means  book.ipynb, cell 2, line 2" in ended.err
    assert 'book.ipynb, cell 2", line 2' in ended.err  # in the traceback, with its source
    assert "layer(torch.randn(3, 5))" in ended.err


def test_steps_end_a_notebook(tmp_path: Path) -> None:
    write(tmp_path, *CELLS[:2], CELLS[3], "print('never')")
    ended = trueloop(tmp_path, "check", "--steps", "3", "book.ipynb")
    assert "in 3 steps" in ended.err
    assert "never" not in ended.out


def test_a_notebook_that_watches_itself(tmp_path: Path) -> None:
    write(tmp_path, "import trueloop\n%load_ext trueloop\nw = trueloop.watch()", *CELLS[:2], CELLS[3], "%check\nw;")
    ended = trueloop(tmp_path, "check", "book.ipynb")
    assert ended.code == 1, ended.err
    assert ended.err.count("LOS101") >= 2


def test_fixes_of_a_notebook_are_not_tried(tmp_path: Path) -> None:
    write(tmp_path, *CELLS)
    ended = trueloop(tmp_path, "check", "--try", "book.ipynb")
    assert ended.code == 4
    assert "Nothing was run" in ended.err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("x = 1", "is not a valid notebook (JSONDecodeError: Expecting value"),
        ('{"cells": []}', "has no code cell"),
        ('{"cells": [{"cell_type": "markdown", "source": "# Title"}]}', "has no code cell"),
        ('{"cells": [{"cell_type": "code", "source": "  "}]}', "has no code cell"),
        (
            '{"cells": [{"cell_type": "code", "source": "x <- 1"}], "metadata": {"kernelspec": {"language": "R"}}}',
            "is a notebook of R, not of Python",
        ),
    ],
)
def test_a_file_that_cannot_run_is_one_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "book.ipynb").write_text(content)
    ended = trueloop(tmp_path, "check", "book.ipynb")
    assert ended.code == 4
    assert f"book.ipynb {sentence}" in ended.err
    assert "Nothing was run" in ended.err


EXPORTED = """\
#!/usr/bin/env python
# coding: utf-8

# In[1]:

get_ipython().run_line_magic('load_ext', 'autoreload')
get_ipython().system('echo from the shell')
files = get_ipython().getoutput('echo one')
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 3), nn.Softmax(1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(64, 8)
y = x[:, :3].argmax(1)

# In[2]:

get_ipython().run_cell_magic('time', '', "for _ in range(12):\\n    loss = nn.functional.cross_entropy(model(x), y)\\n    optimizer.zero_grad()\\n    loss.backward()\\n    optimizer.step()\\n")
print(files)
"""  # noqa: E501


@pytest.mark.parametrize("installed", [True, False])
def test_an_exported_notebook(tmp_path: Path, installed: bool) -> None:
    (tmp_path / "exported.py").write_text(EXPORTED, encoding="utf-8")
    ended = (trueloop if installed else without_ipython)(tmp_path, "check", "exported.py")
    assert ended.code == 1, ended.err
    assert "LOS101 softmax-before-cross-entropy  exported.py:19, %%time, line 2" in ended.err
    assert "in 12 steps" in ended.err
    if installed:
        assert ended.out == "from the shell\n['one']\n"
    else:
        assert ended.out == "[]\n"
        assert "left out: exported.py:6: %load_ext autoreload; exported.py:7: !echo from the shell" in ended.err
