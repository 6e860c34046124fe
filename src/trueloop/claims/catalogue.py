"""The folder is the registry: each file that holds a Claim is one."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.errors import Misuse, did_you_mean

if TYPE_CHECKING:
    from trueloop.claims.claim import Claim

__all__ = ["claims_named", "names", "sentences"]

ORDER: Final = (
    "overfit-one-batch",
    "gradients-reach-every-layer",
    "optimizer-holds-every-parameter",
    "batch-independence",
    "evaluation-repeats",
    "loader-order-is-seeded",
    "workers-draw-differently",
    "large-batch-equals-accumulated",
    "reload-gives-same-output",
    "save-and-load-on-other-device",
    "runs-are-deterministic",
    "resume-is-exact",
    "precision-agrees",
    "eager-and-compiled-agree",
    "cpu-and-gpu-agree",
    "first-nonfinite",
    "no-memory-growth",
    "learning-rate-range",
    "distributed-equals-single",
)
"""Simple claims first: where one of those fails, the later ones say little."""
BASES: Final = (
    "__init__",
    "claim",
    "subject",
    "catalogue",
    "prove",
    "trace",
    "steps",
    "leak",
    "holder",
    "digest",
    "parting",
    "rerun",
    "interrupt",
    "reload",
    "numbers",
)
"""Files of this folder that hold no claim."""


def names() -> tuple[str, ...]:
    """Every claim there is a file for, in the order in which they are tried."""
    here = {file.stem.replace("_", "-") for file in Path(__file__).parent.glob("*.py") if file.stem not in BASES}
    return (*(name for name in ORDER if name in here), *sorted(here - set(ORDER)))


def sentences() -> dict[str, str]:
    """What each claims: the first line of its file. Nothing is imported for it."""
    texts = {
        name: (Path(__file__).parent / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8") for name in names()
    }
    lines = {name: (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0] for name, text in texts.items()}
    return {name: line.removeprefix(f"{name}: ") for name, line in lines.items()}


def claims_named(words: Iterable[str]) -> list[Claim]:
    """Those, in their order; all of them if no word is given."""
    wanted = list(words) or list(names())
    for word in wanted:
        if word not in names():
            raise Misuse(
                f"There is no claim {word!r}.{did_you_mean(word, names())} Nothing was run: `trueloop probe --list` shows them."
            )
    return [_claim(name) for name in names() if name in wanted]


def _claim(name: str) -> Claim:
    module = import_module(f"trueloop.claims.{name.replace('-', '_')}")
    (kind,) = (
        found for found in vars(module).values() if isinstance(found, type) and getattr(found, "name", None) == name
    )
    made: Claim = kind()
    return made
