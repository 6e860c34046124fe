"""A table as training data: encoded columns, a class or a quantity as target, rows split into train, valid and test.

    task, splits = read_table("flowers.csv", target="species")

Numbers are standardized and categories encoded with statistics of the training rows only, so that nothing leaks from
the other rows. `splits.facts.more["columns"]` records how each column was encoded: what a new row needs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trueloop.data.columns import Columns, Numbers, Words, read_columns
from trueloop.data.source import Facts, Splits
from trueloop.data.split import split_numbers
from trueloop.data.tensors import Tensors
from trueloop.errors import BadData

__all__ = ["Target", "read_table", "read_target"]

FEW: Final = 20  # Integers with at most this many different values are class indices; with more they are quantities
FEWEST: Final = 10  # Fewest rows that can be split into three meaningful parts
MOST_CATEGORIES: Final = 64  # the most frequent categories of a column get one input each; all others share one


@final
@dataclass(frozen=True, slots=True)
class Target:
    """The task that the target column defines."""

    task: Literal["multiclass", "regression"]
    values: Tensor  # Class indices (int64), or quantities (float32)
    classes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.task == "regression":
            return f"a quantity from {self.values.min():g} to {self.values.max():g}"
        return f"{len(self.classes)} classes ({', '.join(self.classes[:6])}{', ...' if len(self.classes) > 6 else ''})"


def read_target(path: str | Path, target: str, task: str = "") -> Target:
    """Reads the header and one column: enough to know the task. `task` overrides the guess."""
    return _target_of(read_columns(Path(path), target, only_target=True), target, task)


def read_table(
    path: str | Path,
    target: str,
    *,
    seed: int = 0,
    categories: Literal["one-hot", "codes"] = "one-hot",
    missing: Literal["refuse", "fill"] = "refuse",
    task: str = "",
) -> tuple[str, Splits]:
    """The task and the data. `codes`: one input per text column, the category's index, for embeddings. `fill`: an empty
    cell becomes the mean of the training rows, or a category of its own."""
    table = read_columns(Path(path), target, fill=missing == "fill")
    aim = _target_of(table, target, task)
    multiclass = aim.task == "multiclass"
    train, valid, test = split_numbers(len(table), seed, aim.values if multiclass else None)
    encoder = _Encoder(table, train.numpy(), categories)
    inputs = torch.from_numpy(encoder.inputs(target))
    more: dict[str, Any] = {"columns": encoder.described}
    if not multiclass:
        learned = aim.values[train].double()
        more |= {"mean": learned.mean().item(), "spread": learned.std(correction=0).item() or 1.0}
    facts = Facts(inputs=(inputs.shape[1],), classes=aim.classes, outputs=len(aim.classes) or 1, more=more)
    sources = [Tensors(inputs[part], aim.values[part]) if len(part) else None for part in (train, valid, test)]
    assert sources[0] is not None
    how = f"{'stratified, ' if multiclass else ''}seed {seed}"
    notes = (
        f"target {target}: {aim}",
        f"{len(table):,} rows: {len(train):,} for training, {len(valid):,} validation, {len(test):,} test ({how})",
        *(f"left out: {name} ({why})" for name, why in (table.left_out | encoder.left_out).items()),
        *encoder.notes,
    )
    return aim.task, Splits(sources[0], sources[1], sources[2], facts, notes=notes)


# -- the target --


def _target_of(table: Columns, name: str, task: str) -> Target:
    if task not in ("", "multiclass", "regression"):
        raise BadData(f"A table is read for multiclass or regression, not {task!r}. Nothing was trained.")
    if len(table) < FEWEST:
        raise BadData(f"{table.path} has {len(table)} rows; at least {FEWEST} are needed. Nothing was trained.")
    column = table.columns[name]
    if isinstance(column, Words):
        if task == "regression":
            holds = f"the target column {name!r} holds {column.names[0]!r}"
            raise table.refused(0, f"{holds}; regression needs numbers. Nothing was trained.")
        return _classes_of(table, name, column.codes, column.names)
    values = column.values
    distinct = np.unique(values)
    if len(distinct) == 1:
        raise _constant_target(table, name, f"{distinct[0]:g}")
    whole = bool((distinct == np.floor(distinct)).all())
    few = len(distinct) <= FEW and 2 * len(distinct) <= len(values)
    if task == "multiclass" and not whole:
        row = int(np.flatnonzero(values != np.floor(values))[0])
        holds = f"the target column {name!r} holds {values[row]:g}"
        raise table.refused(row, f"{holds}, which is not a class index. Nothing was trained.")
    if task == "multiclass" or (not task and whole and few):
        codes = np.searchsorted(distinct, values)
        return _classes_of(table, name, codes, tuple(f"{value:.0f}" for value in distinct))
    return Target("regression", torch.from_numpy(values.astype(np.float32)))


def _classes_of(table: Columns, name: str, codes: npt.NDArray[np.int64], names: tuple[str, ...]) -> Target:
    """Classes in alphabetical (text) or numerical order."""
    if len(names) == 1:
        raise _constant_target(table, name, repr(names[0]))
    if 2 * len(names) > len(table):
        raise BadData(
            f"{table.path}: the target column {name!r} has {len(names):,} different values in {len(table):,} rows, so "
            "most classes have one sample: it looks like a row ID. Nothing was trained: choose a different --target."
        )
    counts = np.bincount(codes, minlength=len(names))
    if counts.min() == 1:
        row = int(np.flatnonzero(codes == counts.argmin())[0])
        others = f" ({(counts == 1).sum() - 1} more classes have one sample)" if (counts == 1).sum() > 1 else ""
        once = f"class {names[codes[row]]!r} of {name!r} has only this sample{others}; train and test need one each"
        raise table.refused(row, f"{once}. Nothing was trained: remove the row, or merge the class with another.")
    numbered = all(word.lstrip("-").isdigit() for word in names)
    order = sorted(range(len(names)), key=lambda code: int(names[code]) if numbered else names[code])
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return Target("multiclass", torch.from_numpy(rank[codes]), tuple(names[code] for code in order))


def _constant_target(table: Columns, name: str, value: str) -> BadData:
    return BadData(f"{table.path}: the target column {name!r} is {value} in all rows. Nothing was trained.")


# -- the inputs --


@final
class _Encoder:
    """Encodes columns as one matrix, with statistics of the training rows."""

    def __init__(self, table: Columns, train: npt.NDArray[np.int64], categories: str) -> None:
        self.table, self.train, self.one_hot = table, train, categories == "one-hot"
        self.described: list[dict[str, Any]] = []  # How each column is encoded, in input order
        self.left_out: dict[str, str] = {}
        self.notes: list[str] = []

    def inputs(self, target: str) -> npt.NDArray[np.float32]:
        parts = []
        for name, column in self.table.columns.items():
            if name == target:
                continue
            part = self._numbers(name, column.values) if isinstance(column, Numbers) else self._words(name, column)
            if part is not None:
                parts.append(part)
        if not parts:
            why = "; ".join(f"{name}: {reason}" for name, reason in self.left_out.items()) or "there is no other column"
            raise BadData(f"{self.table.path} has no usable input column for {target!r} ({why}). Nothing was trained.")
        return np.concatenate(parts, axis=1)

    def _numbers(self, name: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32] | None:
        missing = np.isnan(values)
        learned = values[self.train][~missing[self.train]]
        if len(learned) == 0 or learned.min() == learned.max():
            constant = f"always {learned[0]:g}" if len(learned) else "no value"
            self.left_out[name] = f"{constant} in the training rows"
            return None
        # Scaled before squaring: a table may hold 1e200.
        largest = np.abs(learned).max()
        mean, spread = float((learned / largest).mean() * largest), float((learned / largest).std() * largest)
        if missing.any():
            self.notes.append(f"filled: {missing.sum():,} empty cells of {name} with the mean, {mean:g}")
        self.described.append({"name": name, "kind": "number", "mean": mean, "spread": spread})
        scaled = np.where(missing, 0.0, (values - mean) / spread)
        return scaled.astype(np.float32)[:, None]

    def _words(self, name: str, column: Words) -> npt.NDArray[np.float32] | None:
        counts = np.bincount(column.codes[self.train], minlength=len(column.names))
        seen = int((counts > 0).sum())
        if 2 * seen > len(self.train) and seen > 2:
            self.left_out[name] = f"{seen:,} different texts in {len(self.train):,} training rows: like a row ID"
            return None
        if seen == 1:
            self.left_out[name] = f"always {column.names[counts.argmax()]!r} in the training rows"
            return None
        kept = np.argsort(-counts, kind="stable")[: min(seen, MOST_CATEGORIES)]
        kept = np.array(sorted(kept, key=lambda code: column.names[code]))
        code_of = np.full(len(column.names), len(kept))
        code_of[kept] = np.arange(len(kept))
        codes = code_of[column.codes]
        self._note_others(name, seen, int((counts[column.codes] == 0).sum()))
        self.described.append({"name": name, "kind": "category", "categories": [column.names[code] for code in kept]})
        if not self.one_hot:
            return codes.astype(np.float32)[:, None]
        part = np.zeros((len(codes), len(kept) + 1), np.float32)
        part[np.arange(len(codes)), codes] = 1.0
        return part

    def _note_others(self, name: str, seen: int, unseen: int) -> None:
        if seen > MOST_CATEGORIES:
            kept = f"the {MOST_CATEGORIES} most frequent of {seen:,} categories"
            self.notes.append(f"{name}: {kept} get one input each; the others share one")
        if unseen:
            self.notes.append(f"{name}: {unseen:,} validation or test rows hold a category unseen in training: 'other'")
