"""The claims are the files of this folder that define a subclass of Claim."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueloop.errors import Misuse, did_you_mean

if TYPE_CHECKING:
    from trueloop.claims.claim import Claim

__all__ = ["ORDER", "Catalogue", "claims_named", "names", "sentences"]

# Simple claims first: where one of them fails, the later ones mean little
ORDER: Final = (
    *("overfit-one-batch", "gradients-reach-every-layer", "optimizer-holds-every-parameter", "batch-independence"),
    *("evaluation-repeats", "loader-order-is-seeded", "workers-draw-differently", "large-batch-equals-accumulated"),
    *("reload-gives-same-output", "save-and-load-on-other-device", "runs-are-deterministic", "resume-is-exact"),
    *("precision-agrees", "eager-and-compiled-agree", "cpu-and-gpu-agree", "first-nonfinite", "no-memory-growth"),
    *("learning-rate-range", "distributed-equals-single"),
)


class Catalogue:
    """The claims of one folder: each file that defines a subclass of `base`. Files are read, not imported: that would
    load torch."""

    def __init__(self, package: str, folder: Path, base: str, order: tuple[str, ...]) -> None:
        self._package, self._folder, self._order = package, folder, order
        self._defined = re.compile(rf"^class (\w+)\({base}\):", re.MULTILINE)

    @cached_property
    def _classes(self) -> dict[str, str]:
        """Claim -> its class."""
        searched = ((file, self._defined.search(file.read_text("utf-8"))) for file in self._folder.glob("*.py"))
        return {file.stem.replace("_", "-"): defined[1] for file, defined in searched if defined}

    def names(self) -> tuple[str, ...]:
        """Every claim, in the order of testing."""
        known = self._classes
        return (*(name for name in self._order if name in known), *sorted(known.keys() - set(self._order)))

    def sentences(self) -> dict[str, str]:
        """The sentence of each claim: the first line of its file."""
        files = {name: self._folder / f"{name.replace('-', '_')}.py" for name in self.names()}
        docs = {name: ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "" for name, file in files.items()}
        return {name: doc.partition("\n")[0].removeprefix(f"{name}: ") for name, doc in docs.items()}

    def chosen(self, words: Iterable[str]) -> list[str]:
        """These claims, in the order of testing; all of them if there are no words."""
        wanted = list(words) or list(self.names())
        for word in wanted:
            if word not in self.names():
                near = did_you_mean(word, self.names())
                raise Misuse(f"There is no claim {word!r}.{near} Nothing was run; `trueloop probe --list` lists them.")
        return [name for name in self.names() if name in wanted]

    def claim(self, name: str) -> Any:
        """A claim of this name, imported."""
        return getattr(import_module(f"{self._package}.{name.replace('-', '_')}"), self._classes[name])()


_TRAINING: Final = Catalogue("trueloop.claims", Path(__file__).parent, "Claim", ORDER)
names, sentences = _TRAINING.names, _TRAINING.sentences


def claims_named(words: Iterable[str]) -> list[Claim]:
    """These claims, in the order of testing; all of them if there are no words."""
    return [_TRAINING.claim(name) for name in _TRAINING.chosen(words)]
