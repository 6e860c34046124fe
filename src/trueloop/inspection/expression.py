"""A tensor given as an expression, `torch.arange(6).view(2, 3).t()`: evaluated step by step, each step once."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.errors import Misuse
from trueloop.inspection.files import KNOWN
from trueloop.torch_private.tensors import storage_id, tensor_version, view_base

__all__ = ["Step", "is_expression", "tensor_steps"]

BEFORE: Final = "the_step_before"


@dataclass(frozen=True, slots=True)
class Step:
    """One call, index or attribute that gave a tensor."""

    text: str  # .view(2, 3)
    tensor: Tensor
    what: str  # view, copy, new storage


def is_expression(word: str) -> bool:
    """Not an existing file, nor a file's name that was mistyped."""
    files = [Path(each) for each in (word, word.rpartition(":")[0]) if each]
    if any(file.exists() or file.suffix in KNOWN for file in files):
        return False
    return word.lstrip("( ").startswith("torch.") or "(" in word


def tensor_steps(word: str) -> list[Step]:
    """The last one is the tensor. Raises Misuse."""
    try:
        tree = ast.parse(word.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        said = getattr(error, "msg", error)
        raise Misuse(f"{word!r} is neither a file nor a Python expression ({said}). Nothing was shown.") from None
    try:
        steps, value = _steps(tree)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own expression may raise anything
        said = str(error).strip().partition("\n")[0][:200]
        known = " Only `torch` is known in an expression." if isinstance(error, NameError) else ""
        raise Misuse(f"{word!r} raises {type(error).__name__}: {said}.{known} Nothing was shown.") from None
    if isinstance(value, (tuple, list)) and any(isinstance(each, Tensor) for each in value):
        first = f"type `({word})[0]` for the first"
        raise Misuse(f"{word!r} gives {len(value)} values, not one tensor. Nothing was shown: {first}.")
    if not isinstance(value, Tensor):
        raise Misuse(f"{word!r} gives a {type(value).__name__}, not a tensor. Nothing was shown.")
    if any(step.tensor.is_nested for step in steps):
        raise Misuse(f"{word!r} has a nested tensor, which has no single shape. Nothing was shown.")
    return steps


def _steps(tree: ast.expr) -> tuple[list[Step], Any]:
    """From the inside out, so that no call is made twice."""
    chain: list[ast.expr] = []
    node: ast.expr | None = tree
    while node is not None:
        chain.append(node)
        node = _receiver(node)
    texts = [ast.unparse(each) for each in chain]  # Before names replace what is evaluated
    steps: list[Step] = []
    value: Any = None
    version = 0
    for number, each in enumerate(reversed(chain)):
        before, value = value, _evaluate(each, number > 0, value)
        if isinstance(value, Tensor):
            earlier = before if isinstance(before, Tensor) else None
            text = texts[-1 - number] if earlier is None else ast.unparse(each).removeprefix(BEFORE)
            steps.append(Step(text, value, _relation(earlier, version, value)))
            version = tensor_version(value)
    return steps, value


def _receiver(node: ast.expr) -> ast.expr | None:
    """`x` of x.t(), x[0] and x.T."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value
    return node.value if isinstance(node, (ast.Subscript, ast.Attribute)) else None


def _evaluate(node: ast.expr, has_receiver: bool, before: Any) -> Any:
    names: dict[str, Any] = {"torch": torch, BEFORE: before}
    if has_receiver:
        earlier = ast.Name(BEFORE, ast.Load())
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node.func.value = earlier
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            node.value = earlier
    tree = ast.fix_missing_locations(ast.Expression(node))
    return eval(compile(tree, "expression", "eval"), names)  # Typed by users on their own command line


def _relation(before: Tensor | None, version: int, after: Tensor) -> str:
    """Of a step to the tensor that it was called on."""
    if before is None:
        return "new storage" if view_base(after) is None else "view of a tensor inside this step"
    if after is before:
        written = tensor_version(after) != version
        return "the same tensor, written in place" if written else "the same tensor: nothing was copied"
    if torch.strided not in (before.layout, after.layout) or before.layout != after.layout:
        return "new storage"
    if storage_id(before.untyped_storage()) == storage_id(after.untyped_storage()):
        return "view: the same storage"
    return "copy: new storage, the same values" if _same_values(before, after) else "new storage"


def _same_values(before: Tensor, after: Tensor) -> bool:
    alike = before.numel() == after.numel() and before.dtype == after.dtype and before.device == after.device
    if not alike or before.is_quantized or before.device.type == "meta":
        return False
    return torch.equal(before.detach().reshape(-1), after.detach().reshape(-1))
