"""`facts.json`: model, loss, optimizer, device and data of a run, written before its first step for `trueloop ready`.

    {"format": 1, "model": {...}, "loss": {...}, "optimizer": {...}, "device": {...}, "data": {...}, "inputs": {...},
     "classes": {...}, "leakage": {...}, "baseline": {...}, "validation": {...},
     "missing": {"leakage": "the error"}, "seconds": 0.04}

Collecting the facts does not change the run: random states are restored and only copies are read. A fact that raises is
listed in `missing` with its error. Each split is read up to `IN_MEMORY` samples if it is in memory, `ELSEWHERE` samples
otherwise, `BYTES` bytes and `SECONDS` seconds. Facts about samples state the number of samples.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

from trueloop.data.source import Source, samples_in, tensors_in
from trueloop.data.tensors import Tensors
from trueloop.engine.constant_baseline import constant_answer
from trueloop.engine.evaluate import evaluating
from trueloop.engine.parts import Parts
from trueloop.engine.task import Language, Multiclass, OwnLoss
from trueloop.measure.randomness import fence
from trueloop.results.plain import as_plain
from trueloop.session.samples import Samples, read_samples

__all__ = ["FILE", "write_facts"]

FILE: Final = "facts.json"
FORMAT: Final = 1
IN_MEMORY: Final = (
    60_000  # samples read of a split in memory: all of MNIST; hashing 784 bytes takes about two microseconds
)
ELSEWHERE: Final = 1_000  # Samples read of a split that is not in memory: each may be a file
BYTES: Final = 1 << 26  # Bytes read of a split: all 60,000 images of 28 x 28 pixels, or 16,000 blocks of 256 tokens
SECONDS: Final = 0.5  # Time limit for each split, so that the run starts promptly
VALUES: Final = 1 << 22  # Values of the first batch that are read: enough for a mean, and the copy stays small
MOST_CLASSES: Final = 1_000  # Class counts are written up to this number of classes, so not for a vocabulary


def write_facts(folder: Path, parts: Parts) -> str:
    """Write `facts.json` into the run's folder. Returns an error message, or an empty string."""
    start = time.perf_counter()
    with fence(), torch.no_grad():
        facts = gather_facts(parts)
    facts["seconds"] = round(time.perf_counter() - start, 3)
    path = folder / FILE
    partial = path.with_name(f"{FILE}.writing")
    text = json.dumps(as_plain(facts), indent=2, allow_nan=False) + "\n"
    try:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        return f"{path} could not be written ({error.strerror or error}): `trueloop ready` will miss it."
    return ""


def gather_facts(parts: Parts) -> dict[str, Any]:
    """All facts; one that raises goes to `missing` and the others are still collected."""
    facts: dict[str, Any] = {"format": FORMAT}
    missing: dict[str, str] = {}

    def add(topic: str, fact: Callable[..., Any], *arguments: Any) -> None:
        try:
            facts[topic] = fact(*arguments)
        except Exception as error:  # noqa: BLE001 - user code may raise anything; the run continues
            missing[topic] = f"{type(error).__name__}: {error}"[:300]

    for fact in (_model, _loss, _optimizer, _device, _validation, _inputs, _data):
        add(fact.__name__.lstrip("_"), fact, parts)
    read: dict[str, Samples] = {}
    for name, source in (("train", parts.splits.train), ("valid", parts.splits.valid), ("test", parts.splits.test)):
        if source is not None:
            try:
                limits = {"in_memory": IN_MEMORY, "elsewhere": ELSEWHERE, "nbytes": BYTES}
                read[name] = read_samples(source, parts.recipe.seed, **limits, seconds=SECONDS)
            except Exception as error:  # noqa: BLE001 - as above
                missing[f"samples of {name}"] = f"{type(error).__name__}: {error}"[:300]
    add("leakage", lambda: dict(_leakage(read)))
    add("samples", lambda: {name: {"read": each.count, "digest": each.digest} for name, each in read.items()})
    add("classes", _classes, parts, read)
    add("baseline", _baseline, parts, read)
    return {**facts, "missing": missing}


# -- model, loss, optimizer, device --


def _model(parts: Parts) -> dict[str, Any]:
    parameters = list(parts.model.parameters())
    trained = sum(each.numel() for each in parameters if each.requires_grad)
    total = sum(each.numel() for each in parameters)
    kind = parts.strategy.kind(parts.model).__name__
    return {"class": kind, "parameters": total, "trained": trained, "frozen": total - trained}


def _loss(parts: Parts) -> dict[str, Any]:
    own = isinstance(parts.task, OwnLoss)
    names = {
        "multiclass": "cross entropy",
        "language": "cross entropy per token",
        "binary": "binary cross entropy",
        "multilabel": "binary cross entropy per label",
        "regression": "mean square error",
    }
    loss, task = parts.recipe.loss, parts.recipe.task
    name = getattr(loss, "__qualname__", type(loss).__name__) if own else names[task]
    return {"name": name, "own": own, "task": task}


def _optimizer(parts: Parts) -> dict[str, Any]:
    groups = [
        {
            "parameters": sum(each.numel() for each in group["params"]),
            "lr": float(group["lr"]),
            "weight_decay": float(group.get("weight_decay", 0.0)),
        }
        for group in parts.optimizer.param_groups
    ]
    held = {id(each): each.numel() for each in parts.parameters if each.requires_grad}
    return {"class": type(parts.optimizer).__name__, "held": sum(held.values()), "groups": groups, "count": len(groups)}


def _device(parts: Parts) -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if parts.device.type == "cuda":
        memory = torch.cuda.get_device_properties(parts.device).total_memory
    return {
        "name": str(parts.device),
        "precision": parts.recipe.precision,
        "compile": parts.recipe.compile,
        "processes": parts.peers.world,
        "memory": memory,
    }


def _validation(parts: Parts) -> dict[str, Any] | None:
    """Module modes inside the context that evaluation uses."""
    if parts.splits.valid is None:
        return None
    model = parts.ema.model if parts.ema else parts.model
    with evaluating(model):
        modules = list(model.modules())
        return {
            "modules": len(modules),
            "in_train_mode": sum(module.training for module in modules),
            "graphs": torch.is_grad_enabled(),
            "weights": "ema" if parts.ema else "model",
        }


# -- data --


def _data(parts: Parts) -> dict[str, Any]:
    splits = parts.splits
    return {
        "train": _length(splits.train),
        "valid": _length(splits.valid),
        "test": _length(splits.test),
        "bytes": splits.train.nbytes(),
        "where": "resident" if parts.batches.resident is not None else "loader" if splits.train.by_index else "stream",
        "workers": parts.recipe.workers,
        "steps_per_epoch": parts.batches.steps_per_epoch,
        "augmented": splits.augment is not None,
    }


def _length(source: Source | None) -> int | None:
    return None if source is None else samples_in(source)


def _inputs(parts: Parts) -> dict[str, Any]:
    """Statistics of the first batch as the model gets it: transformed and augmented."""
    batch = parts.batches.batch_at(0, 0)
    if batch is None:
        raise ValueError(
            "this process has no part in the first batch, or it comes from a stream and cannot be made twice"
        )
    tensors = [each for each in tensors_in(batch.inputs) if each.numel()]
    count = max(1, min(len(each) * VALUES // each.numel() for each in tensors))
    tensors = [each[:count] for each in tensors]
    floats = [each for each in tensors if each.is_floating_point()]
    integers = [each for each in tensors if not each.is_floating_point() and not each.is_complex()]
    kind = "numbers" if floats else "tokens"
    flat = torch.cat([each.detach().cpu().flatten().double() for each in floats or integers])
    finite = flat[flat.isfinite()]
    values = flat.numel()
    facts = {"kind": kind, "samples": len(tensors[0]), "values": values, "not_finite": values - finite.numel()}
    if not finite.numel():
        return facts
    numbers = {"mean": finite.mean(), "std": finite.std(correction=0), "min": finite.min(), "max": finite.max()}
    return {**facts, **{name: value.item() for name, value in numbers.items()}}


def _leakage(read: dict[str, Samples]) -> Iterator[tuple[str, Any]]:
    """Number of byte-identical samples in each pair of splits."""
    for first, second in (("train", "valid"), ("train", "test"), ("valid", "test")):
        if first in read and second in read:
            known = set(read[first].hashes)
            repeated = sum(each in known for each in read[second].hashes)
            compared, against = len(read[second].hashes), len(read[first].hashes)
            yield f"{first}_{second}", {"repeated": repeated, "compared": compared, "against": against}


def _classes(parts: Parts, read: dict[str, Samples]) -> dict[str, Any] | None:
    """Samples per class, where targets are class numbers."""
    task = parts.task
    if isinstance(task, Language | OwnLoss) or not (isinstance(task, Multiclass) or parts.recipe.task == "binary"):
        return None
    counts = {name: Counter(each.targets.flatten().long().tolist()) for name, each in read.items()}
    for count in counts.values():
        if isinstance(task, Multiclass) and task.some_ignored:
            count.pop(task.ignore, None)
    known = sorted(set().union(*counts.values()))
    if len(known) > MOST_CLASSES:
        raise ValueError(f"{len(known)} classes; class counts are written for at most {MOST_CLASSES}")
    return {name: {str(label): count[label] for label in known} for name, count in counts.items()}


def _baseline(parts: Parts, read: dict[str, Samples]) -> dict[str, Any] | None:
    """The metric of a constant prediction on the validation samples, fitted to the training targets that were read."""
    if "train" not in read or "valid" not in read:
        return None
    train, valid = (Tensors(each.targets, each.targets) for each in (read["train"], read["valid"]))
    constant = constant_answer(replace(parts, splits=replace(parts.splits, train=train, valid=valid)), may_read=False)
    if constant is None:
        raise ValueError(f"no constant answer is known for {parts.metric} of {type(parts.task).__name__}")
    counts = {name: read[name].count for name in ("train", "valid")}
    return {"metric": parts.metric, "answer": constant.answer, "value": constant.value, **counts}
