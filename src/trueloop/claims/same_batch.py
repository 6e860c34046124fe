"""A script whose loader hands out the same few samples from its first step on.

    python -m trueloop.claims.same_batch OUT.json STEPS FACTOR SAMPLES SCRIPT [its own arguments]

FACTOR is on the script's learning rate; SAMPLES of 0: the complete batch. Dropout and weight decay are off. At the end
the batch is handed out with the targets of other samples, and with one target for all, to see what the loss says then.
"""

import copy
import gc
import json
import math
import os
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, final

import numpy
import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from trueloop.claims.operation_trace import Start, find_program
from trueloop.claims.training_step import NoDropout, select_samples
from trueloop.data.source import map_leaves, tensors_in
from trueloop.doctor.launch import run
from trueloop.event import Place
from trueloop.taps.bus import StopTheRun
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, undone_after
from trueloop.torch_private.dataloader import LoaderIterator, iterated_dataset

__all__ = ["LEARNED", "SameBatch", "read_same_batch"]

LEARNED: Final = 0.02  # share of the first loss that counts as about zero
WITHOUT_STEP: Final = 1000  # batches that are handed out without a step: the script is evaluating
TARGETS: Final = ("labels", "label", "targets", "target", "y")  # names in a dict
ZERO_FLOOR: Final = ("NllLoss", "MseLoss", "SmoothL1Loss", "HuberLoss", "L1Loss")  # functions that can reach zero
BETWEEN: Final = ("DivBackward0", "MulBackward0")  # a loss divided by the number of micro-batches


@dataclass
class SameBatch:
    """What was seen. The loss before each step on the same samples."""

    losses: list[float] = field(default_factory=list)
    steps: int = 0  # on the same samples
    samples: int = 0
    exchanged: float | None = None  # the last loss with the targets of other samples
    one_target: float | None = None  # with the first sample's target for all
    draws: bool = False  # a step draws random numbers
    function: str = ""  # the function that returned the loss
    place: Place | None = None  # of the backward
    problem: str = ""  # why it means nothing
    error: str = ""  # of the script

    @property
    def last(self) -> float:
        """A forward that draws is noisy: the lowest of the last ones."""
        return min(self.losses[-10:]) if self.draws else self.losses[-1]

    @property
    def learned(self) -> bool:
        return bool(self.losses) and math.isfinite(self.last) and self.last <= max(LEARNED * self.losses[0], 1e-6)

    @property
    def falls(self) -> bool:
        """It is still falling: the last third of the steps went lower than the others."""
        before = self.losses[: 2 * len(self.losses) // 3]
        return bool(before) and self.last < 0.95 * min(before)

    @property
    def ignores_targets(self) -> bool:
        """An autoencoder over (image, label) pairs, a contrastive loss (whose targets are the places in the batch): the
        floor of such a loss is not zero. A constant answer does change with one target for all."""
        one, other = self.one_target, self.exchanged  # of the same weights
        return one is None or other is None or math.isclose(one, other, rel_tol=1e-6)

    @property
    def reaches_zero(self) -> bool:
        return self.function.startswith(ZERO_FLOOR) and not self.draws


def read_same_batch(file: Path) -> SameBatch:
    data = json.loads(file.read_text(encoding="utf-8"))
    return SameBatch(**{**data, "place": data["place"] and Place(**data["place"])})


@final
class _Loader:
    """Takes the batch of the first step, and hands it out again."""

    def __init__(self, seen: SameBatch, samples: int) -> None:
        self.seen, self._samples = seen, samples
        self.batch: Any = None
        self.random = 0  # digest of the random states when a batch was handed out
        self.change: Callable[[Any], Any] = lambda batch: batch
        self._dataset: Any = None
        self._latest: tuple[Any, Any] | None = None
        self._handed_out = 0

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:
            if self.batch is not None and iterated_dataset(iterator) is self._dataset:
                return self._again()
            batch = original(iterator)
            self._latest = (iterated_dataset(iterator), copy.deepcopy(batch) if self.batch is None else None)
            return batch

        return __next__

    def stepped(self) -> None:
        self._handed_out = 0
        if self.batch is not None:
            return
        if self._latest is None:
            raise self.end("the script takes its batches from no DataLoader, so they cannot be held")
        self._dataset, batch = self._latest
        self.batch, self.seen.samples = _first_samples(batch, self._samples)

    def end(self, problem: str = "") -> StopTheRun:
        self.seen.problem = self.seen.problem or problem
        return StopTheRun(problem or "enough")

    def _again(self) -> Any:
        self._handed_out += 1
        if self._handed_out > WITHOUT_STEP:
            raise self.end(f"the script asked for {WITHOUT_STEP} batches without a step")
        self.random = _random_digest()
        return self.change(copy.deepcopy(self.batch))


@final
class _Observer:
    def __init__(self, seen: SameBatch, loader: _Loader, most: int, factor: float) -> None:
        self.seen, self.loader, self._most, self._factor = seen, loader, most, factor
        self._optimizer: Optimizer | None = None
        self._rates: list[Any] = []
        self._scaled: tuple[int, Tensor] | None = None
        self._ending = False
        self._process = os.getpid()

    @contextmanager
    def on(self) -> Iterator[None]:
        handles = (register_optimizer_step_pre_hook(self._begins), register_optimizer_step_post_hook(self._ends))
        patches = [
            Patch(LoaderIterator, "__next__", self.loader.wrap),
            Patch(torch.autograd, "backward", self._backward),  # called by Tensor.backward
            Patch(torch.amp.GradScaler, "scale", self._scale),
        ]
        with undone_after(handles, patches), NoDropout():
            yield

    def _begins(self, optimizer: Optimizer, *_: Any) -> None:
        if self._optimizer is None:
            self._optimizer = optimizer
            _switch_off(optimizer)
        elif optimizer is not self._optimizer:
            raise self.loader.end("not applicable: several optimizers take steps; their losses may be opposed (GAN)")
        self._rates = [group["lr"] for group in optimizer.param_groups]
        factor = 0.0 if self._ending else self._factor
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * factor

    def _ends(self, optimizer: Optimizer, *_: Any) -> None:
        for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate
        first = self.loader.batch is None
        self.loader.stepped()
        if first or self._ending:
            return
        self.seen.steps += 1
        if self.seen.steps >= self._most or self.seen.learned or not math.isfinite(self.seen.losses[-1]):
            self._ending = True
            self.loader.change = _with_targets_exchanged

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if os.getpid() == self._process and self.loader.batch is not None:
                losses = list(tensors_in([tensors]))
                if sum(loss.numel() for loss in losses) != 1:
                    raise self.loader.end("not applicable: `backward` is called on more than one value")
                self._read(losses[0], here(2))
            return original(tensors, *args, **kwargs)

        return backward

    def _read(self, loss: Tensor, place: Place | None) -> None:
        seen = self.seen
        if self._scaled is not None and self._scaled[0] == id(loss):
            loss = self._scaled[1]  # not multiplied for float16
        if seen.place is not None and place != seen.place:
            raise self.loader.end("not applicable: `backward` is called on several losses")
        seen.place = place
        value = float(loss.detach())
        if not self._ending:
            seen.losses.append(value)
            seen.function = _function_of(loss)
            seen.draws = seen.draws or (len(seen.losses) <= 3 and _random_digest() != self.loader.random)
        elif self.loader.change is _with_targets_exchanged and seen.exchanged is None:
            seen.exchanged = value
            self.loader.change = _with_one_target
        else:
            seen.one_target = value
            raise self.loader.end()

    def _scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(scaler: Any, outputs: Any) -> Any:
            result = original(scaler, outputs)
            if isinstance(result, Tensor) and isinstance(outputs, Tensor):
                self._scaled = (id(result), outputs)
            return result

        return scale


def _switch_off(optimizer: Optimizer) -> None:
    """Weight decay, and dropout inside functions that compute it themselves."""
    for group in optimizer.param_groups:
        if "weight_decay" in group:
            group["weight_decay"] = 0.0
    # By type: isinstance would ask objects for their __class__, and some of them warn.
    for module in [each for each in gc.get_objects() if issubclass(type(each), (nn.MultiheadAttention, nn.RNNBase))]:
        module.dropout = 0.0


def _function_of(loss: Tensor) -> str:
    node = loss.grad_fn
    while node is not None and node.name() in BETWEEN and node.next_functions:
        node = node.next_functions[0][0]
    return "" if node is None else node.name()


def _first_samples(batch: Any, samples: int) -> tuple[Any, int]:
    """Only where every part of the batch is a tensor with one row for each sample."""
    leaves: list[Any] = []
    map_leaves(batch, leaves.append)
    sizes = {len(leaf) for leaf in leaves if isinstance(leaf, Tensor) and leaf.dim()}
    size = next(iter(sizes), 0)
    plain = len(sizes) == 1 and all(isinstance(leaf, Tensor) and leaf.dim() for leaf in leaves)
    if not samples or not plain or size <= samples:
        return batch, size
    return select_samples(batch, range(samples), size), samples


def _with_targets_exchanged(batch: Any) -> Any:
    return _with_targets(batch, lambda target: target.roll(1, 0))


def _with_one_target(batch: Any) -> Any:
    return _with_targets(batch, lambda target: target[:1].expand_as(target).clone())


def _with_targets(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The batch itself where it is unknown what the targets are."""

    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, Tensor) and value.dim() else value

    if isinstance(batch, dict):
        return {**batch, **{key: changed(value) for key, value in batch.items() if key in TARGETS}}
    if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields") and len(batch) > 1:
        return type(batch)([*batch[:-1], changed(batch[-1])])
    return batch


def _random_digest() -> int:
    states = [torch.get_rng_state()]
    states += torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    own = repr((random.getstate(), [numpy.asarray(each).tolist() for each in numpy.random.get_state()]))
    digest = zlib.crc32(own.encode())
    for state in tensors_in(states):
        digest = zlib.crc32(state.numpy().data, digest)
    return digest


def main(words: list[str]) -> int:
    out, steps, factor, samples, *command = words
    Start(1, 1, 1).set()
    seen = SameBatch()
    observer = _Observer(seen, _Loader(seen, int(samples)), int(steps), float(factor))
    with observer.on():
        outcome, error = run(find_program(command))
    if error is not None and not isinstance(error, SystemExit):
        seen.error = f"{type(error).__name__}: {error}".split("\n")[0]
    Path(out).write_text(json.dumps(asdict(seen)), encoding="utf-8")
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
