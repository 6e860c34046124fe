"""What names in the user's code say about what they stand for."""

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["HELD_OUT", "TRAINING", "says_held_out", "says_monte_carlo", "words_of"]

HELD_OUT: Final = frozenset(
    {"val", "va", "vl", "valid", "validation", "test", "te", "tst", "dev", "holdout", "heldout", "unseen"}
)
TRAINING: Final = frozenset({"train", "training", "tr", "trn", "fit"})


def words_of(name: str) -> list[str]:
    """The words of a name in lower case: `valLoader`, `val_loader` and `VAL_LOADER` have `val` and `loader`."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)]


def says_held_out(words: Iterable[str]) -> bool:
    """Do the names of some data say validation or test, and none of them training?"""
    return not HELD_OUT.isdisjoint(words) and TRAINING.isdisjoint(words)


def says_monte_carlo(name: str) -> bool:
    """Does a name suggest intended randomness: mc_dropout, MCDropout, predict_with_uncertainty, BayesianNet?"""
    return any(word == "mc" or word.startswith(("mcdrop", "monte", "uncertain", "bayes")) for word in words_of(name))
