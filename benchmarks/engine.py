"""What a step of ours costs beside the same loop written by hand, and beside the wrappers where they are installed.

    python benchmarks/engine.py [--rounds 15] [--steps 200]
    PYTHONPATH=src .venv-frameworks/bin/python benchmarks/engine.py       # also Lightning, Accelerate, HF Trainer,
    Ignite

All train 784-256-256-10 with dropout 0.2, batches of 64 gathered from random data in memory, on one thread. Each round
trains each of them anew, in turns that change from round to round; a cost is the CPU time of the whole process (all its
threads) from before the first step to after the last, per step, and a ratio is taken within its round. What is on:

    ours        the real session: run folder, metrics file, curves, TensorBoard where installed, the bar on a terminal,
    a line of metrics
                every 50 steps, the rules, gradients' norm and guard in every step. Outside the measure, once a run:
                building the loop and rehearsing it before the first step; the checkpoint after the last, which is shown
                apart.
    by hand     zero_grad, forward, loss, backward, step; prints the loss every 50 steps. Nothing else.
    wrappers    their own progress bar and a line every 50 steps, torch's default Adam, no checkpoints, no gradient
    clipping, and batches
                from the same resident data instead of a DataLoader, which would cost them more.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TERM", "xterm-256color")

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

import trueloop
from trueloop.hook import Ending, Row, Start

BATCH, LOG_EVERY = 64, 50
BARS = {"by hand, default Adam": 1.00, "by hand, fused Adam": 1.05}
"""What ours may cost at most, over each."""

Contender = Callable[[int], float]
"""Trains so many steps; CPU seconds that they took."""


class Cpu:
    """Between two moments."""

    def start(self, *_: Any) -> None:
        self.begun = time.process_time()

    def stop(self, *_: Any) -> None:
        self.seconds = time.process_time() - self.begun


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(256, 10),
    )


class Resident:
    """Shuffled batches from tensors in memory, as a hand-written loop gathers them."""

    def __init__(self, steps: int) -> None:
        self.images, self.labels, self.steps = *data(steps), steps

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self.images))
        for number in range(self.steps):
            chosen = order[number * BATCH : (number + 1) * BATCH]
            yield self.images[chosen], self.labels[chosen]


def data(steps: int) -> tuple[Tensor, Tensor]:
    if steps not in _held:
        _held[steps] = torch.randn(steps * BATCH, 784), torch.randint(0, 10, (steps * BATCH,))
    return _held[steps]


_held: dict[int, tuple[Tensor, Tensor]] = {}


def by_hand(fused: bool) -> Contender:
    def run(steps: int) -> float:
        model, batches, cpu = network(), Resident(steps), Cpu()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **({"fused": True} if fused else {}))
        cpu.start()
        for step, (x, y) in enumerate(batches, 1):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if step % LOG_EVERY == 0:
                print(f"step {step}  loss {loss.item():.4f}", flush=True)
        cpu.stop()
        return cpu.seconds

    return run


class Timed(trueloop.Hook):
    """From before the first step to after the last line of metrics."""

    def __init__(self, steps: int) -> None:
        self.steps, self.cpu, self.after = steps, Cpu(), Cpu()

    def started(self, start: Start) -> None:
        self.cpu.start()

    def logged(self, row: Row) -> None:
        if row.kind == "train" and row.step == self.steps:
            self.cpu.stop()
            self.after.start()

    def ended(self, ending: Ending) -> None:
        self.after.stop()
        ENDINGS.append(self.after.seconds)


ENDINGS: list[float] = []
"""What comes after our last step: the checkpoint, the curve, the ending."""


def ours(steps: int) -> float:
    timed = Timed(steps)
    trackers = ("tensorboard",) if importlib.util.find_spec("tensorboard") else ()
    recipe = trueloop.Recipe(
        name="cost", model=network, data=lambda _: trueloop.Splits(train=trueloop.Tensors(*data(steps))), device="cpu",
        optimizer="adam", lr=1e-3, steps=steps, batch=BATCH, log_every=LOG_EVERY, trackers=trackers, hooks=(timed,),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        trueloop.train(recipe, runs=folder)
    return timed.cpu.seconds


def lightning(steps: int) -> float:
    import lightning as L  # noqa: N812

    class Module(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch: Any, index: int) -> Tensor:
            x, y = batch
            loss = F.cross_entropy(self.net(x), y)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    class Timing(L.Callback):
        def on_train_start(self, *_: Any) -> None:
            cpu.start()

        def on_train_end(self, *_: Any) -> None:
            cpu.stop()

    cpu = Cpu()
    with tempfile.TemporaryDirectory() as folder:
        logger = L.pytorch.loggers.CSVLogger(folder)
        trainer = L.Trainer(max_steps=steps, accelerator="cpu", logger=logger, log_every_n_steps=LOG_EVERY, callbacks=[Timing()],  # noqa: E501
                            enable_checkpointing=False, enable_model_summary=False)  # fmt: skip
        trainer.fit(Module(), Resident(steps))
    return cpu.seconds


def accelerate(steps: int) -> float:
    from accelerate import Accelerator
    from tqdm.auto import tqdm

    accelerator = Accelerator(cpu=True)
    model = network()
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=1e-3))
    progress, cpu = tqdm(total=steps), Cpu()
    cpu.start()
    for step, (x, y) in enumerate(Resident(steps), 1):
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        progress.update(1)
        if step % LOG_EVERY == 0:
            progress.set_postfix(loss=loss.item())
    cpu.stop()
    progress.close()
    return cpu.seconds


def hf_trainer(steps: int) -> float:
    import transformers

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            logits = self.net(x)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    class Named(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[dict[str, Tensor]]:
            return ({"x": x, "labels": y} for x, y in Resident(steps))

        def __len__(self) -> int:
            return steps

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            return torch.utils.data.DataLoader(Named(), batch_size=None)

    class Timing(transformers.TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            cpu.start()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            cpu.stop()

    cpu, model = Cpu(), Net()
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(folder, use_cpu=True, max_steps=steps, logging_steps=LOG_EVERY, report_to="none",  # noqa: E501
                                                   save_strategy="no", max_grad_norm=0.0, lr_scheduler_type="constant")  # fmt: skip  # noqa: E501
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        Trainer(model, arguments, train_dataset=Named(), callbacks=[Timing()], optimizers=(optimizer, None)).train()
    return cpu.seconds


def ignite(steps: int) -> float:
    from ignite.engine import Events, create_supervised_trainer
    from ignite.handlers import ProgressBar

    model, cpu = network(), Cpu()
    trainer = create_supervised_trainer(model, torch.optim.Adam(model.parameters(), lr=1e-3), F.cross_entropy)
    ProgressBar().attach(trainer)
    trainer.add_event_handler(
        Events.ITERATION_COMPLETED(every=LOG_EVERY), lambda engine: print(f"loss {engine.state.output:.4f}")
    )
    trainer.add_event_handler(Events.STARTED, cpu.start)
    trainer.add_event_handler(Events.COMPLETED, cpu.stop)
    trainer.run(Resident(steps), max_epochs=1)
    return cpu.seconds


def contenders() -> dict[str, Contender]:
    found: dict[str, Contender] = {
        "by hand, default Adam": by_hand(False),
        "by hand, fused Adam": by_hand(True),
        "trueloop": ours,
    }
    peers = {"Ignite": ("ignite", ignite), "Accelerate": ("accelerate", accelerate), "HF Trainer": ("transformers", hf_trainer),  # noqa: E501
             "Lightning": ("lightning", lightning)}  # fmt: skip
    return found | {name: run for name, (module, run) in peers.items() if importlib.util.find_spec(module)}


@contextlib.contextmanager
def on_a_terminal() -> Iterator[None]:
    """What is printed goes to a real terminal, so that bars are drawn; another process reads it."""
    master, slave = os.openpty()
    with subprocess.Popen(["cat"], stdin=master, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as reader:
        os.close(master)
        before = sys.stdout, sys.stderr
        with os.fdopen(slave, "w", encoding="utf-8") as terminal:
            sys.stdout = sys.stderr = terminal
            try:
                yield
            finally:
                sys.stdout, sys.stderr = before
        reader.wait()


def measured(rounds: int, steps: int) -> dict[str, list[float]]:
    """Microseconds of CPU per step, by contender, a number a round."""
    entered = list(contenders().items())
    costs: dict[str, list[float]] = {name: [] for name, _ in entered}
    for turn in range(-1, rounds):  # the first round warms up
        at = turn % len(entered)
        for name, run in entered[at:] + entered[:at]:
            torch.manual_seed(0)
            with on_a_terminal(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds = run(steps)
            if turn >= 0:
                costs[name].append(seconds / steps * 1e6)
        print(f"\rround {turn + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return costs


def shown(values: list[float], digits: int) -> str:
    """Median, and the quartiles."""
    ordered = sorted(values)
    return (
        f"{median(ordered):.{digits}f} ({ordered[len(ordered) // 4]:.{digits}f} .. "
        f"{ordered[3 * len(ordered) // 4]:.{digits}f})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    costs = measured(options.rounds, options.steps)
    plain, mine = costs["by hand, default Adam"], costs["trueloop"]
    print(
        f"\nMLP 784-256-256-10, batch {BATCH}, one thread, torch {torch.__version__}, {options.rounds} rounds of "
        f"{options.steps} steps\n"
    )
    print("| loop | CPU µs per step | over the plain loop | ours over it | bar |\n|---|---|---|---|---|")
    met = True
    for name, each in costs.items():
        ratios = [own / its for own, its in zip(mine, each, strict=True)]
        bar = BARS.get(name, 1.0)
        met &= name == "trueloop" or median(ratios) <= bar
        over = shown([its / base for its, base in zip(each, plain, strict=True)], 3)
        beside = "| |" if name == "trueloop" else f"{shown(ratios, 3)} | <= {bar:.2f} |"
        print(f"| {name} | {shown(each, 0)} | {over} | {beside}")
    print(
        f"\nAfter our last step (checkpoint, curve, ending): {shown([1e3 * seconds for seconds in ENDINGS[1:]], 0)} ms "
        "of CPU, once a run."
    )
    print("Every bar is met." if met else "NOT every bar is met.")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
