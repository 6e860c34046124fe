"""Is the backward of a custom `torch.autograd.Function` the derivative of its forward? Measured by finite differences.

It runs code of the user's, so call it in a fork. Each function is taken for what its author may have meant: a forward
that is random, constant in steps, or the identity has a backward that is another function on purpose, and so has one
whose backward is not linear in the gradient (clipping, top-k), or reads an input that the forward ignores.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import BackwardError

__all__ = ["CannotTry", "is_plain", "wrong_gradients"]

COORDINATES: Final = 24  # Elements of an input that are changed one by one, where all at once would mix their effects
ENOUGH: Final = 4  # Elements that must be comparable, where there are as many
CLEAR: Final = 0.1  # Relative difference of an element that counts: an approximation on purpose is closer
SHARE: Final = 0.25  # Share of the compared elements that must be wrong: a clamped gradient is wrong for a few
ALIKE: Final = 0.02  # Spread of a ratio that is one factor
SECONDS: Final = 2.5  # Time for the elements of one input
STEPS: Final = {torch.float64: (1e-5, 1e-3), torch.float32: (1e-2, 2e-2)}
"""dtype -> (step, relative to the input's scale; how closely two steps must agree)."""
FLAT: Final = {torch.float64: (1e-9, 1e-4, 1.0), torch.float32: (1e-4, 1e-2, 0.9)}
"""dtype -> (step, so small that hardly a value crosses an edge; a slope that is zero; share of outputs with it)."""

Sources = Sequence[Any]
Gradients = tuple[Tensor | None, ...]


class CannotTry(Exception):
    """The backward cannot be compared, or differs on purpose; the message says why."""


def is_plain(value: object) -> bool:
    """Can the function be called again with this argument, without effects elsewhere?"""
    if isinstance(value, Tensor):
        return type(value) in (Tensor, torch.nn.Parameter) and value.layout is torch.strided and not value.is_complex()
    if isinstance(value, (tuple, list)):
        return not any(isinstance(item, Tensor) for item in value) and all(map(is_plain, value))
    return value is None or isinstance(value, (int, float, str, torch.dtype, torch.device))


def wrong_gradients(
    function: Any, args: Sources, trained: Sequence[bool | None], seeded_by_one: bool
) -> list[BackwardError]:
    """The inputs whose gradient is clearly wrong.

    `trained`: for each input, None without a gradient, and True for a parameter. `seeded_by_one`: the run's own
    backward started at this function, with ones.
    """
    try:
        return _Trial(function, args, trained, torch.float64).errors(seeded_by_one)
    except CannotTry:
        raise
    except Exception:  # noqa: BLE001 - it may accept float32 only
        return _Trial(function, args, trained, torch.float32).errors(seeded_by_one)


@dataclass
class _Compared:
    """Elements of one input: the gradient that the backward gives, and the measured one."""

    given: Tensor
    measured: Tensor


class _Trial:
    def __init__(self, function: Any, args: Sources, trained: Sequence[bool | None], dtype: torch.dtype) -> None:
        self._function, self._trained, self._dtype = function, trained, dtype
        self._generator = torch.Generator().manual_seed(20)
        self._floats = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.is_floating_point()]
        self._asked = [i for i in self._floats if trained[i] is not None]
        self._args = [self._moved(a, i in self._asked) if i in self._floats else a for i, a in enumerate(args)]
        self._names = _argument_names(function, len(args))

    def _draw(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self._generator, dtype=torch.float64).to(self._dtype)

    def _moved(self, value: Tensor, asked: bool) -> Tensor:
        """Slightly moved, away from kinks: zeros are common, and so are values that a clamp returned."""
        value = value.detach().to(self._dtype)
        if not asked or not value.numel():
            return value
        noise = torch.rand(value.shape, generator=self._generator, dtype=torch.float64).to(self._dtype)
        return torch.where(value == 0, 1e-3 * _scale(value) * (0.5 + noise), value * (1 + 2e-3 * (noise - 0.5)))

    # -- forward and backward --

    def _run(self, args: Sources) -> tuple[tuple[Tensor, ...], Any]:
        """The outputs with a gradient, and the node of the call."""
        given = [a.clone() if isinstance(a, Tensor) else a for a in args]
        for index in self._asked:
            given[index].requires_grad_()
        with torch.enable_grad():
            output = self._function.apply(*given)
        outputs = output if isinstance(output, tuple) else (output,)
        self._node_inputs = [o if isinstance(o, Tensor) else None for o in outputs]
        kept = tuple(o for o in outputs if isinstance(o, Tensor) and o.is_floating_point() and o.requires_grad)
        if not kept or any(a is b or a.numel() > 4_000_000 for a in kept for b in given):
            raise CannotTry("it has no output with a gradient, or writes into its input")
        if any(not torch.equal(a.detach(), b) for a, b in zip(given, args, strict=True) if isinstance(a, Tensor)):
            raise CannotTry("its forward writes into its input")
        node: Any = kept[0].grad_fn
        return tuple(o.detach() for o in kept), node

    def _outputs(self, args: Sources) -> tuple[Tensor, ...]:
        return self._run(args)[0]

    def _with(self, index: int, value: Tensor) -> list[Any]:
        return [*self._args[:index], value, *self._args[index + 1 :]]

    def _backward(self, gradients: Sequence[Tensor]) -> Gradients:
        _, node = self._run(self._args)
        waiting = list(gradients)
        full = [
            waiting.pop(0) if o is not None and o.is_floating_point() and o.requires_grad else _zeros(o)
            for o in self._node_inputs
        ]
        with torch.no_grad():
            answer = node.apply(*full)
        answers = answer if isinstance(answer, tuple) else (answer,)
        if len(answers) < len(self._args):
            raise CannotTry("its backward returns too few gradients")
        return tuple(None if a is None else a.detach().clone() for a in answers[: len(self._args)])

    # -- the comparison --

    def errors(self, seeded_by_one: bool) -> list[BackwardError]:
        if not self._asked:
            raise CannotTry("no input has a gradient")
        base, again = self._outputs(self._args), self._outputs(self._args)
        if any(not bool(torch.isfinite(a).all()) for a in base):
            raise CannotTry("its outputs are not finite")
        if any(not torch.equal(a, b) for a, b in zip(base, again, strict=True)):
            raise CannotTry("its forward returns different values for the same input")
        if any(_is_same(self._args[index], output) for index in self._asked for output in base):
            raise CannotTry("its forward is the identity, and only its backward does something")
        seeds = [self._draw(output) for output in base]
        gradients = self._backward(seeds)
        self._refuse_steps(base, seeds, gradients)
        found = [self._error(index, base, seeds, gradients, seeded_by_one) for index in self._asked]
        wrong = [error for error, _ in found if error is not None]
        fits = any(good for _, good in found)
        # A parameter that is updated by a rule of its own (a centre, divided by its count) keeps the sign.
        kept = [error for error in wrong if not (fits and error.pattern == "differs" and error.ratio > 0)]
        return [replace(error, others_fit=fits) for error in kept]

    def _refuse_steps(self, base: tuple[Tensor, ...], seeds: list[Tensor], gradients: Gradients) -> None:
        """An input that no output follows: a step function, or an input that only the backward reads."""
        for index in self._floats:
            value: Tensor = self._args[index]
            if not value.numel():
                raise CannotTry("an input is empty")
            part, tolerance, quantile = FLAT[self._dtype]
            step = part * _scale(value)
            slopes = [self._slopes(index, step * self._draw(value).sign(), seeds, step) for _ in range(3)]
            given = gradients[index]
            tolerance *= max(1.0, _largest(base))
            flat = all(_quantile(slope.abs(), quantile) < tolerance for slope in slopes)
            if flat and (index not in self._asked or (given is not None and bool((given != 0).any()))):
                raise CannotTry("its forward is constant in steps, or ignores an input that its backward reads")

    def _step(self, value: Tensor) -> float:
        return STEPS[self._dtype][0] * _scale(value)

    def _slopes(self, index: int, change: Tensor, seeds: list[Tensor], step: float) -> Tensor:
        """The outputs' central differences, each multiplied by its gradient, as one vector."""
        above = self._outputs(self._with(index, self._args[index] + change))
        below = self._outputs(self._with(index, self._args[index] - change))
        pairs = zip(seeds, above, below, strict=True)
        return torch.cat([(seed * (a - b)).double().flatten() for seed, a, b in pairs]) / (2 * step)

    def _error(
        self, index: int, base: tuple[Tensor, ...], seeds: list[Tensor], gradients: Gradients, seeded_by_one: bool
    ) -> tuple[BackwardError | None, bool]:
        """What is wrong with one input's gradient, and whether it was compared and fits."""
        given, value = gradients[index], self._args[index]
        if given is None:
            given = torch.zeros_like(value)
        elif given.shape != value.shape or not bool(torch.isfinite(given).all()):
            raise CannotTry("its backward returns a gradient of another shape, or a non-finite one")
        ignores = self._ignores_gradient(index, seeds, given)
        if ignores and seeded_by_one:  # right by the only gradient that it is ever called with
            seeds = [torch.ones_like(output) for output in base]
        compared = self._compare(index, base, seeds, given)
        least = min(ENOUGH, value.numel())
        if compared.measured.numel() < least:
            return None, False
        name = self._names[index]
        if ignores and not seeded_by_one:
            return _error_of("ignores", name, 1.0, 1.0, compared), False
        wrong = _difference(compared.given, compared.measured) > CLEAR
        share = float(wrong.double().mean())
        if share < SHARE:
            return None, True
        ratios = compared.given[wrong] / compared.measured[wrong]
        ratio = float(ratios.median())
        single = share > 0.9 and float(((ratios - ratio).abs() <= ALIKE * abs(ratio)).double().mean()) > 0.9
        if not bool((compared.given != 0).any()):
            pattern = "missing" if gradients[index] is None else "zero"
            stopped = len(self._asked) > 1 and not self._trained[index]  # perhaps on purpose
            return (None if stopped else _error_of(pattern, name, 0.0, share, compared)), False
        pattern = "differs" if not single else "sign" if abs(ratio + 1) <= 0.1 else "factor"
        backwards = float((ratios < 0).double().mean()) > 0.1
        return _error_of(pattern, name, -1.0 if pattern == "differs" and backwards else ratio, share, compared), False

    def _ignores_gradient(self, index: int, seeds: list[Tensor], given: Tensor) -> bool:
        """True if its gradient is the same for any gradient of the output. A backward must be linear in it."""
        if not bool((given != 0).any()):
            return False
        others = [self._draw(seed) for seed in seeds]
        again, minus, other, both = (
            _or_zeros(self._backward(changed)[index], given)
            for changed in (seeds, [-s for s in seeds], others, [s + o for s, o in zip(seeds, others, strict=True)])
        )
        if not _close(again, given):
            raise CannotTry("its backward returns different values for the same gradient")
        if _close(minus, given) and _close(other, given):
            return True
        if not _close(minus, -given) or not _close(both, given + other):
            raise CannotTry("its backward is not linear in the gradient: it clips, selects or normalizes")
        return False

    def _compare(self, index: int, base: tuple[Tensor, ...], seeds: list[Tensor], given: Tensor) -> _Compared:
        value: Tensor = self._args[index]
        if len(base) == 1 and base[0].shape == value.shape and value.numel() > 1 and self._is_elementwise(index, base):
            step = self._step(value)
            changes = torch.full_like(value, step)
            first, second = (self._slopes(index, changes / n, seeds, step / n) for n in (1, 2))
            ahead = self._outputs(self._with(index, value + changes))[0] - base[0]
            sides = (seeds[0] * ahead).double().flatten() / step
            return self._smooth(given.double().flatten(), first, second, sides, base)
        return self._compare_coordinates(index, base, seeds, given)

    def _is_elementwise(self, index: int, base: tuple[Tensor, ...]) -> bool:
        value: Tensor = self._args[index]
        half = torch.rand(value.shape, generator=self._generator) < 0.5
        after = self._outputs(self._with(index, torch.where(half, value + 0.1 * _scale(value), value)))
        return bool(half.any()) and torch.equal(after[0][~half], base[0][~half])

    def _compare_coordinates(
        self, index: int, base: tuple[Tensor, ...], seeds: list[Tensor], given: Tensor
    ) -> _Compared:
        value: Tensor = self._args[index]
        until = monotonic() + SECONDS
        order = torch.randperm(value.numel(), generator=self._generator)[:COORDINATES].tolist()
        step = self._step(value)
        rows: list[tuple[float, float, float, float]] = []
        for coordinate in order:
            if monotonic() > until:
                break
            change = torch.zeros_like(value)
            change.view(-1)[coordinate] = step
            first, second = (float(self._slopes(index, change / n, seeds, step / n).sum()) for n in (1, 2))
            ahead = self._outputs(self._with(index, value + change))
            side = sum(float((s * (a - b)).sum()) for s, a, b in zip(seeds, ahead, base, strict=True)) / step
            rows.append((float(given.reshape(-1)[coordinate]), first, second, side))
        columns = torch.tensor(rows, dtype=torch.float64).reshape(-1, 4).unbind(1)
        return self._smooth(columns[0], columns[1], columns[2], columns[3], base)

    def _smooth(
        self, given: Tensor, first: Tensor, second: Tensor, side: Tensor, base: tuple[Tensor, ...]
    ) -> _Compared:
        """The elements at which the forward has a slope: the same from both sides and with two steps, and not zero."""
        size = second.abs()
        noise = (1e-10 if self._dtype is torch.float64 else 1e-4) * max(1e-3, _largest(base))
        kept = (size > 1e-4 * float(size.max() if size.numel() else 0)) & (size > noise) & torch.isfinite(first)
        kept &= (first - second).abs() <= STEPS[self._dtype][1] * size
        kept &= (side - second).abs() <= 0.05 * size
        return _Compared(given[kept], second[kept])


def _error_of(pattern: str, name: str, ratio: float, share: float, compared: _Compared) -> BackwardError:
    worst = int(compared.measured.abs().argmax())
    return BackwardError(
        pattern, name, ratio, share, compared.measured.numel(), float(compared.given[worst]),
        float(compared.measured[worst]),
    )  # fmt: skip


def _argument_names(function: Any, count: int) -> list[str]:
    """The names of the inputs in `forward`, without its context."""
    try:
        names = list(inspect.signature(function.forward).parameters)
    except (TypeError, ValueError):
        names = []
    separate = function.setup_context is not torch.autograd.Function.setup_context
    names = names if separate else names[1:]
    return [names[i] if i < len(names) else f"input {i}" for i in range(count)]


def _scale(value: Tensor) -> float:
    size = float(value.double().pow(2).mean().sqrt())
    return size if size > 0 else 1.0


def _quantile(values: Tensor, share: float) -> float:
    return float(values.kthvalue(max(1, round(share * values.numel()))).values)


def _largest(tensors: Sequence[Tensor]) -> float:
    return max((float(t.abs().max()) for t in tensors if t.numel()), default=0.0)


def _is_same(value: Tensor, output: Tensor) -> bool:
    return value.numel() == output.numel() and torch.allclose(value.reshape(-1), output.to(value.dtype).reshape(-1))


def _zeros(output: Tensor | None) -> Tensor | None:
    return None if output is None else torch.zeros_like(output)


def _or_zeros(gradient: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if gradient is None else gradient


def _close(one: Tensor, other: Tensor) -> bool:
    return float((one - other).abs().max()) <= 1e-3 * max(float(one.abs().max()), float(other.abs().max()))


def _difference(given: Tensor, measured: Tensor) -> Tensor:
    return (given - measured).abs() / torch.maximum(given.abs(), measured.abs())
