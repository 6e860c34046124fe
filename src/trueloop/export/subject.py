"""What is to leave the house: the model of a run at one of its checkpoints, and what says what it is and what it is fed
with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.checkpoint.contents import read_contents
from trueloop.checkpoint.find import chosen, find_checkpoints
from trueloop.checkpoint.plan import name_of
from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.engine.task import Task, build_task
from trueloop.errors import BadCheckpoint, CannotExport, Misuse
from trueloop.export.exporter import Given
from trueloop.export.program import Program, is_tokens, layout_of, scores_of
from trueloop.measure.randomness import fence
from trueloop.recipe.model import build_model
from trueloop.recipe.recipe import DataRequest, Recipe, describe
from trueloop.results.artifact import Port
from trueloop.results.plain import as_plain

__all__ = ["Subject", "subject_of"]

EXAMPLES: Final = 3
"""Samples that a graph is traced with: more than one, and no number that a model is likely to have elsewhere."""
LONGEST_STEP: Final = 18
"""Digits of a step's number."""
LOOKED_AT: Final = 256
"""Samples by which the range of raw values is told."""


@dataclass(frozen=True)
class Subject:
    """A model in evaluation mode on the CPU, its data, and where both are from."""

    recipe: Recipe
    model: nn.Module
    splits: Splits
    task: Task
    run: Mapping[str, Any] = field(default_factory=dict)
    """id, step, checkpoint, weights, metrics, readiness, origin: as artifact.json will say it."""

    @property
    def source(self) -> tuple[str, Source]:
        """What it is verified on: data that it has not learned from, if there are any."""
        named = {"valid": self.splits.valid, "test": self.splits.test, "train": self.splits.train}
        return next((name, source) for name, source in named.items() if source is not None)

    def fetch(self, numbers: Tensor) -> Batch:
        """Raw samples, the same each time."""
        with fence(self.recipe.seed):
            return self.source[1].fetch(numbers)

    def program(self) -> Program:
        """Raises CannotExport if its inputs or outputs are of a kind that no target takes."""
        raw = self.fetch(torch.arange(min(EXAMPLES, len(self.source[1])))).inputs
        inputs = layout_of(raw, "input")
        prepare = self.splits.prepare
        with fence(self.recipe.seed), torch.no_grad():
            answered = scores_of(self.model(raw if prepare is None else prepare(raw)))
        program = Program(self.model, prepare, inputs, layout_of(answered, "output")).eval()
        _refuse_answers(program, inputs.parted(raw))
        return program

    def given(self, program: Program, *, inside: bool) -> Given:
        """A few samples as the exported program takes them: raw, or prepared if it does not do that itself."""
        count = len(self.source[1])
        raw = self.fetch(torch.arange(EXAMPLES) % count).inputs
        layout = program.layouts[0]
        free = program.shortened(layout.parted(raw)) is not None
        if not inside and program.prepare is not None:
            raw = program.prepare(raw)
            layout = layout_of(raw, "input")
        tensors = tuple(
            tensor.clone(memory_format=torch.contiguous_format) for tensor in layout.parted(raw)
        )  # a view would be guarded as one
        for name, tensor in zip(layout.names, tensors, strict=True):
            _refuse_numbers(name, tensor)
        return Given(
            tensors,
            tuple(_port(name, tensor, free=free) for name, tensor in zip(layout.names, tensors, strict=True)),
            layout,
        )

    def preprocessing(self, *, inside: bool) -> dict[str, Any]:
        """What the caller must do, for machines to read."""
        count = len(self.source[1])
        raw = self.fetch(torch.arange(min(count, LOOKED_AT))).inputs
        told = {"inside": inside or self.splits.prepare is None, "prepare": _named(self.splits.prepare)}
        return {**_kind(raw, self.splits.facts), **told}

    def facts(self) -> dict[str, Any]:
        """Of the data, as plain values: what a model is built by. The words of a vocabulary stand in
        `preprocessing`."""
        facts = self.splits.facts
        plain: dict[str, Any] = as_plain(
            asdict(replace(facts, more={k: v for k, v in facts.more.items() if k not in ("text", "tokens")}))
        )
        return plain


def _refuse_answers(program: Program, raw: tuple[Tensor, ...]) -> None:
    """One row for each sample, also of one sample alone, in numbers that others know: else nobody could tell whose
    answer is whose."""
    for count in dict.fromkeys((1, len(raw[0]))):
        answered = program.answer([tensor[:count] for tensor in raw])
        shape = list(answered[0].shape)
        if shape[:1] != [count]:
            asked = "one sample" if count == 1 else f"{count} samples"
            raise CannotExport(
                f"The model answers {asked} with a tensor of shape {shape}, and not with a row for each sample. Nothing was exported: "
                ".squeeze() takes the batch away where it is 1, .squeeze(1) does not; reduce over the other dimensions only."
            )
        for name, tensor in zip(program.layouts[1].names, answered, strict=True):
            _refuse_numbers(name, tensor)


def _refuse_numbers(name: str, tensor: Tensor) -> None:
    try:
        torch.empty(0, dtype=tensor.dtype).numpy()
    except TypeError:
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise CannotExport(
            f"{name} is {dtype}, which numpy does not know: nobody outside of torch could give it or read it. Nothing was exported: make "
            "it float32 (.float()) where it goes in or comes out; `precision` of the recipe trains in fewer bits and keeps the model's own."
        ) from None


def _port(name: str, tensor: Tensor, *, free: bool = True) -> Port:
    """The batch is free; so is the length of rows of tokens, if the model takes others."""
    tokens = free and is_tokens(tensor)
    shape = tuple(None if at == 0 or (tokens and at == 1) else size for at, size in enumerate(tensor.shape))
    most = tuple(tensor.shape[1] if tokens and at == 1 else None for at in range(tensor.dim()))
    return Port(name, str(tensor.dtype).removeprefix("torch."), shape, most)


def _kind(raw: Any, facts: Facts) -> dict[str, Any]:
    if not isinstance(raw, Tensor):
        return {"kind": "tensors"}
    dtype = str(raw.dtype).removeprefix("torch.")
    if raw.dtype == torch.uint8 and raw.dim() == 4 and raw.shape[1] in (1, 3, 4):
        lowest, highest = int(raw.min()), int(raw.max())
        return {
            "kind": "image",
            "size": list(raw.shape[2:]),
            "channels": raw.shape[1],
            "dtype": dtype,
            "range": [lowest, highest],
        }
    if raw.dim() == 2 and raw.dtype in (torch.int32, torch.int64):
        text = facts.more.get("text")
        words = facts.more.get("tokens")
        known = (
            text
            if isinstance(text, dict)
            else {"encoding": "tokens", "vocabulary": list(words)}
            if isinstance(words, (list, tuple))
            else {}
        )
        return {"kind": "tokens", "dtype": dtype, "tokens": facts.vocabulary, **known}
    if isinstance(facts.more.get("columns"), list):
        return {"kind": "table", "dtype": dtype, "columns": facts.more["columns"]}
    return {"kind": "tensors", "dtype": dtype}


def _named(prepare: Any) -> str:
    if prepare is None:
        return ""
    return f"{prepare.__module__}.{prepare.__qualname__}" if hasattr(prepare, "__qualname__") else repr(prepare)


# -- from a run --


def subject_of(
    recipe: Recipe,
    request: DataRequest,
    path: Path,
    checkpoint: str = "best",
    *,
    about: Mapping[str, Any] | None = None,
    readiness: str = "",
) -> Subject:
    """Of the run in this folder. `checkpoint`: best, last or a step; the moving average of the weights if there is one,
    as in evaluation.
    `about`: what run.json says. Raises BadCheckpoint: nothing that is read is ever run."""
    store, name = _checkpoint(path, checkpoint)
    contents = read_contents(store, name)
    weights = "ema" if "ema" in contents.weights else "model"
    splits: Splits = recipe.data(request)
    with fence(recipe.seed):
        model = build_model(recipe, splits.facts).cpu()
    try:
        model.load_state_dict(contents.state_of(weights))
    except RuntimeError as error:
        torchs = str(error).splitlines()[-1].strip()
        raise BadCheckpoint(
            f"{store.where(name)} does not fit the recipe's model: one of them has changed. Nothing was exported. ({torchs})"
        ) from None
    about = about or {}
    run = {
        "id": path.resolve().name,
        "step": contents.about.get("step"),
        "checkpoint": name,
        "weights": weights,
        "recipe": describe(recipe),
        "metrics": {key: about.get(key) for key in ("metric", "best", "best_step", "test")},
        "data": list(splits.notes),
        "readiness": readiness,
        "origin": about.get("origin"),
    }
    return Subject(recipe, model.eval().requires_grad_(False), splits, build_task(recipe, splits.facts), as_plain(run))


def _checkpoint(path: Path, word: str) -> tuple[Any, str]:
    store, names = find_checkpoints(path)
    if word == "best":
        return store, chosen(store, names)
    if word == "last":
        return store, names[-1]
    if not word.isdecimal() or len(word) > LONGEST_STEP:
        raise Misuse(f"--checkpoint cannot be {word!r}. Nothing was exported: write best, last or a step.")
    name = name_of(int(word))
    if name not in names:
        steps = ", ".join(str(int(each.removeprefix("step-"))) for each in names)
        raise Misuse(
            f"{path} has no checkpoint of step {int(word):,}. Nothing was exported. There are those of: {steps}."
        )
    return store, name
