"""Who listens to a run: metrics file, trackers, rules and displays; one audience, in its first process."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

from trueloop.finding import Finding
from trueloop.hook import Hook, Hooks
from trueloop.recipe.recipe import Recipe, describe
from trueloop.session.baseline import Marks
from trueloop.session.folder import RunFolder
from trueloop.session.live_checks import LiveChecks
from trueloop.track.console_file import ConsoleFile
from trueloop.track.display import choose_display
from trueloop.track.metrics import MetricsFile
from trueloop.track.plain_log import PlainLog
from trueloop.track.trackers import open_trackers
from trueloop.usercode.settings import load_settings

__all__ = ["Listeners", "listen", "open_listeners"]


@dataclass(frozen=True)
class Listeners:
    """All hooks of a run as one."""

    hooks: Hook
    notes: tuple[str, ...] = ()  # Notes to print at the start, such as a tracker that is not installed
    checks: LiveChecks | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.checks.findings if self.checks else ()


class FirstCheckpoint(Hook):
    """Records that a run has saved: one whose checkpoints were deleted must not begin again silently."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def saved(self, step: int, path: str) -> None:
        if "first_checkpoint" not in self.folder.about:
            self.folder.write(first_checkpoint=step)


def open_listeners(recipe: Recipe, folder: RunFolder, hooks: Iterable[Hook] | None) -> Listeners:
    """`hooks`: what shows the run; None: a progress bar in a terminal, else a plain log. Only rank 0 has listeners."""
    continues = recipe.on_collapse == "mark"
    return listen(
        folder, hooks, recipe.trackers, describe(recipe), continues=continues, own_step=recipe.step is not None
    )


def listen(
    folder: RunFolder,
    hooks: Iterable[Hook] | None,
    trackers: Iterable[str],
    recipe: Mapping[str, Any],
    *,
    continues: bool = False,
    own_step: bool = False,
) -> Listeners:
    """`recipe`: for trackers. `continues`: also below its baseline."""
    if folder.guest:
        return Listeners(Hooks())
    console = PlainLog(cast(TextIO, ConsoleFile(folder.path)))
    shown = [*(hooks if hooks is not None else [choose_display()]), console]
    note = Hooks(*shown).noted
    opened, notes = open_trackers(trackers, folder.path, recipe, note)
    checks = LiveChecks(folder.path, note, load_settings(Path.cwd()), own_step=own_step)
    marks = Marks(folder, note, continues=continues)
    saves = FirstCheckpoint(folder)
    every = Hooks(MetricsFile(folder.path), saves, *opened, checks, marks, *shown)
    return Listeners(every, tuple(notes), checks)
