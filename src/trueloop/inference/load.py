"""`trueloop.load(run)`: the model of a run with its best weights, to predict with and to evaluate.

loaded = trueloop.load("runs/digits")
scores = loaded.predict(images)
print(loaded.evaluate())
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.checkpoint.plan import step_of
from trueloop.data.accept import as_splits
from trueloop.data.source import Batch, Source, Splits, map_tensors, moved, size_of
from trueloop.engine.batches import EvaluationBatches
from trueloop.engine.call_model import call_model
from trueloop.engine.evaluate import evaluating
from trueloop.engine.loader_stream import as_stream
from trueloop.engine.measure_model import measure_model
from trueloop.engine.own_evaluation import evaluates_without_data
from trueloop.engine.precision import Precision
from trueloop.engine.torch_settings import pick_device
from trueloop.errors import BadData, Misuse
from trueloop.export.program import scores_of
from trueloop.export.trained_model import Origin, TrainedModel, fill_model, find_checkpoint, load_trained_model
from trueloop.parallel.peers import Alone
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.session.changes import changes_since
from trueloop.session.folder import find_run, read_about

__all__ = ["Loaded", "load"]

BATCH: Final = 256  # Samples at once, for a run without a recipe
SPLITS: Final = ("test", "valid", "train")


def load(
    run: str | Path,
    *,
    recipe: Recipe | None = None,
    model: nn.Module | None = None,
    checkpoint: str = "best",
    data: str | Path | None = None,
    runs: str | Path = "runs",
    device: str = "auto",
) -> Loaded:
    """`run`: a run's folder, its name in `runs`, or the folder of a checkpoint. `checkpoint`: best | last | a step.
    `recipe`: of a run that was started from Python. `model`: to fill, for a run of `trueloop.session`."""
    folder, checkpoint = _find(Path(run), Path(runs), checkpoint)
    about = read_about(folder)
    place = pick_device(device)
    if about.get("session"):
        return _of_session(folder, model, checkpoint, place)
    if model is not None:
        raise Misuse(f"{folder} has a recipe that builds its model. Nothing was loaded: leave `model` out.")
    if recipe is None:
        advice = f"give its recipe: trueloop.load({str(run)!r}, recipe=recipe)."
        origin = Origin.of_run(folder, about, advice, data=Path(data) if data else None, checkpoint=checkpoint)
    else:
        request = DataRequest(Path(data or about["data"]) if data or about.get("data") else None, seed=recipe.seed)
        origin = Origin(folder, recipe, request, checkpoint, about)
    changed = changes_since(about, origin.recipe)
    if changed:
        what = ", ".join([*changed.recipe, *changed.code])
        warnings.warn(f"{folder} was trained with a different recipe or different code ({what}).", stacklevel=2)
    trained = load_trained_model(origin)
    return Loaded(folder, trained.model.to(place), place, trained)


def _find(path: Path, runs: Path, checkpoint: str) -> tuple[Path, str]:
    """The run's folder, and which of its checkpoints."""
    step = step_of(path.name)
    if step is not None and (path.parent.parent / "run.json").is_file():
        return path.parent.parent, str(step)
    return find_run(str(path), runs, "loaded"), checkpoint


def _of_session(folder: Path, model: nn.Module | None, checkpoint: str, place: torch.device) -> Loaded:
    if model is None:
        raise Misuse(
            f"{folder} is a run of trueloop.session, whose model your own script builds. Nothing was loaded: build it, "
            f"and give it to be filled: trueloop.load({str(folder)!r}, model=model)."
        )
    store, name = find_checkpoint(folder, checkpoint)
    fill_model(model, store, name)
    return Loaded(folder, model.eval().to(place), place, None)


@final
@dataclass(frozen=True)
class Loaded:
    """A trained model in eval mode. Its parameters do not require gradients: `model.requires_grad_()` changes that."""

    folder: Path
    model: nn.Module
    device: torch.device
    trained: TrainedModel | None  # None: of `trueloop.session`

    @property
    def recipe(self) -> Recipe:
        return self._of_recipe("recipe").recipe

    @property
    def splits(self) -> Splits:
        """The data of the recipe, read again."""
        return self._of_recipe("data").splits

    def _of_recipe(self, what: str) -> TrainedModel:
        if self.trained is None:
            raise Misuse(f"{self.folder} is a run of trueloop.session: it has no {what}. Use `loaded.model`.")
        return self.trained

    def predict(self, inputs: Any) -> Any:
        """The model's outputs, on the CPU, for inputs as the dataset gives them (a tensor, or a dict or tuple of
        tensors, with one row per sample), or for a dataset or DataLoader. Prepared and batched as in evaluation."""
        if isinstance(self.model, nn.ModuleDict):
            raise Misuse(
                f"{self.folder} has several models ({', '.join(self.model)}): call them by loaded.model[NAME]."
            )
        precision = Precision("fp32" if self.trained is None else self.recipe.precision, self.device)
        outputs = []
        with evaluating(self.model):
            for batch in self._batches(inputs):
                with precision.autocast():
                    outputs.append(map_tensors(_plain(call_model(self.model, batch.inputs)), Tensor.cpu))
        if not outputs:
            raise BadData("There is no sample to predict. Give at least one.")
        return _joined(outputs)

    def evaluate(self, data: Any = None, *, seen: Callable[[Any, Batch], None] | None = None) -> dict[str, float]:
        """Loss and metrics of the run's task. `data`: test | valid | train, or a dataset of (inputs, target); None:
        the test split, or else the validation split. `seen`: called with the outputs for each batch."""
        trained, recipe = self._of_recipe("metrics"), self.recipe
        alone, precision = Alone(), Precision(recipe.precision, self.device)
        source = None if data is None and evaluates_without_data(recipe) else self._source(data)
        batches = EvaluationBatches(source, trained.splits, recipe, self.device, alone) if source is not None else None
        return measure_model(self.model, batches, recipe, trained.task, self.device, precision, alone, seen=seen)

    def _source(self, data: Any) -> Source:
        splits = self.splits
        if data is None:
            data = "valid" if splits.test is None else "test"
        if isinstance(data, str):
            found: Source | None = getattr(splits, data) if data in SPLITS else None
            if found is None:
                there = ", ".join(name for name in SPLITS if getattr(splits, name) is not None)
                raise Misuse(f"There is no split {data!r} to evaluate. Nothing was run. There are: {there}.")
            return found
        made = as_splits(replace(splits, valid=data), lambda each, _: as_stream(each, self.recipe, train=False))
        assert made.valid is not None
        return made.valid

    def _batches(self, inputs: Any) -> Iterator[Batch]:
        if hasattr(inputs, "__array__") and not isinstance(inputs, Tensor):
            inputs = torch.as_tensor(inputs)
        if isinstance(inputs, (Tensor, Mapping, tuple)):
            yield from self._rows(inputs)
            return
        if isinstance(inputs, (list, str)) or inputs is None:
            kind = "None" if inputs is None else f"a {type(inputs).__name__}"
            raise BadData(f"predict got {kind}: give a tensor with one row per sample (torch.stack), or a dataset.")
        if hasattr(inputs, "__getitem__") and not isinstance(inputs, Source):
            inputs = _with_targets(inputs)
        yield from EvaluationBatches(self._source(inputs), self.splits, self.recipe, self.device, Alone())

    def _rows(self, inputs: Any) -> Iterator[Batch]:
        prepare = self.trained and self.trained.splits.prepare
        size = BATCH if self.trained is None else self.recipe.evaluation_batch or self.recipe.batch
        for first in range(0, size_of(inputs), size):
            rows = moved(map_tensors(inputs, lambda tensor, at=first: tensor[at : at + size]), self.device)  # type: ignore[misc]
            yield Batch(prepare(rows) if prepare else rows, None)


class _Targets:
    """A dataset of inputs alone, with a target that nobody reads."""

    def __init__(self, inputs: Any) -> None:
        self.inputs = inputs

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        return self.inputs[number], 0


def _with_targets(dataset: Any) -> Any:
    first = dataset[0] if len(dataset) else None
    pair = isinstance(first, (tuple, list)) and len(first) == 2
    return dataset if pair or isinstance(first, dict) else _Targets(dataset)


def _plain(output: Any) -> Any:
    """As tensors in dicts and tuples. The outputs of Hugging Face models are mappings too."""
    output = scores_of(output)
    return dict(output) if isinstance(output, Mapping) else output


def _joined(outputs: list[Any]) -> Any:
    first = outputs[0]
    if isinstance(first, Tensor):
        return torch.cat(outputs)
    if isinstance(first, Mapping):
        return {key: _joined([each[key] for each in outputs]) for key in first}
    if isinstance(first, (tuple, list)):
        return type(first)(_joined(list(parts)) for parts in zip(*outputs, strict=True))
    raise Misuse(f"The model returns a {type(first).__name__}: call loaded.model on your batches instead of predict.")
