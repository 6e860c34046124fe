"""trueloop: a recipe for each job."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import trueloop
from benchmarks.wrapped import job
from trueloop.cli.main import main as command_line
from trueloop.data.source import Facts


def recipe(model: Any, inputs: Tensor, targets: Tensor, *, valid: bool = False, then: Any = None, facts: Facts | None = None,  # noqa: E501
           momentum: float = 0.0, **options: Any) -> trueloop.Recipe:  # fmt: skip
    built: list[nn.Module] = []

    def model_of_job() -> nn.Module:
        built.append(model())
        return built[0]

    def optimizer(groups: Any, lr: float) -> torch.optim.Optimizer:
        return job.notes.watch(built[0], torch.optim.SGD(groups, lr=lr, momentum=momentum), then or (lambda _: None))

    def read(_: Any) -> trueloop.Splits:
        source = trueloop.Tensors(inputs, targets)
        return trueloop.Splits(train=source, valid=source if valid else None, facts=facts or Facts())

    usual = {"epochs": 1, "batch": job.BATCH, "lr": 0.1, "device": "cpu", "trackers": (), "save_every": 1_000_000,
             "where": "loader"}  # fmt: skip  # a loader, as everybody else has here: resident data would draw nothing
    return trueloop.Recipe(name="job", model=model_of_job, data=read, optimizer=optimizer, **{**usual, **options})


def tokens(folder: Path) -> dict[str, Any]:
    facts = Facts(ignore=job.IGNORED)
    trueloop.train(
        recipe(job.Tokens, *job.sequences(), facts=facts, task="language", lr=1.0, accumulate=4), runs=folder
    )
    return job.judge_tokens()


def partial(folder: Path) -> dict[str, Any]:
    loop = trueloop.Loop.of(recipe(lambda: job.net(0.0), *job.samples(20), batch=16, accumulate=4, epochs=2))
    loop.train()
    return job.judge_partial(loop.parts.model)


def _resumable(then: Any = None) -> trueloop.Recipe:
    return recipe(job.net, *job.samples(), epochs=2, momentum=0.9, save_every=job.SAVE_AT, then=then)


def whole(folder: Path) -> dict[str, Any]:
    trueloop.train(_resumable(), runs=folder)
    return job.written()


def killed(folder: Path) -> dict[str, Any]:
    trueloop.train(_resumable(job.killed(folder)), runs=folder)
    return job.written()


def again(folder: Path) -> dict[str, Any]:
    trueloop.resume(_resumable(), folder / "job")
    return job.written()


def _validated(folder: Path, validate: bool) -> Tensor:
    job.anew()
    trueloop.train(recipe(job.net, *job.samples(), valid=validate, epochs=3), runs=folder)
    return job.notes.weights[-1]


def validation(folder: Path) -> dict[str, Any]:
    return {"difference": float((_validated(folder, True) - _validated(folder, False)).abs().max())}


def nan(folder: Path) -> dict[str, Any]:
    trained = trueloop.train(recipe(job.net, *job.samples(nan_at=21)), runs=folder)
    return {"nan": float(job.flat(trained.model).isnan().float().mean()), "said": trained.ending.message}


def signalled() -> trueloop.Recipe:
    return recipe(job.net, *job.samples(400), then=job.signalled)


def sigterm(folder: Path) -> dict[str, Any]:
    """By the command line, which leaves with a code of its own."""
    file = folder / "signalled.py"
    file.write_text("from benchmarks.wrapped.trueloop_engine import signalled as recipe\n", encoding="utf-8")
    sys.exit(command_line(["train", str(file), "--runs", str(folder)]))


def sigterm_python(folder: Path) -> dict[str, Any]:
    """By `trueloop.train`, which hands the signal on to the program once the run is saved."""
    trueloop.train(signalled(), runs=folder)
    return {"steps": len(job.notes.forwards)}


def damage(folder: Path) -> dict[str, Any]:
    """Stopped by a signal after ten steps, so that there is something to go on with."""
    stop_at_ten = recipe(
        job.net, *job.samples(), epochs=2, save_every=5, then=lambda step: job.signalled(step - 10 + job.SIGNAL_AT)
    )
    trained = trueloop.train(stop_at_ten, runs=folder, hand_on_signals=False)
    job.cut(max((trained.folder / "checkpoints").glob("step-*")) / "model.safetensors")
    return {}


def damaged(folder: Path) -> dict[str, Any]:
    trueloop.resume(recipe(job.net, *job.samples(), epochs=2, save_every=5), folder / "job")
    return {"resumed": f"{20 - len(job.notes.forwards)} steps"}


def schedule(folder: Path) -> dict[str, Any]:
    trueloop.train(recipe(job.net, *job.samples(), epochs=2, lr=1.0, schedule="linear", final=0.1), runs=folder)
    return {"rates": job.notes.rates}


def schedule_accumulated(folder: Path) -> dict[str, Any]:
    settings = {"epochs": 2, "lr": 1.0, "schedule": "linear", "final": 0.1}
    trueloop.train(recipe(job.net, *job.samples(80), batch=8, accumulate=2, **settings), runs=folder)
    return {"rates": job.notes.rates}


def _evaluated(values: Tensor, batch: int) -> float:
    """The loss of the echo is its input."""
    found: list[float] = []

    class Told(trueloop.Hook):
        def logged(self, row: Any) -> None:
            if row.kind == "valid":
                found.append(row.values["loss"])

    mean = recipe(
        job.Echo,
        values,
        values,
        valid=True,
        loss=lambda output, _: output,
        batch=batch,
        hooks=(Told(),),
        schedule="constant",
    )
    trueloop.Loop.of(mean).train()
    return found[-1] if found else math.nan  # the first process speaks for all


def metric(folder: Path) -> dict[str, Any]:
    return {"value": _evaluated(job.UNEVEN, 4)}


def ranks(folder: Path) -> dict[str, Any]:
    dist.init_process_group("gloo")
    loop = trueloop.Loop.of(recipe(job.net, *job.samples(), lr=1.0, schedule="linear", final=0.1))
    loop.train()
    rates = list(job.notes.rates)
    return {"rates": rates, "value": _evaluated(job.SPREAD, 4)}


if __name__ == "__main__":
    job.main({name: value for name, value in globals().items() if callable(value)})
