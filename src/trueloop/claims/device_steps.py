"""The first steps of a script, recorded so that a run with a GPU and one without can be compared.

    python -m trueloop.claims.device_steps OUT.pt STEPS REFERENCE PERTURBATION SCRIPT [its own arguments]

Every step but the first starts from the weights of the run in the file REFERENCE ("-": there is none), times
1 +- PERTURBATION: a difference of one step does not grow in the next. All random numbers are drawn on the CPU, also
where the script draws on a GPU. Dropout, autocast and gradient scalers are off here, torch.compile and tf32 by the
environment of the process (`PLAIN`).
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from trueloop.claims.operation_trace import Start, find_program, short_name
from trueloop.claims.tensor_digest import digest_of_all
from trueloop.claims.training_step import NoDropout
from trueloop.data.source import map_tensors, moved, tensors_in
from trueloop.doctor.launch import run
from trueloop.taps.bus import StopTheRun
from trueloop.taps.tap import Patch, undone_after
from trueloop.torch_private.dataloader import LoaderIterator
from trueloop.torch_private.dispatch import TorchDispatchMode, operator_schema
from trueloop.torch_private.optimizers import steps_running

__all__ = ["PLAIN", "DeviceStep", "DeviceSteps", "LayerCall", "read_device_steps"]

PLAIN: Final = {"TORCHDYNAMO_DISABLE": "1", "NVIDIA_TF32_OVERRIDE": "0"}  # environment: no torch.compile, no tf32
MOST_WEIGHTS: Final = 1 << 26  # parameters up to which weights are handed from run to run; more: one step
SAMPLE: Final = 1 << 14  # elements kept of each gradient
LAYER_SAMPLE: Final = 64  # elements kept of each layer's output
MOST_CALLS: Final = 4000  # layer calls kept of a step
EVERYTHING: Final = 1 << 62  # elements per digest: all of them
# Draws whose CPU kernel can stand in for the one of the GPU
DRAWS: Final = frozenset(
    ("rand", "randn", "randint", "randperm", "normal", "rand_like", "randn_like", "randint_like", "normal_", "uniform_")
) | {"bernoulli", "bernoulli_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_", "multinomial"}


class LayerCall(NamedTuple):
    """A layer that ran; of the outermost module also what it got, as a call named `inputs`."""

    name: str
    kind: str
    shape: tuple[int, ...]
    sample: Tensor  # some elements of its output, on the host


@dataclass
class DeviceStep:
    """An optimizer step: what led to it."""

    losses: list[float] = field(default_factory=list)  # of each `backward`
    batches: list[int] = field(default_factory=list)  # digests of what loaders yielded
    calls: list[LayerCall] = field(default_factory=list)
    roots: int = 0  # calls of an outermost module
    device: str = ""  # of the weights
    weights: int = 0  # digest, before the step
    parameters: list[str] = field(default_factory=list)  # shape and dtype of each
    gradients: list[Tensor | None] = field(default_factory=list)  # some elements of each, on the host
    after: list[Tensor] = field(default_factory=list)  # the weights; only in a reference


@dataclass
class DeviceSteps:
    """A run, as far as it came."""

    steps: list[DeviceStep] = field(default_factory=list)
    problem: str = ""  # why it cannot be compared
    error: str = ""  # of the script


def read_device_steps(file: Path) -> DeviceSteps:
    if not file.is_file():
        return DeviceSteps(error="the process ended without a result")
    data = torch.load(file, weights_only=True)
    steps = [DeviceStep(**{**each, "calls": [LayerCall(*call) for call in each["calls"]]}) for each in data["steps"]]
    return DeviceSteps(steps, data["problem"], data["error"])


def _write(found: DeviceSteps, file: Path) -> None:
    steps = [{**vars(step), "calls": [tuple(call) for call in step.calls]} for step in found.steps]
    torch.save({"steps": steps, "problem": found.problem, "error": found.error}, file)


@final
class _DrawsOnCpu(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A draw on a GPU becomes the CPU's, which both runs share, and is copied there."""

    def __init__(self, found: DeviceSteps) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        named = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded not in func.tags or short_name(str(func.name())) not in DRAWS:
            return func(*args, **named)
        first = next(tensors_in((args, named)), None)
        device = torch.device(named.get("device") or ("cpu" if first is None else first.device))
        if device.type in ("cpu", "meta"):
            return func(*args, **named)
        if named.get("generator") is not None:
            self.found.problem = "not applicable: it draws from a generator of its own on the GPU"
            return func(*args, **named)
        given = map_tensors((args, named), lambda each: each.cpu())
        drawn = func(*given[0], **{**given[1], **({"device": "cpu"} if named.get("device") else {})})
        if operator_schema(func).is_mutable and first is not None:
            return first.copy_(drawn)
        return moved(drawn, device)


@final
class _Recorder:
    def __init__(self, found: DeviceSteps, most: int, reference: DeviceSteps | None, perturbation: float) -> None:
        self.found, self._most, self._reference, self._perturbation = found, most, reference, perturbation
        self._step = DeviceStep()
        self._depth = 0
        self._names: dict[int, str] = {}
        self._process = os.getpid()  # a forked worker records nothing
        self._generator = torch.Generator().manual_seed(1)

    @contextmanager
    def on(self) -> Iterator[None]:
        handles = (
            register_optimizer_step_pre_hook(self._begins),
            register_optimizer_step_post_hook(self._ends),
            register_module_forward_pre_hook(self._enters),
            register_module_forward_hook(self._leaves),
        )
        patches = [
            Patch(LoaderIterator, "__next__", self._next),
            Patch(torch.autograd, "backward", self._backward),  # called by Tensor.backward
            Patch(torch.amp.autocast_mode.autocast, "__init__", _disabled),
            Patch(torch.amp.GradScaler, "__init__", _disabled),
        ]
        with undone_after(handles, patches), NoDropout(), _DrawsOnCpu(self.found):
            yield

    def end(self, problem: str = "") -> StopTheRun:
        self.found.problem = self.found.problem or problem
        return StopTheRun(problem or "enough")

    # -- what leads to a step --

    def _next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:
            batch = original(iterator)
            if os.getpid() == self._process:
                self._step.batches.append(digest_of_all(batch))
            return batch

        return __next__

    def _enters(self, module: nn.Module, args: Any) -> None:
        if isinstance(module, (nn.MultiheadAttention, nn.RNNBase)):
            module.dropout = 0.0  # they drop inside one torch function
        if not self._depth:
            self._names = {id(each): name for name, each in module.named_modules()}
            self._step.roots += 1
            self._keep("inputs", module, args)
        self._depth += 1

    def _leaves(self, module: nn.Module, args: Any, output: Any) -> None:
        self._depth = max(0, self._depth - 1)
        self._keep(self._names.get(id(module), ""), module, output)

    def _keep(self, name: str, module: nn.Module, value: Any) -> None:
        first = next(tensors_in(value), None)
        if first is not None and first.layout is torch.strided and len(self._step.calls) < MOST_CALLS:
            shown = LayerCall(name, type(module).__name__, tuple(first.shape), _sampled(first, LAYER_SAMPLE))
            self._step.calls.append(shown)

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if os.getpid() == self._process:
                if steps_running():
                    raise self.end("not applicable: the optimizer calls `backward` itself, by a closure")
                self._step.losses += [float(each.detach().double().sum()) for each in tensors_in([tensors])]
            return original(tensors, *args, **kwargs)

        return backward

    # -- the step --

    def _begins(self, optimizer: Optimizer, *_: Any) -> None:
        weights, step = _weights(optimizer), self._step
        step.device = ", ".join(sorted({weight.device.type for weight in weights}))
        step.weights = digest_of_all([weight.detach().cpu() for weight in weights], EVERYTHING)
        step.parameters = [f"{tuple(weight.shape)} {weight.dtype}" for weight in weights]
        step.gradients = [None if weight.grad is None else _sampled(weight.grad, SAMPLE) for weight in weights]

    def _ends(self, optimizer: Optimizer, *_: Any) -> None:
        if os.getpid() != self._process:
            return
        weights, number = _weights(optimizer), len(self.found.steps)
        self.found.steps.append(self._step)
        if _drew_on_gpu():
            raise self.end("not applicable: a GPU kernel of it draws random numbers, which the CPU cannot repeat")
        many = sum(weight.numel() for weight in weights) > MOST_WEIGHTS
        if many or len(self.found.steps) == (self._most if self._reference is None else len(self._reference.steps)):
            raise self.end()
        if self._reference is None:
            self._step.after = [weight.detach().cpu().clone() for weight in weights]
        else:
            self._hand_over(weights, self._reference.steps[number])
        self._step, self._depth = DeviceStep(), 0

    def _hand_over(self, weights: list[Tensor], reference: DeviceStep) -> None:
        if self._step.parameters != reference.parameters:
            raise self.end()  # another model: the comparison says so
        with torch.no_grad():
            for weight, value in zip(weights, reference.after, strict=True):
                if self._perturbation and value.is_floating_point():
                    signs = torch.randint(0, 2, value.shape, generator=self._generator).to(value.dtype) * 2 - 1
                    value = value * (1 + self._perturbation * signs)
                weight.copy_(value)


def _weights(optimizer: Optimizer) -> list[Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def _sampled(tensor: Tensor, most: int) -> Tensor:
    """Some elements, evenly spread, on the host."""
    dense = tensor.detach()
    flat = (dense.to_dense() if dense.layout is not torch.strided else dense).reshape(-1)
    some = flat[:: -(-flat.numel() // most)] if flat.numel() > most else flat
    return (torch.view_as_real(some).reshape(-1) if some.is_complex() else some).double().cpu()


def _disabled(original: Callable[..., Any]) -> Callable[..., Any]:
    """An autocast or a scaler that does nothing."""
    signature = inspect.signature(original)

    def __init__(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.arguments["enabled"] = False
        original(*bound.args, **bound.kwargs)

    return __init__


def _drew_on_gpu() -> bool:
    """The generator of a GPU has moved: its state is a seed and a position."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    return any(bool(state[8:].any()) for state in torch.cuda.get_rng_state_all())


def main(words: list[str]) -> int:
    out, steps, reference, perturbation, *command = words
    Start(1, 1, 1).set()
    found = DeviceSteps()
    known = None if reference == "-" else read_device_steps(Path(reference))
    recorder = _Recorder(found, int(steps), known, float(perturbation))
    with recorder.on():
        outcome, error = run(find_program(command))
    if error is not None and not isinstance(error, SystemExit):
        found.error = f"{type(error).__name__}: {error}".split("\n")[0]
    _write(found, Path(out))
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
