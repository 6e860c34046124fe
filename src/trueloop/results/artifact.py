"""A trained model in the form in which it leaves the house, described so that nobody has to ask. No torch here.

    artifact = read_artifact(folder)              # export/folder.py: refuses damage, later formats, another runtime
    runner = runner_of(artifact)                  # export/catalogue.py: a Runner of its target, the file verified and
    opened;
                                                  # runner_of(artifact, "cuda") runs it on a GPU
    outputs = runner.run([images])                # arrays in the order of artifact.inputs -> arrays in the order of
    artifact.outputs answer_of(artifact, outputs[0][0].tolist())   # {"class": "sneaker", "number": 7, "probability":
    0.98, ...}

FOLDER/artifact.json    this value, sealed by its own hash
       model.pt2 | model.onnx | model.pte | model.safetensors | model.pt
       CARD.md          the same for people

Raw samples go in, as `preprocessing` says; what a recipe does to them on the device (`Splits.prepare`) is part of the
program wherever
`preprocessing["inside"]` is true. The program answers with raw scores; names and probabilities are made of them here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

__all__ = ["FILE", "FORMAT", "LICENCE", "Artifact", "Port", "Verification", "answer_of"]

FILE: Final = "artifact.json"
FORMAT: Final = 1
"""Of artifact.json; a later one is refused with a sentence."""
LICENCE: Final[Mapping[str, str]] = MappingProxyType({"model": "", "data": "", "contact": ""})
"""What only the owner can say; empty until it is filled."""


@dataclass(frozen=True, slots=True)
class Port:
    """A tensor that goes in or comes out."""

    name: str
    dtype: str
    """As numpy calls it: uint8, int64, float32."""
    shape: tuple[int | None, ...]
    """None: any size. The first is the batch."""
    most: tuple[int | None, ...] = ()
    """The largest size of each dimension that is free; None: no limit is known. Empty: of none."""

    def limit(self, dimension: int) -> int | None:
        return self.most[dimension] if self.most else None

    def refusal(self, shape: Sequence[int]) -> str:
        """Why an array of this shape cannot go in, or nothing."""
        wanted = "[" + ", ".join("any" if size is None else str(size) for size in self.shape) + "]"
        if len(shape) != len(self.shape):
            return f"{self.name} has {len(self.shape)} dimensions, {wanted}, and not {len(shape)}"
        for at, (size, due) in enumerate(zip(shape, self.shape, strict=True)):
            most = self.limit(at)
            if due is not None and size != due:
                return f"dimension {at} of {self.name} is {due}, and not {size} ({wanted})"
            if size < 1 or (most is not None and size > most):
                return f"dimension {at} of {self.name} goes from 1 to {most or 'any size'}, and is not {size}"
        return ""


@dataclass(frozen=True, slots=True)
class Verification:
    """How the exported program's answers compare with the model's own, on real samples, in a process of its own."""

    split: str
    """Whose samples: valid, test or train."""
    samples: int
    batches: tuple[int, ...]
    """The sizes that were tried, each once."""
    lengths: tuple[int, ...]
    """Of sequences, where they are free."""
    tolerance: float
    max_error: float
    """The largest difference between two outputs."""
    scale: float
    """What the tolerance is multiplied by: 1, or the largest output where the outputs are quantities in a unit of their
    own."""
    disagreements: int
    """Predictions that are others, and no ties."""
    ties: int
    """Predictions that are others only because two scores lie within the tolerance of each other."""
    metrics: Mapping[str, tuple[float, float]]
    """Name -> of the model itself, of the exported program."""
    runtime: str
    """What ran it: onnxruntime 1.20.1."""
    first_differing: str = ""
    """The layer from which on the answers differ; empty: they do not."""

    @property
    def passed(self) -> bool:
        return self.max_error <= self.tolerance * self.scale and not self.disagreements

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        metrics = {name: (float(ours), float(theirs)) for name, (ours, theirs) in told["metrics"].items()}
        return cls(**{**told, "batches": tuple(told["batches"]), "lengths": tuple(told["lengths"]), "metrics": metrics})


@dataclass(frozen=True, slots=True)
class Artifact:
    """What artifact.json says."""

    folder: Path
    """Where it lies; not part of the file."""
    name: str
    target: str
    """pt2 | aoti | onnx | executorch | safetensors | torchscript."""
    files: Mapping[str, Mapping[str, Any]]
    """File -> bytes and sha256; the first one is the model."""
    versions: Mapping[str, str]
    """trueloop, python, torch: what it was made with."""
    runtime: Mapping[str, str]
    """What runs it: package, version, which part of the version must be the same (match: major | minor); machine, if
    only one will do. Of machine code also device (cpu | cuda) and, of a GPU, its name (gpu) and capability, which must
    be the same."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    task: str
    classes: tuple[str, ...]
    preprocessing: Mapping[str, Any]
    """kind: image | tokens | table | tensors, what the caller must do, and `inside`: is the rest done by the
    program?"""
    run: Mapping[str, Any]
    """id, step, checkpoint, weights, recipe, metrics, readiness; origin and facts, from which the model can be built
    again."""
    verification: Verification | None = None
    """None: only while it is being made."""
    notes: tuple[str, ...] = ()
    licence: Mapping[str, str] = field(default_factory=lambda: dict(LICENCE))

    @property
    def file(self) -> Path:
        """The model."""
        return self.folder / next(iter(self.files))

    @property
    def device(self) -> str:
        """What its machine code is for, cpu or cuda; what is none runs on the CPU unless somebody says otherwise."""
        return self.runtime.get("device") or "cpu"

    def plain(self) -> dict[str, Any]:
        told = asdict(self)
        del told["folder"]
        # Sorting, as sealing does, must not lose which file is the model.
        return {"format": FORMAT, **told, "model": next(iter(self.files))}

    @classmethod
    def of(cls, told: Mapping[str, Any], folder: Path) -> Self:
        """From what `plain` gave. Raises KeyError, TypeError or ValueError if it did not."""
        values = {name: value for name, value in told.items() if name not in ("format", "model")}
        files = {told["model"]: told["files"][told["model"]], **told["files"]}
        verified = values["verification"]
        return cls(**{
            **values,
            "folder": folder,
            "files": files,
            "inputs": tuple(map(_port, values["inputs"])),
            "outputs": tuple(map(_port, values["outputs"])),
            "classes": tuple(values["classes"]),
            "notes": tuple(values["notes"]),
            "verification": None if verified is None else Verification.of(verified),
        })  # fmt: skip


def _port(told: Mapping[str, Any]) -> Port:
    return Port(told["name"], told["dtype"], tuple(told["shape"]), tuple(told["most"]))


# -- what the raw scores of one sample mean --


def answer_of(artifact: Artifact, scores: Any) -> dict[str, Any]:
    """Of one sample's first output, as lists of numbers: what a person or a program asks for. The metric counts the
    same prediction."""
    match artifact.task:
        case "multiclass":
            return _one_of_many(scores, artifact.classes)
        case "language":
            return _one_of_many(scores[-1], artifact.classes)
        case "binary":
            yes = _logistic(_only(scores))
            if math.isnan(yes):
                return {"scores": scores}
            named = {"class": artifact.classes[yes > 0.5]} if len(artifact.classes) == 2 else {}
            return {**named, "number": int(yes > 0.5), "probability": yes if yes > 0.5 else 1 - yes, "yes": yes}
        case "multilabel":
            chances = [_logistic(score) for score in scores]
            if any(map(math.isnan, chances)):
                return {"scores": scores}
            numbers = [number for number, chance in enumerate(chances) if chance > 0.5]
            return {**_named(numbers, artifact.classes, len(chances)), "numbers": numbers, "probabilities": chances}
        case _:
            return {"value": scores if isinstance(scores, list) and len(scores) != 1 else _only(scores)}


def _one_of_many(scores: Sequence[Any], classes: Sequence[str]) -> dict[str, Any]:
    if not all(isinstance(score, (int, float)) for score in scores):
        return {"scores": scores}  # a class for each point: [classes, height, width]
    top = max(scores)
    if not math.isfinite(top) or any(map(math.isnan, scores)):
        return {"scores": scores}
    weights = [math.exp(score - top) for score in scores]
    total = math.fsum(weights)
    number = max(range(len(scores)), key=scores.__getitem__)
    named: dict[str, Any] = {}
    if len(classes) == len(scores):
        named = {
            "class": classes[number],
            "probabilities": {name: weight / total for name, weight in zip(classes, weights, strict=True)},
        }
    return {**named, "number": number, "probability": weights[number] / total}


def _named(numbers: Sequence[int], classes: Sequence[str], of: int) -> dict[str, Any]:
    return {"labels": [classes[number] for number in numbers]} if classes and len(classes) == of else {}


def _only(scores: Any) -> float:
    while isinstance(scores, (list, tuple)):
        (scores,) = scores
    return float(scores)


def _logistic(score: float) -> float:
    """Of large scores too, for which exp would overflow."""
    return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))
