"""Metrics that a script prints: `epoch 3 val_acc: 0.91 train loss = 0.2` -> {'val_acc': 0.91, 'train loss': 0.2}."""

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["printed_metrics"]

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
