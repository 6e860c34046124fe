"""The names of operations: torch gives them, and each set of them is written in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from tests.test_architecture import FILES, SOURCE
from trueloop.event import operation_names

SHARED = {
    name: frozenset(value)
    for name, value in vars(operation_names).items()
    if name.isupper() and isinstance(value, (frozenset, tuple))
}
FEWEST, EQUAL = 4, 0.8
"""Names that a copy has at least, and their share of all names of both sets."""
ROOMS = ("event", "measure", "rules", "taps", "observers", "crash")


def _is_operation(name: str) -> bool:
    return any(hasattr(owner, name) for owner in (torch, Tensor, functional)) or name in operation_names.VIEW_NODES


def _strings(node: ast.expr) -> frozenset[str]:
    """The names that a display of texts, or the keys of one, or several with operators between them, write out."""
    displays = [each for each in ast.walk(node) if isinstance(each, (ast.Set, ast.Tuple, ast.List))]
    texts = [item for each in displays for item in each.elts]
    return frozenset(item.value for item in texts if isinstance(item, ast.Constant) and isinstance(item.value, str))


def _collections(source: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The sets of operations that a file writes at its top level: their names, and what they write out."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            names = _strings(node.value)
            if len(names) >= FEWEST and sum(map(_is_operation, names)) >= EQUAL * len(names):
                yield node.target.id, names


def _is_copy(names: frozenset[str], other: frozenset[str]) -> bool:
    return len(names & other) >= max(FEWEST, EQUAL * len(names | other))


def _holds(names: frozenset[str], shared: frozenset[str]) -> bool:
    return len(shared) >= FEWEST and shared <= names


def _all_collections() -> dict[str, frozenset[str]]:
    files = [file for file in FILES if file.relative_to(SOURCE).parts[0] in ROOMS]
    return {
        f"{file.relative_to(SOURCE)}: {name}": names
        for file in files
        if file.stem != "operation_names"
        for name, names in _collections(file.read_text(encoding="utf-8"))
    }


def test_a_set_of_operations_is_written_once() -> None:
    ours = _all_collections()
    assert ours
    copies = [
        (name, shared)
        for name, names in ours.items()
        for shared, other in SHARED.items()
        if _is_copy(names, other) or _holds(names, other)
    ]
    copies += [(name, other) for name, other in combinations(ours, 2) if _is_copy(ours[name], ours[other])]
    assert not copies, "take the set of event/operation_names.py, or move it there; a difference: `SET | {...}`"


def test_a_copy_of_a_shared_set_is_recognized() -> None:
    source = (
        '_PRODUCTS: Final = frozenset({"mul", "__mul__", "__rmul__", "multiply"})\n_WORDS: Final = ("a", "b", "c", "d")'
    )
    ((name, names),) = _collections(source)
    assert name == "_PRODUCTS"
    assert _is_copy(names, operation_names.PRODUCTS)
    ((_, names),) = _collections('_SCALES: Final = VIEWS | {"mul", "__mul__", "__rmul__", "multiply", "sin", "cos"}')
    assert not _is_copy(names, operation_names.PRODUCTS)
    assert _holds(names, operation_names.PRODUCTS)
    assert not list(_collections('_MASKS: Final = PRODUCTS | {"__and__", "where"}'))


class _Names(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("a + b; 1 + a; a.add(b)", "ADDITIONS"),
        ("a += b; a.add_(b)", "ANY_ADDITION"),
        ("a - b; torch.subtract(a, b)", "SUBTRACTIONS"),
        ("1 - a; torch.rsub(a, b)", "REVERSED_SUBTRACTIONS"),
        ("a -= b", "ANY_SUBTRACTION"),
        ("a * b; 2 * a; torch.multiply(a, b)", "PRODUCTS"),
        ("a *= b; a.multiply_(b)", "ANY_PRODUCT"),
        ("a / b; torch.divide(a, b); torch.true_divide(a, b)", "QUOTIENTS"),
        ("a /= b", "ANY_QUOTIENT"),
        ("1 / a; 1 - a; a % b", "ELEMENTWISE"),
        ("-a; torch.negative(a)", "NEGATIONS"),
        ("a ** 2; a.square(); abs(a); torch.absolute(a)", "MAGNITUDES"),
        ("a.norm(); torch.linalg.norm(a); torch.linalg.vector_norm(a)", "NORMS"),
        ("a == b; a != b", "EQUALITIES"),
        ("a < b; a <= b; a > b; a >= b", "ORDERINGS"),
        ("torch.cat([a, b]); torch.concat([a, b]); torch.concatenate([a, b])", "JOINS"),
        ("a @ b; torch.mm(a, b)", "MATRIX_PRODUCTS"),
        ("functional.mse_loss(a, b); functional.huber_loss(a, b)", "DISTANCE_LOSSES"),
    ],
)
def test_torchs_spellings_of_an_operation_are_in_its_set(line: str, names: str) -> None:
    values = {"torch": torch, "functional": functional, "a": torch.ones(2, 2), "b": torch.ones(2, 2)}
    with _Names() as mode:
        exec(line, values)
    assert len(mode.names) == len(line.split(";"))
    assert set(mode.names) <= SHARED[names]


def test_the_example_of_the_module_is_true() -> None:
    """`a + b` is "add", `a += b` "add_", `1 - a` "__rsub__", `1 / a` "__rdiv__"."""
    a = torch.ones(2)
    with _Names() as mode:
        _ = a + a, 1 - a, 1 / a
        a += 1
    assert mode.names == ["add", "__rsub__", "__rdiv__", "add_"]
