"""`trueloop.train(recipe)` and `trueloop train`: one and the same. Opens the run's folder, trains, tests, closes it
with an ending."""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trueloop.checkpoint.store import Folder
from trueloop.engine.assemble import assemble
from trueloop.engine.collapse import FIRST_CHECKED_EPOCH, Baseline, CollapseCheck
from trueloop.engine.constant_baseline import constant_answer
from trueloop.engine.loop import Loop
from trueloop.engine.preflight import check_before_training, machine_problems
from trueloop.engine.schedule import lr_note
from trueloop.engine.torch_settings import pick_device
from trueloop.engine.train import train as run_loop
from trueloop.errors import BadCheckpoint, BadRecipe, CannotSave, MissingExtra, Misuse
from trueloop.finding import Finding
from trueloop.hook import Ending, Hook, Row, Start
from trueloop.parallel.join import joined
from trueloop.parallel.peers import find_peers
from trueloop.recipe.recipe import DataRequest, Recipe, describe
from trueloop.recipe.validate import validate
from trueloop.session.baseline import Found, kept_baseline, read_baseline
from trueloop.session.facts import write_facts
from trueloop.session.folder import RunFolder
from trueloop.session.hang_watch import record_hang_in, watch_for_hangs
from trueloop.session.listeners import open_listeners
from trueloop.session.live_checks import rules_for_runs
from trueloop.session.shared_folder import open_shared_folder
from trueloop.track.trackers import check_trackers
from trueloop.usercode.settings import load_settings

__all__ = ["Trained", "resume", "train"]


@dataclass(frozen=True)
class Trained:
    """What a run leaves."""

    ending: Ending
    model: nn.Module
    """With the best weights if there is a best checkpoint, else the last."""
    folder: Path
    findings: tuple[Finding, ...]

    @property
    def best_checkpoint(self) -> str | None:
        store = Folder(self.folder / "checkpoints")
        name = store.best()
        return store.where(name) if name else None


def train(
    recipe: Recipe,
    *,
    name: str = "",
    runs: str | Path = "runs",
    data: str | Path | None = None,
    download: bool = False,
    baseline: str | Path | None = None,
    hooks: Iterable[Hook] | None = None,
    origin: dict[str, Any] | None = None,
    hand_on_signals: bool = True,
) -> Trained:
    """Train a recipe from the beginning. `hooks`: who shows it; None: a bar in a terminal, else a plain log.
    `baseline`: a good run that this one must not fall below. `origin`: how `resume` finds the recipe again."""
    validate(recipe, machine_problems(recipe))
    check_trackers(recipe.trackers)
    rules_for_runs(load_settings(Path.cwd()))  # a misspelt rule in the settings is refused before anything is written
    found = None if baseline is None else read_baseline(baseline, Path(runs), recipe)
    request = DataRequest(Path(data) if data else None, download, recipe.seed)
    about = {"recipe": describe(recipe), "origin": origin, "data": str(data) if data else None, "machine": _machine()}
    with watch_for_hangs(), joined():
        peers = find_peers(pick_device(recipe.device))
        folder = open_shared_folder(
            peers, lambda: RunFolder.create(Path(runs), name or recipe.name, about, named=bool(name))
        )
        done = _run(recipe, request, folder, hooks, found, go_on=False)
    return _handed_on(done) if hand_on_signals else done


def resume(
    recipe: Recipe,
    path: str | Path,
    *,
    hooks: Iterable[Hook] | None = None,
    download: bool = False,
    origin: dict[str, Any] | None = None,
    hand_on_signals: bool = True,
) -> Trained:
    """Go on with a run of the same recipe, from its newest whole checkpoint. A finished one goes on if the recipe is
    longer now."""
    validate(recipe, machine_problems(recipe))
    check_trackers(recipe.trackers)
    rules_for_runs(load_settings(Path.cwd()))  # a misspelt rule in the settings is refused before anything is written
    with watch_for_hangs(), joined():
        peers = find_peers(pick_device(recipe.device))
        folder = open_shared_folder(peers, lambda: _reopened(Path(path), recipe))
        folder.about.update(recipe=describe(recipe), origin=origin or folder.about.get("origin"))
        data = folder.about.get("data")
        request = DataRequest(Path(data) if data else None, download, recipe.seed)
        done = _run(recipe, request, folder, hooks, kept_baseline(folder), go_on=True)
    return _handed_on(done) if hand_on_signals else done


def _handed_on(done: Trained) -> Trained:
    """Whoever sends SIGTERM wants the process to go: a script that went on after the run was saved, and ended with 0,
    would be taken for finished. So the signal that the run has taken is given to the program again; Ctrl-C becomes its
    KeyboardInterrupt."""
    if done.ending.reason == "signal":
        signal.raise_signal(done.ending.signal)
    return done


def _reopened(path: Path, recipe: Recipe) -> RunFolder:
    folder = RunFolder.open(path)
    status = folder.about.get("status")
    if status == "early-stopped" or (status == "finished" and not _is_longer(recipe, folder.about)):
        folder.close()
        more = " To go on, make it longer: --set epochs=N." if status == "finished" else ""
        raise Misuse(f"{path} has finished: there is nothing to resume. `trueloop runs` shows its result.{more}")
    _refuse_other_numbers(folder, recipe)
    return folder


FREE = {
    "name",
    "hooks",
    "trackers",
    "keep",
    "workers",
    "log_every",
    "epochs",
    "steps",
    "device",
    "statistics_every",
    "digest_every",
    "parallel",
    "tensor_ranks",
    "tensor_plan",
    "save_every",
    "on_collapse",
}
"""Fields that may differ in a resumed run without making its past another recipe's."""


def _is_longer(recipe: Recipe, about: dict[str, Any]) -> bool:
    """Does the recipe now ask for more than what the finished run was told to do?"""
    before = about.get("recipe") or {}
    if recipe.steps is not None:
        return recipe.steps > int(about.get("step") or 0)
    return before.get("epochs") is None or (recipe.epochs or 0) > int(before["epochs"])


def _refuse_other_numbers(folder: RunFolder, recipe: Recipe) -> None:
    before, now = folder.about.get("recipe") or {}, describe(recipe)
    changed = [
        f"{key}: {before[key]!r}, now {now[key]!r}"
        for key in now
        if key in before and key not in FREE and before[key] != now[key]
    ]
    if changed:
        folder.close()
        raise BadRecipe(
            f"{folder.path} was trained by another recipe ({'; '.join(changed)}). Nothing was run: start a new run instead."
        )


def _run(
    recipe: Recipe,
    request: DataRequest,
    folder: RunFolder,
    hooks: Iterable[Hook] | None,
    baseline: Found | Baseline | None,
    *,
    go_on: bool,
) -> Trained:
    store = Folder(folder.checkpoints)
    loop: Loop | None = None
    record_hang_in(folder, lambda: loop.state.step if loop else 0)
    try:
        audience = open_listeners(recipe, folder, hooks)
        loop = assemble(recipe, request, store, audience.hooks)
        loop.bar = _bar(loop, baseline)
        if not folder.guest:
            store.sweep()
        if go_on:
            loop.go_back()
        else:
            check_before_training(loop)
        held = {"baseline": loop.bar.baseline.to_dict()} if loop.bar else {}
        folder.write(
            status="running",
            total_steps=loop.total_steps,
            metric=loop.metric,
            higher_is_better=loop.higher_is_better,
            **held,
        )
        unwritten = "" if folder.guest else write_facts(folder.path, loop)
        loop.hooks.started(_start(folder, loop, (*audience.notes, *filter(None, [unwritten]))))
        ending = _ended(loop, run_loop(loop), folder)
    except CannotSave as error:
        assert loop is not None
        ending = Ending("failed", loop.state.step, f"{error} The run stopped. `trueloop resume {folder.path}` goes on once there is room.",
                        best=loop.state.best, best_step=loop.state.best_step, metric=loop.metric)  # fmt: skip
    except BaseException as error:
        _thrown_out(loop, folder, error, refused=not go_on and isinstance(error, (Misuse, MissingExtra)))
        raise
    ending = _written(folder, ending)
    loop.hooks.ended(ending)
    folder.close()
    return Trained(ending, loop.model, folder.path, audience.findings)


def _thrown_out(loop: Loop | None, folder: RunFolder, error: BaseException, *, refused: bool) -> None:
    """By an error, or by a second Ctrl-C, which does not even wait for the disk: an unfinished save leaves the one
    before it."""
    step = loop.state.step if loop else 0
    if refused and step == 0:
        folder.discard()
        return
    if isinstance(error, KeyboardInterrupt):
        ending = Ending(
            "signal", step, f"Left at once at step {step:,}, unsaved. Go on: trueloop resume {folder.path}", signal=2
        )
        _written(folder, ending)
    else:
        ending = Ending("failed", step)
        unsaved = _finished_saving(loop)
        _written(folder, replace(ending, message=f"{type(error).__name__}: {error} {unsaved}".strip()))
    folder.close()
    if loop is not None:
        loop.hooks.ended(ending)


def _finished_saving(loop: Loop | None) -> str:
    """Nothing, or why the last checkpoint could not be written."""
    try:
        if loop is not None:
            loop.saver.finish()
    except (CannotSave, RuntimeError) as error:  # a RuntimeError: those who save together have lost one another
        return str(error)
    return ""


def _written(folder: RunFolder, ending: Ending) -> Ending:
    """The ending in run.json. Where even that cannot be written, the sentence is still for a person to read."""
    try:
        folder.write(status=ending.reason, step=ending.step, message=ending.message, ended=time.time(),
                     metric=ending.metric or folder.about.get("metric", ""), best=ending.best, best_step=ending.best_step,
                     test=ending.test)  # fmt: skip
    except CannotSave as error:
        return replace(ending, reason="failed", message=f"{ending.message} {error}".strip())
    return ending


def _start(folder: RunFolder, loop: Loop, notes: Iterable[str] = ()) -> Start:
    parameters = sum(parameter.numel() for parameter in loop.model.parameters())
    notes = (*filter(None, [loop.strategy.note, lr_note(loop.recipe)]), loop.batches.note, *loop.splits.notes, *notes)
    return Start(
        folder.path.name,
        loop.strategy.kind(loop.model).__name__,
        parameters,
        str(loop.device),
        loop.batches.samples,
        loop.total_steps,
        loop.batches.steps_per_epoch,
        loop.state.step,
        notes,
        str(folder.path),
    )


def _ended(loop: Loop, ending: Ending, folder: RunFolder) -> Ending:
    """With the best value, what the best weights reach on the test data, and the words for a person."""
    loop.peers.wait()  # the first process has written what all read now
    state, store = loop.state, loop.saver.store
    best = store.best()
    where = store.where(best) if best else ""
    ending = replace(ending, best=state.best, best_step=state.best_step, metric=loop.metric, best_checkpoint=where)
    if ending.reason == "signal":
        return replace(
            ending,
            message=f"Stopped by signal {ending.signal} at step {state.step:,}, saved. Go on: trueloop resume {folder.path}",
        )
    if ending.reason == "collapsed" and loop.bar is not None:
        todo = f"`trueloop compare {loop.bar.baseline.run} {folder.path}` shows what differs; on_collapse=mark would let it go on."
        return replace(ending, message=f"{ending.message} It was not promoted to best. {todo}")
    if ending.reason != "finished":
        return ending
    _note_constant(loop)
    if state.over:
        ending = replace(
            ending, reason="early-stopped", message=f"{loop.metric} has not got better for {state.worse} evaluations."
        )
    if best is not None:
        _load_best(loop, best)
    if loop.splits.test is None:
        return ending
    test = loop.measure(loop.model, loop.splits.test)
    loop.hooks.logged(Row("test", state.best_step or state.step, loop.epoch(), test))
    return replace(ending, test=test)


def _bar(loop: Loop, baseline: Found | Baseline | None) -> CollapseCheck | None:
    """What the run must reach, once its validation data are known."""
    if baseline is None:
        return None
    if loop.splits.valid is None:
        raise Misuse(
            "--baseline holds the validation against a good run's, and there are no validation data. Nothing was trained."
        )
    if isinstance(baseline, Found):
        baseline = baseline.with_noise(len(loop.splits.valid))
    return CollapseCheck(baseline, constant_answer(loop, may_read=True))


def _note_constant(loop: Loop) -> None:
    """Without a baseline nothing is stopped; but a run that a constant answer would have matched is told so."""
    best = loop.state.best
    if loop.bar is not None or best is None or loop.epoch() < FIRST_CHECKED_EPOCH:
        return
    trivial = constant_answer(loop, may_read=False)
    if trivial is not None and (best <= trivial.value if loop.higher_is_better else best >= trivial.value):
        loop.hooks.noted(
            f"The best validation {loop.metric}, {best:.4g}, is no better than a constant answer ({trivial.answer}: {trivial.value:.4g}): "
            "the model has learned nothing that helps there."
        )


def _load_best(loop: Loop, best: str) -> None:
    try:
        reading = loop.form.read(loop.saver.store, best)
    except BadCheckpoint as error:
        loop.hooks.noted(f"{error} It was the best one: the model keeps the weights of the last step.")
        return
    reading.fill_model("ema" if "ema" in reading.models else "model", loop.model)


def _machine() -> dict[str, Any]:
    from trueloop import __version__

    return {
        "trueloop": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpus": os.cpu_count(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
