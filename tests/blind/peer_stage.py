"""Run unmodified scripts under one peer, inside that peer's environment: `python peer_stage.py ADAPTER RUNS.json`.

The scripts have no common place for a peer's lines. Each optimizer's first step is the first moment at which a model, a
batch, a loss function and the optimizer are all known: there the adapter takes over, once per optimizer, and the rest
of the script is what it watches. Each script runs in a child forked from this warm process and is ended after STEPS
steps or LIMIT seconds. Prints one JSON line per script: its alarms, or why the peer could not be applied.
"""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

ADAPTERS: Final = Path(__file__).parents[2] / "benchmarks" / "peers" / "adapters"
STEPS: Final = 50
LIMIT: Final = 240  # seconds for one script
LOSSES: Final = (
    "binary_cross_entropy_with_logits", "binary_cross_entropy", "cross_entropy", "nll_loss", "mse_loss", "l1_loss",
    "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "gaussian_nll_loss",
)  # fmt: skip
CLASSES: Final = {"cross_entropy": nn.CrossEntropyLoss}  # what an adapter may ask the loss function to be
BEFORE_TRAINING: Final = ("torchtest2",)  # it does nothing once its check is done
NEEDS_A_BATCH: Final = ("torchtest2", "guardtower")


class Over(SystemExit):
    """The script ran long enough."""


class Watcher(threading.Thread):
    """An adapter, which believes that it calls the training; the script runs on in the main thread meanwhile."""

    def __init__(self, adapter: ModuleType, parts: tuple[Any, ...]) -> None:
        super().__init__(daemon=True)
        self.adapter, self.parts = adapter, parts
        self.alarms: list[str] = []
        self.failed = ""
        self.at_training, self.ended = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for alarm in self.adapter.watch(self.train, *self.parts):
                self.alarms.append(" ".join(str(alarm).split()))
        except BaseException as error:
            self.failed = f"{type(error).__name__}: {error}"[:200]
        self.at_training.set()

    def train(self) -> None:
        self.at_training.set()
        self.ended.wait()
        if self.error is not None:
            raise self.error


class Stage:
    """Sees which modules are called with what, which loss is computed, and the first step of every optimizer."""

    def __init__(self, adapter: ModuleType, name: str) -> None:
        self.adapter, self.name = adapter, name
        self.watchers: list[Watcher] = []
        self.seen: set[int] = set()
        self.steps = self.depth = 0
        self.calls: list[tuple[nn.Module, tuple[Any, ...]]] = []
        self.loss: tuple[Callable[..., Any], Any] | None = None
        self.reasons: list[str] = []
        register_module_forward_pre_hook(self.before_forward)
        register_module_forward_hook(self.after_forward, always_call=True)
        register_optimizer_step_pre_hook(self.before_step)
        for loss in LOSSES:
            setattr(nn.functional, loss, self.recorded(loss, getattr(nn.functional, loss)))

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if self.depth == 0 and torch.is_grad_enabled() and next(module.parameters(), None) is not None:
            self.calls = [*self.calls[-7:], (module, inputs)]
        self.depth += 1

    def after_forward(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            self.depth = max(0, self.depth - 1)

    def recorded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(prediction: Any, target: Any, *more: Any, **options: Any) -> Any:
            if threading.current_thread() is threading.main_thread() and torch.is_grad_enabled():
                if name in CLASSES and not more and not set(options) - {"weight", "ignore_index", "reduction"}:
                    self.loss = CLASSES[name](**options), target
                else:
                    self.loss = (lambda output, wanted: function(output, wanted, *more, **options)), target
            return function(prediction, target, *more, **options)

        return call

    def before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self.steps += 1
        if self.steps > STEPS:
            raise Over
        if id(optimizer) in self.seen:
            return
        self.seen.add(id(optimizer))
        self.apply(optimizer)

    def apply(self, optimizer: torch.optim.Optimizer) -> None:
        own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        calls = [call for call in self.calls if any(id(weight) in own for weight in call[0].parameters())]
        if not calls:
            self.reasons.append("no module that was called holds the optimizer's parameters")
            return
        model, inputs = calls[-1]
        if self.name in NEEDS_A_BATCH and (self.loss is None or len(inputs) != 1):
            self.reasons.append("no loss function of torch, or not one input: nothing to hand over")
            return
        function, target = self.loss or (None, None)
        if self.name in NEEDS_A_BATCH and not fits(function, model, inputs[0], target):
            self.reasons.append("the loss is not a function of the model's output and one target: nothing to hand over")
            return
        batches = [(inputs[0] if inputs else None, target)]
        watcher = Watcher(self.adapter, (model, function, optimizer, batches))
        self.watchers.append(watcher)
        watcher.start()
        watcher.at_training.wait()
        if self.name in BEFORE_TRAINING:
            raise Over

    def ended(self, error: BaseException | None) -> None:
        for watcher in self.watchers:
            watcher.error = error
            watcher.ended.set()
            watcher.join(30)


def fits(function: Any, model: nn.Module, inputs: Any, target: Any) -> bool:
    """Whether the loss can be computed as these peers do it."""
    try:
        with torch.no_grad():
            return bool(function(model(inputs), target).numel() == 1)
    except Exception:
        return False


def attempt(adapter: ModuleType, name: str, words: list[str]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    stage = Stage(adapter, name)
    sys.argv, failed = words, ""
    sys.path.insert(0, os.getcwd())
    error: BaseException | None = None
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit:
        pass
    except BaseException as raised:
        if f"{os.sep}{name}{os.sep}" in "".join(traceback.format_tb(raised.__traceback__)):
            error = raised  # the peer speaks by raising
        else:
            failed = f"{type(raised).__name__}: {raised}"[:200]
    stage.ended(error)
    alarms = list(dict.fromkeys(alarm for watcher in stage.watchers for alarm in watcher.alarms))
    reasons = [failed, *(watcher.failed for watcher in stage.watchers), *stage.reasons]
    if not stage.seen:
        reasons.append("no optimizer of torch took a step")
    return {"alarms": alarms, "failed": next(filter(None, reasons), "") if not alarms else ""}


def in_child(adapter: ModuleType, name: str, folder: str, words: list[str]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        signal.alarm(LIMIT)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.write(writing, json.dumps(attempt(adapter, name, words)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer: dict[str, Any] = json.loads(pipe.read() or b'{"alarms": [], "failed": "killed: not done in time"}')
    os.waitpid(child, 0)
    return answer


def main(name: str, runs: Path) -> None:
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location(f"adapter_{name}", ADAPTERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    adapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapter)
    for run in json.loads(runs.read_text(encoding="utf-8")):
        answer = in_child(adapter, name, run["folder"], run["words"])
        print(json.dumps({"pair": run["pair"], "side": run["side"], **answer}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1].replace("-", "_"), Path(sys.argv[2]).resolve())
