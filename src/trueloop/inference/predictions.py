"""Predictions as a table: a row per sample. By task:

multiclass    predicted (the class), p_CLASS for each class
binary        predicted, probability (of yes)
multilabel    predicted (labels, with ;), p_LABEL for each label
regression    value, or value_1, value_2 ...
own loss      output, or output_1, output_2 ...: only the recipe knows what they mean
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.data.source import Source
from trueloop.errors import Misuse
from trueloop.inference.load import Loaded
from trueloop.inference.read_inputs import Rows

__all__ = ["PredictionTable"]

TARGETS_AT_ONCE: Final = 1024


@final
class PredictionTable:
    def __init__(self, loaded: Loaded) -> None:
        recipe = loaded.recipe
        self.loaded, self.classes = loaded, loaded.splits.facts.classes
        own = recipe.loss or recipe.step or recipe.evaluate
        self.task = "own" if own else recipe.task
        if self.task == "language":
            raise Misuse(f"{loaded.folder} is a language model, which predicts a token at each place. Nothing was run.")
        self.header: list[str] = []
        self.rows: list[list[str]] = []

    def add(self, rows: Rows) -> None:
        """Predict these samples."""
        self._add(rows.names, self.loaded.predict(rows.inputs), None)

    def add_split(self, name: str) -> None:
        """Predict a split of the run's data; the targets are a column too, where they are one value per sample."""
        source: Source | None = getattr(self.loaded.splits, name)
        if source is None:
            raise Misuse(f"The data of {self.loaded.folder} have no {name} split. Nothing was predicted.")
        output = self.loaded.predict(source)
        targets = _targets(source) if source.by_index else None
        self._add([str(number) for number in range(len(_plain(output)))], output, targets)

    def _add(self, names: Sequence[str], output: Any, targets: Tensor | None) -> None:
        scores = _plain(output)
        heads, cells = self._columns(scores)
        known = targets is not None and targets.dim() == 1 and len(targets) == len(scores)
        self.header = ["input", *heads, *(["target"] if known else [])]
        wanted = self._target_cells(targets) if known and targets is not None else None
        for number, (name, row) in enumerate(zip(names, cells, strict=True)):
            self.rows.append([name, *row, *([wanted[number]] if wanted is not None else [])])

    def _target_cells(self, targets: Tensor) -> list[str]:
        if self.task == "regression" or targets.is_floating_point():
            return [f"{value:.8g}" for value in targets.tolist()]
        return [self._name(int(value)) for value in targets.tolist()]

    def _name(self, number: int) -> str:
        return self.classes[number] if 0 <= number < len(self.classes) else str(number)

    def _columns(self, scores: Tensor) -> tuple[list[str], Iterator[list[str]]]:
        flat = scores.reshape(len(scores), -1) if scores.dim() < 2 else scores
        if flat.dim() != 2:
            raise Misuse(
                f"The model returns shape {list(scores.shape)}, more than one row per sample. Nothing was written: use "
                f"trueloop.load({str(self.loaded.folder)!r}).predict."
            )
        wide = flat.double()
        names = [self._name(number) for number in range(flat.shape[1])]
        match self.task:
            case "multiclass":
                best = [self._name(number) for number in flat.argmax(1).tolist()]
                shares = wide.softmax(1).tolist()
                return ["predicted", *(f"p_{name}" for name in names)], map(_joined, ([b] for b in best), shares)
            case "binary" if flat.shape[1] == 1:
                said = [[self._name(int(yes))] for yes in (flat[:, 0] > 0).tolist()]
                return ["predicted", "probability"], map(_joined, said, wide.sigmoid().tolist())
            case "multilabel":
                labels = (
                    [";".join(n for n, yes in zip(names, row, strict=True) if yes)] for row in (flat > 0).tolist()
                )
                return ["predicted", *(f"p_{name}" for name in names)], map(_joined, labels, wide.sigmoid().tolist())
        word = "value" if self.task == "regression" else "output"
        heads = [word] if flat.shape[1] == 1 else [f"{word}_{number + 1}" for number in range(flat.shape[1])]
        return heads, ([f"{value:.8g}" for value in row] for row in wide.tolist())


def _joined(words: list[str], shares: list[float]) -> list[str]:
    return [*words, *(f"{share:.6g}" for share in shares)]


def _plain(output: Any) -> Tensor:
    if isinstance(output, dict) and isinstance(output.get("logits"), Tensor):
        output = output["logits"]
    if not isinstance(output, Tensor):
        raise Misuse(f"The model returns a {type(output).__name__}, not one tensor: use trueloop.load(RUN).predict.")
    return output


def _targets(source: Source) -> Tensor | None:
    parts = [source.fetch(numbers).targets for numbers in torch.split(torch.arange(len(source)), TARGETS_AT_ONCE)]
    return torch.cat(parts).cpu() if all(isinstance(part, Tensor) for part in parts) else None
