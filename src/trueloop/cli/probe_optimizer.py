"""`trueloop probe opt.py:MySGD --against torch.optim.SGD`: claims about an optimizer."""

from __future__ import annotations

import argparse
import ast
import inspect
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trueloop.cli.recipe_options import settings_of
from trueloop.cli.subject_file import named_object
from trueloop.errors import Misuse

if TYPE_CHECKING:
    from trueloop.optimizer_claims.optimizer_subject import OptimizerSubject

__all__ = ["is_optimizer", "optimizer_subject"]


def is_optimizer(value: Any) -> bool:
    from torch.optim import Optimizer

    return isinstance(value, type) and issubclass(value, Optimizer)


def optimizer_subject(options: argparse.Namespace, name: str, made: Any, module: ModuleType) -> OptimizerSubject:
    """`--set lr=0.1` gives it arguments; `--against "torch.optim.SGD(momentum=0.9)"` gives the reference more."""
    from trueloop.optimizer_claims.optimizer_subject import LR, NotTaken, OptimizerSubject, arguments_of

    if options.inputs or options.gradient_of or options.device:
        raise Misuse(
            f"{name} is an optimizer: --inputs, --gradient-of and --device are for operations. Nothing was run."
        )
    own: dict[str, Any] = {key: _value(text) for key, text in settings_of(options.set).items()}
    if arguments_of(made).get("lr") is inspect.Parameter.empty:
        own.setdefault("lr", LR)
    reference, others = None, dict[str, Any]()
    if options.against:
        path, others = _called(options.against)
        reference = named_object(path, "--against", module)
        if not is_optimizer(reference):
            raise Misuse(f"--against {path} is not an optimizer. Nothing was run: type --against torch.optim.SGD.")
    subject = OptimizerSubject(made, name, own, reference, options.against or "", others)
    try:
        subject.needs_closure  # noqa: B018 - builds it and takes a step
    except NotTaken as error:
        typed = "`--set lr=0.1` gives its constructor an argument"
        raise Misuse(f"{name} raises in its first step: {error}. Nothing was tested: {typed}.") from None
    if reference is not None:
        try:
            subject.reference_training(_problem()).step()
        except NotTaken as error:
            typed = f'write its own arguments: --against "{path}(lr=0.1)"'
            raise Misuse(f"--against {options.against} raises: {error}. Nothing was tested: {typed}.") from None
    return subject


def _value(text: str) -> Any:
    """A Python value, 'lr=3e-4' or 'betas=(0.9, 0.95)', or the word itself."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _problem() -> Any:
    from trueloop.optimizer_claims.problem import QUADRATIC

    return QUADRATIC


def _called(text: str) -> tuple[str, dict[str, Any]]:
    """'torch.optim.SGD(momentum=0.9)' -> its path, and the arguments."""
    refusal = f"--against {text} is not understood. Nothing was run: type --against 'torch.optim.SGD(momentum=0.9)'."
    try:
        tree = ast.parse(text, mode="eval").body
        if not isinstance(tree, ast.Call):
            return text, {}
        if tree.args or any(each.arg is None for each in tree.keywords):
            raise Misuse(refusal)
        return ast.unparse(tree.func), {str(each.arg): ast.literal_eval(each.value) for each in tree.keywords}
    except (SyntaxError, ValueError):
        raise Misuse(refusal) from None
