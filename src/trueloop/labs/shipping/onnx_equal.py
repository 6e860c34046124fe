"""onnx-equal: Does an ONNX file give the answers of the model that it was exported from?

An exporter records the operations of a model as a graph, and another program runs that graph with kernels of its own.
Numbers differ in the last digits; predictions must not. A file is only worth what was compared: sizes of batches that
were never tried are where exports fail.

You will export a small network, run it by ONNX Runtime in a process of its own, and see what an exporter refuses.
"""

import logging
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trueloop.export.trace import suppress_output
from trueloop.labs.lab import Lab, Page
from trueloop.labs.trained_here import export_here, trained_on_images
from trueloop.results.document import Code

__all__ = ["LAB"]


def exported() -> dict[str, Any]:
    trained = trained_on_images()
    with tempfile.TemporaryDirectory() as folder:
        artifact = export_here(trained, "onnx", Path(folder))
        size = artifact.file.stat().st_size
    tried = artifact.verification
    assert tried is not None
    weights = sum(each.nbytes for each in trained.model.state_dict().values())
    names = ("runtime", "samples", "batches", "max_error", "tolerance", "disagreements", "ties")
    return {**{name: getattr(tried, name) for name in names}, "bytes": size, "weights": weights}


class Branches(nn.Module):
    """Which way it goes depends on a value: a graph has no such thing."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1


class BothWays(nn.Module):
    """Both are computed, and one is chosen: one graph."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x.sum() > 0, x * 2, x - 1)


def refused(model: nn.Module) -> str:
    """Why torch.export, on which the ONNX exporter is built, does not take it; empty: it does."""
    logging.disable(logging.WARNING)  # it explains at length
    try:
        with suppress_output():
            graph = torch.export.export(model, (torch.ones(3),), strict=False)
    except Exception as error:  # noqa: BLE001 - it has many kinds of errors
        return type(error).__name__
    finally:
        logging.disable(logging.NOTSET)
    below = -torch.ones(3)
    return "" if torch.equal(graph.module()(below), model(below)) else "different answers"


def measure() -> dict[str, Any]:
    return {**exported(), "if": refused(Branches()), "where": refused(BothWays())}


def answer(page: Page, measured: dict[str, Any]) -> None:
    batches = ", ".join(map(str, measured["batches"]))
    rows = [
        ("compared", f"{measured['samples']} samples, batches of {batches}"),
        ("by", str(measured["runtime"])),
        ("largest difference of a score", f"{measured['max_error']:.2g}"),
        ("different predictions", str(measured["disagreements"])),
        ("file", f"{measured['bytes']:,} bytes, of which weights {measured['weights']:,}"),
        ("a model with `if` on a value", measured["if"] or "is exported"),
        ("the same with torch.where", measured["where"] or "is exported"),
    ]
    page.table("Exported to ONNX", ("", "measured"), rows)
    close = measured["max_error"] <= measured["tolerance"]
    page.says("Scores are equal up to rounding.", close)
    page.says("Every prediction is the same, alone and in a batch.", not measured["disagreements"] + measured["ties"])
    page.says("One file takes every size of batch: the first dimension is free.", {1, 64} <= set(measured["batches"]))
    page.says("The file is mostly weights.", measured["weights"] < measured["bytes"] < 3 * measured["weights"])
    page.says("A branch on a value is refused: a graph would hold one of both ways.", bool(measured["if"]))
    page.says("`torch.where` computes both ways, and is exported.", not measured["where"])
    page.show(Code("trueloop export runs/NAME --to onnx", title="The same for a run"))


LAB = Lab(
    code=(exported, Branches, BothWays, refused),
    measure=measure,
    answer=answer,
    needs="package onnxruntime",
    seconds=40,
)
