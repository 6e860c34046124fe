"""`trueloop.session(...)`: a loop of one's own gets a run folder, metrics, rules, a progress bar and exact resume.

with trueloop.session("mine", steps=1000, model=model, optimizer=optimizer, loader=loader) as run:
    for step, (inputs, labels) in run.batches():
        ...
        run.log(loss=loss)
    run.evaluated(accuracy=accuracy)
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, final

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from trueloop.data.source import moved
from trueloop.doctor.watch import observe
from trueloop.engine.checkpoints import Checkpoints
from trueloop.engine.loader_stream import LoaderStream
from trueloop.engine.own_groups import rates_by_name
from trueloop.engine.row_schedule import line_interval, metrics_schedule
from trueloop.engine.running_means import RunningMeans
from trueloop.engine.stop import Stop, catch_signals
from trueloop.engine.stream_shares import OwnBatches
from trueloop.engine.training_log import SHOWN
from trueloop.errors import BadCheckpoint, Misuse, did_you_mean
from trueloop.finding import Finding
from trueloop.hook import AGAIN, Ending, Hook, Row, Start, log_to, stop_logging_to
from trueloop.parallel.digest import drift
from trueloop.parallel.peers import Group, Peers, find_peers
from trueloop.parallel.replicated import Replicated
from trueloop.session.folder import ABOUT, RunFolder, read_about
from trueloop.session.listeners import Listeners, listen
from trueloop.session.live_checks import OBSERVED
from trueloop.session.logged_values import plain_numbers
from trueloop.session.machine import machine
from trueloop.session.shared_folder import open_shared_folder
from trueloop.track.trackers import check_trackers
from trueloop.usercode.settings import load_settings

__all__ = ["Session", "session"]

LOWER: Final = ("loss", "error", "mae", "mse", "perplexity")  # In the name of a metric of which less is better
OVER: Final = ("finished", "early-stopped")


def session(
    name: str,
    *,
    steps: int,
    runs: str | Path = "runs",
    save_every: int = 500,
    log_every: int | None = None,
    keep: int = 2,
    metric: str = "",
    hyperparameters: Mapping[str, Any] | None = None,
    trackers: Iterable[str] = ("tensorboard",),
    hooks: Iterable[Hook] | None = None,
    rules: bool = True,
    **parts: Any,
) -> Session:
    """A run of a loop of your own, in runs/NAME; started again, it continues after its newest checkpoint.

    `parts`, by any names: what changes while you train and has a state_dict (model, optimizer, scheduler, scaler), and
    `loader`, any DataLoader. `metric`: selects the best checkpoint; empty: the first that `evaluated` gets. `hooks`:
    what shows the run; None: a progress bar in a terminal, else a plain log. `log_every`: steps between two rows of
    metrics; None: as in `trueloop train`. `rules`: check it as `trueloop check`."""
    every = 1 if log_every is None else log_every
    for word, value in (("steps", steps), ("save_every", save_every), ("log_every", every), ("keep", keep)):
        if not isinstance(value, int) or value < 1:
            raise Misuse(f"{word} cannot be {value!r}: it is a whole number, 1 or more. Nothing was run.")
    if Path(name).name != name or name.startswith("."):
        raise Misuse(f"The run cannot be called {name!r}: a folder gets this name. Nothing was run.")
    for word, value in parts.items():
        if value is not None and not hasattr(value, "state_dict") and word != "loader":
            near = did_you_mean(word, inspect.signature(session).parameters)
            kind = f"{type(value).__name__}, without state_dict() and load_state_dict()"
            raise Misuse(f"{word}= is {kind}.{near} Nothing was run.")
    check_trackers(trackers := tuple(trackers))
    about = {"name": name, "steps": steps, "hyperparameters": dict(hyperparameters or {})}
    path = Path(runs) / name
    return Session(path, about, (save_every, log_every, keep), metric, trackers, hooks, rules, parts)


@final
class Session:
    """One run, inside a `with` block."""

    def __init__(
        self,
        path: Path,
        recipe: dict[str, Any],
        every: tuple[int, int | None, int],
        metric: str,
        trackers: tuple[str, ...],
        hooks: Iterable[Hook] | None,
        rules: bool,
        parts: dict[str, Any],
    ) -> None:
        self.path, self.total, self.metric = path, int(recipe["steps"]), metric
        self.step = 0  # Steps taken; inside the loop, with the current one
        self.best: float | None = None
        self.best_step: int | None = None
        self.memory: dict[str, Any] = {}  # Your own values: tensors and plain values, saved with each checkpoint
        self._recipe, (self._save_every, self._log_every, self._keep) = recipe, every
        self._rows = metrics_schedule(self._log_every)
        self._trackers, self._hooks, self._rules = trackers, hooks, rules
        self._parts: dict[str, Any] = {name: part for name, part in parts.items() if part is not None}
        loader = self._parts.get("loader")
        self._stream = None if loader is None else LoaderStream(loader, torch.initial_seed())
        if self._stream is not None:
            self._parts["loader"] = self._stream
        self._stop, self._stack = Stop(), ExitStack()
        self._means = RunningMeans(_device(self._parts))
        self._over = False  # It had finished before
        self._saved: int | None = None  # The step of the newest checkpoint
        self._evaluated: int | None = None  # The step of the last evaluation
        self._evaluated_before: int | None = None  # and of that in the checkpoint
        self._interrupted = False  # The loop was left because of a signal
        self._new_best = False
        self._clock = self._shown = time.perf_counter()
        self._logged = 0

    # -- around the loop --

    def __enter__(self) -> Self:
        self._peers = peers = _joined_peers(self._means.device)
        if self._stream is not None and peers.world > 1:
            _refuse_same_batches(self._stream, peers)
        self._own_batches = OwnBatches("" if self._stream is None else self._stream.name, peers)
        self._checkpoints = Checkpoints(self.path / "checkpoints", keep=self._keep, **self._parts)
        self._folder = open_shared_folder(peers, self._open)
        try:
            self._begin()
        except BaseException:
            self._stack.close()
            self._folder.close()
            raise
        return self

    def _open(self) -> RunFolder:
        code = _script()
        if not (self.path / ABOUT).is_file():
            about = {"recipe": self._recipe, "origin": None, "session": True, "machine": machine(), "code": code}
            return RunFolder.create(self.path.parent, self.path.name, about, named=True)
        if not read_about(self.path).get("session"):
            raise Misuse(f"{self.path} is a run of `trueloop train`. Nothing was run: choose a different name.")
        return RunFolder.open(self.path)

    def _begin(self) -> None:
        about, code = self._folder.about, _script()
        self._saved = self._resume()
        before = int(about.get("total_steps") or 0)
        self._over = about.get("status") in OVER and self.total <= max(before, self.step)
        self._listeners: Listeners = listen(self._folder, self._hooks, self._trackers, self._recipe, own_step=True)
        hooks = self._listeners.hooks
        self._checkpoints.report_saves(hooks.saved)
        notes = [self._stream.note] if self._stream is not None and not self.step else []
        if not any(isinstance(part, torch.optim.Optimizer) for part in self._parts.values()):
            notes.append("no optimizer is among the parts: give optimizer=optimizer, or a resume is not exact")
        if self.step and about.get("code") != code:
            notes.append("the script has changed since this run began: from here on the new one trains")
        self._folder.write(status="running", total_steps=self.total, recipe=self._recipe, code=code)
        hooks.started(self._start(tuple(notes) + self._listeners.notes))
        if self._stream is not None:
            self._stack.callback(self._stream.close)
        self._stack.enter_context(catch_signals(self._stop))
        if self._rules and not self._folder.guest:
            self._stack.enter_context(observe(hooks.event_emitted, load_settings(Path.cwd()), OBSERVED))
        log_to(self._log_values)
        self._stack.callback(stop_logging_to, self._log_values)
        self._clock, self._logged = time.perf_counter(), self.step

    def _resume(self) -> int | None:
        step = self._checkpoints.resume()
        first = self._folder.about.get("first_checkpoint")
        if not step and first is not None:
            raise BadCheckpoint(
                f"{self.path} holds no checkpoint, and this run had saved one at step {first:,}. Nothing was run: put "
                "the checkpoints back, or choose a different name."
            )
        if step:
            values = self._checkpoints.values["session"]
            self.step, self.best, self.best_step = step, values["best"], values["best_step"]
            self.metric, self._evaluated = self.metric or values["metric"], values["evaluated"]
            self._evaluated_before = self._evaluated
            own = values["own"][self._peers.rank]
            self.memory = dict(own["memory"])
            self._means.restore(own["means"])
        return step or None

    def _start(self, notes: tuple[str, ...]) -> Start:
        models = [part for part in self._parts.values() if isinstance(part, nn.Module)]
        names = " and ".join(type(model).__name__ for model in models) or "no model"
        size = sum(parameter.numel() for model in models for parameter in model.parameters())
        counts = (0, self.total, self._per_epoch or self.total, self.step)
        lines = line_interval(self._log_every)
        return Start(self.path.name, names, size, str(self._means.device), *counts, notes, str(self.path), lines)

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self._stack.close()
        ending = self._ending(error)
        result = {"metric": self.metric, "higher_is_better": self._is_higher_better(), "best": self.best}
        result |= {"best_step": self.best_step, "test": None}
        try:
            if error is None and not self._over and not self._interrupted:
                self._agree()
                self._log_row()
                self._save_if_new()
            self._checkpoints.finish()
            self._folder.write(
                status=ending.reason, step=ending.step, message=ending.message, ended=time.time(), **result
            )
            self._listeners.hooks.ended(ending)
        finally:
            self._folder.close()
        if error is None and ending.reason == "signal":
            signal.raise_signal(ending.signal)  # as if it had not been caught: whoever sent it sees that

    def _ending(self, error: BaseException | None) -> Ending:
        best = {"best": self.best, "best_step": self.best_step, "metric": self.metric}
        number = (
            self._stop.agreed or self._stop.signal or (signal.SIGINT if isinstance(error, KeyboardInterrupt) else 0)
        )
        if number:
            return Ending("signal", self.step, f"Stopped by signal {int(number)}. {AGAIN}", **best, signal=int(number))  # type: ignore[arg-type]
        if error is not None:
            return Ending("failed", self.step, f"{type(error).__name__}: {error} {AGAIN}", **best)  # type: ignore[arg-type]
        return Ending("finished", self.step, "", **best)  # type: ignore[arg-type]

    # -- in the loop --

    def steps(self) -> Iterator[int]:
        """The numbers of the steps that are left, from 0 on in a new run. It saves, logs and stops between them."""
        for step in range(self.step, 0 if self._over else self.total):
            self.step = step + 1
            yield step
            if self._rows.is_due(self.step) or self.step == self.total:
                self._log_row()
            else:
                self._show_progress()
            self._agree()
            self._checkpoints_due()
            if self._stop.agreed:
                self._interrupted = True
                return

    def batches(self) -> Iterator[tuple[int, Any]]:
        """(step, batch) of the steps that are left, epoch after epoch, from where the run stopped."""
        if self._stream is None:
            raise Misuse(
                "run.batches() reads the loader, and there is none: give trueloop.session(..., loader=loader)."
            )
        for step in self.steps():
            batch = self._stream.next()
            self._own_batches.check(batch)
            yield step, batch

    def log(self, **values: Any) -> None:
        """Numbers of this step; rows of metrics have their means. Tensors are read when a row is written."""
        self._means.add(plain_numbers(values, "run.log"))

    def _log_values(self, values: Mapping[str, Any]) -> None:
        """`trueloop.log(...)`, anywhere in the loop."""
        self._means.add(plain_numbers(values, "trueloop.log"))

    def evaluated(self, **values: Any) -> bool:
        """Metrics of an evaluation at this step. True: the best so far; then this step's checkpoint is kept as best."""
        if not values:
            raise Misuse("run.evaluated() got no metric: write run.evaluated(accuracy=accuracy).")
        self.metric = self.metric or next(iter(values))
        if self.metric not in values:
            raise Misuse(f"run.evaluated() got {', '.join(values)}, and not {self.metric}, which selects the best.")
        numbers = {name: float(value) for name, value in values.items()}
        sign = 1 if self._is_higher_better() else -1
        value = numbers[self.metric]
        best = value == value and (self.best is None or sign * value > sign * self.best)
        if self._interrupted or self._evaluated_before == self.step:
            return best  # not a step of the loop's end; or a finished script that was started again
        self._evaluated = self.step
        if best:
            self.best, self.best_step, self._new_best = value, self.step, True
        self._listeners.hooks.logged(Row("valid", self.step, self.epoch, numbers, best=best))
        return best

    @property
    def epoch(self) -> float:
        """Passes over the loader; 0.0 without one."""
        return self.step / self._per_epoch if self._per_epoch else 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the rules have found so far."""
        return self._listeners.findings

    @property
    def _per_epoch(self) -> int | None:
        return None if self._stream is None else self._stream.steps_per_epoch

    def _is_higher_better(self) -> bool:
        return not any(word in self.metric for word in LOWER)

    def _show_progress(self) -> None:
        """By time, without values: nobody waits for the device."""
        if (now := time.perf_counter()) - self._shown >= SHOWN:
            self._shown = now
            self._listeners.hooks.progressed(Row("train", self.step, self.epoch, {}))

    def _log_row(self) -> None:
        """Rows end where a checkpoint may: a resumed run has the same ones."""
        if self.step == self._logged:
            return
        optimizers = [part for part in self._parts.values() if isinstance(part, torch.optim.Optimizer)]
        now, before = time.perf_counter(), self._clock
        rates = rates_by_name(optimizers[0]) if optimizers else {}
        speed = {"steps_per_second": (self.step - self._logged) / (now - before)}
        self._clock, self._logged = now, self.step
        self._listeners.hooks.logged(Row("train", self.step, self.epoch, self._means.take(self._peers) | rates | speed))

    def _agree(self) -> None:
        """On signals, and on whether this step is the best, which the first process decides: one message."""
        stop, peers = self._stop, self._peers
        if peers.world == 1:
            stop.agreed = stop.signal
            return
        told = torch.tensor([bool(stop.signal), self._new_best and peers.first], device=self._means.device).float()
        signals, best = peers.sum(told).tolist()
        self._new_best = bool(best)
        if signals and not stop.agreed:
            stop.agreed = max(peers.gather(stop.signal))

    def _refuse_different_weights(self) -> None:
        """A checkpoint holds the models of the first process: those of the others must be the same."""
        models = {name: part for name, part in self._parts.items() if isinstance(part, nn.Module)}
        shapes = {(name, word): tuple(each.shape) for name in models for word, each in models[name].named_parameters()}
        peers = self._peers
        if not isinstance(peers, Group):
            return
        same = all(each == shapes for each in peers.gather(shapes))
        for name in models if same else ("model",):
            found = drift(models[name], Replicated(peers)) if same else None
            if found is None and same:
                continue
            what = f"differs by {found.distance:.2g} of its norm" if found else "has different parameters"
            which = f"{name}.{found.parameter}" if found else name
            raise Misuse(
                f"{which} {what} between {peers.world} processes at step {self.step:,}: each trains a model of its "
                "own, and a checkpoint holds only one. No checkpoint was written: wrap the model in "
                "torch.nn.parallel.DistributedDataParallel, and call it, not its .module."
            )

    def _checkpoints_due(self) -> None:
        last = self.step == self.total  # saved at the end of the block: an evaluation may come after the loop
        if (self.step % self._save_every == 0 and not last) or self._new_best or self._stop.agreed:
            self._save_if_new()

    def _save_if_new(self) -> None:
        if self._saved == self.step and not self._new_best:
            return
        values: dict[str, Any] = {
            "best": self.best,
            "best_step": self.best_step,
            "metric": self.metric,
            "evaluated": self._evaluated,
        }
        self._refuse_different_weights()
        own = {"memory": self.memory, "means": self._means.state()}
        values["own"] = [own] if self._peers.world == 1 else self._peers.gather(moved(own, torch.device("cpu")))
        self._checkpoints.save(self.step, best=self._new_best, session=values)
        self._saved, self._new_best = self.step, False


def _joined_peers(device: torch.device) -> Peers:
    """Raises Misuse if a launcher started several processes that have not met: all would write into one folder."""
    started = os.environ.get("WORLD_SIZE", "1")
    if started.isdigit() and int(started) > 1 and not (dist.is_available() and dist.is_initialized()):
        raise Misuse(
            f"{started} processes were started (WORLD_SIZE={started}), and they have not met, so each would train on "
            "its own. Nothing was run: call torch.distributed.init_process_group() before trueloop.session."
        )
    return find_peers(device)


def _refuse_same_batches(stream: LoaderStream, peers: Peers) -> None:
    dataset = getattr(stream.loader, "dataset", None)
    if isinstance(stream.loader, DataLoader) and not isinstance(dataset, IterableDataset) and not stream.per_process:
        raise Misuse(
            f"{peers.world} processes would read the same batches from this DataLoader. Nothing was run: give it "
            "sampler=DistributedSampler(dataset) instead of shuffle=True."
        )


def _device(parts: Mapping[str, Any]) -> torch.device:
    tensors = (each for part in parts.values() if isinstance(part, nn.Module) for each in part.parameters())
    first = next(tensors, None)
    return torch.device("cpu") if first is None else first.device


def _script() -> dict[str, str]:
    """The text of the user's script, for `compare`."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    path = Path(file) if file else None
    return {path.name: path.read_text(encoding="utf-8", errors="replace")} if path and path.is_file() else {}
