"""Metrics to Weights & Biases, configured by `wandb login`, WANDB_PROJECT and WANDB_MODE=offline."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, final

from trueloop.hook import Ending, Hook, Row, Start

__all__ = ["Wandb"]

IDENTITY: Final = "wandb-id"  # file in the run's folder: under which name a resumed run finds its curves again


@final
class Wandb(Hook):
    def __init__(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        import wandb

        self.folder, self.recipe, self._wandb = folder, recipe, wandb
        self._run: Any = None

    def started(self, start: Start) -> None:
        kept = self.folder / IDENTITY
        identity = kept.read_text(encoding="utf-8").strip() if kept.is_file() else None
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "trueloop"),
            name=start.name,
            id=identity,
            resume="allow" if identity else None,
            dir=str(self.folder),
            config={**self.recipe, "parameters": start.parameters, "samples": start.samples},
        )
        kept.write_text(f"{self._run.id}\n", encoding="utf-8")

    def logged(self, row: Row) -> None:
        # wandb takes steps in order only. A resumed run logs the same numbers again, so skipping them loses nothing.
        if self._run is None or (row.step < self._run.step and row.kind != "test"):
            return
        if row.kind == "test":
            self._run.summary.update({f"test/{name}": value for name, value in row.values.items()})
        else:
            self._run.log({f"{row.kind}/{name}": value for name, value in row.values.items()}, step=row.step)

    def ended(self, ending: Ending) -> None:
        if self._run is None:
            return
        if ending.best is not None:
            self._run.summary[f"best/{ending.metric}"] = ending.best
        self._run.finish(exit_code=0 if ending.reason in ("finished", "early-stopped") else 1)
        self._run = None
