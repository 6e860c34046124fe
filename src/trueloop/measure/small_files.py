"""Small files as text: scripts, configurations, lists of files; and which files are small."""

import os
import re
from collections import Counter
from typing import Final

from trueloop.measure.unpacked import LARGEST_UNPACKED, unpacked_size

__all__ = ["LARGEST", "is_small", "occurrences", "repeated_names", "text_of"]

LARGEST: Final = 2**24
SMALL: Final = 2**18  # bytes of a list of files


def text_of(path: str) -> str:
    """Of a small file: a script, a configuration."""
    if not os.path.isfile(path) or os.path.getsize(path) > SMALL or path.endswith((".npz", ".npy", ".pt")):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def occurrences(name: str, text: str) -> int:
    return len(re.findall(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text))


def repeated_names(paths: set[str]) -> set[str]:
    """Names of files that are in more than one folder."""
    counts = Counter(map(os.path.basename, paths))
    return {name for name, count in counts.items() if count > 1}


def is_small(path: str) -> bool:
    """Small enough to be read once more, also when it is unpacked."""
    return os.path.isfile(path) and os.path.getsize(path) <= LARGEST and unpacked_size(path) <= LARGEST_UNPACKED
