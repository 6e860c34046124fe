"""`inspect ops` and `inspect op` on a real CUDA device: the table of determinism against what torch does there, and the
names of kernels."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn

from tests.tune.worlds import FILE
from trueloop.cli.main import main
from trueloop.inspection.determinism import NOT_DETERMINISTIC, REFUSED, SWITCHED, has_no_deterministic_form
from trueloop.inspection.operation_log import operations_of

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:index_reduce")]  # in beta
if not torch.cuda.is_available():  # the calls below hold tensors
    pytest.skip("needs a CUDA device: run `make gpu-test` on a machine that has one", allow_module_level=True)

Call = Callable[[], Any]


def floats(*shape: int) -> Tensor:
    draws = torch.Generator("cuda").manual_seed(0)
    return torch.rand(*shape, device="cuda", generator=draws).requires_grad_()


def numbers(*shape: int, below: int = 4) -> Tensor:
    draws = torch.Generator("cuda").manual_seed(0)
    return torch.randint(0, below, shape, device="cuda", generator=draws)


def trained(function: Callable[..., Tensor], *inputs: Tensor) -> Call:
    """Forward and backward."""

    def call() -> None:
        function(*inputs).sum().backward()  # type: ignore[no-untyped-call]

    return call


def resized(mode: str, *shape: int, antialias: bool = False) -> Call:
    return trained(lambda x: F.interpolate(x, scale_factor=2, mode=mode, antialias=antialias), floats(*shape))


def unpooled(pool: Any, unpool: Any, *shape: int) -> Call:
    return lambda: unpool(*pool(floats(*shape).detach(), 2, return_indices=True), 2)


def ctc() -> None:
    scores = floats(6, 2, 5).log_softmax(2)
    lengths = torch.tensor([6, 6], device="cuda"), torch.tensor([3, 2], device="cuda")
    F.ctc_loss(scores, numbers(2, 3) + 1, *lengths).backward()  # type: ignore[no-untyped-call]


def reduced(how: str, value: Tensor | None = None) -> Call:
    source = floats(8).detach() if value is None else value
    return lambda: torch.zeros(4, device="cuda", dtype=source.dtype).scatter_reduce(0, numbers(8), source, how)


def bag(mode: str) -> Call:
    return trained(lambda weight: F.embedding_bag(numbers(3, 4), weight, mode=mode), floats(4, 5))


x, rows = floats(4, 8), numbers(8)
CALLS: dict[str, Call] = {
    **{f"interpolate {mode}": resized(mode, 1, 2, *[4] * dims)
       for mode, dims in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3), ("nearest", 2))},
    **{f"interpolate {mode} antialias": resized(mode, 1, 2, 4, 4, antialias=True) for mode in ("bilinear", "bicubic")},
    **{f"reflection pad {dims}d": trained(lambda x, dims=dims: F.pad(x, [1, 1] * dims, "reflect"),
       floats(1, 2, *[4] * dims)) for dims in (1, 2, 3)},
    **{f"replication pad {dims}d": trained(lambda x, dims=dims: F.pad(x, [1, 1] * dims, "replicate"),
       floats(1, 2, *[4] * dims)) for dims in (1, 2, 3)},
    "avg_pool2d": trained(lambda x: F.avg_pool2d(x, 2), floats(1, 2, 4, 4)),
    "avg_pool3d": trained(lambda x: F.avg_pool3d(x, 2), floats(1, 2, 4, 4, 4)),
    "adaptive_avg_pool2d": trained(lambda x: F.adaptive_avg_pool2d(x, 3), floats(1, 2, 5, 5)),
    "adaptive_avg_pool3d": trained(lambda x: F.adaptive_avg_pool3d(x, 3), floats(1, 2, 5, 5, 5)),
    "adaptive_max_pool2d": trained(lambda x: F.adaptive_max_pool2d(x, 3), floats(1, 2, 5, 5)),
    "adaptive_max_pool3d": trained(lambda x: F.adaptive_max_pool3d(x, 3), floats(1, 2, 5, 5, 5)),
    "fractional_max_pool2d": trained(lambda x: F.fractional_max_pool2d(x, 2, 3), floats(1, 2, 6, 6)),
    "fractional_max_pool3d": trained(lambda x: F.fractional_max_pool3d(x, 2, 3), floats(1, 2, 6, 6, 6)),
    "max_pool2d": trained(lambda x: F.max_pool2d(x, 2), floats(1, 2, 4, 4)),
    "max_pool3d": trained(lambda x: F.max_pool3d(x, 2), floats(1, 2, 4, 4, 4)),
    "max_unpool2d": unpooled(F.max_pool2d, F.max_unpool2d, 1, 2, 4, 4),
    "max_unpool3d": unpooled(F.max_pool3d, F.max_unpool3d, 1, 2, 4, 4, 4),
    "nll_loss": trained(lambda x: F.nll_loss(x.log_softmax(1), numbers(4)), floats(4, 5)),
    "nll_loss of images": lambda: F.nll_loss(floats(2, 4, 3, 3).detach().log_softmax(1), numbers(2, 3, 3)),
    "ctc_loss": ctc,
    "grid_sample 2d": trained(lambda x, grid: F.grid_sample(x, grid, align_corners=False), floats(1, 2, 4, 4),
                              floats(1, 3, 3, 2)),
    "grid_sample 3d": trained(lambda x, grid: F.grid_sample(x, grid, align_corners=False), floats(1, 2, 4, 4, 4),
                              floats(1, 3, 3, 3, 3)),
    **{f"embedding_bag {mode}": bag(mode) for mode in ("sum", "mean", "max")},
    "put_": lambda: torch.zeros(4, device="cuda").put_(rows, floats(8).detach()),
    "put_ that adds": lambda: torch.zeros(4, device="cuda").put_(rows, floats(8).detach(), accumulate=True),
    "put": lambda: torch.zeros(4, device="cuda").put(rows, floats(8).detach()),
    "histc": lambda: torch.histc(floats(8).detach(), 4, 0, 1),
    "bincount": lambda: torch.bincount(rows),
    "bincount with weights": lambda: torch.bincount(rows, weights=floats(8).detach()),
    "median": lambda: x.detach().median(),
    "median with indices": lambda: x.detach().median(1),
    "nanmedian with indices": lambda: x.detach().nanmedian(1),
    "kthvalue": lambda: x.detach().kthvalue(2, 1),
    "cumsum": lambda: x.detach().cumsum(1),
    "cumsum_": lambda: x.detach().clone().cumsum_(1),
    "cumsum of one dimension": lambda: floats(8).detach().cumsum(0),
    "cumsum_ of one dimension": lambda: floats(8).detach().clone().cumsum_(0),
    "cumsum of integers": lambda: rows.cumsum(0),
    "cumprod": lambda: x.detach().cumprod(1),
    **{f"scatter_reduce {how}": reduced(how) for how in ("sum", "mean", "prod", "amax", "amin")},
    "scatter_reduce_ prod": lambda: torch.ones(4, device="cuda").scatter_reduce_(0, rows, floats(8).detach(), "prod"),
    "index_reduce": lambda: torch.ones(4, device="cuda").index_reduce(0, rows, floats(8).detach(), "prod"),
    "index_reduce_": lambda: torch.ones(4, device="cuda").index_reduce_(0, rows, floats(8).detach(), "amax"),
    "convolution": trained(lambda x: F.conv2d(x, x), floats(2, 2, 4, 4)),
    "scatter_add": lambda: torch.zeros(4, device="cuda").scatter_add(0, rows, floats(8).detach()),
    "scatter": lambda: torch.zeros(4, device="cuda").scatter(0, rows, floats(8).detach()),
    "index_add": lambda: torch.zeros(4, 8, device="cuda").index_add(0, numbers(4), x.detach()),
    "index_copy": lambda: torch.zeros(4, 8, device="cuda").index_copy(0, numbers(4), x.detach()),
    "index_put that adds": lambda: torch.zeros(4, device="cuda").index_put((rows,), floats(8).detach(), True),
    "gather": trained(lambda x: x.gather(1, numbers(4, 8)), floats(4, 8)),
    "embedding": trained(lambda weight: F.embedding(rows, weight), floats(4, 5)),
    "indexing": trained(lambda x: x[numbers(6)], floats(4, 8)),
    "cross_entropy": trained(lambda x: F.cross_entropy(x, numbers(4)), floats(4, 8)),
    "layer_norm": trained(lambda x: F.layer_norm(x, (8,)), floats(4, 8)),
    "softmax": trained(lambda x: x.softmax(1) ** 2, floats(4, 8)),
    "sort": trained(lambda x: x.sort(1).values ** 2, floats(4, 8)),
}  # fmt: skip


def raises(call: Call) -> bool:
    """With determinism demanded."""
    torch.use_deterministic_algorithms(True)
    try:
        call()
    except RuntimeError as error:
        if NOT_DETERMINISTIC not in str(error):
            raise
        return True
    finally:
        torch.use_deterministic_algorithms(False)
    return False


def named(call: Call) -> set[str]:
    """The operations of a call that the table refuses."""
    uses, error = operations_of(call, nn.Identity())
    assert error is None, error
    return {use.name.partition("::")[2].partition(".")[0] for use in uses
            if has_no_deterministic_form(use.operator, use.sample)}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_torch_raises_exactly_where_the_table_says(name: str) -> None:
    assert bool(named(CALLS[name])) == raises(CALLS[name]), named(CALLS[name])


def test_every_row_of_the_table_is_tried() -> None:
    tried = set().union(*(named(call) for call in CALLS.values()))
    without = {"put", "_embedding_bag_backward"}  # calls of Python do not reach them by these names
    assert set(REFUSED) - tried <= without | {"_embedding_bag_dense_backward"}, set(REFUSED) - tried
    assert not set(REFUSED) & set(SWITCHED) - {"scatter_reduce", "scatter_reduce_"}


def test_inspect_op_names_the_kernel_that_ran(capsys: pytest.CaptureFixture[str]) -> None:
    for word, inputs, kernel in (
        ("torch.add", "f32[64,64], f32[64,64]", "elementwise_kernel"),
        ("torch.softmax", "f32[64,512], -1", "softmax"),
        ("torch.mm", "f32[128,128], f32[128,128]", "gemm|cutlass|xmma"),
    ):
        assert main(["inspect", "op", word, "--inputs", inputs, "--device", "cuda", "--format", "json"]) == 0
        shown = json.dumps(json.loads(capsys.readouterr().out))
        assert "AutogradCUDA" in shown
        assert re.search(kernel, shown), shown


def test_inspect_ops_of_a_recipe_speaks_of_this_device(tmp_path: Path) -> None:
    summed = (
        "class Summed(nn.Module):\n    def forward(self, x):\n        return x + torch.histc(x.detach(), 4, 0, 1)\n\n\n"
    )
    text = FILE.replace('device="cpu"', 'device="cuda"').replace("def network", f"{summed}def network")
    (tmp_path / "own.py").write_text(text.replace("nn.Linear(32, 4))", "nn.Linear(32, 4), Summed())"), encoding="utf-8")
    command = [sys.executable, "-m", "trueloop", "inspect", "ops", "own.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "aten::histc" in done.stdout
    assert "raises here on cuda" in " ".join(done.stdout.split())
