"""Notebooks as Python: which lines of a cell are left out, and that the others keep their numbers."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from trueloop.event import Place
from trueloop.usercode.notebook import NotebookError, is_cell, notebook_of, read_notebook
from trueloop.usercode.source import shown_place


def book(*cells: str, language: str = "python") -> bytes:
    shown = [{"cell_type": "code", "source": text.splitlines(keepends=True)} for text in cells]
    text = {"cell_type": "markdown", "source": "# A title"}
    return json.dumps({"cells": [text, *shown], "metadata": {"kernelspec": {"language": language}}}).encode()


@pytest.mark.parametrize(
    ("cell", "python", "left_out"),
    [
        ("a = 1\nb = 2", "a = 1\nb = 2\n", []),
        ("%load_ext autoreload\na = 1", "pass\na = 1\n", ["1: %load_ext autoreload"]),
        ("a = 1\nif a:\n    !ls {a}\n", "a = 1\nif a:\n    pass\n", ["3: !ls {a}"]),
        ("files = !ls\nmodel?", "files = []\npass\n", ["1: files = !ls", "2: model?"]),
        ("!pip install \\\n  torch\na = 1", "pass\n\na = 1\n", ["1: !pip install \\"]),
        ("%time a = f(1)", "a = f(1)\n", ["1: %time a = f(1)"]),
        ("%%time\na = 1", "\na = 1\n", ["1: %%time"]),
        ("%%bash\nls\nrm x", "\n\n\n", ["1: %%bash (the whole cell)"]),
        ("a = (7\n% 2)\ns = '''\n%no\n!no\n'''", "a = (7\n% 2)\ns = '''\n%no\n!no\n'''\n", []),
        ("a = (\n%cd x", "a = (\n%cd x\n", []),  # it is wrong in the notebook too
    ],
)
def test_lines_of_ipython_are_left_out(cell: str, python: str, left_out: list[str]) -> None:
    read = read_notebook("/x/book.ipynb", book(cell))
    assert read.cells[0].text == python
    assert list(read.left_out) == [f"cell 1, line {line}" for line in left_out]


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("a = 1\nb = 2", "a = 1\nb = 2\n"),
        ("%cd x\na = 1", "shell(%cd x)\na = 1\n"),
        ("if a:\n    !ls {a}\n", "if a:\n    shell(!ls {a})\n"),
        ("!pip install \\\n  torch\na = 1", "shell(!pip install \\|  torch)\n\na = 1\n"),
        ("%time a = f(1)", "a = f(1)\n"),
        ("\n%%bash\nls\nrm x", "\nshell(%%bash|ls|rm x)\n\n\n"),
        ("a = (\n%cd x", "a = (\n%cd x\n"),
    ],
)
def test_lines_of_ipython_become_calls_of_its_shell(cell: str, python: str) -> None:
    """One call in one line, so that the lines below keep their numbers."""

    def to_python(text: str) -> str:
        text = text.rstrip("\n").replace("\n", "|")
        return f"shell({text})\n" if text[0] in "%!" else text

    read = read_notebook("/x/book.ipynb", book(cell), to_python)
    assert read.cells[0].text == python


def test_cells_of_code_are_counted() -> None:
    read = read_notebook("/x/book.ipynb", book("a = 1", "b = 2"))
    assert [cell.name for cell in read.cells] == ["/x/book.ipynb, cell 1", "/x/book.ipynb, cell 2"]
    assert notebook_of("/x/book.ipynb, cell 2") == "/x/book.ipynb"
    assert notebook_of("/x/book.py:19, %%time") == "/x/book.py"
    assert not is_cell("/x/train.py")
    assert shown_place(Place("/x/book.ipynb, cell 2", 5)) == "/x/book.ipynb, cell 2, line 5"


@pytest.mark.parametrize(
    "content", [b"not json", b"[]", b"{}", b'{"cells": [1]}', book(""), book("a <- 1", language="R")]
)
def test_what_is_no_notebook_of_python(content: bytes) -> None:
    with pytest.raises(NotebookError):
        read_notebook("book.ipynb", content)


def test_a_cell_of_a_running_kernel_is_not_shown_as_a_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"/tmp/ipykernel_71/3982.py": ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert shown_place(Place("/tmp/ipykernel_71/3982.py", 5)) == "cell 3, line 5"
    assert shown_place(Place("/x/train.py", 5)) == "/x/train.py:5"
