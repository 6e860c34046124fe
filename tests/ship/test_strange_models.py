"""Models as people write them, none of them wrong where they were trained: exported and alike, or refused with a
sentence."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from tests.export.made import run_here, subject
from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import CannotExport
from trueloop.export.compare import error_between
from trueloop.export.export_model import export_model
from trueloop.export.exporter import Exporter
from trueloop.export.onnx import Onnx
from trueloop.export.program import LayerOutputs
from trueloop.export.pt2 import Pt2
from trueloop.export.torchscript import Torchscript
from trueloop.recipes.catalogue import load_file
from trueloop.results.artifact import Artifact, Port

DRAWS = torch.Generator().manual_seed(0)
ROWS = torch.randn(40, 6, generator=DRAWS)
YES = (ROWS.sum(1) > 0).long()
WORDS = torch.randint(0, 20, (40, 12), generator=DRAWS)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without processes of their own."""
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)


def splits(inputs: Tensor, targets: Tensor = YES, **facts: Any) -> Splits:
    source = Tensors(inputs, targets[: len(inputs)])
    return Splits(source, source, facts=Facts(**{"classes": ("no", "yes"), **facts}))


def exported(
    model: type[nn.Module], data: Splits, place: Path, exporter: Exporter | None = None, **fields: Any
) -> Artifact:
    return export_model(subject(model, data, **fields), exporter or Torchscript(), place / "out")


class Plain(nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, rows: Tensor) -> Tensor:
        scores: Tensor = self.layer(rows.float())
        return scores


# -- rows of whole numbers that are no sentences --


class Columns(nn.Module):
    """A table of codes, a lookup for each column: no column may be missing."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups = nn.ModuleList(nn.Embedding(20, 2) for _ in range(12))
        self.last = nn.Linear(24, 2)

    def forward(self, codes: Tensor) -> Tensor:
        scores: Tensor = self.last(torch.cat([look(codes[:, at]) for at, look in enumerate(self.lookups)], 1))
        return scores


class Window(nn.Module):
    """A sentence of three words or more."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.window, self.last = nn.Embedding(20, 4), nn.Conv1d(4, 4, 3), nn.Linear(4, 2)

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.last(self.window(self.words(words).transpose(1, 2)).amax(2))
        return scores


@pytest.mark.parametrize("exporter", [Torchscript, Pt2])
def test_a_table_of_codes_keeps_its_columns(tmp_path: Path, exporter: type[Exporter]) -> None:
    made = exported(Columns, splits(WORDS, vocabulary=20), tmp_path, exporter())
    assert made.inputs[0].shape == (None, 12)
    assert made.outputs == (Port("output", "float32", (None, 2)),)
    assert made.verification is not None
    assert made.verification.lengths == ()


@pytest.mark.parametrize("rows", [(ROWS * 20).to(torch.uint8), ROWS > 0, ROWS.long()], ids=["uint8", "bool", "int64"])
def test_rows_of_numbers_that_a_layer_takes_whole_are_no_sentences(tmp_path: Path, rows: Tensor) -> None:
    assert exported(Plain, splits(rows), tmp_path).inputs[0].shape == (None, 6)


def test_a_sentence_is_shortened_only_as_far_as_the_model_goes_along(tmp_path: Path) -> None:
    made = exported(Window, splits(WORDS, vocabulary=20), tmp_path)
    assert made.inputs[0].shape == (None, None)
    assert made.verification is not None
    assert made.verification.lengths == (6, 12)


# -- answers that nobody could use --


class Squeezed(Plain):
    """The classic: one sample alone loses its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 1)

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows).squeeze()


class Averaged(Plain):
    """One number for the whole batch."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows).mean(0)


class Sixteen(Plain):
    """Answers in bfloat16."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows).bfloat16()


class Lost(Plain):
    """A run that went wrong."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.constant_(self.layer.weight, math.nan)


class Overflowing(Plain):
    """Whole weights, and answers that are none."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows.abs() * 1e30) * 1e30


class Masked(Plain):
    """Minus infinity where a class is ruled out: a number among those of a sample is enough."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows).masked_fill(torch.tensor([True, False]), -math.inf)


class Rolling(Plain):
    """Dropout that never ends."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(F.dropout(rows, 0.5, training=True))


@pytest.mark.parametrize(
    ("model", "fields", "said"),
    [
        (Squeezed, {"task": "binary"}, r"returns shape \[\] for a batch of 1.*\.squeeze\(1\)` does not"),
        (Averaged, {}, r"returns shape \[2\] for a batch of 1"),
        (Sixteen, {}, r"output has dtype bfloat16, which numpy does not support.*\.float\(\)"),
        (
            Lost,
            {},
            r"returns NaN or Inf for every input \(layer\.weight non-finite\).*choose another --checkpoint",
        ),
        (Overflowing, {}, r"returns NaN or Inf for every input, so no target"),
        (Rolling, {}, r"is not deterministic: two calls differ by .*random numbers"),
    ],
)
def test_answers_that_nobody_could_use_are_refused_in_a_sentence(
    tmp_path: Path, model: type[nn.Module], fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(CannotExport, match=said) as caught:
        exported(model, splits(ROWS), tmp_path, **fields)
    assert "Nothing was exported" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_infinity_among_numbers_is_an_answer(tmp_path: Path) -> None:
    assert exported(Masked, splits(ROWS), tmp_path).verification is not None


def test_an_imaginary_part_is_compared_too() -> None:
    ours = torch.complex(torch.ones(3), torch.zeros(3))
    theirs = torch.complex(torch.ones(3), torch.full((3,), 0.5))
    assert error_between(ours, theirs) == 0.5
    assert error_between(ours, ours.clone()) == 0
    assert error_between(ours, ours.real) == math.inf


# -- few samples --


class ByNumber(Plain):
    """Another answer for two at once: what a trace of three, or of one, would not see."""

    def forward(self, rows: Tensor) -> Tensor:
        scores = super().forward(rows)
        return scores + 1 if len(rows) > 5 else scores


@pytest.mark.parametrize("count", [1, 2])
def test_of_a_sample_or_two_larger_batches_are_made_for_the_trial(tmp_path: Path, count: int) -> None:
    made = exported(Plain, splits(ROWS[:count]), tmp_path)
    assert made.verification is not None
    assert (made.verification.samples, made.verification.batches) == (count, (1, 2, 7, 130))
    with pytest.raises(CannotExport, match="does not give the model's outputs"):
        exported(ByNumber, splits(ROWS[:count]), tmp_path / "other")


class Neighbours(Plain):
    """What one is told hangs on who else asks."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows - rows.mean(0))


def test_a_model_that_looks_at_its_neighbours_is_told(tmp_path: Path) -> None:
    made = exported(Neighbours, splits(ROWS), tmp_path)
    assert made.notes[-1].startswith("The output for a sample depends on the rest of its batch (by ")
    assert made.notes[-1].endswith("serve it with --batch 1.")
    assert not any("others in its batch" in note for note in exported(Plain, splits(ROWS), tmp_path).notes)
    assert not any(
        "others in its batch" in note for note in exported(Neighbours, splits(ROWS[:1]), tmp_path / "one").notes
    )


# -- words --


@pytest.mark.parametrize("name", ["\udcff", 'a"\n# b', "\x00", "日本"])
def test_the_names_of_classes_are_any_text_that_a_folder_may_have(tmp_path: Path, name: str) -> None:
    made = exported(Plain, splits(ROWS, classes=(name, "yes")), tmp_path)
    assert made.classes == (name.encode("utf-8", "backslashreplace").decode(), "yes")
    assert (tmp_path / "out" / "CARD.md").read_text(encoding="utf-8").count("\n#") == 6


class Pair(Source):
    """Two inputs under names of their own."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(ROWS)

    def fetch(self, numbers: Tensor) -> Batch:
        return Batch(dict.fromkeys(self.names, ROWS[numbers]), YES[numbers])


class Summed(Plain):
    """Of inputs by their names."""

    def forward(self, inputs: Any) -> Tensor:
        return super().forward(sum(inputs.values()))


@pytest.mark.parametrize(
    ("names", "said"),
    [(("output", "rows"), "'output' is both an input and an output"), (("", "rows"), "needs tensor names")],
)
def test_names_that_onnx_cannot_tell_apart_are_refused(tmp_path: Path, names: tuple[str, str], said: str) -> None:
    data = Splits(Pair(*names), Pair(*names), facts=Facts(classes=("no", "yes")))
    with pytest.raises(CannotExport, match=said):
        exported(Summed, data, tmp_path, Onnx())
    assert [port.name for port in exported(Summed, data, tmp_path, Pt2()).inputs] == list(names)


# -- the user's line --


class Looping(Plain):
    """Over the samples of a batch: it has as many layers as there were samples."""

    def forward(self, rows: Tensor) -> Tensor:
        return torch.stack([self.layer(row) for row in rows])  # here


FAR = """
import torch
from torch import nn

class Far(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, rows):
        return self.layer(rows) if len(rows) == 3 else self.layer(rows) * 1.0
"""


def test_a_loop_over_the_batch_is_named_by_its_line(tmp_path: Path) -> None:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("for row in rows])  # here"))
    with pytest.raises(CannotExport) as caught:
        exported(Looping, splits(ROWS), tmp_path, Pt2())
    assert str(caught.value).startswith(f"{__file__}:{line}: `return torch.stack(")


def test_a_line_is_named_wherever_the_file_lies(tmp_path: Path) -> None:
    """torch shortens a path by what it has in common with its own, and one letter more if that is nothing."""
    file = tmp_path / "far_away.py"
    file.write_text(FAR, encoding="utf-8")
    model = load_file(file).Far
    with pytest.raises(CannotExport) as caught:
        exported(model, splits(ROWS), tmp_path / "place", Pt2())
    assert str(caught.value).startswith(f"{file}:11: ")


# -- a graph of torch's own that our own door refused --


class Chosen(Plain):
    """As many values as there are positive ones: torch writes down that there are none below nought."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows * rows[rows > 0].mean())


def test_sizes_that_depend_on_values_pass_our_own_door(tmp_path: Path) -> None:
    assert exported(Chosen, splits(ROWS), tmp_path, Pt2()).target == "pt2"


def test_layers_that_answer_with_ragged_tensors_are_passed_over() -> None:
    class Ragged(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            return torch.nested.nested_tensor([rows[0], rows[0, :2]], layout=torch.jagged)

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ragged, self.plain = Ragged(), Plain()

        def forward(self, rows: Tensor) -> Tensor:
            self.ragged(rows)
            scores: Tensor = self.plain(rows)
            return scores

    observed = LayerOutputs(subject(Whole, splits(ROWS)).program()).eval()
    assert len(observed.answer([ROWS])) == 1
    assert observed.calls == ["plain.layer"]
