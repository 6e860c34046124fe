"""Metrics to MLflow, configured by MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, final

from trueloop.hook import Ending, Hook, Row, Start

__all__ = ["Mlflow"]

IDENTITY: Final = "mlflow-id"  # file in the run's folder: under which name a resumed run finds its curves again
LONGEST: Final = 500  # characters that every MLflow takes as a parameter's value
STATUS: Final = {"finished": "FINISHED", "early-stopped": "FINISHED", "signal": "KILLED"}


@final
class Mlflow(Hook):
    def __init__(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        import mlflow

        self.folder, self.recipe, self._mlflow = folder, recipe, mlflow
        self._open = False

    def started(self, start: Start) -> None:
        kept = self.folder / IDENTITY
        identity = kept.read_text(encoding="utf-8").strip() if kept.is_file() else None
        run = self._mlflow.start_run(run_id=identity, run_name=None if identity else start.name)
        self._open = True
        if identity is None:  # a parameter cannot be written twice
            kept.write_text(f"{run.info.run_id}\n", encoding="utf-8")
            self._mlflow.log_params({name: str(value)[:LONGEST] for name, value in self.recipe.items()})

    def logged(self, row: Row) -> None:
        if self._open:
            self._mlflow.log_metrics({f"{row.kind}/{name}": value for name, value in row.values.items()}, step=row.step)

    def ended(self, ending: Ending) -> None:
        if self._open:
            self._open = False
            self._mlflow.end_run(status=STATUS.get(ending.reason, "FAILED"))
