"""`trueloop.train(recipe)` and `trueloop train`: opens the run's folder, trains, tests, and records how it ended."""

import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from trueloop.checkpoint.store import Folder
from trueloop.doctor.watch import observe
from trueloop.engine.accumulation_note import accumulation_note
from trueloop.engine.batch_change import with_length_in_steps
from trueloop.engine.build_model import frozen_note
from trueloop.engine.collapse import FIRST_CHECKED_EPOCH, Baseline, CollapseCheck
from trueloop.engine.constant_baseline import constant_answer
from trueloop.engine.loop import Loop
from trueloop.engine.preflight import check_before_training, machine_problems
from trueloop.engine.row_schedule import line_interval
from trueloop.engine.schedule import lr_note
from trueloop.engine.stop import Interrupted, catch_signals
from trueloop.engine.torch_settings import pick_device
from trueloop.engine.train import train as run_loop
from trueloop.errors import BadCheckpoint, CannotSave, MissingExtra, Misuse
from trueloop.finding import Finding
from trueloop.hook import Ending, Hook, Row, Start, log_to, stop_logging_to
from trueloop.parallel.join import joined
from trueloop.parallel.peers import find_peers
from trueloop.recipe.recipe import DataRequest, Recipe, describe
from trueloop.recipe.validate import validate
from trueloop.session.baseline import Found, kept_baseline, read_baseline
from trueloop.session.changes import Changes, changes_since, code_of
from trueloop.session.data_fingerprint import data_that_differ, fingerprint_of
from trueloop.session.facts import write_facts
from trueloop.session.folder import RunFolder
from trueloop.session.hang_watch import end_run_on_hang, record_hang_in
from trueloop.session.listeners import Listeners, open_listeners
from trueloop.session.live_checks import OBSERVED, rules_for_runs
from trueloop.session.logged_values import plain_numbers
from trueloop.session.machine import machine
from trueloop.session.shared_folder import open_shared_folder
from trueloop.track.trackers import check_trackers
from trueloop.trust.recipes import MADE_HERE, recipe_stamp
from trueloop.usercode.definitions import code_hash
from trueloop.usercode.settings import load_settings

__all__ = ["Trained", "resume", "train"]


@dataclass(frozen=True)
class Trained:
    """The result of a run."""

    ending: Ending
    model: nn.Module  # With the best weights if there is a best checkpoint, else the last
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
    group: Mapping[str, Any] | None = None,
    hand_on_signals: bool = True,
) -> Trained:
    """Train a recipe from the beginning. `hooks`: who shows it; None: a progress bar in a terminal, else a plain log.
    `baseline`: a good run that this one must not fall below. `origin`: how `resume` finds the recipe again.
    `group`: what run.json says about the sweep that the run belongs to."""
    _check(recipe)
    found = None if baseline is None else read_baseline(baseline, Path(runs), recipe)
    request = DataRequest(Path(data) if data else None, download, recipe.seed)
    about = {"recipe": describe(recipe), "origin": origin, "data": str(data) if data else None, "machine": machine()}
    about |= {"code": code_of(recipe), MADE_HERE: recipe_stamp(origin), **(group or {})}
    with end_run_on_hang(), joined():
        peers = find_peers(pick_device(recipe.device))
        create = partial(RunFolder.create, Path(runs), name or recipe.name, about, named=bool(name))
        folder = open_shared_folder(peers, create)
        with _session(recipe, request, folder, hooks, resumed=False) as session:
            _begin(session, found)
            with _observed(session.loop):
                session.ending = run_loop(session.loop)
    return session.result(hand_on_signals)


def resume(
    recipe: Recipe,
    path: str | Path,
    *,
    hooks: Iterable[Hook] | None = None,
    download: bool = False,
    origin: dict[str, Any] | None = None,
    accept_changes: bool = False,
    hand_on_signals: bool = True,
) -> Trained:
    """Resume a run of the same recipe from its newest valid checkpoint; a finished one, if the recipe is longer now.
    With `accept_changes`, also with a recipe, code or data that have changed: run.json records what and when."""
    _check(recipe)
    with end_run_on_hang(), joined():
        peers = find_peers(pick_device(recipe.device))
        folder = open_shared_folder(peers, lambda: _reopen(Path(path), recipe, accepted=accept_changes))
        changes = changes_since(folder.about, recipe)
        folder.about.update(recipe=describe(recipe), origin=origin or folder.about.get("origin"), code=code_of(recipe))
        if origin:
            folder.about[MADE_HERE] = recipe_stamp(origin)
        data = folder.about.get("data")
        request = DataRequest(Path(data) if data else None, download, recipe.seed)
        kept = kept_baseline(folder)
        with _session(_in_steps(recipe, folder, changes), request, folder, hooks, resumed=True) as session:
            _begin(session, kept, changes if accept_changes else Changes(), accepted=accept_changes)
            with _observed(session.loop):
                session.ending = run_loop(session.loop)
    return session.result(hand_on_signals)


def _in_steps(recipe: Recipe, folder: RunFolder, changes: Changes) -> Recipe:
    """A run whose batch size changes, or has changed, has a different number of steps for its epochs."""
    recorded = [each.get("recipe") or {} for each in folder.about.get("changes", ())]
    if not any("batch" in fields for fields in (changes.recipe, *recorded)):
        return recipe
    store = Folder(folder.checkpoints)
    names = store.names()
    train = (folder.about.get("data_fingerprint") or {}).get("train") or {}
    try:
        about = store.manifest(names[-1]) if names else {}
    except BadCheckpoint:  # reported and left out when checkpoints are read
        return recipe
    return with_length_in_steps(recipe, about, int(train.get("samples") or 0))


def _check(recipe: Recipe) -> None:
    """What can be refused before anything is written."""
    validate(recipe, machine_problems(recipe))
    check_trackers(recipe.trackers)
    rules_for_runs(load_settings(Path.cwd()))  # raises Misuse for an unknown rule in the settings


def _reopen(path: Path, recipe: Recipe, *, accepted: bool) -> RunFolder:
    folder = RunFolder.open(path)
    status = folder.about.get("status")
    try:
        changes = changes_since(folder.about, recipe)
        if status == "early-stopped" and "patience" not in changes.recipe:
            more = f"`trueloop resume {path} --set patience=N --accept-changes`"
            raise Misuse(f"{path} has finished: there is nothing to resume. To go on after early stopping: {more}.")
        if status == "finished" and not _is_longer(recipe, folder.about):
            said = f"{path} has finished: there is nothing to resume. `trueloop runs` shows its result."
            raise Misuse(f"{said} To train longer: --set epochs=N.")
        changes.refuse(folder.path, accepted=accepted)
    except Misuse:
        folder.close()
        raise
    return folder


def _is_longer(recipe: Recipe, about: dict[str, Any]) -> bool:
    """Does the recipe now ask for more than the finished run did?"""
    before = about.get("recipe") or {}
    if recipe.steps is not None:
        return recipe.steps > int(about.get("step") or 0)
    return before.get("epochs") is None or (recipe.epochs or 0) > int(before["epochs"])


@dataclass
class _Session:
    """A run while it is open."""

    loop: Loop
    folder: RunFolder
    listeners: Listeners
    ending: Ending
    begun: bool = False

    def result(self, hand_on_signals: bool) -> Trained:
        """`hand_on_signals`: raise the signal that stopped the run again. A script that continued and exited with 0
        would look finished to whoever sent SIGTERM; Ctrl-C becomes KeyboardInterrupt."""
        if hand_on_signals and self.ending.reason == "signal":
            signal.raise_signal(self.ending.signal)
        return Trained(self.ending, self.loop.parts.model, self.folder.path, self.listeners.findings)


@contextmanager
def _session(
    recipe: Recipe, request: DataRequest, folder: RunFolder, hooks: Iterable[Hook] | None, *, resumed: bool
) -> Iterator[_Session]:
    """Around the loop, whose ending the body sets: builds the run before it, tests and records the ending after it."""
    session: _Session | None = None
    record_hang_in(folder, lambda: session.loop.state.step if session else 0)
    try:
        listeners = open_listeners(recipe, folder, hooks)
        loop = Loop.of(recipe, request, Folder(folder.checkpoints), listeners.hooks)
        session = _Session(loop, folder, listeners, Ending("failed", 0))
        yield session
        session.ending = _finish(loop, session.ending, folder)
    except BaseException as error:
        if session is None or not isinstance(error, CannotSave):
            refused = isinstance(error, (Misuse, MissingExtra, BadCheckpoint)) and not (session and session.begun)
            if resumed and refused:
                folder.close()  # as it was
                raise
            _record_error(session.loop if session else None, folder, error, refused=refused)
            raise
        state, metric = session.loop.state, session.loop.parts.metric
        message = f"{error} The run stopped. `trueloop resume {folder.path}` continues it."
        session.ending = Ending("failed", state.step, message, state.best, state.best_step, metric=metric)
    session.ending = _write_ending(folder, session.ending)
    session.loop.parts.hooks.ended(session.ending)
    folder.close()


@contextmanager
def _observed(loop: Loop) -> Iterator[None]:
    """The engine reports its own steps to the rules; a step of the user's own is observed as `check` does.
    `trueloop.log` in the recipe's code adds to its rows."""

    def log(values: Mapping[str, Any]) -> None:
        loop.log.means.add(plain_numbers(values, "trueloop.log"))

    log_to(log)
    try:
        if loop.recipe.step is None or loop.parts.peers.world > 1:
            yield
            return
        with observe(loop.parts.hooks.event_emitted, load_settings(Path.cwd()), OBSERVED):
            yield
    finally:
        stop_logging_to(log)


def _begin(
    session: _Session, baseline: Found | Baseline | None, changes: Changes | None = None, *, accepted: bool = False
) -> None:
    """`changes`: the run is resumed, with these changes."""
    loop, folder, parts = session.loop, session.folder, session.loop.parts
    loop.validation.collapse_check = check = _collapse_check(loop, baseline)
    if not folder.guest:
        Folder(folder.checkpoints).sweep()
    data = fingerprint_of(parts.splits, parts.recipe.seed)
    loop.about = {"data": data, "code": code_hash(folder.about["code"])}
    if changes is not None:
        changes.data = data_that_differ(folder.about.get("data_fingerprint") or data, data)
        Changes(data=changes.data).refuse(folder.path, accepted=accepted)
        _go_back(loop, folder, changes)
    else:
        check_before_training(parts)
    about = {"total_steps": parts.total_steps, "metric": parts.metric, "higher_is_better": parts.higher_is_better}
    about |= {"data_fingerprint": data, "batch_size": parts.recipe.batch}  # a loader has its own: not recipe.batch
    folder.write(status="running", **about, **({"baseline": check.baseline.to_dict()} if check else {}))
    started = time.perf_counter()
    unwritten = "" if folder.guest else write_facts(folder.path, parts)
    loop.log.clock += time.perf_counter() - started  # not training time
    accumulation = accumulation_note(parts) if changes is None else ""
    notes = (
        parts.strategy.note, frozen_note(parts.model), lr_note(parts.recipe), accumulation, parts.batches.note,
        *parts.splits.notes,
    )  # fmt: skip
    notes = tuple(filter(None, (*notes, *session.listeners.notes, unwritten)))
    model, size = parts.strategy.kind(parts.model).__name__, sum(each.numel() for each in parts.model.parameters())
    counts = (parts.batches.samples, parts.total_steps, parts.batches.steps_per_epoch, loop.state.step)
    session.begun = True
    shown = (notes, str(folder.path), line_interval(parts.recipe.log_every))
    parts.hooks.started(Start(folder.path.name, model, size, str(parts.device), *counts, *shown))


def _go_back(loop: Loop, folder: RunFolder, changes: Changes) -> None:
    """To the newest valid checkpoint, with what was changed since."""
    first = folder.about.get("first_checkpoint")
    if not loop.recovery.go_back() and first is not None:
        raise BadCheckpoint(
            f"{folder.checkpoints} holds no checkpoint, and this run had saved one at step {first:,}. Nothing was run: "
            "put the checkpoints back, or start a new run."
        )
    state, patience = loop.state, loop.parts.recipe.patience
    may_continue = patience is None or state.worse < patience
    if state.ended_by:  # by a hook or a step: unless the run was killed before that was recorded, it is continued
        may_continue = folder.about.get("status") == "early-stopped"
    if state.over and may_continue:
        state.over, state.ended_by = False, ""
    if changes:
        folder.write(changes=[*folder.about.get("changes", ()), changes.record(state.step)])


def _record_error(loop: Loop | None, folder: RunFolder, error: BaseException, *, refused: bool) -> None:
    """An error, or a second Ctrl-C, which does not wait for the disk: an unfinished save leaves the one before it."""
    step = loop.state.step if loop else 0
    if refused and step == 0:
        folder.discard()
        return
    if isinstance(error, KeyboardInterrupt):
        message = f"Interrupted at step {step:,} without saving. Continue with: trueloop resume {folder.path}"
        ending = Ending("signal", step, message, signal=2)
        _write_ending(folder, ending)
    else:
        ending = Ending("failed", step)
        message = f"{type(error).__name__}: {error} {_finish_saving(loop)}".strip()
        _write_ending(folder, replace(ending, message=message))
    folder.close()
    if loop is not None:
        loop.parts.hooks.ended(ending)


def _finish_saving(loop: Loop | None) -> str:
    """Why the last checkpoint could not be written; empty: it was."""
    try:
        if loop is not None:
            loop.parts.saver.finish()
    except (CannotSave, RuntimeError) as error:  # a RuntimeError: ranks that save together lost one another
        return str(error)
    return ""


def _write_ending(folder: RunFolder, ending: Ending) -> Ending:
    """Into run.json. If that fails, the message says so."""
    metric = ending.metric or folder.about.get("metric", "")
    values = {"metric": metric, "best": ending.best, "best_step": ending.best_step, "test": ending.test}
    try:
        folder.write(status=ending.reason, step=ending.step, message=ending.message, ended=time.time(), **values)
    except CannotSave as error:
        return replace(ending, reason="failed", message=f"{ending.message} {error}".strip())
    return ending


def _finish(loop: Loop, ending: Ending, folder: RunFolder) -> Ending:
    """Adds the best value, the test metrics of the best weights, and a message."""
    parts, state, store = loop.parts, loop.state, loop.parts.saver.store
    parts.peers.wait()  # rank 0 has written what all ranks read now
    best = store.best()
    where = store.where(best) if best else ""
    ending = replace(ending, best=state.best, best_step=state.best_step, metric=parts.metric, best_checkpoint=where)
    if ending.reason == "signal":
        message = f"Stopped by signal {ending.signal} at step {state.step:,}, saved."
        return replace(ending, message=f"{message} Continue with: trueloop resume {folder.path}")
    check = loop.validation.collapse_check
    if ending.reason == "collapsed" and check is not None:
        compare = f"`trueloop compare {check.baseline.run} {folder.path}` shows what differs"
        message = f"{ending.message} It does not count as the best. {compare}; on_collapse=mark would continue."
        return replace(ending, message=message)
    if ending.reason != "finished":
        return ending
    _note_constant_answer(loop)
    if state.over:
        message = state.ended_by or f"{parts.metric} has not improved for {state.worse} evaluations."
        ending = replace(ending, reason="early-stopped", message=message)
    if best is not None:
        _load_best(loop, best)
    if parts.splits.test is None:
        return ending
    with catch_signals(loop.stop):
        try:
            test = loop.validation.measure(parts.model, parts.splits.test)
        except Interrupted:
            said = (
                f"Stopped by signal {loop.stop.agreed} while testing; all {state.step:,} steps are trained and saved."
            )
            said += f" Continue with: trueloop resume {folder.path}"
            return replace(ending, reason="signal", signal=loop.stop.agreed, message=said)
    parts.hooks.logged(Row("test", state.best_step or state.step, loop.log.epoch(), test))
    return replace(ending, test=test)


def _collapse_check(loop: Loop, baseline: Found | Baseline | None) -> CollapseCheck | None:
    """What the run must reach, once its validation data are known."""
    if baseline is None:
        return None
    valid = loop.parts.splits.valid
    if valid is None:
        raise Misuse("--baseline compares validation metrics, and there are no validation data. Nothing was trained.")
    if isinstance(baseline, Found):
        baseline = baseline.with_noise(len(valid))
    return CollapseCheck(baseline, constant_answer(loop.parts, may_read=True))


def _note_constant_answer(loop: Loop) -> None:
    """Without a baseline nothing stops a run that a constant answer matches; it gets a note."""
    parts, best = loop.parts, loop.state.best
    if loop.validation.collapse_check is not None or best is None or loop.log.epoch() < FIRST_CHECKED_EPOCH:
        return
    constant = constant_answer(parts, may_read=False)
    if constant is not None and (best <= constant.value if parts.higher_is_better else best >= constant.value):
        parts.hooks.noted(
            f"The best validation {parts.metric}, {best:.4g}, is no better than a constant answer ({constant.answer}: "
            f"{constant.value:.4g}): the model has learned nothing that helps there."
        )


def _load_best(loop: Loop, best: str) -> None:
    parts = loop.parts
    try:
        reading = parts.layout.read(parts.saver.store, best)
    except BadCheckpoint as error:
        parts.hooks.noted(f"{error} It was the best one: the model keeps the weights of the last step.")
        return
    reading.fill_model("ema" if "ema" in reading.models else "model", parts.model)
