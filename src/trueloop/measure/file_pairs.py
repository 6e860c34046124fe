"""Files that are read in turn, one of each kind: wave1, wear1, wave10, wear2. Is one kind in the order of its names as
text, and the other in the order of its numbers?"""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["FilesOutOfStep", "files_out_of_step"]

LEAST: Final = 10  # pairs whose order differs
IN_TURN: Final = 0.9  # of the files of a kind that are followed by one of the other kind
_NUMBERED: Final = re.compile(r"(\D*)(\d+)(\D*)")

Kind = tuple[str, str, str]  # folder, and the name before and after the number


class FilesOutOfStep(NamedTuple):
    file: str  # path, in the order of the text
    other: str  # path of the file of a different number that is read with it
    pairs: int
    wrong: int


class _File(NamedTuple):
    kind: Kind
    number: int
    path: str


def files_out_of_step(paths: Sequence[str]) -> FilesOutOfStep | None:
    """`paths`: in the order in which they were opened."""
    files = [file for path in paths if (file := _numbered(path)) is not None]
    counts: dict[Kind, int] = {}
    for file in files:
        counts[file.kind] = counts.get(file.kind, 0) + 1
    pairs: dict[tuple[Kind, Kind], list[tuple[_File, _File]]] = {}
    for one, other in pairwise(files):
        if one.kind != other.kind:
            pairs.setdefault((one.kind, other.kind), []).append((one, other))
    for kinds, read in pairs.items():
        if len(read) >= IN_TURN * max(counts[kind] for kind in kinds):
            found = _out_of_step(list(dict.fromkeys(read)))  # an epoch that comes again adds nothing
            if found is not None:
                return found
    return None


def _numbered(path: str) -> _File | None:
    folder, name = os.path.split(path)
    match = _NUMBERED.fullmatch(os.path.splitext(name)[0])
    return None if match is None else _File((folder, match[1], match[3]), int(match[2]), path)


def _out_of_step(read: list[tuple[_File, _File]]) -> FilesOutOfStep | None:
    if any(len({pair[side].number for pair in read}) < len(read) for side in (0, 1)):
        return None  # a file goes with several others
    wrong = []
    for part in _parts(read):
        sides = tuple(list(each) for each in zip(*part, strict=True))
        numbers = [{file.number for file in side} for side in sides]
        if numbers[0] != numbers[1]:
            return None
        if len(part) > 1 and not any(_by_text(one) and _by_number(other) for one, other in (sides, sides[::-1])):
            return None
        wrong += [pair for pair in part if pair[0].number != pair[1].number]
    if len(wrong) < LEAST:
        return None
    return FilesOutOfStep(wrong[0][0].path, wrong[0][1].path, len(read), len(wrong))


def _parts(read: list[tuple[_File, _File]]) -> Iterator[list[tuple[_File, _File]]]:
    """The shortest runs of pairs that have the same numbers on both sides. Their last one may be incomplete."""
    part: list[tuple[_File, _File]] = []
    apart: set[int] = set()
    for pair in read:
        part.append(pair)
        apart ^= {pair[0].number}
        apart ^= {pair[1].number}
        if not apart:
            yield part
            part = []
    if part:
        yield part


def _by_text(files: list[_File]) -> bool:
    names = [os.path.basename(file.path) for file in files]
    stems = [os.path.splitext(name)[0] for name in names]
    return (names == sorted(names) or stems == sorted(stems)) and not _by_number(files)


def _by_number(files: list[_File]) -> bool:
    return all(one.number < other.number for one, other in pairwise(files))
