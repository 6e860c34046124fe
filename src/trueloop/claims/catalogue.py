"""The claims are the files of this folder that define a subclass of Claim."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.errors import Misuse, did_you_mean

if TYPE_CHECKING:
    from trueloop.claims.claim import Claim

__all__ = ["ORDER", "claims_named", "names", "sentences"]

# Simple claims first: where one of them fails, the later ones mean little
ORDER: Final = (
    *("overfit-one-batch", "gradients-reach-every-layer", "optimizer-holds-every-parameter", "batch-independence"),
    *("evaluation-repeats", "loader-order-is-seeded", "workers-draw-differently", "large-batch-equals-accumulated"),
    *("reload-gives-same-output", "save-and-load-on-other-device", "runs-are-deterministic", "resume-is-exact"),
    *("precision-agrees", "eager-and-compiled-agree", "cpu-and-gpu-agree", "first-nonfinite", "no-memory-growth"),
    *("learning-rate-range", "distributed-equals-single"),
)
CLAIM: Final = re.compile(r"^class (\w+)\(Claim\):", re.MULTILINE)


@cache
def _classes() -> dict[str, str]:
    """Claim -> its class. Files are read, not imported: that would load torch."""
    searched = ((file, CLAIM.search(file.read_text("utf-8"))) for file in Path(__file__).parent.glob("*.py"))
    return {file.stem.replace("_", "-"): defined[1] for file, defined in searched if defined}


def names() -> tuple[str, ...]:
    """Every claim, in the order of testing."""
    return (*(name for name in ORDER if name in _classes()), *sorted(_classes().keys() - set(ORDER)))


def sentences() -> dict[str, str]:
    """The sentence of each claim: the first line of its file. Imports nothing."""
    files = {name: Path(__file__).with_name(f"{name.replace('-', '_')}.py") for name in names()}
    docs = {name: ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "" for name, file in files.items()}
    return {name: doc.partition("\n")[0].removeprefix(f"{name}: ") for name, doc in docs.items()}


def claims_named(words: Iterable[str]) -> list[Claim]:
    """These claims, in the order of testing; all of them if there are no words."""
    wanted = list(words) or list(names())
    for word in wanted:
        if word not in names():
            near = did_you_mean(word, names())
            raise Misuse(f"There is no claim {word!r}.{near} Nothing was run; `trueloop probe --list` lists them.")
    return [_claim(name) for name in names() if name in wanted]


def _claim(name: str) -> Claim:
    claim: Claim = getattr(import_module(f"trueloop.claims.{name.replace('-', '_')}"), _classes()[name])()
    return claim
