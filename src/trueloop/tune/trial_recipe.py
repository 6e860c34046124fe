"""The recipe of a trial, built into loops for measuring: nothing is evaluated, saved or tracked."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch, Source, Splits
from trueloop.engine.loop import Loop
from trueloop.hook import Hook
from trueloop.measure.randomness import fence
from trueloop.recipe.model import build_model
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["NEVER", "TrialRecipe"]

NEVER: Final = 10**9  # Steps
VALID: Final = 4096  # Validation samples for the metric: an accuracy of 0.9 is then known to half a point


@final
class _Subset(Source):
    """Evenly chosen samples of a larger source."""

    def __init__(self, inner: Source) -> None:
        self.inner, self.stride = inner, len(inner) // VALID

    def __len__(self) -> int:
        return VALID

    def fetch(self, numbers: Tensor) -> Batch:
        return self.inner.fetch(numbers * self.stride)

    def resident(self, device: torch.device) -> Source | None:
        home = self.inner.resident(device)
        return None if home is None else _Subset(home)

    def nbytes(self) -> int | None:
        return self.inner.nbytes()

    def labels(self) -> Tensor | None:
        labels = self.inner.labels()
        return None if labels is None else labels[: VALID * self.stride : self.stride]


@final
class TrialRecipe:
    """A recipe whose data are read once."""

    def __init__(self, recipe: Recipe, request: DataRequest) -> None:
        self.recipe = replace(
            recipe,
            trackers=(),
            hooks=(),
            patience=None,
            statistics_every=0,
            evaluate_every=NEVER,
            save_every=NEVER,
            on_nonfinite="stop",
        )
        self.request = replace(request, seed=recipe.seed)
        self._models: dict[int, nn.Module] = {}

    @cached_property
    def splits(self) -> Splits:
        splits: Splits = self.recipe.data(self.request)
        valid = splits.valid
        return splits if valid is None or len(valid) <= VALID else replace(splits, valid=_Subset(valid))

    def _model(self, seed: int) -> nn.Module:
        """Freshly initialized. Built once per seed, then copied: evidence needs it many times."""
        if seed not in self._models:
            self._models[seed] = self._build(seed)
        try:
            return copy.deepcopy(self._models[seed])
        except (TypeError, RuntimeError, AttributeError):  # not copyable: an open file, a lock, a graph
            return self._build(seed)

    def _build(self, seed: int) -> nn.Module:
        with fence(seed):
            return build_model(self.recipe, self.splits.facts)

    def loop(self, hook: Hook | None = None, **changes: Any) -> Loop:
        """A new loop with other values for some fields."""
        recipe = replace(self.recipe, data=lambda _: self.splits, **changes)
        recipe = replace(recipe, model=lambda: self._model(recipe.seed))
        if recipe.steps is not None and recipe.warmup >= recipe.steps:
            recipe = replace(recipe, warmup=recipe.steps // 4)
        return Loop.of(recipe, self.request, hooks=hook)

    def of(self, recipe: Recipe) -> TrialRecipe:
        """Another variant with the same data."""
        other = TrialRecipe(recipe, self.request)
        other.__dict__["splits"] = self.splits
        if other.recipe.model is self.recipe.model:
            other._models = self._models
        return other
