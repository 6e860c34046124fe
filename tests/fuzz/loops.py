"""Made-up training loops: random orders of reset, backward and step over several optimizers, as scripts, beside a plain
oracle.

The oracle keeps books about numbered backwards; it knows nothing of tensors, versions or hooks. It says which rules
must speak, and at which line, given only the order of the operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import strategies as st

__all__ = ["Enough", "Loop", "Op", "loops", "must_be_found", "script"]


@dataclass(frozen=True)
class Op:
    """One line of the loop's body, for one of the optimizers."""

    kind: str
    """reset, reset-in-place, backward, backward-divided, step, train, eval, validate."""
    who: int
    times: int = 1
    """For backward: how often the line runs in a row (accumulation). For validate: how many batches."""
    no_grad: bool = True
    """For validate."""


@dataclass(frozen=True)
class Loop:
    optimizers: int
    body: tuple[Op, ...]
    rounds: int


def _ops(optimizers: int) -> st.SearchStrategy[Op]:
    who = st.integers(0, optimizers - 1)
    return st.one_of(
        st.builds(Op, st.sampled_from(["reset", "reset-in-place", "step", "step", "train", "eval"]), who),
        st.builds(Op, st.sampled_from(["backward", "backward", "backward-divided"]), who, st.integers(1, 5)),
        st.builds(Op, st.just("validate"), who, st.integers(2, 3), st.booleans()),
    )


@st.composite
def loops(draw: st.DrawFn) -> Loop:
    optimizers = draw(st.integers(1, 3))
    body = draw(st.lists(_ops(optimizers), min_size=1, max_size=12))
    return Loop(optimizers, tuple(body), draw(st.integers(2, 5)))


def line_of(index: int) -> int:
    """The line of the body's op number `index` in the script."""
    return _HEAD.count("\n") + 2 + index


_HEAD = """\
import torch
from torch import nn
torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.1), nn.Linear(4, 2)) for _ in range(3)]
optimizers = [torch.optim.SGD(m.parameters(), lr=1e-3) for m in models]
def x(): return torch.randn(5, 3)
def mse(out): return nn.functional.mse_loss(out, torch.randn(5, 2))
"""


def script(loop: Loop) -> str:
    """The loop as a script; every op of the body stands on a line of its own."""
    lines = [f"for round in range({loop.rounds}):", *(f"    {_line(op)}" for op in loop.body)]
    return _HEAD + "\n".join(lines) + "\n"


def _line(op: Op) -> str:
    who, times = op.who, op.times
    return {
        "reset": f"optimizers[{who}].zero_grad()",
        "reset-in-place": f"optimizers[{who}].zero_grad(set_to_none=False)",
        "step": f"optimizers[{who}].step()",
        "train": f"models[{who}].train()",
        "eval": f"models[{who}].eval()",
        "backward": f"for _ in range({times}): mse(models[{who}](x())).backward()",
        "backward-divided": f"for _ in range({times}): (mse(models[{who}](x())) / {times}).backward()",
        "validate": f"{'with torch.no_grad(): ' if op.no_grad else ''}[mse(models[{who}](x())) for _ in "
        f"range({times})]",
    }[op.kind]


@dataclass
class _Books:
    """What a careful person would write down about one optimizer and its model."""

    gradient: set[int] = field(default_factory=set)
    """Backwards whose gradients are in there. Empty: None or zero."""
    none: bool = True
    """No gradient at all (as opposed to a zero one)."""
    old: set[int] = field(default_factory=set)
    """Backwards that the last step has used."""
    since_step: list[tuple[int, int, bool]] = field(default_factory=list)
    """Backwards since the last step: (number, line index, divided)."""
    bare: Counter[str] = field(default_factory=Counter)
    seen: int = 0
    """Backwards of the whole run before its last step."""
    fed: bool = False
    """Some step found new gradients."""
    idle_step: int | None = None
    """The line of its latest step that found nothing, though some other model had a backward: one head of several,
    resting."""
    windows: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Windows of undivided means: (line index, length)."""
    averages: bool = False
    """Some window was averaged."""
    training: bool = True
    """The mode the model is in."""
    modes: list[bool] = field(default_factory=list)
    """Modes of the backwards' forwards since the last step."""
    trained: bool = False
    """A backward went through the model in train mode."""
    idle: Counter[int] = field(default_factory=Counter)
    """Steps in eval mode, by the line of the last forward."""
    passes: list[tuple[int, int]] = field(default_factory=list)
    """Evaluations in train mode: (line index, backwards of the whole run before)."""


@dataclass(frozen=True)
class Enough:
    """How often a thing must be seen before its rule speaks."""

    bare_steps: int
    windows: int
    steps_in_eval_mode: int


def must_be_found(loop: Loop, enough: Enough) -> set[tuple[str, int]]:
    """(rule, line) of everything that must be said of the loop."""
    books = [_Books() for _ in range(3)]
    found: set[tuple[str, int]] = set()
    number = 0
    for _ in range(loop.rounds):
        for index, op in enumerate(loop.body):
            book = books[op.who]
            if op.kind.startswith("backward"):
                for _ in range(op.times):
                    number += 1
                    _note_backward(book, number, index, divided=op.kind.endswith("divided"))
            elif op.kind.startswith("reset"):
                book.none = book.none or op.kind == "reset"
                book.gradient = set()
            elif op.kind in ("train", "eval"):
                book.training = op.kind == "train"
            elif op.kind == "validate":
                _note_evaluation(book, number, index)
            else:
                found |= set(_judge_step(book, number, index, enough))
    never_fed = [book.idle_step for book in books if book.idle_step is not None and not book.fed]
    found |= {("step-without-gradient", line_of(index)) for index in never_fed}
    return found | {
        ("evaluated-in-train-mode", line_of(i)) for book in books if book.trained for i, _ in book.passes if i >= 0
    }


def may_be_found(loop: Loop) -> set[tuple[str, int]]:
    """What is right to say, but depends on which steps were recorded: a backward whose gradients were cleared, and the
    step had those of a later one. Reported at the backward, or at what cleared them."""
    found: set[tuple[str, int]] = set()
    unused: dict[int, list[int]] = {}
    for _ in range(loop.rounds):
        for index, op in enumerate(loop.body):
            if op.kind.startswith("backward"):
                unused.setdefault(op.who, []).append(index)
            elif op.kind.startswith("reset"):
                lost = unused.pop(op.who, [])
                found |= {("gradients-cleared-before-step", line_of(each)) for each in (*lost, index) if lost}
            elif op.kind not in ("train", "eval", "validate"):
                unused.pop(op.who, None)
    return found


def _note_backward(book: _Books, number: int, index: int, *, divided: bool) -> None:
    book.gradient.add(number)
    book.none = False
    book.since_step.append((number, index, divided))
    book.modes.append(book.training)
    book.trained = book.trained or book.training


def _note_evaluation(book: _Books, number: int, index: int) -> None:
    """Evaluations in train mode with no backward between them are one pass, at the line of the first."""
    if not book.training:
        book.passes.append((-1, number))
    elif not book.passes or book.passes[-1][1] != number or book.passes[-1][0] < 0:
        book.passes.append((index, number))


def _judge_step(book: _Books, number: int, index: int, enough: Enough) -> Iterator[tuple[str, int]]:
    passed_by, book.seen = number > book.seen, number
    if not book.since_step:
        kind = "same" if book.gradient else "none"
        book.bare[kind] += 1
        if book.bare[kind] >= enough.bare_steps and kind == "none" and passed_by:
            book.idle_step = index
        elif book.bare[kind] >= enough.bare_steps:
            yield "step-without-gradient", line_of(index)
    elif not book.gradient:
        yield "gradients-cleared-before-step", line_of(index)
    else:
        book.fed = True
        if book.gradient & book.old:
            yield "gradients-never-cleared", line_of(book.since_step[0][1])
        yield from _judge_window(book, enough)
    if book.modes and not any(book.modes) and not book.training:
        last = book.since_step[-1][1]
        book.idle[last] += 1
        if book.idle[last] >= enough.steps_in_eval_mode:
            yield "trained-in-eval-mode", line_of(last)
    book.old, book.since_step, book.modes = set(book.gradient), [], []


def _judge_window(book: _Books, enough: Enough) -> Iterator[tuple[str, int]]:
    """Several backwards of one line, and of no other, that are still in the gradient."""
    used = [(line, divided) for backward, line, divided in book.since_step if backward in book.gradient]
    lines = {line for line, _ in used}
    if len(lines) != 1 or len(used) < 2:
        return
    book.averages = book.averages or any(divided for _, divided in used)
    if not book.averages:
        key = (lines.pop(), len(used))
        book.windows[key] += 1
        if book.windows[key] >= enough.windows:
            yield "accumulation-not-averaged", line_of(key[0])
