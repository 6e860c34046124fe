"""Data files that the script read, and what differs between them. Emitted at the end of the run."""

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event

__all__ = [
    "ClocksDiffer",
    "ConsequenceCounted",
    "FileListed",
    "FilesDiffer",
    "FutureInColumn",
    "GroupsRecognized",
    "GroupsShared",
    "InvariantBroken",
    "KeysMissed",
    "LaterRowsUsed",
    "LengthsContradicted",
    "OwnOutcomeIncluded",
    "RowsCopied",
    "RowsMisplaced",
    "RowsNeverWritten",
    "RowsOutOfStep",
    "RowsSorted",
    "TablesRead",
    "TextMarked",
    "VocabularyCompared",
]

Kind = Literal[
    "order", "exchanged", "constant", "units", "percent", "base", "comma", "separator", "padding", "spelling", "date",
    "accents", "direction", "inverted", "unrelated", "precision", "rounded", "wrapped", "orientation", "text date",
    "leaked", "collapsed", "times", "day first", "month first", "overflowed", "stretched",
    "recoded", "point", "statistics", "day month", "wrapped beside", "boxes", "grids", "leaked unlabelled",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TablesRead(Event):
    """The data files that the script read."""

    files: int
    tables: int  # found in them


@dataclass(frozen=True, slots=True)
class FilesDiffer(Event):
    """A column of one name in two files with the same columns, or in two parts of one file. `place`: the line that
    reads the second file."""

    kind: Kind
    column: str
    file: str
    other: str
    here: str  # what the first file has
    there: str
    factor: float = 0.0
    units: str = ""  # that differ by this factor
    group: str = ""  # the column whose values tell the two parts of one file apart
    rows: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class FutureInColumn(Event):
    """A column of a forecast's training inputs is computed exactly from targets of its own row or of later ones.
    `place`: the training call of the model."""

    column: int
    columns: int
    last: int  # the last row whose target it needs: 0 is its own
    known: int  # the last row whose target another column simply is
    rows: int


@dataclass(frozen=True, slots=True)
class LaterRowsUsed(Event):
    """A column that is computed exactly from rows of another column: in one file from later rows than in the other.
    `place`: the line that reads the file with the later rows."""

    column: str
    source: str  # the column that it is computed from
    file: str
    last: int  # row that it is computed from: 1 is the next one, 0 its own
    other: str
    other_last: int
    group: str = ""  # column that tells several series of a file apart
    rows: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class InvariantBroken(Event):
    """What holds exactly in one file, or part of a file, and clearly not in another. `place`: the line that reads
    the latter."""

    kind: Literal["order", "sum", "product", "code", "ratio", "sorted", "first", "header"]
    columns: tuple[str, ...]
    file: str  # or part of a file
    here: str  # what the first file has
    other: str
    there: str
    modules: tuple[str, ...]  # source files of the user's modules


@dataclass(frozen=True, slots=True)
class KeysMissed(Event):
    """Keys of a file that name rows of another file only if their spelling is changed. `place`: the line that reads
    the latter."""

    file: str
    column: str
    rows: int
    matched: float  # share of the rows whose key is in the other file, as written
    lookup: str  # the other file
    alike: float  # share of the rows whose key is in it after the change
    change: str  # leading zeros, upper and lower case, ...
    example: str  # key
    entry: str  # the same key in the other file
    modules: tuple[str, ...]  # source files of the user's modules


@dataclass(frozen=True, slots=True)
class RowsOutOfStep(Event):
    """Two files whose rows belong together, and do not. `place`: the line that reads the second file."""

    kind: Literal["order", "count", "shift", "ids", "targets", "files"]
    file: str
    other: str
    rows: int  # of the first file. files: pairs of files that are read in turn
    others: int  # of the other file. files: pairs whose files have different numbers
    column: str = ""  # order: of the first file. targets: of the other file
    same_column: str = ""  # order: of the other file
    correlation: float = 0.0  # order: of the two, row by row. shift: of the lengths, where the rows are now
    moved: float = 0.0  # shift, targets: the correlation after moving the rows
    lines: tuple[int, int] = (0, 0)  # shift: first and last row
    by: int = 0  # shift, targets: rows
    keyed: bool = False  # order, targets: the rows have names in both files


@dataclass(frozen=True, slots=True)
class LengthsContradicted(Event):
    """Lengths of padded sequences that do not say where the content of a row ends. `place`: the line that reads
    them."""

    file: str
    column: str
    other: str  # the file that has the sequences
    rows: int
    factor: float  # the end of a row is this multiple of its length; 0 if it is no multiple
    beyond: float  # share of the rows whose length points into the padding
    length: float  # in the median
    end: float  # of the content, in the median
    positions: int  # of each row
    modules: tuple[str, ...]  # source files of the user's modules


@dataclass(frozen=True, slots=True)
class ClocksDiffer(Event):
    """Two files with a column of times in common, and two of the same kinds for other times: unforeseen changes reach
    the second file of the one pair some steps later than the first, and not so in the other pair. `place`: the line
    that reads the second file."""

    files: tuple[str, str]
    columns: tuple[str, str]
    delay: int  # steps; negative: the first file is late
    correlation: float  # of the changes, at this delay
    usual_files: tuple[str, str]
    usual: int
    usual_correlation: float
    time: str  # the column
    interval: float  # of the time between two rows; seconds, if it is dates
    dated: bool
    modules: tuple[str, ...]  # source files of the user's modules


@dataclass(frozen=True, slots=True)
class RowsMisplaced(Event):
    """Names, links, targets or sizes of groups beside rows that fit no better than by chance in the order that they
    have, and far better in a different one. `place`: the line that reads the rows."""

    kind: Literal["words", "links", "rows", "groups", "names"]
    file: str  # that names the rows
    other: str  # that has the rows
    rows: int
    column: str  # of the first file
    order: str  # that fits; empty if none does, although both say something about the words
    used: float  # standard deviations from chance, in the order that they have
    fits: float  # the same in the order that fits
    about: str  # words: what the vectors tell about them; names: the list of them, if it is a file of its own
    modules: tuple[str, ...]  # source files of the user's modules


@dataclass(frozen=True, slots=True)
class RowsNeverWritten(Event):
    """An array with long stretches of rows that hold one value, where other data of these rows vary. `place`: the line
    that reads it."""

    file: str
    array: str  # its name inside the file; empty if the file is one array
    rows: int
    empty: int
    first: int  # row of the longest stretch
    value: float  # that these rows hold
    beside: str  # the file whose rows of these numbers vary


@dataclass(frozen=True, slots=True)
class RowsCopied(Event):
    """Rows of a file, mostly for evaluation, that are in a file for training too. `place`: the line that reads the
    second."""

    file: str
    other: str
    copies: int
    rows: int  # of the other file
    repeated: float  # share of the rows of the first file that are in it twice
    named: bool = True  # the names of the files, or of the lists, say that they are for training and for evaluation
    near: tuple[float, float] = (0.0, 0.0)  # copies with a little noise: their distance, and that of training rows
    mirrored: tuple[str, ...] = ()  # copies in which the first two of these columns are exchanged; the third is equal


@dataclass(frozen=True, slots=True)
class RowsSorted(Event):
    """A file of a series whose rows are in the order of the text of their dates or numbers. `place`: the line that
    reads it."""

    file: str
    rows: int
    column: str  # dates or numbers
    cells: tuple[str, str]  # two of them, in the order of the file
    series: str  # a column that follows from its values before
    here: float  # the share of its variance that they give
    sorted: float  # the same in the order of the values
    modules: tuple[str, ...]  # source files of the user's modules


@dataclass(frozen=True, slots=True)
class GroupsShared(Event):
    """Patients, speakers or animals with rows for training and rows for evaluation. `place`: the line that reads the
    latter."""

    file: str  # or list of rows, or part of a file
    other: str
    column: str  # that names the groups
    groups: int  # on both sides
    rows: int  # for evaluation, of these groups
    others: int  # for evaluation
    label: str  # a column
    constant: float  # share of the rows that have the label of their group
    own: float  # share of the rows whose nearest training row is from their group
    chance: float
    modules: tuple[str, ...]  # source files of the user's modules


@dataclass(frozen=True, slots=True)
class OwnOutcomeIncluded(Event):
    """A running column of a data file that changes with the outcome of its own row. `place`: the line that reads it."""

    file: str
    column: str
    group: str  # a column: whose rows follow one another
    label: str  # a column
    rows: int  # with a row before
    own: float  # share of the changes whose sign follows from the outcome of the same row
    earlier: float  # the same, of the outcome of the row before


@dataclass(frozen=True, slots=True)
class ConsequenceCounted(Event):
    """A count in a data file that follows from a label, to which the other columns lead. `place`: the line that reads
    the file."""

    file: str
    column: str
    label: str  # a column
    rows: int
    area: float  # under the ROC curve of the count alone
    others: float  # of the other columns together
    related: float  # correlation of the count with what the other columns predict
    given: float  # the same inside of the classes
    causes: int  # columns that know nothing of one another, but oppose one another inside of the classes
    opposed: float  # by so many standard errors


@dataclass(frozen=True, slots=True)
class GroupsRecognized(Event):
    """Rows of a model in which several columns come again together, on both sides of a split that was drawn row by row.
    `place`: the evaluating call. At the end of the run."""

    model: int
    name: str
    columns: int  # that are equal in all rows of a group; 0: there are no such groups, or the split respects them
    groups: int  # on both sides
    rows: int  # that were evaluated, of these groups
    others: int  # that were evaluated, without training rows
    size: float  # rows for training of a group, in the mean
    alike: float  # correlation of what a probe, fitted to other groups, leaves over in two rows of one group
    certain: float  # the same in standard errors


@dataclass(frozen=True, slots=True)
class FileListed(Event):
    """A list of files that names one of them more often than the others. `place`: the line that reads the list."""

    manifest: str
    file: str
    times: int
    files: int  # that it names


@dataclass(frozen=True, slots=True)
class TextMarked(Event):
    """Texts of a file whose first word gives their label. `place`: the line that reads the file."""

    file: str
    rows: int
    text: str  # column
    label: str
    words: tuple[str, ...]
    found: float  # share of the labels that the word gives
    rest: float  # share that a probe on the other words gives
    chance: float


@dataclass(frozen=True, slots=True)
class VocabularyCompared(Event):
    """A text whose words are in a vocabulary file, or its letters in an alphabet of the script, if case does not count.
    `place`: the line that reads the vocabulary, or the text."""

    vocabulary: str  # file; or the alphabet
    entries: int
    characters: bool  # its entries are single characters
    file: str  # the text
    column: str
    known: float  # share of the words that are in the vocabulary as written
    ignoring_case: float
    lowered: float  # share of the words that are in it if the text is changed to lower case
    example: str  # a word that is not
    entry: str  # its entry, in a different case
    modules: tuple[str, ...]  # source files of the user's modules
    literal: bool = False  # an alphabet in the script itself
    setting: str = ""  # of a configuration file, about lower case
    is_set: bool = False
    follow: float = 0.0  # share of the missing words that begin as an entry which no text uses, or have its letters
    unused: float = 0.0  # share of the entries that no text uses
    spelled: bool = False  # they have its letters
