"""distributed-equals-single: two processes that share each batch train like one process.

The same global batches, half of each on either of two processes (gloo, on the CPU), must give the losses of a single
process, within float32 rounding. A loss or a layer that depends on the complete batch does not: it sees half of it.

Dropout and augmentation are off, because each process draws its own random numbers. BatchNorm has separate statistics
on each process too, in `trueloop train` and in DistributedDataParallel: that is a choice, not a fault. So it is in eval
mode while the rest is compared, and its effect is measured separately and reported. A model that still draws random
numbers is compared in eval mode.

The two processes are forked from this one, so the recipe needs no file and imports take no time.
"""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, final

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor, nn

from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject
from trueloop.data.source import Batch, Source, Splits, map_tensors, size_of, tensors_in
from trueloop.engine.assemble import assemble
from trueloop.engine.build_model import build_model
from trueloop.engine.call_model import call_model
from trueloop.engine.layers import remove_after
from trueloop.engine.loop import Loop
from trueloop.hook import Hook, Row
from trueloop.measure.randomness import fence, seed_all
from trueloop.recipe.recipe import Recipe
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.modules import BatchNorm, DropoutNd

__all__ = ["DistributedEqualsSingle"]

STEPS: Final = 6
WORLD: Final = 2
BATCH: Final = 64  # most samples per step here
FIRST: Final = 1e-5  # relative tolerance of the first loss: sums in a different order; float32 has 1e-7 for one
LATER: Final = 1e-3  # of later losses: rounding of one update grows in the next
PATIENCE: Final = 60.0  # seconds after which processes that wait for each other are killed
HUNG: Final = f"the {WORLD} processes had not finished after {PATIENCE:.0f} s"
Mode = Literal["still", "eval", "batch statistics"]  # still: BatchNorm in eval mode

MIXING_LAYER = Cause("a layer mixes the samples of its batch", "reduce over other dimensions, or gather all samples")
MIXING_LOSS = Cause(
    "the loss depends on several samples: pairs, ranks, the mean or size of the batch",
    "return one loss per sample; if it needs the complete batch, gather the outputs of all processes first",
)
RANK = Cause("something depends on the rank", "look for rank, is_initialized and world_size in the recipe")
BUFFER = Cause("a buffer is updated from the batch: a running mean, a codebook", "synchronize it after each step")


@final
class DistributedEqualsSingle(Claim):
    name = "distributed-equals-single"
    healthy = f"over {STEPS} steps, {WORLD} processes have the losses of one, within float32 rounding"
    causes: ClassVar[tuple[Cause, ...]] = (MIXING_LOSS, MIXING_LAYER, BUFFER, RANK)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        if not (dist.is_available() and dist.is_gloo_available() and hasattr(os, "fork")):
            return self.unproved("several processes need gloo and fork, and this torch or system lacks one of them")
        runs = _Comparison(subject, "still")
        if runs.first_difference and runs.is_random():
            runs = _Comparison(subject, "eval")
        if runs.error == HUNG:
            recipe = " ".join(subject.words) or "RECIPE"
            typed = f"torchrun --nproc-per-node {WORLD} -m trueloop train {recipe} --set device=cpu"
            return self.unproved(f"{HUNG}; run `{typed}` to see where they hang", runs.facts())
        if runs.error:
            said = f"one process trains, and {WORLD} do not: {runs.error}"
            return self.fails(said, runs.facts(), self.likely_first(RANK))
        if not runs.one.losses:
            return self.unproved("a single process took no step")
        if (step := runs.first_difference) is not None:
            where, causes = self._explain(runs)
            return self.fails(f"{runs.sentence(step)}{where}", runs.facts(), causes)
        norms = [name for name, module in subject.parts().model.named_modules() if _is_batch_norm(module)]
        if not norms:
            return self.holds(runs.agreement(), runs.facts())
        change = _Comparison(subject, "batch statistics").largest
        facts = runs.facts() | {"batch_norms": norms, "largest_difference_with_batch_statistics": change}
        shown = ", ".join(norms[:3]) + (" ..." if len(norms) > 3 else "")
        said = f"{runs.agreement()}, with BatchNorm in eval mode; its statistics are separate on each process ({shown})"
        return self.holds(f"{said} and change the losses by up to {change:.1%}: SyncBatchNorm would not", facts)

    def _explain(self, runs: _Comparison) -> tuple[str, tuple[Cause, ...]]:
        """Which part changes when its batch is split in two, tested in this process."""
        name, loss = runs.split_in_two()
        if name is not None:
            said = f"; the output of layer {name} changes when its batch is split in two"
            return said, (MIXING_LAYER, BUFFER, MIXING_LOSS, RANK)
        if loss is not None:
            said = f"; the loss of a batch is {loss[0]:.6g}, and of its two halves {loss[1]:.6g}"
            return said, (MIXING_LOSS, MIXING_LAYER, BUFFER, RANK)
        return "", (RANK, BUFFER, MIXING_LOSS, MIXING_LAYER)


@dataclass(frozen=True)
class _Run:
    losses: list[float]
    norms: list[float]
    error: str = ""
    when: float = 0.0  # of the error: the other process fails later, because its peer is gone


class _Comparison:
    """One recipe, trained by one process and by two."""

    def __init__(self, subject: RecipeSubject, mode: Mode) -> None:
        self.subject, self.mode = subject, mode
        self.recipe = _without_randomness(subject, mode)
        self.one = _train(self.recipe, subject)
        self.two = _on_ranks(lambda: _train(self.recipe, subject), subject.scratch)
        self.error = self.two.error if self.one.losses else ""
        self.pairs = list(zip(self.one.losses, self.two.losses, strict=False))

    @property
    def first_difference(self) -> int | None:
        """The first step (from 1) whose losses differ; 0: the gradient norms of the first step do."""
        for step, (one, two) in enumerate(self.pairs, 1):
            if _difference(one, two) > (FIRST if step == 1 else LATER):
                return step
            if step == 1 and _difference(self.one.norms[0], self.two.norms[0]) > LATER:
                return 0
        return len(self.pairs) + 1 if len(self.one.losses) != len(self.two.losses) else None

    @property
    def largest(self) -> float:
        return max((_difference(one, two) for one, two in self.pairs), default=0.0)

    def is_random(self) -> bool:
        """Does one process have different losses with a different seed?"""
        return _train(self.recipe, self.subject, reseed=1).losses != self.one.losses

    def agreement(self) -> str:
        where = " in eval mode (the model draws random numbers in train mode)" if self.mode == "eval" else ""
        steps = len(self.one.losses)
        return f"the losses of {WORLD} processes and one differ by at most {self.largest:.0e} in {steps} steps{where}"

    def sentence(self, step: int) -> str:
        if step == 0:
            one, two = self.one.norms[0], self.two.norms[0]
            said = f"the first gradient norm is {one:.6g} with one process and {two:.6g} with {WORLD}"
            return f"{said}, though the loss is the same"
        if step > len(self.pairs):
            return f"one process takes {len(self.one.losses)} steps and {WORLD} take {len(self.two.losses)}"
        one, two = self.pairs[step - 1]
        said = f"step {step}: the loss is {one:.6g} with one process and {two:.6g} with {WORLD}"
        return f"{said} ({_difference(one, two):.1%} difference)"

    def facts(self) -> dict[str, object]:
        losses = {"losses_of_one": self.one.losses, "losses_of_two": self.two.losses}
        return {**losses, "mode": self.mode, "largest_difference": self.largest}

    def split_in_two(self) -> tuple[str | None, tuple[float, float] | None]:
        """The first layer whose output changes when the batch is split; the two losses, where those differ."""
        parts = assemble(self.recipe, self.subject.request)
        batch = self.subject.batch(parts)
        size = size_of(batch.inputs)
        middle = (size + 1) // 2
        halves = [_rows(batch, slice(0, middle)), _rows(batch, slice(middle, size))]
        with torch.no_grad(), fence():
            (whole, output), *others = (_layer_outputs(parts.model, each) for each in (batch, *halves))
            pairs = zip([output, *(out for _, out in others)], (batch, *halves), strict=True)
            found = [parts.task.loss_and_count(out, each) for out, each in pairs]
            sums, counts = [float(each.total) for each, _ in found], [float(count) for _, count in found]
        outputs = ((name, value, [seen.get(name) for seen, _ in others]) for name, value in whole.items())
        layer = next((name for name, value, split in outputs if not _are_halves(value, split)), None)
        loss, of_halves = sums[0] / counts[0], sum(sums[1:]) / sum(counts[1:])
        return layer, (loss, of_halves) if _difference(loss, of_halves) > FIRST else None


# -- training without randomness --


class _LossRecorder(Hook):
    def __init__(self) -> None:
        self.losses: list[float] = []
        self.norms: list[float] = []

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            self.losses.append(row.values["loss"])
            self.norms.append(row.values["gradient_norm"])


def _without_randomness(subject: RecipeSubject, mode: Mode) -> Recipe:
    """The recipe without randomness, and without work that does not change the losses."""
    recipe, splits = subject.recipe, subject.splits
    batch = max(WORLD, min(recipe.batch, BATCH))
    train = _FirstSamples(splits.train, batch * STEPS, recipe.seed)
    few = Splits(train=train, facts=splits.facts, prepare=splits.prepare)
    changes: dict[str, Any] = {"data": lambda _: few, "model": lambda facts: _quiet(build_model(recipe, facts), mode)}
    changes |= {"start_from": "", "batch": batch, "accumulate": min(recipe.accumulate, batch // WORLD), "steps": STEPS}
    changes |= {"epochs": None, "log_every": 1, "device": "cpu", "precision": "fp32", "compile": "off"}
    changes |= {"program": "eager", "balanced": False, "where": "loader", "workers": 0, "schedule": "constant"}
    changes |= {"warmup": 0, "ema": None, "patience": None, "statistics_every": 0, "metric": "", "save_every": 10**9}
    return replace(recipe, **changes)


def _train(recipe: Recipe, subject: RecipeSubject, reseed: int = 0) -> _Run:
    recorder = _LossRecorder()
    parts = assemble(recipe, subject.request, hooks=recorder)
    if reseed:
        seed_all(recipe.seed + reseed)
    with _without_onednn():
        Loop(parts).train()
    return _Run(recorder.losses, recorder.norms)


@contextmanager
def _without_onednn() -> Iterator[None]:
    """oneDNN has threads that a fork does not copy, and would wait for them forever."""
    before = torch.backends.mkldnn.set_flags(_enabled=False)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=before[0])  # type: ignore[no-untyped-call]


def _is_batch_norm(module: nn.Module) -> bool:
    return isinstance(module, BatchNorm) and not isinstance(module, nn.SyncBatchNorm)


def _quiet(model: nn.Module, mode: Mode) -> nn.Module:
    """Training leaves submodules in eval mode; only an outermost model in eval mode is set back to train mode."""
    if mode == "eval":
        return _InEvalMode(model)
    for module in model.modules():
        if isinstance(module, DropoutNd) or (mode == "still" and _is_batch_norm(module)):
            module.eval()
        if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
            module.dropout = 0.0
    return model


@final
class _InEvalMode(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner.eval()

    def forward(self, inputs: Any) -> Any:
        return self.inner(inputs)


@final
class _FirstSamples(Source):
    """The first samples of a source, read once: a source may be random, and different in each process."""

    def __init__(self, source: Source, number: int, seed: int) -> None:
        self.number = min(number, len(source))
        with fence(seed):
            self.batch = source.fetch(torch.arange(self.number))

    def __len__(self) -> int:
        return self.number

    def fetch(self, numbers: Tensor) -> Batch:
        return _rows(self.batch, numbers)


def _rows(batch: Batch, rows: Any) -> Batch:
    return Batch(*map_tensors(tuple(batch), lambda tensor: tensor[rows]))


# -- two processes --


def _on_ranks(work: Callable[[], _Run], scratch: Path) -> _Run:
    """The result of rank 0 of two forked processes, which meet over a file."""
    store = scratch / "store"
    store.unlink(missing_ok=True)
    context = torch.multiprocessing.get_context("fork")
    files = [scratch / f"rank-{rank}.json" for rank in range(WORLD)]
    ranks = [context.Process(target=_rank, args=(rank, store, work, scratch), daemon=True) for rank in range(WORLD)]
    for file, process in zip(files, ranks, strict=True):
        file.unlink(missing_ok=True)
        process.start()
    for process in ranks:
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
    results = [_read(file) for file in files]
    failed = [result for result in results if result.error]
    return replace(results[0], error=min(failed, key=lambda result: result.when).error if failed else "")


def _rank(rank: int, store: Path, work: Callable[[], _Run], scratch: Path) -> None:
    """One process. Its output goes to a file."""
    signal.alarm(int(PATIENCE) + 10)  # it must not outlive its parent by much
    torch.set_num_threads(1)  # a fork has none of its parent's threads, and must not wait for them
    with (scratch / f"rank-{rank}.txt").open("w", encoding="utf-8") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    try:
        limit = timedelta(seconds=PATIENCE / 2)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD, timeout=limit)
        done = work()
        dist.barrier()
    except Exception as error:  # noqa: BLE001 - sent to the parent process
        done = _Run([], [], traceback.format_exception_only(error)[-1].strip(), time.time())
    result = json.dumps([done.losses, done.norms, done.error, done.when])
    (scratch / f"rank-{rank}.json").write_text(result, encoding="utf-8")
    os._exit(0)  # at once: a normal exit would wait for a peer that is gone


def _read(file: Path) -> _Run:
    if not file.is_file():
        return _Run([], [], HUNG, time.time())
    return _Run(*json.loads(file.read_text(encoding="utf-8")))


# -- comparing --


def _difference(one: float, two: float) -> float:
    """Relative; NaN equals NaN."""
    if one == two or (one != one and two != two):
        return 0.0
    share = abs(one - two) / max(abs(one), abs(two))
    return share if share == share else float("inf")


def _layer_outputs(model: nn.Module, batch: Batch) -> tuple[dict[str, Tensor], Any]:
    """The output of each layer, in the order in which they return; and of the model."""
    outputs: dict[str, Tensor] = {}

    def hook(name: str) -> Callable[..., None]:
        def record(module: nn.Module, args: Any, output: Any) -> None:
            if (first := next(tensors_in(output), None)) is not None:
                outputs.setdefault(name or "(the model)", first.detach().clone())

        return record

    with remove_after(module.register_forward_hook(hook(name)) for name, module in model.named_modules()):
        return outputs, call_model(model, batch.inputs)


def _are_halves(whole: Tensor, halves: list[Tensor | None]) -> bool:
    """The halves are the rows of the whole. Outputs without one row per sample count as equal."""
    parts = [half for half in halves if half is not None and half.dim()]
    if len(parts) < WORLD or not whole.dim() or sum(map(len, parts)) != len(whole) or not whole.is_floating_point():
        return True
    if any(part.shape[1:] != whole.shape[1:] for part in parts):
        return False
    tolerance = FIRST * float(whole.abs().max() if whole.numel() else 0)
    return torch.allclose(whole, torch.cat(parts), rtol=LATER, atol=tolerance)
