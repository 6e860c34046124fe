"""A served model: a version of an artifact with its queue, and where the next version comes from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from trueloop.export.exporter import Runner
from trueloop.results.artifact import Artifact
from trueloop.serve.batching import Batcher
from trueloop.serve.inputs import Inputs

__all__ = ["Model", "Source"]


@final
@dataclass(frozen=True, slots=True)
class Source:
    """Where a model is read from, at the start and at each reload."""

    read: Callable[[], tuple[Artifact, Callable[[], Runner]]]  # The artifact, and what opens it
    name: str = ""  # Empty: the artifact's own
    version: int = 0  # Stays with each reload; 0: counted from 1


@final
@dataclass(slots=True)
class Model:
    name: str
    version: int
    source: Source
    artifact: Artifact
    inputs: Inputs
    batcher: Batcher
    requests: int = 0  # That are using this version
    replaced: bool = False  # By what was loaded after it: it ends after its last request

    @property
    def title(self) -> str:
        """Its name, and the version where the user gave it one."""
        return f"{self.name} version {self.version}" if self.source.version else self.name
