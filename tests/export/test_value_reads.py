"""TorchScript keeps one branch of an `if`: refused at its line where the inputs decide it, and only there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as numpy_package
import pytest
import torch
from torch import Tensor, nn

from tests.export.made import Shades, run_here, subject
from trueloop.errors import CannotExport
from trueloop.export.export_model import export_model
from trueloop.export.torchscript import Torchscript


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)


class Changed(nn.Module):
    """Shades, with something done to its scores."""

    def __init__(self, change: Callable[[nn.Module, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.change = Shades(), change
        self.limit: Tensor
        self.register_buffer("limit", torch.tensor(2.0))
        self.constant = torch.tensor([1.0, 2.0])

    def forward(self, images: Tensor) -> Tensor:
        return self.change(self, images, self.inner(images))


def branch(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    return scores if images.mean() > -100 else -scores  # read


def assertion(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    assert scores.isfinite().all()  # read
    return scores


def item(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    return scores * images[0, 0, 0, 0].item()  # read


def rows(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    return scores + len(images.flatten().tolist())  # read


def numpy(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    return scores + torch.from_numpy(images.numpy()).sum()  # read


def index(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    return scores + [0.0, 1.0, 2.0][scores[0].argmax()]  # read


def written(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    sums = torch.zeros(2)
    sums.view(-1)[0] = scores.sum()
    return scores + 1 if sums[0] > 0 else scores  # read


def selected(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    found = images[(images > 0) & (images < 0.5)] * 2
    return scores if found.shape[0] != 1000 else -scores  # read


def length(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    return scores if len(images[images == 300]) == 0 else -scores  # read


def counted(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    values: Tensor = torch.unique(images)
    return scores / max(1, values.numel())  # read


def unpacked(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    (count,) = torch.masked_select(images, images > 0).size()
    return scores + sum(range(count)) * 0  # read


def looped(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    for place in images.nonzero():  # read
        scores = scores + place.sum() * 0
    return scores


def cut(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    longest = (images[:, 0, 0] > 0).sum(1).max()
    part = images[:, 0, 0, :longest]
    return scores if part.shape[1] != 1000 else -scores  # read


def ranged(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    return scores if len(torch.arange((images > 0).sum())) != 1000 else -scores  # type: ignore[call-overload] # read


def shared(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    return scores + int(numpy_package.from_dlpack(images).sum()) * 0  # read


READS = [branch, assertion, item, rows, numpy, index, written]
READS += [selected, length, counted, unpacked, looped, cut, ranged, shared]


@pytest.mark.parametrize("change", READS)
def test_a_value_that_the_inputs_decide_is_refused_at_its_line(
    tmp_path: Path, change: Callable[[nn.Module, Tensor, Tensor], Tensor]
) -> None:
    with pytest.raises(CannotExport) as caught:
        export_model(subject(lambda: Changed(change)), Torchscript(), tmp_path / "out")
    said, lines = str(caught.value), Path(__file__).read_text(encoding="utf-8").splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"def {change.__name__}("))
    line = next(number for number in range(begin, len(lines)) if lines[number].endswith("# read"))
    assert said.startswith(f"{__file__}:{line + 1}: `{lines[line].strip()}` cannot be exported.")
    assert "Use torch.where" in said
    assert said.endswith("Nothing was exported.")
    assert list(tmp_path.iterdir()) == []


def sizes(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    assert images.shape[1] == 1
    assert images.size(2) == len(images[0, 0])
    half = int(images.shape[3] / 2)
    return scores * half if images.numel() else scores


def weights(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    limit, constant = model.limit, model.constant
    assert isinstance(limit, Tensor)
    assert isinstance(constant, Tensor)
    return scores * limit.item() if limit > 1 and constant.sum() > 0 else scores + sum(constant.tolist())


def made(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    return scores if torch.ones(2).all() else -scores


def where(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    return torch.where(scores > 0, scores, scores.exp() - 1)


def selection(model: nn.Module, images: Tensor, scores: Tensor) -> Tensor:
    """What is selected may be computed with: only its size is a value of the inputs."""
    chosen = images[images > 0].float() * 2
    doubled = images.float()
    doubled[images > 0] = chosen
    assert doubled.shape[0] == len(images)
    places = torch.arange(chosen.size(0)) * 0
    left, _ = images.flatten(1)[images.flatten(1)[:, 0] >= -1][:, :2].unbind(-1)
    return scores + doubled.mean() * 0 + places.sum() + left.sum() * 0


@pytest.mark.parametrize("change", [sizes, weights, made, where, selection])
def test_sizes_weights_and_constants_may_be_read(
    tmp_path: Path, change: Callable[[nn.Module, Tensor, Tensor], Tensor]
) -> None:
    verified = export_model(subject(lambda: Changed(change)), Torchscript(), tmp_path / "out").verification
    assert verified is not None
    assert verified.passed
