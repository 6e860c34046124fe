"""What a process that the script starts needs to watch itself as its parent is watched."""

from dataclasses import dataclass
from typing import final

from trueloop.usercode.settings import Settings

__all__ = ["WatchOptions"]


@final
@dataclass(frozen=True, slots=True)
class WatchOptions:
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    budget: float | None
    last_step: int | None
    settings: Settings
    run_folder: str = ""  # The folder of the run; empty: there is none
