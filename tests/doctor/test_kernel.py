"""A real Jupyter kernel, driven as Jupyter drives it: what a user of the notebook sees under the cells."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.notebook import MODEL

pytestmark = pytest.mark.long

LOOP = """%%time
for _ in range(12):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
CELLS = [
    MODEL + "w = trueloop.watch()",
    LOOP,
    "model(torch.randn(4, 5))",
    "w",
    "w.stop()",
    "%load_ext trueloop",
    "%%check\noptimizer.zero_grad()\n" + LOOP.partition("\n")[2],
]

DRIVER = """
import json, sys
import nbformat
from nbclient import NotebookClient
cells = [nbformat.v4.new_code_cell(text) for text in json.load(open("cells.json"))]
book = nbformat.v4.new_notebook(cells=cells)
NotebookClient(book, timeout=100, kernel_name="python3", allow_errors=True).execute()
json.dump([cell.outputs for cell in book.cells], open("outputs.json", "w"))
"""


def outputs(folder: Path) -> list[list[dict[str, Any]]]:
    (folder / "cells.json").write_text(json.dumps(CELLS), encoding="utf-8")
    subprocess.run([sys.executable, "-c", DRIVER], cwd=folder, check=True, timeout=200, capture_output=True)
    shown: list[list[dict[str, Any]]] = json.loads((folder / "outputs.json").read_text(encoding="utf-8"))
    return shown


def html(cell: list[dict[str, Any]]) -> str:
    return "\n".join(output["data"]["text/html"] for output in cell if "text/html" in output.get("data", {}))


def test_findings_appear_under_the_cells_of_a_kernel(tmp_path: Path) -> None:
    first, trained, crashed, shown, stopped, loaded, checked = outputs(tmp_path)
    assert not first
    assert not loaded
    assert "cell 2, line 4" in html(trained)
    assert "<i>4</i>    loss.backward()" in html(trained)
    assert [output["ename"] for output in crashed if output["output_type"] == "error"] == ["RuntimeError"]
    traceback = "\n".join(line for output in crashed for line in output.get("traceback", ()))
    assert "trueloop/" not in traceback
    assert "what the crash means" in html(crashed)
    assert "cell 3, line 1" in html(crashed)
    assert "GRD101" in html(shown)
    assert stopped[0]["data"]["text/plain"].startswith("<Verdict: 1 error in 12 steps")
    assert "cell 7, line 5" in html(checked)
    assert "ipykernel" not in "".join(map(html, (trained, crashed, shown, checked)))
