"""Fused linear + cross entropy on a real CUDA device: every layout of the kernel against float64, without a wait,
captured, compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.loop import Loop
from trueloop.hook import Hook, Row
from trueloop.kernels.linear_cross_entropy import linear_cross_entropy, reference
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.shakespeare import GPT

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore:linear_cross_entropy. torch .* cannot add"
    ),  # slower, and said; the numbers are the same
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]

LAYOUTS = ("stream", "narrow")
CLOSE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1.5e-2, torch.float16: 5e-3}
"""Length of the difference to float64, relative to the gradient's own: the rounding of scores and of their gradient."""


def case(rows: int, classes: int, kind: torch.dtype, width: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    draws = torch.Generator("cuda").manual_seed(rows + classes)
    hidden = torch.randn(rows, width, device="cuda", generator=draws).to(kind).requires_grad_()
    weight = (torch.randn(classes, width, device="cuda", generator=draws) * 0.2).to(kind).requires_grad_()
    targets = torch.randint(0, classes, (rows,), device="cuda", generator=draws)
    targets[::5] = -100
    return hidden, weight, targets


def exact(hidden: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    one, two = hidden.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    loss = reference(one, two, targets)
    of_hidden, of_weight = torch.autograd.grad(loss, (one, two))
    return loss, of_hidden, of_weight


def apart(one: Tensor, two: Tensor) -> float:
    one, two = one.detach().double(), two.detach().double()
    return float((one - two).norm() / two.norm())


@contextmanager
def no_waiting() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("classes", [17, 50257, 50304, 100_003])
def test_loss_and_gradients_are_those_of_float64(layout: str, kind: torch.dtype, classes: int) -> None:
    hidden, weight, targets = case(300, classes, kind)
    loss = linear_cross_entropy(hidden, weight, targets, rows=128, kernel=layout)
    loss.backward()  # type: ignore[no-untyped-call]
    truth = exact(hidden, weight, targets)
    assert hidden.grad is not None
    assert weight.grad is not None
    assert apart(loss, truth[0]) < CLOSE[kind]
    assert apart(hidden.grad, truth[1]) < CLOSE[kind]
    assert apart(weight.grad, truth[2]) < CLOSE[kind]
    assert not hidden.grad[::5].any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_loss_alone_is_the_same_loss(layout: str) -> None:
    hidden, weight, targets = case(300, 50257, torch.bfloat16)
    with torch.no_grad():
        alone = linear_cross_entropy(hidden, weight, targets, rows=128, kernel=layout)
    assert torch.equal(alone, linear_cross_entropy(hidden, weight, targets, rows=128, kernel=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wrong", [-1, 1000, 1 << 40])
def test_a_target_that_is_no_class_makes_the_loss_nan(layout: str, wrong: int) -> None:
    hidden, weight, targets = case(130, 1000, torch.bfloat16)
    targets[3] = wrong
    loss = linear_cross_entropy(hidden, weight, targets, kernel=layout)
    loss.backward()  # type: ignore[no-untyped-call]
    assert hidden.grad is not None
    assert torch.isnan(loss)
    assert torch.isnan(hidden.grad[3]).all()
    assert torch.isfinite(hidden.grad[4]).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_that_do_not_count_give_nothing_though_their_scores_are_infinite(layout: str) -> None:
    hidden, weight, targets = case(130, 1000, torch.bfloat16)
    with torch.no_grad():
        hidden[::5] = torch.inf
    loss = linear_cross_entropy(hidden, weight, targets, kernel=layout)
    loss.backward()  # type: ignore[no-untyped-call]
    assert hidden.grad is not None
    assert torch.isfinite(loss)
    assert not hidden.grad[::5].any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_large_scores_do_not_overflow(layout: str) -> None:
    hidden, weight, targets = case(256, 5000, torch.float32)
    large = (hidden.detach() * 300).requires_grad_()
    loss = linear_cross_entropy(large, weight, targets, kernel=layout)
    loss.backward()  # type: ignore[no-untyped-call]
    truth = exact(large, weight, targets)
    assert large.grad is not None
    assert apart(loss, truth[0]) < 1e-4
    assert apart(large.grad, truth[1]) < 1e-2


def test_under_autocast_the_gradient_of_the_weight_is_added_up_in_float32() -> None:
    hidden, weight, targets = case(4096, 1000, torch.float32)
    with torch.autocast("cuda", torch.bfloat16):
        loss = linear_cross_entropy(hidden, weight, targets, rows=256)
    (loss / 3).backward()  # type: ignore[no-untyped-call]
    truth = exact(hidden, weight, targets)
    assert weight.grad is not None
    assert hidden.grad is not None
    assert (loss.dtype, weight.grad.dtype, hidden.grad.dtype) == (torch.float32,) * 3
    assert apart(weight.grad * 3, truth[2]) < 1e-2
    assert apart(hidden.grad * 3, truth[1]) < 1e-2


def test_the_inputs_may_be_narrow_in_another_way_than_autocast_and_targets_lie_anyhow() -> None:
    hidden, weight, targets = case(600, 1000, torch.bfloat16)
    with torch.autocast("cuda", torch.float16):
        loss = linear_cross_entropy(hidden, weight, targets.repeat_interleave(2)[::2], rows=256)
    loss.backward()  # type: ignore[no-untyped-call]
    truth = exact(hidden, weight, targets)
    assert hidden.grad is not None
    assert weight.grad is not None
    assert apart(hidden.grad, truth[1]) < 1.5e-2
    assert apart(weight.grad, truth[2]) < 1.5e-2


def test_the_host_never_waits_for_the_device() -> None:
    hidden, weight, targets = case(600, 1000, torch.bfloat16)

    def step() -> None:
        hidden.grad = weight.grad = None
        (linear_cross_entropy(hidden, weight, targets, rows=256) / 600).backward()  # type: ignore[no-untyped-call]

    step()
    with no_waiting():
        step()


def test_it_can_be_captured_in_a_cuda_graph_and_played_on_other_numbers() -> None:
    hidden, weight, targets = case(600, 1000, torch.bfloat16)
    other, _, other_targets = case(600, 1000, torch.bfloat16)
    other, other_targets = other.detach().flip(0), other_targets.flip(0)

    def clear() -> None:
        hidden.grad = weight.grad = None

    def step() -> Tensor:
        loss = linear_cross_entropy(hidden, weight, targets, rows=256)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            clear()
            step()
    torch.cuda.current_stream().wait_stream(stream)
    clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    with torch.no_grad():
        hidden.copy_(other)
        targets.copy_(other_targets)
    graph.replay()
    torch.cuda.synchronize()
    truth = exact(hidden, weight, targets)
    assert weight.grad is not None
    assert apart(loss, truth[0]) < CLOSE[torch.bfloat16]
    assert apart(weight.grad, truth[2]) < CLOSE[torch.bfloat16]


def test_it_takes_less_memory_than_the_logits() -> None:
    hidden, weight, targets = case(16384, 50304, torch.bfloat16)
    linear_cross_entropy(hidden, weight, targets).backward()  # type: ignore[no-untyped-call]
    hidden.grad = weight.grad = None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    linear_cross_entropy(hidden, weight, targets).backward()  # type: ignore[no-untyped-call]
    assert torch.cuda.max_memory_allocated() - before < 16384 * 50304 * 2 / 2


def test_inside_torch_compile_it_is_one_graph_with_the_same_numbers() -> None:
    hidden, weight, targets = case(600, 1000, torch.float32)

    def loss_of(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        return linear_cross_entropy(hidden.tanh(), weight, targets) / 600

    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.compile(loss_of, fullgraph=True)(hidden, weight, targets)
    loss.backward()  # type: ignore[no-untyped-call]
    plain = [each.detach().clone().requires_grad_() for each in (hidden, weight)]
    with torch.autocast("cuda", torch.bfloat16):
        expected = loss_of(plain[0], plain[1], targets)
    expected.backward()  # type: ignore[no-untyped-call]
    for compiled, eager in zip((hidden.grad, weight.grad), (plain[0].grad, plain[1].grad), strict=True):
        assert compiled is not None
        assert eager is not None
        assert apart(compiled, eager) < 1e-2


class Losses(Hook):
    def __init__(self) -> None:
        self.found: list[float] = []

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            self.found.append(row.values["loss"])


@pytest.mark.parametrize("compiled", ["off", "default"])
def test_a_language_model_learns_the_same_with_and_without_its_scores(compiled: str) -> None:
    drawn = torch.randint(0, 997, (256, 65), generator=torch.Generator().manual_seed(0))
    losses = []
    for unprojected in (False, True):
        hook = Losses()
        recipe = Recipe(
            name="small",
            model=lambda unprojected=unprojected: GPT(997, block=64, depth=2, heads=2, width=64, dropout=0.0, unprojected=unprojected),  # noqa: E501
            data=lambda _: Splits(Tensors(drawn[:, :-1], drawn[:, 1:]), facts=Facts(vocabulary=997)),
            task="language", steps=20, batch=16, precision="bf16", device="cuda", log_every=1, hooks=(hook,),
        )  # fmt: skip
        Loop.of(replace(recipe, compile=compiled)).train()  # type: ignore[arg-type]
        losses.append(hook.found)
    scored, fused = losses
    assert len(fused) == 20
    assert fused == pytest.approx(scored, rel=5e-3)
