"""What a run is made of and fed with, in `facts.json`, before its first step: the evidence that `trueloop ready` reads.

    {"format": 1, "model": {...}, "loss": {...}, "optimizer": {...}, "device": {...}, "data": {...}, "inputs": {...},
    "classes": {...},
     "leakage": {...}, "baseline": {...}, "validation": {...}, "missing": {"leakage": "why it could not be told"},
     "seconds": 0.04}

Nothing here may change the run: random states are fenced off, only copies are read, and what cannot be told is
`missing`, with the reason. Of each split it reads at most `IN_MEMORY` samples if they are in memory, `ELSEWHERE` if
they are read as needed, `BYTES` altogether, and for at most `SECONDS`; what is told of samples says of how many.
"""

from __future__ import annotations

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
from torch import Tensor

from trueloop.data.source import tensors_in
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
IN_MEMORY: Final = 60_000
"""Samples of a split in memory: all of the usual small sets. Hashing one of 784 bytes takes about two microseconds."""
ELSEWHERE: Final = 1_000
"""Samples of a split that is read as needed, a file each perhaps."""
BYTES: Final = 1 << 26
"""Of a split: all 60,000 images of 28 x 28 points, or sixteen thousand blocks of 256 tokens."""
SECONDS: Final = 0.5
"""For each split, whatever it is: a run must not wait for its own description."""
VALUES: Final = 1 << 22
"""Numbers of the first batch that are looked at: a mean needs no more, and copies of large pictures would be seen in a
run's memory."""
MOST_CLASSES: Final = 1_000
"""Whose counts are written out; a vocabulary's are not."""


def write_facts(folder: Path, parts: Parts) -> str:
    """Into the run's folder; a sentence if that failed. The time it takes is no time of the training."""
    begun = time.perf_counter()
    with fence(), torch.no_grad():
        told = gather_facts(parts)
    told["seconds"] = round(time.perf_counter() - begun, 3)
    path = folder / FILE
    aside = path.with_name(f"{FILE}.writing")
    try:
        aside.write_text(
            json.dumps(as_plain(told), indent=2, allow_nan=False) + "\n", encoding="utf-8", errors="backslashreplace"
        )
        os.replace(aside, path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        return f"{path} could not be written ({error.strerror or error}): `trueloop ready` will miss it."
    return ""


def gather_facts(parts: Parts) -> dict[str, Any]:
    """Each fact on its own: one that cannot be told does not take the others with it."""
    told: dict[str, Any] = {"format": FORMAT}
    missing: dict[str, str] = {}

    def tell(topic: str, fact: Callable[[], Any]) -> Any:
        try:
            told[topic] = fact()
        except Exception as error:  # noqa: BLE001 - the user's data and model are asked; whatever they raise here, the run goes on
            missing[topic] = f"{type(error).__name__}: {error}"[:300]
        return told.get(topic)

    tell("model", lambda: _model(parts))
    tell("loss", lambda: _loss(parts))
    tell("optimizer", lambda: _optimizer(parts))
    tell("device", lambda: _device(parts))
    tell("validation", lambda: _validation(parts))
    tell("inputs", lambda: _inputs(parts))
    tell("data", lambda: _data(parts))
    read: dict[str, Samples] = {}
    for name, source in (("train", parts.splits.train), ("valid", parts.splits.valid), ("test", parts.splits.test)):
        if source is not None:
            try:
                read[name] = read_samples(
                    source, parts.recipe.seed, in_memory=IN_MEMORY, elsewhere=ELSEWHERE, nbytes=BYTES, seconds=SECONDS
                )
            except Exception as error:  # noqa: BLE001 - as above
                missing[f"samples of {name}"] = f"{type(error).__name__}: {error}"[:300]
    tell("leakage", lambda: dict(_leakage(read)))
    tell("samples", lambda: {name: {"read": each.count, "digest": each.digest} for name, each in read.items()})
    tell("classes", lambda: _classes(parts, read))
    tell("baseline", lambda: _baseline(parts, read))
    return {**told, "missing": missing}


# -- the model and what trains it --


def _model(parts: Parts) -> dict[str, Any]:
    parameters = list(parts.model.parameters())
    trained = sum(each.numel() for each in parameters if each.requires_grad)
    total = sum(each.numel() for each in parameters)
    return {
        "class": parts.strategy.kind(parts.model).__name__,
        "parameters": total,
        "trained": trained,
        "frozen": total - trained,
    }


def _loss(parts: Parts) -> dict[str, Any]:
    own = isinstance(parts.task, OwnLoss)
    names = {
        "multiclass": "cross entropy",
        "language": "cross entropy per token",
        "binary": "binary cross entropy",
        "multilabel": "binary cross entropy per label",
        "regression": "mean square error",
    }
    name = (
        getattr(parts.recipe.loss, "__qualname__", type(parts.recipe.loss).__name__)
        if own
        else names[parts.recipe.task]
    )
    return {"name": name, "own": own, "task": parts.recipe.task}


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
    """Looked at inside the very context that every evaluation runs in."""
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


# -- the data --


def _data(parts: Parts) -> dict[str, Any]:
    splits = parts.splits
    return {
        "train": len(splits.train),
        "valid": None if splits.valid is None else len(splits.valid),
        "test": None if splits.test is None else len(splits.test),
        "bytes": splits.train.nbytes(),
        "where": "resident" if parts.batches.resident is not None else "loader",
        "workers": parts.recipe.workers,
        "steps_per_epoch": parts.batches.steps_per_epoch,
        "augmented": splits.augment is not None,
    }


def _inputs(parts: Parts) -> dict[str, Any]:
    """Of the first samples of the first batch, as the model gets them: prepared, and augmented."""
    batch = parts.batches.batch_at(0, 0)
    if batch is None:
        raise ValueError("this process has no part in the first batch")
    tensors = [each for each in tensors_in(batch.inputs) if each.numel()]
    count = max(1, min(len(each) * VALUES // each.numel() for each in tensors))
    tensors = [each[:count] for each in tensors]
    kinds = {
        "numbers": [each for each in tensors if each.is_floating_point()],
        "tokens": [each for each in tensors if _is_whole(each)],
    }
    kind = "numbers" if kinds["numbers"] else "tokens"
    flat = torch.cat([each.detach().cpu().flatten().double() for each in kinds[kind]])
    finite = flat[flat.isfinite()]
    told = {
        "kind": kind,
        "samples": len(tensors[0]),
        "values": flat.numel(),
        "not_finite": flat.numel() - finite.numel(),
    }
    if not finite.numel():
        return told
    return {
        **told,
        "mean": finite.mean().item(),
        "std": finite.std(correction=0).item(),
        "min": finite.min().item(),
        "max": finite.max().item(),
    }


def _is_whole(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex()


def _leakage(read: dict[str, Samples]) -> Iterator[tuple[str, Any]]:
    """How many samples of one split are in another, byte for byte."""
    for first, second in (("train", "valid"), ("train", "test"), ("valid", "test")):
        if first in read and second in read:
            known = set(read[first].hashes)
            repeated = sum(each in known for each in read[second].hashes)
            yield (
                f"{first}_{second}",
                {"repeated": repeated, "compared": len(read[second].hashes), "against": len(read[first].hashes)},
            )


def _classes(parts: Parts, read: dict[str, Samples]) -> dict[str, Any] | None:
    """How often each class is there, where targets are class numbers."""
    task = parts.task
    if (
        isinstance(task, Language)
        or not (isinstance(task, Multiclass) or parts.recipe.task == "binary")
        or isinstance(task, OwnLoss)
    ):
        return None
    counts = {name: Counter(each.targets.flatten().long().tolist()) for name, each in read.items()}
    for count in counts.values():
        if isinstance(task, Multiclass) and task.some_ignored:
            count.pop(task.ignore, None)
    known = sorted(set().union(*counts.values()))
    if len(known) > MOST_CLASSES:
        raise ValueError(f"{len(known)} classes are more than the {MOST_CLASSES} whose counts are written out")
    return {name: {str(label): count[label] for label in known} for name, count in counts.items()}


def _baseline(parts: Parts, read: dict[str, Samples]) -> dict[str, Any] | None:
    """What an answer that is always the same reaches on the validation data, learned from the training targets: those
    that were read."""
    if "train" not in read or "valid" not in read:
        return None
    train, valid = (Tensors(each.targets, each.targets) for each in (read["train"], read["valid"]))
    found = constant_answer(replace(parts, splits=replace(parts.splits, train=train, valid=valid)), may_read=False)
    if found is None:
        raise ValueError(f"no constant answer is known for {parts.metric} of {type(parts.task).__name__}")
    return {
        "metric": parts.metric,
        "answer": found.answer,
        "value": found.value,
        "train": read["train"].count,
        "valid": read["valid"].count,
    }
