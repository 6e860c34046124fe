"""Metrics that a script prints: `epoch 3 val_acc: 0.91 train loss = 0.2` -> {'val_acc': 0.91, 'train loss': 0.2}."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from trueloop.usercode.names import HELD_OUT, TRAINING

__all__ = ["printed_metrics", "printed_numbers", "split_of", "validation_metrics"]

_WORD: Final = r"[A-Za-z_][\w@/.]*"
_NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)"
_PAIR: Final = re.compile(
    rf"(?<![\w.])((?:{_WORD}[ \t]+){{0,2}}{_WORD})['\"]?(?:[ \t]*[:=][ \t]*|[ \t]+)['\"]?({_NUMBER})(?![\w./])"
)
_COUNTERS: Final = """epoch epochs step steps iter iters iteration iterations batch batches seed round fold episode time
seconds sec secs s ms min minutes elapsed eta duration lr pid rank gpu device version samples tokens rows size params
parameters line loaded saved took speed throughput at of in"""
_NOT_METRICS: Final = frozenset(_COUNTERS.split())
"""Counters, times and settings: the last word of their name."""
DIGITS: Final = 3  # significant digits of a number by which a value is recognized
_DECIMAL: Final = re.compile(r"(?<![\w.])[-+]?\d*\.\d+(?:[eE][-+]?\d+)?(?![\w.])")
MOST: Final = 24  # metrics of one run
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def printed_metrics(lines: Iterable[str]) -> dict[str, float]:
    """The last value of each name, in the order of first appearance."""
    found: dict[str, float] = {}
    for line in lines:
        for piece in _ANSI.sub("", line).split("\r"):
            for name, value in _PAIR.findall(piece):
                name = " ".join(name.split()).strip("./@")
                known = name in found or len(found) < MOST
                if name and known and name.split()[-1].lower() not in _NOT_METRICS:
                    found[name] = float(value)
    return found


def printed_numbers(line: str) -> Iterator[tuple[float, float]]:
    """Numbers with a point, and three digits or more: the value, and half of its last digit."""
    for text in _DECIMAL.findall(_ANSI.sub("", line)):
        mantissa, _, exponent = text.lower().partition("e")
        digits = mantissa.lstrip("-+").replace(".", "").lstrip("0")
        if len(digits) >= DIGITS:
            yield float(text), 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


# -- values of an evaluation --

_TEST: Final = frozenset({"test", "te", "tst", "testing"})
_VALID: Final = (HELD_OUT - _TEST) | {"eval", "evaluation", "evaluating"}
_MEASURE_WORDS: Final = """acc accuracy f1 auc auroc precision recall bleu rouge iou miou map psnr ssim fid ppl
perplexity mae rmse r2 wer cer dice top1 top5 bpb bpc reward return score"""
_MEASURES: Final = frozenset(_MEASURE_WORDS.split())
"""Words that name a measure even where a line does not say which data it is of."""
_FILLERS: Final = frozenset(["epoch", "set", "data", "on", "the", "of", "for", "mean", "at", "iter", "step"])
_RATIO: Final = re.compile(rf"(?<![\w.])({_WORD})[ \t]*[:=][ \t]*(\d+)/(\d+)(?![\w./])")
_PARTS: Final = re.compile(r"[a-z]+\d*|\d+")


def split_of(words: Iterable[str]) -> Literal["train", "valid", "test", ""]:
    """The part of the data that the last of these words names; empty: none does."""
    found: Literal["train", "valid", "test", ""] = ""
    for word in words:
        found = "train" if word in TRAINING else "test" if word in _TEST else "valid" if word in _VALID else found
    return found


def validation_metrics(line: str) -> dict[str, float]:
    """Values of validation or test data in a printed line: `epoch 3 loss 0.2 val_acc 0.9` -> {'acc': 0.9}.

    Names of test data keep `test`. A value whose name has no word for its data counts if it is a measure (`accuracy`),
    and if the line has no bare `loss`, which is that of the training."""
    if not any(character.isdigit() for character in line):
        return {}
    found: dict[str, float] = {}
    for piece in _ANSI.sub("", line).split("\r"):
        pairs = [(match.start(1), match[1], float(match[2])) for match in _PAIR.finditer(piece)]
        ratios = [(match.start(1), match[1], int(match[2]) / max(1, int(match[3]))) for match in _RATIO.finditer(piece)]
        training = any(name.lower() == "loss" and not split_of(_words(piece[:start])) for start, name, _ in pairs)
        for start, name, value in (*pairs, *ratios):
            words = _words(name)
            split = split_of((*_words(piece[:start]), *words))
            measure = not split and not training and not _MEASURES.isdisjoint(words)
            if (split in ("valid", "test") or measure) and (kept := _name(words, split)):
                found[kept] = value
    return found


def _words(text: str) -> list[str]:
    return _PARTS.findall(text.lower())


def _name(words: list[str], split: str) -> str:
    """Empty: a counter, a time, or the best value so far."""
    if not words or words[-1] in _NOT_METRICS or "best" in words:
        return ""
    rest = [word for word in words if word not in _FILLERS and not split_of([word]) and not word.isdigit()]
    return "_".join([split, *rest] if split == "test" else rest) if rest else ""
