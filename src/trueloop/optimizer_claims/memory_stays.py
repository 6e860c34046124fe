"""memory-stays: what the optimizer holds does not grow from step to step.

Also shown: bytes of state for each parameter, and the time of a step beside the reference's.
"""

import time
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject, Training
from trueloop.optimizer_claims.problem import NET
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.dispatch import pytree

__all__ = ["MemoryStays"]

LOOKS: Final = (60, 120, 180, 240)  # L-BFGS fills its history first
TIMED: Final = 30

LIST = Cause("gradients or losses are appended to a list", "keep a running value")
GRAPH = Cause("state with a graph keeps all earlier steps", "decorate step() by @torch.no_grad(), or detach()")


@final
class MemoryStays(OptimizerClaim):
    name = "memory-stays"
    healthy = "the bytes of all tensors that the optimizer holds are the same at later steps"
    causes: ClassVar[tuple[Cause, ...]] = (LIST, GRAPH)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        training = subject.training(NET, torch.float32)
        sizes = [held_bytes(training.run(subject.steps(look) - training.taken).optimizer) for look in LOOKS]
        numbers = sum(each.numel() for each in training.parameters)
        evidence = {"bytes": dict(zip(map(str, LOOKS), sizes, strict=True)), "bytes_per_number": sizes[-1] / numbers}
        if all(later > earlier for earlier, later in pairwise(sizes)):
            shown = ", ".join(f"{size:,} after {look} steps" for look, size in zip(LOOKS, sizes, strict=True))
            return self.fails(f"it holds more bytes with every step: {shown}", evidence, place=subject.place)
        said = (
            f"{sizes[-1] / numbers:.1f} bytes of state for each number of the weights, the same after {LOOKS[-1]} steps"
        )
        ratio = _time_ratio(subject)
        if ratio is not None:
            said += f"; a step takes {ratio:.2g} times as long as that of {subject.against}"
        return self.holds(said, evidence)


def held_bytes(optimizer: Optimizer) -> int:
    """Of all tensors in its state and its other attributes; each once."""
    others = [value for name, value in vars(optimizer).items() if name not in ("param_groups", "state", "defaults")]
    weights = {id(each) for group in optimizer.param_groups for each in group["params"]}
    leaves: list[Any] = pytree.tree_leaves([list(optimizer.state.values()), others])
    tensors = {each.data_ptr(): each for each in leaves if isinstance(each, Tensor) and id(each) not in weights}
    return sum(each.numel() * each.element_size() for each in tensors.values())


def _time_ratio(subject: OptimizerSubject) -> float | None:
    """In turns, so that a busy machine slows both. None: there is no reference."""
    if subject.reference is None:
        return None
    try:
        pair = (subject.training(NET, torch.float32), subject.reference_training(NET, torch.float32))
        seconds = [tuple(_timed(each) for each in pair) for _ in range(TIMED)]
    except NotTaken:
        return None
    return median(mine / other for mine, other in seconds)


def _timed(training: Training) -> float:
    began = time.perf_counter()
    training.step()
    return time.perf_counter() - began
