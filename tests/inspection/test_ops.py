"""What the operations of a model do not have, against what torch documents; and nothing said of healthy models."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn

from trueloop.inspection.determinism import REFUSED, SWITCHED
from trueloop.inspection.ops import inspect_ops, plain_step
from trueloop.results.document import Document, Table, Text


@torch.library.custom_op("inspect_ops_tests::bare", mutates_args=())
def bare(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("inspect_ops_tests::complete", mutates_args=())
def complete(x: Tensor) -> Tensor:
    return x * 2


complete.register_fake(lambda x: torch.empty_like(x))
complete.register_autograd(lambda _, grad: grad * 2)
complete.register_vmap(lambda _, in_dims, x: (complete(x), in_dims[0]))
complete.register_autocast("cpu", torch.bfloat16)


class Planted(nn.Module):
    """Each line is a lack that torch documents."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        y = y.put(torch.zeros(1, dtype=torch.long), y.new_ones(1))  # on CUDA: no deterministic form
        rows = torch.zeros(len(y), dtype=torch.long)
        table = torch.zeros(3, 4).index_add(0, rows, y)  # on CUDA: deterministic by request; no autocast rule
        counts = torch.bincount(rows, weights=torch.ones(len(y)))  # no deterministic form, no vmap rule
        y = y.gather(1, torch.zeros_like(y, dtype=torch.long))  # its backward is scatter_add
        y = F.interpolate(y[:, None], scale_factor=2, mode="linear")  # its backward: no deterministic form
        return y.sum() + table.sum() + counts.sum()


class Bare(nn.Module):
    def __init__(self, operation: Any) -> None:
        super().__init__()
        self.layer, self.operation = nn.Linear(4, 4), operation

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.operation(self.layer(x))
        return result


class Healthy(nn.Module):
    """What most models are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.words = nn.Embedding(7, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Sequential(nn.Linear(4 * 9, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 5))

    def forward(self, x: Tensor) -> Tensor:
        seen = self.head[0](self.picture(x))
        ids = torch.zeros(len(x), 3, dtype=torch.long)
        read = self.rnn(self.block(self.words(ids) + seen[:, None]))[0].mean(1)
        scores = self.head[4](self.head[1:4](read))
        return F.cross_entropy(scores, torch.zeros(len(x), dtype=torch.long)) + F.mse_loss(seen, read.detach())


def lacks(sheet: Document) -> set[tuple[str, str]]:
    """(kind, operation)"""
    part = sheet.parts[0]
    return {(row[0], row[1]) for row in part.rows} if isinstance(part, Table) else set()


def row(sheet: Document, kind: str, operation: str) -> tuple[Any, ...]:
    part = sheet.parts[0]
    assert isinstance(part, Table)
    return next(each for each in part.rows if each[:2] == (kind, operation))


def inspected(model: nn.Module, inputs: Any) -> Document:
    return inspect_ops(model, plain_step(model, inputs), "it")


def test_what_torch_documents_is_found_with_its_line() -> None:
    sheet = inspected(Planted(), torch.randn(5, 4))
    assert lacks(sheet) == {
        ("no deterministic form", "aten::put"),
        ("no deterministic form", "aten::put, in the backward"),
        ("no deterministic form", "aten::bincount"),
        ("no deterministic form", "aten::upsample_linear1d_backward, in the backward"),
        ("no autocast rule", "aten::index_add"),
        ("no autocast rule", "aten::put"),
        ("no vmap rule", "aten::put"),
        ("no vmap rule", "aten::bincount"),
    }
    found = row(sheet, "no deterministic form", "aten::upsample_linear1d_backward, in the backward")
    assert found[2] == 1
    line = found[3].rpartition(":")[2]
    assert 'mode="linear"' in linecache.getline(__file__, int(line))
    by_request = next(note for note in sheet.notes if "only with" in note)
    assert "aten::index_add (" in by_request
    assert "aten::scatter_add, in the backward (" in by_request
    assert "on CUDA" in row(sheet, "no deterministic form", "aten::bincount")[4]


def test_a_custom_op_without_anything_has_nothing_and_a_complete_one_has_all() -> None:
    sheet = inspected(Bare(bare), torch.randn(2, 4))
    kinds = ("backward", "meta kernel", "autocast rule", "vmap rule")
    assert lacks(sheet) == {(f"no {kind}", "inspect_ops_tests::bare") for kind in kinds}
    assert "register_autograd" in row(sheet, "no backward", "inspect_ops_tests::bare")[4]
    assert any(note.startswith("The step ended with RuntimeError: Trying to backward") for note in sheet.notes)
    assert not lacks(inspected(Bare(complete), torch.randn(2, 4)))
    frozen = Bare(bare).requires_grad_(False)
    assert ("no backward", "inspect_ops_tests::bare") not in lacks(inspected(frozen, torch.randn(2, 4)))


def test_nothing_is_said_of_a_healthy_model_and_nothing_of_it_changes() -> None:
    model = Healthy()
    before = {name: value.clone() for name, value in model.named_parameters()}
    randoms = torch.get_rng_state()
    sheet = inspected(model, torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0)))
    assert not lacks(sheet), lacks(sheet)
    assert isinstance(sheet.parts[0], Text)
    assert sheet.parts[0].text.startswith("Nothing is missing")
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), randoms)
    every = sheet.parts[-1]
    assert isinstance(every, Table)
    assert len(every.rows) > 30


def test_an_operation_of_a_library_that_ends_gradients_is_named() -> None:
    with torch.library._scoped_library("inspect_ops_cut", "DEF") as library:
        library.define("cut(Tensor x) -> Tensor")
        library.impl("cut", lambda x: x.detach() * 2, "CPU")
        model = Bare(torch.ops.inspect_ops_cut.cut)
        with pytest.warns(UserWarning, match="an autograd kernel was not registered"):
            sheet = inspected(model, torch.randn(2, 4))
        found = row(sheet, "no backward", "inspect_ops_cut::cut")
        assert "gradients end here" in found[4]


def _documented() -> Iterator[str]:
    """Functions and classes in torch's own list of operations that raise."""
    text = (
        (torch.use_deterministic_algorithms.__doc__ or "")
        .partition("will throw a\n    :class:`RuntimeError` when ``mode")[2]
        .partition("In addition")[0]
    )
    for line in text.splitlines():
        if line.strip().startswith("* :"):
            yield line.partition("`")[2].partition("`")[0].rpartition(".")[2]


def test_every_operation_of_torchs_list_is_known() -> None:
    words = {
        "AdaptiveAvgPool2d": "adaptive_avg_pool2d", "AdaptiveAvgPool3d": "adaptive_avg_pool3d",
        "AvgPool3d": "avg_pool3d",
        "AdaptiveMaxPool2d": "adaptive_max_pool2d", "FractionalMaxPool2d": "fractional_max_pool2d",
        "FractionalMaxPool3d": "fractional_max_pool3d", "MaxUnpool1d": "max_unpool2d", "MaxUnpool2d": "max_unpool2d",
        "MaxUnpool3d": "max_unpool3d", "interpolate": "upsample", "ReflectionPad1d": "reflection_pad1d",
        "ReflectionPad2d": "reflection_pad2d", "ReflectionPad3d": "reflection_pad3d", "NLLLoss": "nll_loss",
        "CTCLoss": "ctc_loss", "EmbeddingBag": "embedding_bag", "grid_sample": "grid_sampler",
    }  # fmt: skip
    # resize_ is of quantized tensors, which nobody trains; cumsum does not raise on a GPU (tests/gpu).
    documented = set(_documented()) - {"resize_", "cumsum"}
    assert len(documented) > 15
    for name in documented:
        known = (*REFUSED, *SWITCHED)  # F.pad and F.interpolate take another way when determinism is demanded
        assert any(words.get(name, name) in operation for operation in known), name
    aten = set(dir(torch.ops.aten)) | {name for name in (*REFUSED, *SWITCHED) if hasattr(torch.ops.aten, name)}
    assert {*REFUSED, *SWITCHED} <= aten
