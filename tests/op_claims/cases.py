"""Operations to probe: each with its reference, its inputs, and the claim that must fail (none: it is healthy)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["CASES", "Case", "case"]


@dataclass(frozen=True)
class Case:
    op: Any
    name: str
    against: str
    inputs: tuple[str, ...]
    fails: str  # '': healthy
    gradient_of: str


CASES: list[Case] = []


def case(
    against: Any = "", inputs: str | tuple[str, ...] = (), *, fails: str = "", name: str = "", gradient_of: str = ""
) -> Callable[[Any], Any]:
    """A decorator that leaves the operation as it is."""

    def note(op: Any) -> Any:
        called = name or getattr(op, "__name__", "") or getattr(op, "_name", "")
        several = (inputs,) if isinstance(inputs, str) else inputs
        CASES.append(Case(op, called, against, several, fails, gradient_of))
        return op

    return note
