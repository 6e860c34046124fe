"""Who listens to a run: metrics file, curves, trackers, rules and display. One audience per run, in its first
process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trueloop.finding import Finding
from trueloop.hook import Hook, Hooks
from trueloop.recipe.recipe import Recipe, describe
from trueloop.session.baseline import Marks
from trueloop.session.folder import RunFolder
from trueloop.session.live_checks import LiveChecks
from trueloop.track.curves import Curves
from trueloop.track.display import choose_display
from trueloop.track.metrics import MetricsFile
from trueloop.track.trackers import open_trackers
from trueloop.usercode.settings import load_settings

__all__ = ["Listeners", "open_listeners"]


@dataclass(frozen=True)
class Listeners:
    """All hooks of ours as one."""

    hooks: Hook
    notes: tuple[str, ...] = ()
    """What to say at the start: a tracker that is not installed."""
    judging: LiveChecks | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.judging.findings if self.judging else ()


def open_listeners(recipe: Recipe, folder: RunFolder, hooks: Iterable[Hook] | None) -> Listeners:
    """`hooks`: who shows the run; None: a bar in a terminal, else a plain log. Guests tell nobody: the first process
    speaks."""
    if folder.guest:
        return Listeners(Hooks())
    shown = list(hooks) if hooks is not None else [choose_display()]
    said = Hooks(*shown)
    trackers, notes = open_trackers(recipe.trackers, folder.path, describe(recipe), said.noted)
    judging = LiveChecks(folder.path, said.noted, load_settings(Path.cwd()))
    marks = Marks(folder, said.noted, goes_on=recipe.on_collapse == "mark")
    everybody = Hooks(MetricsFile(folder.path), Curves(folder.path, said.noted), *trackers, judging, marks, *shown)
    return Listeners(everybody, tuple(notes), judging)
