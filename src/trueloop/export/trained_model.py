"""A trained model and where it comes from: loaded from a checkpoint of its run, with the data that it takes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import torch
from torch import Tensor, nn

from trueloop.checkpoint.contents import Contents, read_contents
from trueloop.checkpoint.locate import best_or_newest, find_checkpoints
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.store import Folder
from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.engine.build_model import build_model
from trueloop.engine.call_model import call_model
from trueloop.engine.model_loss import LABELS, ModelLoss
from trueloop.engine.read_data import read_data
from trueloop.engine.task import Task, task_of
from trueloop.errors import BadCheckpoint, CannotExport, Misuse
from trueloop.export.exporter import Example
from trueloop.export.program import Program, is_tokens, layout_of, scores_of
from trueloop.measure.randomness import fence
from trueloop.recipe.recipe import DataRequest, Recipe, describe
from trueloop.recipes.origin import origin_of, recipe_of
from trueloop.results.artifact import OWN, Port
from trueloop.results.plain import as_plain

__all__ = ["Origin", "TrainedModel", "fill_model", "find_checkpoint", "load_trained_model"]

EXAMPLES: Final = 3  # Batch size for tracing: more than one, and unlikely to equal another size in the model
LONGEST_STEP: Final = 18  # Digits of a step number
RANGE_SAMPLES: Final = 256  # Samples that determine the range of raw values


@dataclass(frozen=True, slots=True)
class Origin:
    """A run, its recipe and data, and the checkpoint to use."""

    run: Path
    recipe: Recipe
    request: DataRequest
    checkpoint: str = "best"  # best | last | a step
    about: Mapping[str, Any] = field(default_factory=dict)  # The contents of run.json
    readiness: str = ""  # The verdict of `trueloop ready`; empty: it was never run

    @classmethod
    def of_run(
        cls,
        run: Path,
        about: Mapping[str, Any],
        otherwise: str = "",
        *,
        data: Path | None = None,
        download: bool = False,
        checkpoint: str = "best",
        readiness: str = "",
    ) -> Self:
        """`about`: run.json. `otherwise`: advice for a run from Python, which names no recipe. Raises Misuse."""
        recipe = recipe_of(origin_of(run, about, otherwise))
        folder = data or (Path(about["data"]) if about.get("data") else None)
        return cls(run, recipe, DataRequest(folder, download, recipe.seed), checkpoint, about, readiness)


@dataclass(frozen=True)
class TrainedModel:
    """A model in evaluation mode on the CPU, its data and its origin."""

    origin: Origin
    model: nn.Module
    splits: Splits
    task: Task
    run: Mapping[str, Any] = field(default_factory=dict)
    """For artifact.json: id, step, checkpoint, unranked (there is no best one), weights, recipe, metrics, data,
    readiness, origin."""

    @property
    def recipe(self) -> Recipe:
        return self.origin.recipe

    @property
    def answers(self) -> str:
        """How outputs are read: as the recipe's task, or as they are if its loss or step is its own."""
        return OWN if self.recipe.loss or self.recipe.step else self.recipe.task

    @property
    def source(self) -> tuple[str, Source]:
        """The split for verification: validation or test data if there are any, else training data."""
        named = {"valid": self.splits.valid, "test": self.splits.test, "train": self.splits.train}
        return next((name, source) for name, source in named.items() if source is not None)

    def fetch(self, numbers: Tensor) -> Batch:
        """Raw samples, deterministic."""
        with fence(self.recipe.seed):
            batch = self.source[1].fetch(numbers)
        if isinstance(self.task, ModelLoss):  # an exported model takes no labels
            return batch._replace(inputs={name: each for name, each in batch.inputs.items() if name != LABELS})
        return batch

    def program(self) -> Program:
        """Raises CannotExport if no target supports its inputs or outputs."""
        if isinstance(self.model, nn.ModuleDict):
            raise CannotExport(
                f"{self.origin.run} holds several models: {', '.join(self.model)}. Nothing was exported: only the "
                f"recipe's step knows which inputs each takes. In Python: trueloop.load({str(self.origin.run)!r})"
                f".model[{next(iter(self.model))!r}]."
            )
        raw = self.fetch(torch.arange(min(EXAMPLES, len(self.source[1])))).inputs
        inputs, prepare = layout_of(raw, "input"), self.splits.prepare
        with fence(self.recipe.seed), torch.no_grad():
            output = scores_of(call_model(self.model, raw if prepare is None else prepare(raw)))
        program = Program(self.model, prepare, inputs, layout_of(output, "output")).eval()
        _check_outputs(program, inputs.split(raw))
        return program

    def example(self, program: Program, *, inside: bool) -> Example:
        """A few samples as the exported program takes them: raw, or prepared if preprocessing is not inside."""
        raw = self.fetch(torch.arange(EXAMPLES) % len(self.source[1])).inputs
        layout = program.layouts[0]
        free = program.shorten(layout.split(raw)) is not None
        if not inside and program.prepare is not None:
            raw = program.prepare(raw)
            layout = layout_of(raw, "input")
        # Cloned: torch.export would add guards for a view.
        tensors = tuple(tensor.clone(memory_format=torch.contiguous_format) for tensor in layout.split(raw))
        named = list(zip(layout.names, tensors, strict=True))
        for name, tensor in named:
            _check_dtype(name, tensor)
        return Example(tensors, tuple(_port(name, tensor, free=free) for name, tensor in named), layout)

    def preprocessing(self, *, inside: bool) -> dict[str, Any]:
        """What the caller must do to raw data, machine-readable."""
        raw = self.fetch(torch.arange(min(len(self.source[1]), RANGE_SAMPLES))).inputs
        prepare = self.splits.prepare
        named = "" if prepare is None else _function_name(prepare)
        return {**_kind(raw, self.splits.facts), "inside": inside or prepare is None, "prepare": named}

    def facts(self) -> dict[str, Any]:
        """Facts of the data that the model is built from, as plain values. Vocabularies are in `preprocessing`."""
        facts = self.splits.facts
        more = {name: value for name, value in facts.more.items() if name not in ("text", "tokens")}
        plain: dict[str, Any] = as_plain(asdict(replace(facts, more=more)))
        return plain


def _check_outputs(program: Program, raw: tuple[Tensor, ...]) -> None:
    """Every output has one row per sample, for a single sample too, in a dtype that numpy has."""
    for count in dict.fromkeys((1, len(raw[0]))):
        outputs = program.answer([tensor[:count] for tensor in raw])
        shape = list(outputs[0].shape)
        if shape[:1] != [count]:
            raise CannotExport(
                f"The model returns shape {shape} for a batch of {count}: it must return one row per sample. Nothing "
                "was exported: `.squeeze()` also removes a batch dimension of 1, `.squeeze(1)` does not; reduce over "
                "the other dimensions only."
            )
        for name, tensor in zip(program.layouts[1].names, outputs, strict=True):
            _check_dtype(name, tensor)


def _check_dtype(name: str, tensor: Tensor) -> None:
    try:
        torch.empty(0, dtype=tensor.dtype).numpy()
    except TypeError:
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise CannotExport(
            f"{name} has dtype {dtype}, which numpy does not support. Nothing was exported: convert it with `.float()` "
            "where it enters or leaves the model. The recipe's `precision` trains in fewer bits without changing it."
        ) from None


def _port(name: str, tensor: Tensor, *, free: bool = True) -> Port:
    """The batch size is free; the length of token rows too, if the model accepts other lengths."""
    tokens = free and is_tokens(tensor)
    shape = tuple(None if at == 0 or (tokens and at == 1) else size for at, size in enumerate(tensor.shape))
    most = tuple(tensor.shape[1] if tokens and at == 1 else None for at in range(tensor.dim()))
    return Port(name, str(tensor.dtype).removeprefix("torch."), shape, most)


def _kind(raw: Any, facts: Facts) -> dict[str, Any]:
    if not isinstance(raw, Tensor):
        return {"kind": "tensors"}
    dtype = str(raw.dtype).removeprefix("torch.")
    if raw.dtype == torch.uint8 and raw.dim() == 4 and raw.shape[1] in (1, 3, 4):
        span = [int(raw.min()), int(raw.max())]
        return {"kind": "image", "size": list(raw.shape[2:]), "channels": raw.shape[1], "dtype": dtype, "range": span}
    if is_tokens(raw):
        text, words = facts.more.get("text"), facts.more.get("tokens")
        known = {"encoding": "tokens", "vocabulary": list(words)} if isinstance(words, (list, tuple)) else {}
        known = text if isinstance(text, dict) else known
        return {"kind": "tokens", "dtype": dtype, "tokens": facts.vocabulary, **known}
    if isinstance(facts.more.get("columns"), list):
        return {"kind": "table", "dtype": dtype, "columns": facts.more["columns"]}
    return {"kind": "tensors", "dtype": dtype}


def _function_name(function: Any) -> str:
    named = hasattr(function, "__qualname__")
    return f"{function.__module__}.{function.__qualname__}" if named else repr(function)


def load_trained_model(origin: Origin) -> TrainedModel:
    """With EMA weights if there are any, as evaluation does. Executes no code of a checkpoint. Raises BadCheckpoint."""
    recipe = origin.recipe
    store, name = find_checkpoint(origin.run, origin.checkpoint)
    splits = read_data(recipe, origin.request)
    with fence(recipe.seed):
        model = build_model(recipe, splits.facts).cpu()
    contents, weights = fill_model(model, store, name)
    run = {
        "id": origin.run.resolve().name,
        "step": contents.about.get("step"),
        "checkpoint": name,
        "weights": weights,
        "unranked": origin.checkpoint == "best" and splits.valid is not None and not contents.about.get("best_step"),
        "recipe": describe(recipe),
        "metrics": {key: origin.about.get(key) for key in ("metric", "best", "best_step", "test")},
        "data": list(splits.notes),
        "readiness": origin.readiness,
        "origin": origin.about.get("origin"),
    }
    with fence(recipe.seed):
        task = task_of(recipe, splits, model, torch.device("cpu"))
    return TrainedModel(origin, model.eval().requires_grad_(False), splits, task, as_plain(run))


def fill_model(model: nn.Module, store: Folder, name: str) -> tuple[Contents, str]:
    """With the moving average if the checkpoint has one, as evaluation does. Raises BadCheckpoint."""
    contents = read_contents(store, name)
    weights = "ema" if "ema" in contents.weights else "model"
    try:
        model.load_state_dict(contents.state_of(weights))
    except RuntimeError as error:
        detail = str(error).splitlines()[-1].strip()
        why = f"{store.where(name)} does not fit the model: one of them has changed."
        raise BadCheckpoint(f"{why} Nothing was loaded. ({detail})") from None
    return contents, weights


def find_checkpoint(run: Path, word: str) -> tuple[Folder, str]:
    """`word`: best | last | a step."""
    store, names = find_checkpoints(run)
    if word == "best":
        return store, best_or_newest(store, names)
    if word == "last":
        return store, names[-1]
    if not word.isdecimal() or len(word) > LONGEST_STEP:
        raise Misuse(f"The checkpoint cannot be {word!r}. Nothing was loaded: write best, last or a step.")
    name = name_of(int(word))
    if name not in names:
        steps = ", ".join(str(int(each.removeprefix("step-"))) for each in names)
        missing = f"{run} has no checkpoint of step {int(word):,}"
        raise Misuse(f"{missing}. Nothing was loaded. Available steps: {steps}.")
    return store, name
