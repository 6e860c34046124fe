"""distributed-equals-single: two processes that share each batch train as one process does.

The same global batches, half of each on either of two processes (gloo, on the CPU), must give the losses of a single
process, to the rounding of float32. A loss or a layer that looks at its whole batch does not: it sees half of it.

What is random is switched off for it, because each process draws for itself: dropout and augmentation. BatchNorm, too,
has statistics of its own on each process, as `trueloop train` and DistributedDataParallel have it: that is a choice,
not a mistake. So its statistics are held still while the rest is compared, and what they change is measured apart and
said. A model that still draws is compared in eval mode.

The two processes are forked from this one, so that a recipe need not be written in a file, and no second is spent on
imports.
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
from trueloop.data.source import Batch, Source, Splits, size_of, tensors_in
from trueloop.engine.assemble import assemble
from trueloop.engine.loop import Loop
from trueloop.hook import Hook, Row
from trueloop.measure.randomness import fence, seed_all
from trueloop.recipe.model import build_model
from trueloop.recipe.recipe import Recipe
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.modules import BatchNorm, DropoutNd

__all__ = ["DistributedEqualsSingle"]

STEPS: Final = 6
WORLD: Final = 2
BATCH: Final = 64
"""The most samples in a step here: enough for halves that differ."""
FIRST: Final = 1e-5
"""Of the first loss: sums in another order, and nothing else; float32 has 1e-7 for a single one of them."""
LATER: Final = 1e-3
"""Of the losses after it: what rounding does to one update is carried on, and grows."""
PATIENCE: Final = 60.0
"""Seconds after which processes that wait for one another are ended."""

ITS_BATCH: Final = Cause(
    "a layer mixes the samples of its batch",
    "take means and products over other dimensions than the first, or gather them from all",
)
ITS_LOSS: Final = Cause(
    "the loss looks at several samples at once: pairs, ranks, the batch's own mean or number",
    "return one loss per sample; what needs the whole batch must gather the outputs of all processes first",
)
SHARE: Final = Cause(
    "something is done on one process only, or by its rank",
    "look for rank, is_initialized and world_size in the recipe",
)
STATE: Final = Cause(
    "a buffer is updated from the batch: a running mean, a codebook", "share it over the processes after each step"
)

HUNG: Final = f"the {WORLD} processes had not ended after {PATIENCE:.0f} s"

Mode = Literal["still", "eval", "batch statistics"]


@final
class DistributedEqualsSingle(Claim):
    name = "distributed-equals-single"
    healthy = f"over {STEPS} steps, the losses of {WORLD} processes are those of one, to the rounding of float32"
    causes: ClassVar[tuple[Cause, ...]] = (ITS_LOSS, ITS_BATCH, STATE, SHARE)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        if not (dist.is_available() and dist.is_gloo_available() and hasattr(os, "fork")):
            return self.unproved(
                "this torch has no gloo, or this system no fork: several processes cannot be started here"
            )
        tried = _Tried(subject, "still")
        if tried.differs and tried.draws():
            tried = _Tried(subject, "eval")
        if tried.broke == HUNG:
            typed = f"torchrun --nproc-per-node {WORLD} -m trueloop train {' '.join(subject.words) or 'RECIPE'} --set device=cpu"
            return self.unproved(f"{HUNG}; type `{typed}` to see where they stand", tried.facts())
        if tried.broke:
            return self.fails(
                f"one process trains, and {WORLD} do not: {tried.broke}", tried.facts(), (SHARE, *self.causes[:-1])
            )
        if not tried.alone:
            return self.unproved("not one step could be taken by a single process")
        if (step := tried.differs) is not None:
            seen, causes = self._because(subject, tried)
            return self.fails(f"{tried.said(step)}{seen}", tried.facts(), causes)
        norms = [name for name, module in subject.parts().model.named_modules() if _is_batch_norm(module)]
        facts = tried.facts()
        if not norms:
            return self.holds(f"{tried.agreement()}", facts)
        apart = _Tried(subject, "batch statistics")
        facts |= {"batch_norms": norms, "largest_difference_with_batch_statistics": apart.largest}
        shown = ", ".join(norms[:3]) + (" ..." if len(norms) > 3 else "")
        return self.holds(
            f"{tried.agreement()}, with the statistics of BatchNorm held still; those are each process's own ({shown}), and change "
            f"the losses by up to {apart.largest:.1%}: SyncBatchNorm would not",
            facts,
        )

    def _because(self, subject: RecipeSubject, tried: _Tried) -> tuple[str, tuple[Cause, ...]]:
        """Which part answers otherwise when its batch is cut in two: asked in this one process."""
        name, loss = tried.cut_in_two()
        if name is not None:
            return f"; the layer {name} answers otherwise when its batch is cut in two", (
                ITS_BATCH,
                STATE,
                ITS_LOSS,
                SHARE,
            )
        if loss is not None:
            return f"; the loss of a batch is {loss[0]:.6g}, and of its two halves {loss[1]:.6g}", (
                ITS_LOSS,
                ITS_BATCH,
                STATE,
                SHARE,
            )
        return "", (SHARE, STATE, ITS_LOSS, ITS_BATCH)


@dataclass(frozen=True)
class _Losses:
    """What a run told, or how it ended."""

    losses: list[float]
    norms: list[float]
    error: str = ""
    when: float = 0.0
    """Of the error: the other process fails after it, because its peer is gone."""


class _Tried:
    """One recipe, trained by one process and by two."""

    def __init__(self, subject: RecipeSubject, mode: Mode) -> None:
        self.subject, self.mode = subject, mode
        self.recipe = _quiet(subject, mode)
        one = _trained(self.recipe, subject)
        two = _on_ranks(lambda: _trained(self.recipe, subject), subject.scratch)
        self.alone, self.together, self.broke = one.losses, two.losses, "" if not one.losses else two.error
        self.norms = one.norms, two.norms

    @property
    def differs(self) -> int | None:
        """The first step (from 1) whose losses are not the same; 0: the gradients of the first are not."""
        pairs = list(zip(self.alone, self.together, strict=False))
        for step, (one, two) in enumerate(pairs, 1):
            if _apart(one, two) > (FIRST if step == 1 else LATER):
                return step
            if step == 1 and _apart(self.norms[0][0], self.norms[1][0]) > LATER:
                return 0
        return len(pairs) + 1 if len(self.alone) != len(self.together) else None

    @property
    def largest(self) -> float:
        return max((_apart(one, two) for one, two in zip(self.alone, self.together, strict=False)), default=0.0)

    def draws(self) -> bool:
        """Does a single process give other losses when it draws otherwise?"""
        return _trained(self.recipe, self.subject, draws=1).losses != self.alone

    def agreement(self) -> str:
        where = " in eval mode (the model draws random numbers in training)" if self.mode == "eval" else ""
        return f"the losses of {WORLD} processes and of one differ by at most {self.largest:.0e} in {len(self.alone)} steps{where}"

    def said(self, step: int) -> str:
        if step == 0:
            one, two = self.norms[0][0], self.norms[1][0]
            return f"the first gradient has the length {one:.6g} with one process and {two:.6g} with {WORLD}, though the loss is the same"
        if step > min(len(self.alone), len(self.together)):
            return f"one process takes {len(self.alone)} steps and {WORLD} take {len(self.together)}"
        one, two = self.alone[step - 1], self.together[step - 1]
        return f"step {step}: the loss is {one:.6g} with one process and {two:.6g} with {WORLD} ({_apart(one, two):.1%} apart)"

    def facts(self) -> dict[str, object]:
        return {
            "losses_of_one": self.alone,
            "losses_of_two": self.together,
            "mode": self.mode,
            "largest_difference": self.largest,
        }

    def cut_in_two(self) -> tuple[str | None, tuple[float, float] | None]:
        """The first layer whose answers change when the batch is cut in two; the loss of the whole and of the halves,
        where that does."""
        parts = assemble(self.recipe, self.subject.request)
        whole = self.subject.batch(parts)
        halves = [
            Batch(_rows(whole.inputs, part), _rows(whole.targets, part)) for part in _parts(size_of(whole.inputs))
        ]
        with torch.no_grad(), fence():
            (one, answer), *others = (_answers(parts.model, batch) for batch in (whole, *halves))
            counts = [int(parts.task.count(batch.targets)) for batch in halves]
            losses = [
                float(parts.task.loss_sum(out, batch.targets)) for (_, out), batch in zip(others, halves, strict=True)
            ]
            loss = float(parts.task.loss_sum(answer, whole.targets)) / int(parts.task.count(whole.targets))
        layer = next(
            (name for name, value in one.items() if not _same(value, [seen.get(name) for seen, _ in others])), None
        )
        of_halves = sum(losses) / sum(counts)
        return layer, (loss, of_halves) if _apart(loss, of_halves) > FIRST else None


# -- training, quietly --


class _Told(Hook):
    def __init__(self) -> None:
        self.losses: list[float] = []
        self.norms: list[float] = []

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            self.losses.append(row.values["loss"])
            self.norms.append(row.values["gradient_norm"])


def _quiet(subject: RecipeSubject, mode: Mode) -> Recipe:
    """The recipe without what is random, and without what takes time and changes no loss."""
    recipe, splits = subject.recipe, subject.splits
    batch = max(WORLD, min(recipe.batch, BATCH))
    some = Splits(train=_Held(splits.train, batch * STEPS, recipe.seed), facts=splits.facts, prepare=splits.prepare)
    changes: dict[str, Any] = {
        "data": lambda _: some,
        "model": lambda facts: _stilled(build_model(recipe, facts), mode),
        "start_from": "",
        "batch": batch,
        "accumulate": min(recipe.accumulate, batch // WORLD),
        "steps": STEPS,
        "epochs": None,
        "log_every": 1,
        "device": "cpu",
        "precision": "fp32",
        "compile": "off",
        "program": "eager",
        "balanced": False,
        "where": "loader",
        "workers": 0,
        "schedule": "constant",
        "warmup": 0,
        "ema": None,
        "patience": None,
        "statistics_every": 0,
        "metric": "",
        "save_every": 10**9,
    }
    return replace(recipe, **changes)


def _trained(recipe: Recipe, subject: RecipeSubject, draws: int = 0) -> _Losses:
    told = _Told()
    loop = Loop.of(recipe, subject.request, hooks=told)
    if draws:
        seed_all(recipe.seed + draws)
    with _without_threads_of_its_own():
        loop.train()
    return _Losses(told.losses, told.norms)


@contextmanager
def _without_threads_of_its_own() -> Iterator[None]:
    """oneDNN keeps threads that a fork does not take along, and would wait for them for ever."""
    before = torch.backends.mkldnn.set_flags(_enabled=False)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=before[0])  # type: ignore[no-untyped-call]


def _is_batch_norm(module: nn.Module) -> bool:
    return isinstance(module, BatchNorm) and not isinstance(module, nn.SyncBatchNorm)


def _stilled(model: nn.Module, mode: Mode) -> nn.Module:
    """Parts of a model in eval mode stay so in a training; only a model that is so as a whole is put into the other."""
    if mode == "eval":
        return _Still(model)
    for module in model.modules():
        if isinstance(module, DropoutNd) or (mode == "still" and _is_batch_norm(module)):
            module.eval()
        if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
            module.dropout = 0.0
    return model


@final
class _Still(nn.Module):
    """A model in eval mode within a training."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner.eval()

    def forward(self, inputs: Any) -> Any:
        return self.inner(inputs)


@final
class _Held(Source):
    """The first samples of a source, read once: a source may draw, and each process would for itself."""

    def __init__(self, source: Source, number: int, seed: int) -> None:
        self.number = min(number, len(source))
        with fence(seed):
            self.batch = source.fetch(torch.arange(self.number))

    def __len__(self) -> int:
        return self.number

    def fetch(self, numbers: Tensor) -> Batch:
        return Batch(_rows(self.batch.inputs, numbers), _rows(self.batch.targets, numbers))


def _rows(value: Any, numbers: Any) -> Any:
    """The same rows of every tensor inside."""
    if isinstance(value, dict):
        return {key: _rows(item, numbers) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rows(item, numbers) for item in value))
    return type(value)(_rows(item, numbers) for item in value) if isinstance(value, (list, tuple)) else value[numbers]


# -- two processes --


def _on_ranks(work: Callable[[], _Losses], scratch: Path) -> _Losses:
    """What the first of two says, forked and met over a file."""
    store = scratch / "store"
    store.unlink(missing_ok=True)
    context = torch.multiprocessing.get_context("fork")
    ranks = [context.Process(target=_be, args=(rank, store, work, scratch), daemon=True) for rank in range(WORLD)]
    for each in ranks:
        (scratch / f"rank-{ranks.index(each)}.json").unlink(missing_ok=True)
        each.start()
    for each in ranks:
        each.join(PATIENCE)
        if each.is_alive():
            each.kill()
            each.join()
    said = [_read(scratch / f"rank-{rank}.json") for rank in range(WORLD)]
    broken = [each for each in said if each.error]
    return replace(said[0], error=min(broken, key=lambda each: each.when).error if broken else "")


def _be(rank: int, store: Path, work: Callable[[], _Losses], scratch: Path) -> None:
    """One process. It says nothing but what it writes into its file."""
    signal.alarm(int(PATIENCE) + 10)  # whatever it waits in, it does not outlive the one that asks by much
    torch.set_num_threads(1)  # the threads of the process it was forked from are not here, and must not be waited for
    with (scratch / f"rank-{rank}.txt").open("w", encoding="utf-8") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    try:
        limit = timedelta(seconds=PATIENCE / 2)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD, timeout=limit)
        done = work()
        dist.barrier()
    except Exception as error:  # noqa: BLE001 - handed over to the process that asks
        done = _Losses([], [], traceback.format_exception_only(error)[-1].strip(), time.time())
    (scratch / f"rank-{rank}.json").write_text(
        json.dumps([done.losses, done.norms, done.error, done.when]), encoding="utf-8"
    )
    os._exit(0)  # at once: a peer that is gone would be waited for


def _read(file: Path) -> _Losses:
    if not file.is_file():
        return _Losses([], [], HUNG, time.time())
    return _Losses(*json.loads(file.read_text(encoding="utf-8")))


# -- comparing --


def _apart(one: float, two: float) -> float:
    if one == two or (one != one and two != two):
        return 0.0
    distance = abs(one - two) / max(abs(one), abs(two))
    return distance if distance == distance else float("inf")


def _parts(number: int) -> list[slice]:
    return [slice(0, (number + 1) // 2), slice((number + 1) // 2, number)]


def _answers(model: nn.Module, batch: Batch) -> tuple[dict[str, Tensor], Any]:
    """What each layer gives, in the order in which they end; and the model."""
    seen: dict[str, Tensor] = {}

    def hook(name: str) -> Callable[..., None]:
        def note(module: nn.Module, args: Any, output: Any) -> None:
            if (first := next(tensors_in(output), None)) is not None:
                seen.setdefault(name or "(the model)", first.detach().clone())

        return note

    handles = [module.register_forward_hook(hook(name)) for name, module in model.named_modules()]
    try:
        return seen, model(batch.inputs)
    finally:
        for handle in handles:
            handle.remove()


def _same(whole: Tensor, halves: list[Tensor | None]) -> bool:
    """Are the halves' answers the rows of the whole's? What has no row per sample says nothing."""
    parts = [half for half in halves if half is not None and half.dim()]
    if len(parts) < WORLD or not whole.dim() or sum(map(len, parts)) != len(whole) or not whole.is_floating_point():
        return True
    if any(part.shape[1:] != whole.shape[1:] for part in parts):
        return False
    return torch.allclose(
        whole, torch.cat(parts), rtol=LATER, atol=FIRST * float(whole.abs().max() if whole.numel() else 0)
    )
