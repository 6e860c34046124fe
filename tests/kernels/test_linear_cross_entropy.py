"""Fused linear + cross entropy: its numbers against float64, what it never makes, what it refuses; compiled, under
autocast, once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from trueloop.data.source import tensors_in
from trueloop.kernels import linear_cross_entropy as module
from trueloop.kernels import triton_here
from trueloop.kernels.linear_cross_entropy import chunk_rows, linear_cross_entropy, reference

pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # torch's own word on CPUs without bf16

CLOSE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1.5e-2, torch.float16: 5e-3}
"""Length of the difference to float64, relative to the gradient's own: the rounding of scores and of their gradient."""
CUDA = torch.device("cuda")


def case(rows: int, classes: int, kind: torch.dtype = torch.float32, width: int = 16) -> tuple[Tensor, Tensor, Tensor]:
    draws = torch.Generator().manual_seed(rows + classes)
    hidden = torch.randn(rows, width, generator=draws).to(kind).requires_grad_()
    weight = (torch.randn(classes, width, generator=draws) * 0.4).to(kind).requires_grad_()
    return hidden, weight, torch.randint(0, classes, (rows,), generator=draws)


def exact(hidden: Tensor, weight: Tensor, targets: Tensor, ignore: int = -100) -> tuple[Tensor, Tensor, Tensor]:
    one, two = hidden.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    loss = reference(one, two, targets, ignore)
    of_hidden, of_weight = torch.autograd.grad(loss, (one, two))
    return loss.detach(), of_hidden, of_weight


def apart(one: Tensor | None, two: Tensor) -> float:
    assert one is not None
    return float((one.detach().double() - two).norm() / two.norm())


def backward(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


# -- the numbers --


@pytest.mark.parametrize("kind", list(CLOSE), ids=str)
@pytest.mark.parametrize(
    ("rows", "classes", "chunk"), [(5, 17, 0), (300, 17, 128), (257, 1000, 64), (64, 50257, 48), (64, 50304, 64)]
)
def test_loss_and_gradients_are_those_of_float64(kind: torch.dtype, rows: int, classes: int, chunk: int) -> None:
    hidden, weight, targets = case(rows, classes, kind)
    loss = linear_cross_entropy(hidden, weight, targets, rows=chunk)
    backward(loss)
    truth = exact(hidden, weight, targets)
    assert apart(loss, truth[0]) < CLOSE[kind]
    assert apart(hidden.grad, truth[1]) < CLOSE[kind]
    assert apart(weight.grad, truth[2]) < CLOSE[kind]
    assert loss.dtype == (torch.float64 if kind == torch.float64 else torch.float32)
    assert hidden.grad is not None
    assert weight.grad is not None
    assert hidden.grad.dtype == weight.grad.dtype == kind


@pytest.mark.parametrize("kind", list(CLOSE), ids=str)
def test_what_lies_in_memory_before_does_not_matter(kind: torch.dtype) -> None:
    hidden, weight, targets = case(64, 1000, kind)
    backward(linear_cross_entropy(hidden, weight, targets))
    room = torch.full((64, 1024), torch.nan, dtype=kind)
    del room  # the allocator gives its memory, full of NaN, to the next tensor of this size
    one, two = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
    parts = torch.autograd.grad(linear_cross_entropy(one, two, targets), (one, two))
    assert all(bool(part.isfinite().all()) for part in parts)


@pytest.mark.parametrize("chunk", [1, 7, 128, 299, 300, 5000])
def test_how_rows_are_cut_changes_nothing(chunk: int) -> None:
    hidden, weight, targets = case(300, 50, torch.float64)
    loss = linear_cross_entropy(hidden, weight, targets, rows=chunk)
    backward(loss)
    truth = exact(hidden, weight, targets)
    assert apart(loss, truth[0]) < 1e-12
    assert apart(hidden.grad, truth[1]) < 1e-12
    assert apart(weight.grad, truth[2]) < 1e-12


@pytest.mark.parametrize("ignore", [-100, 3, 0])
def test_targets_that_do_not_count_give_no_loss_and_no_gradient(ignore: int) -> None:
    hidden, weight, targets = case(100, 17)
    targets[::3] = ignore
    loss = linear_cross_entropy(hidden, weight, targets, ignore, rows=32)
    backward(loss)
    truth = exact(hidden, weight, targets, ignore)
    assert apart(loss, truth[0]) < 1e-5
    assert apart(weight.grad, truth[2]) < 1e-5
    assert hidden.grad is not None
    assert not hidden.grad[targets == ignore].any()
    assert hidden.grad[targets != ignore].any(1).all()


def test_rows_that_do_not_count_may_hold_anything() -> None:
    hidden, weight, targets = case(10, 17)
    with torch.no_grad():
        hidden[4] = torch.inf
    targets[4] = -100
    loss = linear_cross_entropy(hidden, weight, targets)
    backward(loss)
    assert torch.isfinite(loss)
    assert hidden.grad is not None
    assert not hidden.grad[4].any()


def test_where_no_target_counts_the_loss_is_zero_and_so_are_the_gradients() -> None:
    hidden, weight, targets = case(40, 17)
    loss = linear_cross_entropy(hidden, weight, torch.full_like(targets, -100), rows=16)
    backward(loss)
    assert float(loss.detach()) == 0.0
    assert hidden.grad is not None
    assert weight.grad is not None
    assert not hidden.grad.any()
    assert not weight.grad.any()


def test_no_rows_give_no_loss() -> None:
    hidden, weight, targets = case(0, 17)
    loss = linear_cross_entropy(hidden, weight, targets)
    backward(loss)
    assert float(loss.detach()) == 0.0
    assert weight.grad is not None
    assert not weight.grad.any()
    assert weight.grad.shape == weight.shape


def test_large_scores_do_not_overflow() -> None:
    hidden, weight, targets = case(64, 100)
    large = (hidden.detach() * 1000).requires_grad_()
    loss = linear_cross_entropy(large, weight, targets)
    backward(loss)
    truth = exact(large, weight, targets)
    assert apart(loss, truth[0]) < 1e-5
    assert apart(large.grad, truth[1]) < 1e-3


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
def test_the_gradient_that_arrives_is_multiplied_in(kind: torch.dtype) -> None:
    hidden, weight, targets = case(64, 100, kind)
    backward(linear_cross_entropy(hidden, weight, targets) * 3 / 47)
    truth = exact(hidden, weight, targets)
    assert apart(hidden.grad, truth[1] * 3 / 47) < CLOSE[kind]
    assert apart(weight.grad, truth[2] * 3 / 47) < CLOSE[kind]


def test_a_weight_that_is_also_an_embedding_gets_both_gradients() -> None:
    _, weight, targets = case(64, 100)
    tokens = torch.arange(64) % 100
    backward(linear_cross_entropy(weight[tokens], weight, targets))
    double = weight.detach().double().requires_grad_()
    (truth,) = torch.autograd.grad(reference(double[tokens], double, targets), double)
    assert apart(weight.grad, truth) < 1e-5


def test_gradients_add_up_over_several_backwards() -> None:
    hidden, weight, targets = case(64, 100)
    for part in (slice(0, 40), slice(40, 64)):
        backward(linear_cross_entropy(hidden[part], weight, targets[part]))
    truth = exact(hidden, weight, targets)
    assert apart(hidden.grad, truth[1]) < 1e-5
    assert apart(weight.grad, truth[2]) < 1e-5


def test_rows_and_columns_may_lie_anyhow_in_memory() -> None:
    hidden, weight, targets = case(64, 100, torch.float64)
    loss = linear_cross_entropy(
        hidden.t().contiguous().t(), weight.t().contiguous().t(), targets.repeat_interleave(2)[::2]
    )
    backward(loss)
    truth = exact(hidden, weight, targets)
    assert apart(hidden.grad, truth[1]) < 1e-12
    assert apart(weight.grad, truth[2]) < 1e-12


# -- types --


def test_under_autocast_products_are_narrow_and_sums_are_wide() -> None:
    hidden, weight, targets = case(512, 100)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(hidden, weight, targets, rows=128)
    backward(loss)
    truth = exact(hidden, weight, targets)
    assert hidden.grad is not None
    assert weight.grad is not None
    assert {loss.dtype, hidden.grad.dtype, weight.grad.dtype} == {torch.float32}
    assert 1e-6 < apart(loss, truth[0]) < 1.5e-2  # not what float32 would give
    assert apart(weight.grad, truth[2]) < 1.5e-2


def test_under_autocast_the_two_may_differ_in_type() -> None:
    hidden, weight, targets = case(64, 100)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(hidden.bfloat16(), weight, targets)
    backward(loss)
    assert apart(hidden.grad, exact(hidden, weight, targets)[1]) < 2e-2


def test_the_inputs_may_be_narrow_in_another_way_than_autocast() -> None:
    hidden, weight, targets = case(64, 100, torch.bfloat16)
    with torch.autocast("cpu", torch.float16):
        loss = linear_cross_entropy(hidden, weight, targets, rows=32)
    backward(loss)
    truth = exact(hidden, weight, targets)
    assert apart(hidden.grad, truth[1]) < 1.5e-2
    assert apart(weight.grad, truth[2]) < 1.5e-2


def test_a_torch_that_cannot_add_a_narrow_product_to_a_wide_matrix_is_found_out_and_told() -> None:
    module._adds_widely.cache_clear()
    with pytest.warns(UserWarning, match=r"cannot add a torch\.bfloat16 product to a torch\.float32 matrix in place"):
        assert not module._adds_widely(torch.bfloat16, torch.float32, torch.device("cpu"))
    module._adds_widely.cache_clear()


def test_float64_stays_what_it_is_under_autocast() -> None:
    hidden, weight, targets = case(64, 100, torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(hidden, weight, targets)
    assert apart(loss, exact(hidden, weight, targets)[0]) < 1e-12


def test_it_leaves_autocast_as_it_found_it() -> None:
    hidden, weight, targets = case(8, 17)
    with torch.autocast("cpu", torch.bfloat16):
        linear_cross_entropy(hidden, weight, targets)
        assert (hidden @ weight.t()).dtype == torch.bfloat16


# -- what is needed, and no more --


class Made(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The sizes of all tensors that operations give."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.names.append(str(func))
        self.sizes += [tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in tensors_in(made)]
        return made


def made_in_it(
    hidden: Tensor, weight: Tensor, targets: Tensor, *, of_hidden: bool = True, of_weight: bool = True
) -> Made:
    """A dispatch mode sees the operator as one thing, so its body is called."""
    made = Made()
    with torch.no_grad(), made:
        module._computed(hidden, weight, targets, -100, hidden.dtype, of_hidden, of_weight, 128, "stream")
    return made


def test_the_scores_of_all_rows_never_exist() -> None:
    hidden, weight, targets = case(1024, 1000)
    made = made_in_it(hidden, weight, targets)
    assert max(made.sizes) == 128 * 1024  # a chunk, its columns a multiple of 64
    assert sum("mm" in name for name in made.names) == 3 * 8


def test_the_reference_does_hold_them() -> None:
    hidden, weight, targets = case(1024, 1000)
    with torch.no_grad(), Made() as made:
        reference(hidden, weight, targets)
    assert max(made.sizes) == 1024 * 1000


@pytest.mark.parametrize(
    ("of_hidden", "of_weight", "products"), [(False, False, 1), (True, False, 2), (False, True, 2), (True, True, 3)]
)
def test_gradients_that_nobody_needs_are_not_computed(of_hidden: bool, of_weight: bool, products: int) -> None:
    hidden, weight, targets = case(256, 100)
    made = made_in_it(hidden, weight, targets, of_hidden=of_hidden, of_weight=of_weight)
    assert sum("mm" in name for name in made.names) == products * 2


@pytest.mark.parametrize("frozen", ["hidden", "weight"])
def test_what_is_frozen_gets_no_gradient(frozen: str) -> None:
    hidden, weight, targets = case(64, 100)
    given = {"hidden": hidden, "weight": weight}
    given[frozen].requires_grad_(False)
    backward(linear_cross_entropy(hidden, weight, targets))
    truth = dict(zip(("hidden", "weight"), exact(hidden, weight, targets)[1:], strict=True))
    assert given.pop(frozen).grad is None
    ((name, other),) = given.items()
    assert apart(other.grad, truth[name]) < 1e-5


def test_without_a_graph_there_is_the_loss_alone() -> None:
    hidden, weight, targets = case(64, 100)
    with torch.no_grad():
        alone = linear_cross_entropy(hidden, weight, targets)
    assert not alone.requires_grad
    assert torch.equal(alone, linear_cross_entropy(hidden, weight, targets).detach())


def test_the_inputs_are_left_as_they_were() -> None:
    hidden, weight, targets = case(64, 100)
    before = [each.detach().clone() for each in (hidden, weight, targets)]
    backward(linear_cross_entropy(hidden, weight, targets, rows=16))
    assert all(torch.equal(one, two) for one, two in zip(before, (hidden, weight, targets), strict=True))


# -- chunks --


def test_gpt2_is_cut_in_four_on_a_gpu() -> None:
    assert chunk_rows(16384, 50304, torch.bfloat16, CUDA) == 4096


@pytest.mark.parametrize("rows", [0, 1, 100, 5000, 16384, 1_000_003])
@pytest.mark.parametrize("classes", [2, 1000, 50257, 10_000_000])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_chunk_keeps_to_its_memory_and_chunks_are_even(rows: int, classes: int, device: str) -> None:
    chunk = chunk_rows(rows, classes, torch.bfloat16, torch.device(device))
    budget = module.LARGEST_CUDA if device == "cuda" else module.LARGEST_ELSEWHERE
    tile = module.TILE * (classes + module.ALIGNED) * 2
    assert 1 <= chunk <= max(1, rows)
    assert chunk * classes * 2 <= budget + tile  # one tile at least, however many classes
    chunks = max(1, -(-rows // chunk))
    assert chunk - rows / chunks < module.TILE


# -- what is refused --


@pytest.mark.parametrize(
    ("hidden", "weight", "targets"),
    [((4, 8), (5, 7), (4,)), ((4, 8), (5, 8), (3,)), ((2, 2, 8), (5, 8), (4,)), ((4, 8), (5, 8), (2, 2))],
)
def test_shapes_that_do_not_fit_are_refused_with_all_three(hidden: Any, weight: Any, targets: Any) -> None:
    with pytest.raises(ValueError, match=r"needs hidden \[N, D\], weight \[V, D\] and targets \[N\]") as caught:
        linear_cross_entropy(torch.zeros(hidden), torch.zeros(weight), torch.zeros(targets, dtype=torch.int64))
    assert str(list(hidden)) in str(caught.value)


def test_targets_that_are_no_class_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match=r"targets\.long\(\)"):
        linear_cross_entropy(torch.zeros(4, 8), torch.zeros(5, 8), torch.zeros(4))


def test_two_types_without_autocast_are_refused() -> None:
    with pytest.raises(TypeError, match=r"hidden is torch\.bfloat16 and weight torch\.float32"):
        linear_cross_entropy(torch.zeros(4, 8).bfloat16(), torch.zeros(5, 8), torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize("wrong", [-1, 17, 1 << 40])
def test_a_target_that_is_no_class_is_refused_on_the_cpu(wrong: int) -> None:
    hidden, weight, targets = case(10, 17)
    targets[3] = wrong
    with pytest.raises(
        IndexError, match=f"target {wrong} is out of range: classes go from 0 to 16, and -100 is ignored"
    ):
        linear_cross_entropy(hidden, weight, targets)


def test_a_second_derivative_is_refused_with_a_way_out() -> None:
    hidden, weight, targets = case(10, 17)
    with pytest.raises(RuntimeError, match=r"differentiated once.*F\.cross_entropy\(F\.linear"):
        torch.autograd.grad(linear_cross_entropy(hidden, weight, targets), hidden, create_graph=True)


def test_a_second_backward_is_refused_rather_than_scaled_twice() -> None:
    hidden, weight, targets = case(10, 17)
    loss = linear_cross_entropy(hidden, weight, targets) / 2
    loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match="frees its gradients in the first backward"):
        backward(loss)


def test_the_bare_operator_does_not_keep_silent_about_a_gradient_it_was_told_to_leave_out() -> None:
    hidden, weight, targets = case(10, 17)
    loss, *_ = torch.ops.trueloop.linear_cross_entropy(
        hidden, weight, targets, -100, torch.float32, True, False, 0, "stream"
    )
    with pytest.raises(RuntimeError, match="without for_hidden or for_weight, so this gradient is missing"):
        loss.backward()


# -- as an operator --


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rows", [0, 16])
def test_torch_finds_it_well_registered(kind: torch.dtype, rows: int) -> None:
    hidden, weight, targets = case(40, 17, kind)
    said = torch.library.opcheck(module._operator, (hidden, weight, targets, -100, kind, True, True, rows, "stream"))
    assert set(said.values()) == {"SUCCESS"}


def test_without_gradients_too() -> None:
    hidden, weight, targets = case(40, 17)
    said = torch.library.opcheck(
        module._operator, (hidden.detach(), weight.detach(), targets, -100, torch.float32, False, False, 0, "stream")
    )
    assert set(said.values()) == {"SUCCESS"}


@pytest.mark.parametrize(("frozen", "products"), [(False, 3), (True, 2)])
def test_counters_of_work_know_its_products(frozen: bool, products: int) -> None:
    hidden, weight, targets = case(40, 17)
    weight.requires_grad_(not frozen)
    linear_cross_entropy(hidden, weight, targets)
    with FlopCounterMode(display=False) as counter:
        backward(linear_cross_entropy(hidden, weight, targets))
    assert counter.get_total_flops() == products * 2 * 40 * 16 * 17


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("autocast", [False, True])
def test_inside_torch_compile_it_is_one_graph_with_the_same_numbers(autocast: bool) -> None:
    hidden, weight, targets = case(300, 17)

    def loss_of(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        return linear_cross_entropy(hidden.tanh(), weight, targets, rows=128) / 300

    compiled = torch.compile(loss_of, fullgraph=True, backend="aot_eager")
    plain = [each.detach().clone().requires_grad_() for each in (hidden, weight)]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        one, two = compiled(hidden, weight, targets), loss_of(plain[0], plain[1], targets)
    backward(one)
    backward(two)
    assert torch.equal(one, two)
    for found, expected in zip((hidden.grad, weight.grad), (plain[0].grad, plain[1].grad), strict=True):
        assert found is not None
        assert expected is not None
        torch.testing.assert_close(found, expected)


def test_without_triton_a_gpu_computes_slower_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_here, "HAS_TRITON", False)
    monkeypatch.setattr(triton_here, "INTERPRETED", True)  # as on a GPU: a kernel could run
    triton_here._say_without.cache_clear()
    with pytest.warns(UserWarning, match=r"linear_cross_entropy: Triton is not installed.* slower"):
        assert not triton_here.runs_triton(torch.ones(2), "linear_cross_entropy")
    assert not triton_here.runs_triton(torch.ones(2), "linear_cross_entropy"), "said once"
    triton_here._say_without.cache_clear()


def test_it_is_imported_without_triton() -> None:
    code = "import sys, trueloop.kernels.linear_cross_entropy; assert 'triton' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
