"""Autoencoders that look for anomalies: which evaluated rows does the script call anomalies, and was the model fitted
to rows like them?

A model that gives back its input has no labels. The evaluation has them: a variable beside the call, with two values,
one for each evaluated row, whose name says what it is. Only a script that speaks of normal data and of anomalies is
examined: an autoencoder of all kinds of data may be evaluated on any label.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor, nn

from trueloop.event import AnomaliesCompared, Place
from trueloop.measure.contamination import contamination
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LossCall, ModuleCall, RunEnd, tensors_in
from trueloop.taps.variables import users_variables
from trueloop.usercode.names import words_of
from trueloop.usercode.source import source_of

__all__ = ["AnomaliesObserver"]

OF_A_CALL: Final = 64  # training rows
TRAINED: Final = 2048  # rows
EVALUATED: Final = 1024  # rows
WIDEST: Final = 1024  # numbers in a row
CALLS: Final = 16  # evaluating calls of a line, with one number of rows, that are examined
SMALL: Final = 2**20  # bytes of an array in a file
MEMBERS: Final = 16  # of a file, or of an object
_NORMAL: Final = re.compile(r"(?<![A-Za-z])(normal|normals|healthy|nominal)(?![A-Za-z])", re.IGNORECASE)
_ANOMALY: Final = re.compile(
    r"(?<![A-Za-z])(anomal|abnormal|fault|outlier|defect|novelt|intrusion|attack|alarm|fraud|failure)", re.IGNORECASE
)
_TRUTH: Final = frozenset({
    "y", "label", "labels", "lab", "target", "targets", "truth", "gt", "fault", "faults", "faulty", "anomaly",
    "anomalies", "anomalous", "outlier", "outliers", "defect", "defects", "abnormal", "status", "state", "attack",
})  # fmt: skip
_ANSWERS: Final = frozenset({"pred", "preds", "predicted", "prediction", "predictions", "alarm", "alarms", "hat"})


@dataclass(slots=True)
class _Fitted:
    """A model whose output has the shape of its input, in training."""

    name: str
    trained: list[Tensor] = field(default_factory=list)
    count: int = 0
    evaluated: dict[tuple[Place | None, str], list[tuple[Tensor, Tensor]]] = field(default_factory=dict)
    calls: Counter[tuple[Place | None, int]] = field(default_factory=Counter)  # by their number of rows


class AnomaliesObserver(Observer):
    emits = (AnomaliesCompared,)

    def prepare(self) -> None:
        self._models: dict[int, _Fitted | None] = {}  # None: no autoencoder
        self._rows: tuple[_Fitted, tuple[int, ...]] | None = None  # of the latest training call: until its loss
        self._scripts: dict[str, bool] = {}  # does it look for anomalies?

    def module_call_ended(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or call.failed or call.recalibration:
            return
        fitted = self._models.get(known.number)
        if fitted is None and known.number in self._models:
            return
        training = call.grad and call.training
        if fitted is None and training:
            given, output = _first(call.args), call.output
            fits = given is not None and isinstance(output, Tensor) and output.shape == given.shape
            fitted = self._models[known.number] = (
                _Fitted(known.name) if fits and self._says_normal(call.place) else None
            )
        if fitted is None:
            return
        given = _first(call.args)
        if given is None:
            return
        if training:
            self._train(fitted, given)
        elif fitted.calls[call.place, len(given)] < CALLS:
            self._evaluate(fitted, given, call)

    def _says_normal(self, place: Place | None) -> bool:
        if place is None:
            return False
        if place.path not in self._scripts:
            source = source_of(place.path)
            anomalies = _ANOMALY.search("".join(source.lines))
            self._scripts[place.path] = anomalies is not None and any(map(_says_normal, ast.walk(source.tree)))
        return self._scripts[place.path]

    def _train(self, fitted: _Fitted, given: Tensor) -> None:
        if fitted.count < TRAINED:
            fitted.trained.append(_table(given, OF_A_CALL))
            fitted.count += len(fitted.trained[-1])
            self._rows = (fitted, tuple(given.shape))

    def loss_called(self, loss: LossCall) -> None:
        """The target of a denoising autoencoder is the clean input."""
        if self._rows is not None:
            fitted, shape = self._rows
            if tuple(loss.target.shape) == shape and is_plain(loss.target) and is_readable(loss.target):
                fitted.trained[-1] = _table(loss.target.detach(), OF_A_CALL)
            self._rows = None

    def _evaluate(self, fitted: _Fitted, given: Tensor, call: ModuleCall) -> None:
        fitted.calls[call.place, len(given)] += 1
        for name, labels in _labels(len(given)):
            pairs = fitted.evaluated.setdefault((call.place, name), [])
            pairs.append((_table(given, EVALUATED), evenly_spaced(labels, EVALUATED)))
            return

    def run_ended(self, end: RunEnd) -> None:
        for number, fitted in self._models.items():
            if fitted is None or not fitted.trained:
                continue
            trained = torch.cat(fitted.trained)
            for (place, name), pairs in fitted.evaluated.items():
                rows, labels = (torch.cat(parts) for parts in zip(*pairs, strict=True))
                values = torch.unique(labels)
                if len(values) != 2 or rows.shape[1] != trained.shape[1]:
                    continue
                rows, anomalous = rows[-EVALUATED:], (labels == values[1])[-EVALUATED:]
                sides = [contamination(trained, rows, side) for side in (anomalous, ~anomalous)]
                # The normal class is the one that more training rows lie among.
                found = min((side for side in sides if side), key=lambda side: side.share, default=None)
                if found is not None and all(sides):
                    self.emit(AnomaliesCompared, place, number, fitted.name, name, found.trained, len(rows),
                              found.anomalies, found.share, found.expected)  # fmt: skip


def _says_normal(node: ast.AST) -> bool:
    """A variable or a file is called so; comments and descriptions may speak of a normal distribution."""
    if isinstance(node, ast.Name):
        return _NORMAL.search(node.id) is not None
    short = isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) == 1
    return short and _NORMAL.search(node.value) is not None  # type: ignore[attr-defined]


def _first(args: tuple[Any, ...]) -> Tensor | None:
    given = next(iter(tensors_in(args)), None)
    if given is None or not is_plain(given) or not is_readable(given) or not given.is_floating_point():
        return None
    usable = given.ndim >= 2 and len(given) > 0 and given.is_cpu and given[0].numel() <= WIDEST
    return given.detach() if usable else None


def _table(rows: Tensor, most: int) -> Tensor:
    return evenly_spaced(rows, most).reshape(-1, rows[0].numel()).float().clone()


def _labels(count: int) -> Iterator[tuple[str, Tensor]]:
    """Variables, attributes and arrays of files beside the running call that name the truth about each row."""
    for variables in users_variables(3):
        for name, value in variables.items():
            for key, each in ((name, value), *_parts(name, value)):
                words = set(words_of(key))
                if words & _TRUTH and not words & _ANSWERS and (labels := _two_values(each, count)) is not None:
                    yield key, labels


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.lib.npyio.NpzFile):
        yield from _members(name, value)
    elif type(value) is dict and len(value) <= MEMBERS:  # a mapping of the user's runs code of the user's
        yield from ((str(key), each) for key, each in value.items())
    elif type(value).__module__ == "__main__" and not isinstance(value, nn.Module):
        yield from list(getattr(value, "__dict__", {}).items())[:MEMBERS]


def _members(name: str, file: Any) -> Iterator[tuple[str, Any]]:
    if file.zip is None or file.allow_pickle:  # closed; or an object is built again by reading it
        return
    sizes = {info.filename.removesuffix(".npy"): info.file_size for info in file.zip.infolist()}
    for key in file.files[:MEMBERS]:
        if set(words_of(key)) & _TRUTH and sizes.get(key, SMALL) < SMALL:
            try:
                array = file[key]
            except (ValueError, OSError, EOFError, BadZipFile):  # of objects, or cut off: it holds no labels for us
                continue
            yield key, array


def _two_values(value: Any, count: int) -> Tensor | None:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.size == count:
        value = torch.from_numpy(value.astype(np.float64))  # whatever the order of its bytes
    if not isinstance(value, Tensor) or not is_plain(value) or not is_readable(value) or value.numel() != count:
        return None
    labels = value.detach().reshape(-1).cpu().double()
    return labels if len(torch.unique(labels)) <= 2 and bool((labels == labels.round()).all()) else None
