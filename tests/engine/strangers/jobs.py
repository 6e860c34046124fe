"""The jobs of this folder: where they are, how they are loaded, how long their versions are.

python -m tests.engine.strangers.jobs            # the table of lines
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trueloop.recipe.recipe import Recipe

__all__ = ["JOBS", "Job", "lines_of"]

HERE: Final = Path(__file__).parent
SETTINGS: Final[dict[str, dict[str, Any]]] = {"regression": {"hidden": 48}}  # Hyperparameters that a job was trained with
SCRIPT: Final = "session"  # Its recipe.py is a plain loop inside trueloop.session


@dataclass(frozen=True)
class Job:
    """A folder: job.py is shared by recipe.py, plain.py, lightning_version.py and, in ten jobs, trainer_version.py."""

    name: str

    @property
    def folder(self) -> Path:
        return HERE / self.name

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Only in a child process: every job has a module called `job`."""
        sys.path.insert(0, str(self.folder))
        try:
            yield
        finally:
            sys.path.remove(str(self.folder))

    def recipe(self, beacon: Any = None) -> Recipe:
        with self.importable():
            found = importlib.import_module("recipe").recipe
        made: Recipe = found if isinstance(found, Recipe) else found(**SETTINGS.get(self.name, {}))
        return made

    def plain_losses(self) -> list[float]:
        with self.importable():
            losses: list[float] = importlib.import_module("plain").main()
        return losses


JOBS: Final = tuple(
    Job(each.name) for each in sorted(HERE.iterdir()) if (each / "recipe.py").is_file() and each.name != SCRIPT
)


def lines_of(file: Path) -> int:
    """Lines with code: not blank, not a comment, not the docstring of the file."""
    text = file.read_text(encoding="utf-8").strip()
    if text.startswith('"""'):
        text = text[3:].partition('"""')[2]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in text.splitlines())


def table() -> str:
    lines = ["| job | trueloop | plain PyTorch | Lightning |", "|---|---|---|---|"]
    for job in (*JOBS, Job(SCRIPT)):
        counts = [lines_of(job.folder / f"{name}.py") for name in ("recipe", "plain", "lightning_version")]
        lines.append(f"| {job.name} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
