"""What names in the user's code say about what they stand for."""

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["DIRECTION_WORDS", "HELD_OUT", "TRAINING", "better_by_name", "says_held_out", "says_monte_carlo", "words_of"]

HELD_OUT: Final = frozenset(
    {"val", "va", "vl", "valid", "validation", "test", "te", "tst", "dev", "holdout", "heldout", "unseen"}
)
TRAINING: Final = frozenset({"train", "training", "tr", "trn", "fit"})
_MORE_IS_BETTER: Final = frozenset({
    "acc", "accs", "accuracy", "accuracies", "f1", "auc", "auroc", "auprc", "roc", "precision", "recall", "iou",
    "miou", "dice", "correct", "bleu", "rouge", "r2", "top1", "top5", "map", "mrr", "ndcg", "hit", "hits", "psnr",
    "ssim", "mcc", "kappa", "jaccard", "reward", "rewards", "return", "returns",
})  # fmt: skip
"""Words in the names of metrics that should rise."""
_LESS_IS_BETTER: Final = frozenset({
    "loss", "losses", "err", "error", "errors", "mse", "mae", "rmse", "mape", "nll", "bce", "ce", "ppl",
    "perplexity", "wer", "cer", "eer", "fid", "brier", "crps", "regret", "cost", "rank", "mr",
})  # fmt: skip
"""Words in the names of metrics that should fall. `mr`: mean rank, or miss rate."""
_INVERTED: Final = frozenset(
    {"neg", "negative", "minus", "inv", "inverse", "inverted", "complement", "gap", "drop", "delta", "diff", "fake"}
)
"""Words that may invert the meaning of the others."""
DIRECTION_WORDS: Final = _MORE_IS_BETTER | _LESS_IS_BETTER | _INVERTED


def words_of(name: str) -> list[str]:
    """The words of a name in lower case: `valLoader`, `val_loader` and `VAL_LOADER` have `val` and `loader`."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)]


def says_held_out(words: Iterable[str]) -> bool:
    """Do the names of some data say validation or test, and none of them training?"""
    return not HELD_OUT.isdisjoint(words) and TRAINING.isdisjoint(words)


def says_monte_carlo(name: str) -> bool:
    """Does a name suggest intended randomness: mc_dropout, MCDropout, predict_with_uncertainty, BayesianNet?"""
    return any(word == "mc" or word.startswith(("mcdrop", "monte", "uncertain", "bayes")) for word in words_of(name))


def better_by_name(words: Iterable[str]) -> int:
    """1 if the name of a metric says that more is better, -1 if less is, 0 if neither, both, or inverted."""
    known = frozenset(words)
    more, less = not known.isdisjoint(_MORE_IS_BETTER), not known.isdisjoint(_LESS_IS_BETTER)
    return 0 if more == less or not known.isdisjoint(_INVERTED) else 1 if more else -1
