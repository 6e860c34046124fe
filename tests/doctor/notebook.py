"""Cells in IPython's own shell, in a forked child: what each of them displays."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from tests.conftest import in_child

__all__ = ["MODEL", "Shown", "run_cells"]

MODEL = """import torch, trueloop
from torch import nn
torch.manual_seed(0)
model = nn.Linear(8, 3)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(64, 8)
y = x[:, :3].argmax(1)
"""


@dataclass(frozen=True)
class Shown:
    """Of one cell."""

    printed: str
    text: str  # text/plain of everything that it displays
    html: str
    error: str  # the exception that the cell raised: its class


def run_cells(*cells: str) -> list[Shown]:
    """The first one is counted as 1."""

    def work() -> list[Shown]:
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.utils.capture import capture_output
        from traitlets.config import Config

        with TemporaryDirectory() as folder:
            config = Config(HistoryManager={"enabled": False}, InteractiveShell={"colors": "nocolor"})
            shell = InteractiveShell.instance(ipython_dir=folder, config=config)
            shown = []
            for cell in cells:
                with capture_output() as seen:
                    result = shell.run_cell(cell, store_history=True)
                bundles = [output.data for output in seen.outputs]
                error = result.error_before_exec or result.error_in_exec
                shown.append(
                    Shown(
                        seen.stdout + seen.stderr,
                        "\n".join(bundle.get("text/plain", "") for bundle in bundles),
                        "\n".join(bundle.get("text/html", "") for bundle in bundles),
                        type(error).__name__ if error else "",
                    )
                )
            sys.stdout.flush()
            return shown

    shown: list[Shown] = in_child(work)
    return shown
