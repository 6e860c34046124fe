"""Inputs for an operation: from `--inputs`, from `samples()` in its file, or shapes that it was seen to take."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.errors import Misuse
from trueloop.op_claims.sample import SHORT, Sample
from trueloop.torch_private.dispatch import pytree

__all__ = ["derived_samples", "own_samples", "parsed_samples"]

_TENSOR: Final = re.compile(r"(?P<dtype>[a-z]+\d*)\[(?P<sizes>[\d,\s]*)\]\s*(?:<\s*(?P<below>\d+))?")
TYPED: Final = '--inputs "f32[4,8], i64[4]<8, dim=-1"'
DOMAINS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "normal": lambda values: values,
    "above 0": lambda values: values.abs() + 0.1,
    "in 0 .. 1": lambda values: values.sigmoid() * 0.9 + 0.05,
}
"""Values that are tried until the results are finite."""
PATTERNS: Final = {
    1: (("f32[4,8]",), ("f32[2,3,8]",), ("f32[17]",), ("f32[3,1025]",)),
    2: (
        *(("f32[4,8]", "f32[4,8]"), ("f32[4,8]", "f32[8]"), ("f32[4,8]", "f32[4,1]"), ("f32[4,8]", "f32[8,5]")),
        *(("f32[4,8]", "f32[6,8]"), ("f32[4,8]", "i64[4]<8"), ("i64[6]<5", "f32[5,4]"), ("f32[4,8]", "-1")),
        ("f32[2,3,8,8]", "f32[4,3,3,3]"),
    ),
    3: (
        *(("f32[4,8]", "f32[4,8]", "f32[4,8]"), ("f32[4,8]", "f32[8]", "f32[8]"), ("f32[4,8]", "f32[6,8]", "f32[6]")),
        *(("f32[2,2,5,4]", "f32[2,2,5,4]", "f32[2,2,5,4]"), ("f32[4,8]", "f32[8,5]", "f32[5]")),
        ("bool[4,8]", "f32[4,8]", "f32[4,8]"),
    ),
}
"""Number of arguments -> arguments that are tried."""


def parsed_samples(texts: Sequence[str], device: torch.device) -> list[Sample]:
    """One sample for each text. Raises Misuse."""
    return [_parsed(text, number, device) for number, text in enumerate(texts)]


def _parsed(text: str, seed: int, device: torch.device) -> Sample:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    draws = torch.Generator().manual_seed(seed)
    for word in _split(text):
        name, sign, value = word.partition("=")
        if sign and name.strip().isidentifier():
            kwargs[name.strip()] = _value(value.strip(), draws, device)
        elif kwargs:
            raise Misuse(f"--inputs: {word!r} stands after an argument with a name. Nothing was run: put it first.")
        else:
            args.append(_value(word, draws, device))
    if not any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves((args, kwargs))):
        raise Misuse(f"--inputs {text!r} has no tensor. Nothing was run: type {TYPED}.")
    return Sample(tuple(args), kwargs)


def _split(text: str) -> Iterator[str]:
    """At commas outside of brackets."""
    depth, word = 0, ""
    for letter in text:
        depth += (letter in "[({") - (letter in "])}")
        if letter == "," and depth == 0:
            yield word.strip()
            word = ""
        else:
            word += letter
    if word.strip():
        yield word.strip()


def _value(word: str, draws: torch.Generator, device: torch.device) -> Any:
    found = _TENSOR.fullmatch(word)
    if found and found["dtype"] in SHORT:
        shape = tuple(int(size) for size in found["sizes"].split(",") if size.strip())
        return _tensor(SHORT[found["dtype"]], shape, int(found["below"] or 2), draws).to(device)
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        known = f"tensors are {', '.join(SHORT)} with sizes"
        raise Misuse(f"--inputs: {word!r} cannot be read. Nothing was run: {known}, as in {TYPED}.") from None


def _tensor(dtype: torch.dtype, shape: tuple[int, ...], below: int, draws: torch.Generator) -> Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape, generator=draws, dtype=torch.float64).to(dtype)
    return torch.randint(0, below, shape, generator=draws).to(dtype)


def own_samples(function: Callable[[], Iterable[Any]], device: torch.device) -> list[Sample]:
    """What `samples()` of the user's file returns: a tensor, a tuple of arguments, or a dict of named ones, each."""
    samples: list[Sample] = []
    for given in function():
        match given:
            case Tensor():
                sample = Sample((given,))
            case dict():
                sample = Sample((), given)
            case list() | tuple():
                sample = Sample(tuple(given))
            case _:
                kind = type(given).__name__
                raise Misuse(f"samples() gave a {kind}. Nothing was run: give tuples of arguments, or dicts of them.")
        samples.append(sample.map(lambda tensor: tensor.detach().to(device)).copied())
    if not samples or not all(sample.tensors() for sample in samples):
        raise Misuse("samples() gave no inputs with a tensor. Nothing was run: return a list of tuples of arguments.")
    return samples


def derived_samples(call: Callable[..., Any], reference: Callable[..., Any] | None, count: int | None,
                    device: torch.device) -> list[Sample]:  # fmt: skip
    """Shapes that the operation and its reference take. `count`: the number of arguments, if it is known."""
    for number in [count] if count in PATTERNS else [1, 2, 3]:
        tried = [_parsed(", ".join(words), 0, device) for words in PATTERNS[number or 1]]
        taken = [sample for sample in tried if _take(sample, call, reference)]
        pure = [sample for sample in taken if len(sample.tensors()) == len(sample.args)]
        if taken:
            return [_in_domain(sample, reference or call) for sample in pure or taken]
    return []


def _take(sample: Sample, *functions: Callable[..., Any] | None) -> bool:
    try:
        results = [pytree.tree_leaves(sample.copied().call(each)) for each in functions if each is not None]
    except Exception:  # noqa: BLE001 - shapes that it does not take: the next ones are tried
        return False
    return all(any(isinstance(leaf, Tensor) for leaf in leaves) for leaves in results)


def _in_domain(sample: Sample, function: Callable[..., Any]) -> Sample:
    """With values for which the results are finite, where there are such values."""

    def finite(candidate: Sample) -> bool:
        leaves = pytree.tree_leaves(candidate.copied().call(function))
        return all(bool(leaf.isfinite().all()) for leaf in leaves if isinstance(leaf, Tensor))

    def moved(change: Callable[[Tensor], Tensor]) -> Sample:
        return sample.map(lambda tensor: change(tensor) if tensor.is_floating_point() else tensor)

    return next((candidate for candidate in map(moved, DOMAINS.values()) if finite(candidate)), sample)
