"""custom-op-under-compile: What must a custom operator tell a compiler, so that a model with it compiles whole?

`torch.library.custom_op` makes a function opaque: a compiler never looks inside. So it needs the shape of the result
without the numbers (`register_fake`), and for training a gradient (`register_autograd`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]


def plain_numpy(x: Tensor) -> Tensor:
    """Not an operator: leaves PyTorch in the middle."""
    return torch.from_numpy(x.detach().cpu().numpy() ** 3)


cube_without_fake = torch.library.custom_op("trueloop_lab::cube_without_fake", plain_numpy, mutates_args=())
cube = torch.library.custom_op("trueloop_lab::cube", plain_numpy, mutates_args=())


def shape_of_cube(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def gradient_of_cube(ctx: Any, arrived: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return arrived * 3 * x**2


def complete(operator: Any) -> None:
    operator.register_fake(shape_of_cube)
    operator.register_autograd(gradient_of_cube, setup_context=keep)


complete(cube)


def compiles(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """As one graph, without a break."""
    torch.compiler.reset()
    try:
        torch.compile(lambda x: function(x.sin()).cos(), backend="aot_eager", fullgraph=True)(x)
    except Exception:  # noqa: BLE001 - every reason is the same answer here: no
        return False
    return True


def has_gradient(function: Callable[[Tensor], Tensor]) -> bool:
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    try:
        return torch.autograd.gradcheck(function, (x,))
    except (RuntimeError, ValueError):  # GradcheckError is a RuntimeError
        return False


def measure() -> dict[str, Any]:
    x = torch.randn(8)
    functions: dict[str, Any] = {"no operator": plain_numpy, "without fake": cube_without_fake, "complete": cube}
    found = {name: {"compiles": compiles(each, x), "gradient": has_gradient(each)} for name, each in functions.items()}
    torch.compiler.reset()
    whole = torch.compile(lambda x: cube(x.sin()).cos(), backend="aot_eager", fullgraph=True)
    return {"found": found, "difference": (whole(x) - cube(x.sin()).cos()).abs().max().item()}


def answer(page: Page, measured: dict[str, Any]) -> None:
    found = measured["found"]
    rows = [(name, str(each["compiles"]), str(each["gradient"])) for name, each in found.items()]
    page.table("x ** 3 by NumPy", ("", "one graph", "right gradient"), rows)
    bare, complete = found["without fake"], found["complete"]
    page.says("A custom operator without `register_fake` does not compile as one graph.", not bare["compiles"])
    page.says("Without `register_autograd` it has no gradient.", not bare["gradient"])
    page.says("With both it compiles whole and trains.", complete["compiles"] and complete["gradient"])
    page.says("Compiled and eager results are equal.", measured["difference"] == 0)
    page.says("Code that leaves PyTorch without an operator has no gradient.", not found["no operator"]["gradient"])


LAB = Lab(code=(plain_numpy, shape_of_cube, keep, gradient_of_cube, complete), measure=measure, answer=answer)
