"""An exported model, described completely. No torch here.

    artifact = read_artifact(folder)          # export/folder.py: refuses damaged files, later formats, wrong runtimes
    runner = runner_of(artifact)              # export/catalogue.py: verifies and opens it; runner_of(artifact, "cuda")
    outputs = runner.run([images])            # arrays in the order of artifact.inputs -> of artifact.outputs
    prediction_of(artifact, [outputs[0][0].tolist()])    # {"class": "sneaker", "number": 7, "probability": 0.98, ...}

FOLDER/artifact.json    this value, sealed by its own hash
       model.pt2 | model.onnx | model.pte | model.safetensors | model.pt
       CARD.md          the same for people

Inputs are raw samples, as `preprocessing` says; the program includes the transform of a recipe (`Splits.prepare`)
where `preprocessing["inside"]` is true. Outputs are raw logits; names and probabilities are computed here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

__all__ = ["FILE", "FORMAT", "LICENCE", "OWN", "Artifact", "Port", "Verification", "answer_of", "prediction_of"]

FILE: Final = "artifact.json"
FORMAT: Final = 1  # of artifact.json; later ones are refused
OWN: Final = "own"  # The task of a recipe with a loss or step of its own: only the recipe knows what outputs mean
LICENCE: Final[Mapping[str, str]] = MappingProxyType({"model": "", "data": "", "contact": ""})  # filled in by the owner


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output tensor."""

    name: str
    dtype: str  # numpy's name: uint8, int64, float32
    shape: tuple[int | None, ...]  # none: any size. The first dimension is the batch
    most: tuple[int | None, ...] = ()  # Largest size of each dynamic dimension; None: no known limit. Empty: no limits

    def limit(self, dimension: int) -> int | None:
        return self.most[dimension] if self.most else None

    def sizes(self, to: str = "..") -> list[str]:
        """As people read them: 28, any, 1..64."""
        limits = (f"1{to}{most}" if (most := self.limit(at)) else "any" for at in range(len(self.shape)))
        return [limit if size is None else str(size) for size, limit in zip(self.shape, limits, strict=True)]

    def refusal(self, shape: Sequence[int]) -> str:
        """Why an array of this shape is not accepted; empty: it is."""
        wanted = "[" + ", ".join("any" if size is None else str(size) for size in self.shape) + "]"
        if len(shape) != len(self.shape):
            return f"{self.name} has {len(self.shape)} dimensions, {wanted}, not {len(shape)}"
        for at, (size, due) in enumerate(zip(shape, self.shape, strict=True)):
            most = self.limit(at)
            if due is not None and size != due:
                return f"dimension {at} of {self.name} must be {due}, not {size} ({wanted})"
            if size < 1 or (most is not None and size > most):
                return f"dimension {at} of {self.name} must be 1 to {most or 'any size'}, not {size}"
        return ""


@dataclass(frozen=True, slots=True)
class Verification:
    """The exported program compared with the model, on real samples, in a separate process."""

    split: str  # valid, test or train
    samples: int
    batches: tuple[int, ...]  # batch sizes, each tested once
    lengths: tuple[int, ...]  # sequence lengths, where they are dynamic
    tolerance: float
    max_error: float  # the largest difference between two outputs
    scale: float  # factor of the tolerance: 1, or the largest output of a regression
    disagreements: int  # different predictions, without ties
    ties: int  # different predictions where two logits are within the tolerance of each other
    metrics: Mapping[str, tuple[float, float]]  # name -> (model, exported program)
    runtime: str  # onnxruntime 1.20.1
    first_differing: str = ""  # the first layer whose outputs differ; empty: none
    relative: float = 0.0  # the largest difference as a share of the largest value of its output
    beyond: tuple[str, ...] = ()  # inputs beyond the data that were compared too: zeros, extreme values ...
    failures: tuple[str, ...] = ()  # relative differences, metrics and inputs beyond the data that do not agree

    @property
    def passed(self) -> bool:
        return self.max_error <= self.tolerance * self.scale and not self.disagreements and not self.failures

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        metrics = {name: (float(ours), float(theirs)) for name, (ours, theirs) in plain["metrics"].items()}
        lists = ("batches", "lengths", "beyond", "failures")
        return cls(**{**plain, **{name: tuple(plain.get(name, ())) for name in lists}, "metrics": metrics})


@dataclass(frozen=True, slots=True)
class Artifact:
    """What artifact.json says."""

    folder: Path  # not part of the file
    name: str
    target: str  # pt2 | aoti | onnx | executorch | safetensors | torchscript
    files: Mapping[str, Mapping[str, Any]]  # file -> bytes and sha256; the first one is the model
    versions: Mapping[str, str]  # trueloop, python, torch
    runtime: Mapping[str, str]
    """package, version, which part of the version must match (match: major | minor); machine, if it must match. For
    machine code also device (cpu | cuda), and the name (gpu) and capability of a GPU, which must match."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    task: str
    classes: tuple[str, ...]
    preprocessing: Mapping[str, Any]
    """kind: image | tokens | table | tensors, what the caller must do, and `inside`: does the program do the rest?"""
    run: Mapping[str, Any]
    """id, step, checkpoint, weights, recipe, metrics, readiness; origin and facts, to build the model again."""
    verification: Verification | None = None  # none: only during the export
    notes: tuple[str, ...] = ()
    licence: Mapping[str, str] = field(default_factory=lambda: dict(LICENCE))
    made_here: str = ""  # The stamp of the machine that exported it: trust/artifacts.py

    @property
    def file(self) -> Path:
        """The model file."""
        return self.folder / next(iter(self.files))

    @property
    def device(self) -> str:
        """Of machine code: cpu or cuda. Other programs run on the CPU by default."""
        return self.runtime.get("device") or "cpu"

    @property
    def sample_outputs(self) -> tuple[Port, ...]:
        """The outputs with a row per sample: the first always, others may be per batch."""
        return self.outputs[:1] + tuple(port for port in self.outputs[1:] if port.shape[:1] == (None,))

    def plain(self) -> dict[str, Any]:
        plain = asdict(self)
        del plain["folder"]
        # The sorted, sealed file must still say which file is the model.
        return {"format": FORMAT, **plain, "model": next(iter(self.files))}

    @classmethod
    def of(cls, plain: Mapping[str, Any], folder: Path) -> Self:
        """The inverse of `plain`. Raises KeyError, TypeError or ValueError."""
        values = {name: value for name, value in plain.items() if name not in ("format", "model")}
        files = {plain["model"]: plain["files"][plain["model"]], **plain["files"]}
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


def _port(plain: Mapping[str, Any]) -> Port:
    return Port(plain["name"], plain["dtype"], tuple(plain["shape"]), tuple(plain["most"]))


# -- the meaning of the raw logits of one sample --


def prediction_of(artifact: Artifact, outputs: Sequence[Any]) -> dict[str, Any]:
    """The prediction for one sample, from its outputs as lists in the order of `artifact.sample_outputs`."""
    named = dict(zip((port.name for port in artifact.sample_outputs), outputs, strict=True))
    if artifact.task == OWN:
        return named
    others = dict(list(named.items())[1:])
    return {**answer_of(artifact, outputs[0]), **({"outputs": others} if others else {})}


def answer_of(artifact: Artifact, scores: Any) -> dict[str, Any]:
    """The prediction for one sample, from its first output as lists; the metric counts the same prediction."""
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
    """Without overflow for large scores."""
    return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))
