"""Where an exported model comes from. Read once from the run, then passed to export, quantize and bench."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipes.origin import origin_of, recipe_of

__all__ = ["Origin"]


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
        """`about`: run.json. `otherwise`: advice for a run started from Python, which names no recipe. Raises
        Misuse."""
        recipe = recipe_of(origin_of(run, about, otherwise))
        folder = data or (Path(about["data"]) if about.get("data") else None)
        return cls(run, recipe, DataRequest(folder, download, recipe.seed), checkpoint, about, readiness)
