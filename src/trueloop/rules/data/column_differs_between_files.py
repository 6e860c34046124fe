"""DAT135 column-differs-between-files: one column holds something else in one of the files that the script reads.

What it sees
------------
The data files that the script opened (csv and other text, npz, npy, json) are read once more at the end of the run and
compared, column by column, whatever the script does with them. A column of one name, in two files with the same columns
or in two parts of one file (by site, by desk), has different units, codes that begin at 0 and at 1, fractions and
percent, a decimal comma, a different separator or date format, names with and without leading zeros, a constant where
it varied, integers that wrapped around (neighbors in time, or the rows that are most similar otherwise, lie on both
sides of the end of a range of 8, 16 or 32 bits as often as of any other number; or rows of the other file with nearly
the same inputs contradict them), boxes of pictures in different forms (corners, or a corner and a
size; x or y first: the edges in the pictures show it), values without their decimal point, large numbers that float32
rounds to their neighbors, times that it has rounded to 128 s, dates with day and month exchanged (as the script reads
them, or in the file itself: they run back from row to row, and do not once the dates up to the 12th are exchanged), a
time that runs backward, two codes or signs that mean the opposite of one another (by the other columns, or by
pictures and signals beside them), signals of a different sample rate, or its
columns are in a different order and the script reads them by position. Or each file has numbered the values of a column
for itself: the means of another column over the rows of a code differ between the files, and agree once the codes are
matched. Maps of one place that fit one another only after a flip or a turn are such a difference too. Or a column gives
a label of 0 and 1 away in one file and says nothing about it in the other, where the other columns relate to the label
as before: it was probably filled after the outcome was known. The same if the other file has no label, is like a file
with as many rows of each class in the other columns, and like the rows of one class alone in this one.

Why it hurts
------------
The script reads all files in the same way, so a part of the data has the wrong meaning. Nothing fails: the model is
trained, or evaluated, on numbers that are not what their column says.

Evidence
--------
The column, the two files and what each of them has.

Use instead
-----------
    table = table[NAMES]                   # by name, in one order
    table["rain_mm"] *= 25.4               # in one unit, before the files are joined
    labels = labels - labels.min()         # in one code

When it is fine
---------------
Formats that the script handles: it replaces commas, parses dates, changes case. Not reported then, nor for columns that
count rows, for boxes in scripts that rearrange or convert them, fewer than 40 rows, amounts that differ between groups
of one file, and files that the run wrote while it trained. Units that differ by less than the spread of a column (miles
and km) are reported only if a further column follows from it as in the other file once it is converted. If the script
converts units itself, allow it at the line that reads the file.
"""

import ast
import re
from typing import Final

from trueloop.event import FilesDiffer, Place, RunEnded, TablesRead
from trueloop.rules.rule import Finding, Findings, Rule, Severity
from trueloop.usercode.source import source_of

__all__ = ["ColumnDiffersBetweenFiles"]

_MODULUS: Final = ("unwrap", "% 65536", "% 256", "0xff", "0xFF", "& 255", "& 65535", ".remainder", "np.mod")
_HANDLED: Final = {
    "order": ("DictReader", "read_csv", "read_json", "names", ".index(", "header", "columns", "json", "readline"),
    "comma": ('replace(",", ".")', "replace(',', '.')", "decimal=", "locale"),
    "text date": ("strptime", "to_datetime", "parse_dates", "fromisoformat", "dateutil", "datetime64", "split('.')"),
    "date": ("strptime", "to_datetime", "parse_dates", "fromisoformat", "dateutil", "datetime64"),
    "spelling": (".lower()", ".upper()", ".casefold()", ".replace(", "re.sub", ".strip("),
    "accents": ("unicodedata", "unidecode", "NFC", "NFD", "NFKC", "NFKD", "ftfy", "strip_accents", "transformers",
                "tokenizers", "sentencepiece"),
    "separator": ("re.split", "re.findall", "replace("),
    "overflowed": (*_MODULUS, "arctan2", "angle(", "hsv", "HSV", "hue"),
    "wrapped beside": (*_MODULUS, "uint8)"),
    "grids": ("flip", "rot90", "[::-1", "::-1]", "origin", ".T", "transpose", "swapaxes", "permute"),
    "stretched": ("resample", "interp", "decimate", "zoom", "::2", "::3", "::4"),
    "units": ("1.609", "0.621", "2.204", "0.453", "2.54", "0.393", "3.28", "0.3048", "273.15", "9 / 5", "5 / 9",
              "* 1.8", "/ 1.8", "- 32", "fahrenheit_to", "to_celsius", "to_metric", "deg2rad", "rad2deg"),
}  # fmt: skip
"""Words in the source of a script that handles this, or reads by name."""
_NEEDED: Final = {
    "comma": ("replace(',', '')", "coerce", "except", "genfromtxt", "isdigit", "isnumeric", "category", "factorize",
              "get_dummies"),  # `float` fails on a comma: something hides that
    "padding": ("sort",), "date": ("sort",), "text date": ("sort",),
    "day first": ("%m/%d", "%m.%d", "%m-%d"), "month first": ("%d/%m", "%d.%m", "%d-%m"),
    "day month": ("strptime", "to_datetime", "parse_dates", "fromisoformat", "datetime64", "sort", "split("),
    "precision": ("dtype=np.float32", "dtype='float32'", "dtype=numpy.float32", "np.float32)", ".float()"),
    "times": ("diff", "shift(", "[1:]", "delta", "gap", "elapsed", "interval"),
}  # fmt: skip
"""Words without which it does no harm."""
_SORTS: Final = re.compile(r"sort|reversed\(|\[::-1\]")
_LISTS_FILES: Final = re.compile(r"glob|dir\(|files|paths")
_SHARES: Final = re.compile(r"\.float\(\)(?=\.(mean|sum)\()")  # of right answers: no column is converted


class ColumnDiffersBetweenFiles(Rule, code="DAT135", severity=Severity.WARNING):
    not_applicable = "no two data files with the same columns were read"
    applies_after = (TablesRead,)

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[FilesDiffer]] = {}

    def on_files_differ(self, event: FilesDiffer) -> None:
        text = _SHARES.sub("", _text(event.place, whole=event.kind != "order"))
        if any(word in text for word in _HANDLED.get(event.kind, ())):
            return
        if event.kind in _NEEDED and not any(word in text for word in _NEEDED[event.kind]):
            return
        if event.kind == "direction" and _sorts_rows(event.place):
            return
        if event.kind in ("day first", "month first") and not _reads_first(event.kind, text):
            return
        self._found.setdefault((event.kind, event.column), []).append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        """One finding for each kind: the other columns are listed. Any other difference also changes relations."""
        kinds = list(dict.fromkeys(kind for kind, _ in self._found))
        for kind in kinds:
            if kind in _CONSEQUENCES and any(other not in _CONSEQUENCES for other in kinds):
                continue
            if kind == "unrelated" and "inverted" in kinds:
                continue
            yield self._report([events for (other, _), events in self._found.items() if other == kind])

    def _report(self, columns: list[list[FilesDiffer]]) -> Finding:
        if columns[0][0].kind == "inverted":  # a column that is turned turns the relations of others to it
            columns.sort(key=lambda events: float(events[0].there))
        events = columns[0]
        event = events[0]
        files = list(dict.fromkeys(name for each in events for name in (each.file, each.other)))
        message, fix = _SENTENCES[event.kind]
        facts = {"column": event.column, "file": event.file, "other": event.other, "here": event.here,
                 "there": event.there}  # fmt: skip
        factor = f" ({event.units})" if event.units else f" (a factor of {event.factor:.3g})" if event.factor else ""
        beside = f", in `{event.other}` {event.there}" if event.there else ""
        also = f" Also `{'`, `'.join(other[0].column for other in columns[1:4])}`." if len(columns) > 1 else ""
        words = {"apart": max(event.here, event.there), "factor": factor, "units": event.units, "beside": beside}
        return self.finding(
            event,
            message.format(**facts, **words) + also,
            fix=fix,
            evidence=facts | {"files": files, "rows": list(event.rows)},
        )


def _reads_first(kind: str, text: str) -> bool:
    """Whether the format that exchanges day and month is tried before the right one, or alone."""
    wrong, right = (r"%m[/.-]%d", r"%d[/.-]%m") if kind == "day first" else (r"%d[/.-]%m", r"%m[/.-]%d")
    exchanged, fitting = re.search(wrong, text), re.search(right, text)
    return exchanged is not None and (fitting is None or exchanged.start() < fitting.start())


def _sorts_rows(place: Place | None) -> bool:
    lines = ast.unparse(source_of(place.path if place else "").tree).splitlines()
    return any(_SORTS.search(line) and not _LISTS_FILES.search(line) for line in lines)


def _text(place: Place | None, *, whole: bool) -> str:
    """The script; or only the function that reads the file, if it is read in one."""
    source = source_of(place.path if place else "")
    function = None if whole or place is None else source.enclosing_function(place.line)
    lines = (line.split("  #")[0] for line in source.lines)
    return ast.unparse(source.tree) + "".join(lines) if function is None else ast.unparse(function)


_CONSEQUENCES: Final = ("inverted", "unrelated")
_SENTENCES: Final[dict[str, tuple[str, str]]] = {
    "order": (
        "The columns of `{other}` are in a different order than those of `{file}`, and the script reads them by "
        "position: `{file}` has {here}; `{other}` has {there}.",
        "Read the columns by name (`csv.DictReader`, `pandas.read_csv(path)[NAMES]`), or write both files in one "
        "order.",
    ),
    "exchanged": (
        "The columns {column} seem to be exchanged in `{other}`: each has the distribution of the other one "
        "(`{file}`: {here}; `{other}`: {there}).",
        "Compare the two files: what does each of these columns mean in each of them?",
    ),
    "constant": (
        "Column `{column}` does not vary in one file: `{file}` has {here}, `{other}` has {there}. The model cannot "
        "learn from it in one file what it would need in the other.",
        "Look at the source of this column: a sensor that hangs, a default value, a join that found nothing. Repair it "
        "or leave the column out of both files.",
    ),
    "units": (
        "Column `{column}` seems to have different units{factor}: `{file}` has {here}, `{other}` has {there}, with the "
        "same shape.",
        "Convert the column to one unit before the files are used together.",
    ),
    "percent": (
        "Column `{column}` mixes fractions and percent: `{file}` has {here}, `{other}` has {there}.",
        "Divide the values that are percent by 100 before any threshold or model sees them.",
    ),
    "base": (
        "The codes of column `{column}` run from {here} in `{file}` and from {there} in `{other}`: one of them counts "
        "from 1. The same code means different things.",
        "Bring the codes of both to one base: `labels - labels.min()`.",
    ),
    "comma": (
        "Column `{column}` is written with a decimal comma in one file only: `{file}` has {here}, `{other}` has "
        "{there}.",
        "Replace the comma by a point before the conversion: `float(text.replace(',', '.'))`, or "
        "`pandas.read_csv(path, decimal=',')`.",
    ),
    "separator": (
        "Column `{column}` separates its values by different signs: `{file}` has {here}, `{other}` has {there}.",
        "Split both files by their own sign: `re.split(r'[|;,]\\s*', cell)`.",
    ),
    "padding": (
        "Names in column `{column}` have leading zeros in one file only: `{file}` {here}, `{other}` {there}. Sorted as "
        "text, 10 comes before 2.",
        "Sort by the number: `sorted(names, key=lambda name: int(re.search(r'\\d+', name)[0]))`.",
    ),
    "spelling": (
        "The names in column `{column}` are spelled differently: {here} in `{file}`, {there} in `{other}`. They do not "
        "match.",
        "Bring them to one form when the files are read: `name.strip().lower()`.",
    ),
    "accents": (
        "Accented letters in column `{column}` are composed in one file only: {here} in `{file}`, {there} in "
        "`{other}`. They look the same and do not match.",
        "Bring them to one form when the files are read: `unicodedata.normalize('NFC', name)`.",
    ),
    "date": (
        "Dates in column `{column}` have different formats: {here} in `{file}`, {there} in `{other}`. As text they "
        "sort differently.",
        "Parse them: `datetime.strptime(text, '%d.%m.%Y')`.",
    ),
    "direction": (
        "The rows run in opposite directions: column `{column}` {here} in `{file}`, {there} in `{other}`.",
        "Sort both files by this column before windows are cut or rows compared.",
    ),
    "inverted": (
        "Column `{column}` seems to mean the opposite in `{other}`: a linear probe on the other columns, or on the "
        "arrays beside them, correlates {here} or more with it inside of `{file}` and of `{other}`, but that of one "
        "correlates {there} or less with the other.",
        "Compare what the codes or signs mean in each of them, and exchange them in one.",
    ),
    "unrelated": (
        "The other columns say nothing about column `{column}` in one file: a linear probe on them correlates {here} "
        "with it in `{file}` and {there} in `{other}`.",
        "The rows of this column have probably lost their order against the others (sorted, shuffled or shifted "
        "alone, or joined by position): write the file again.",
    ),
    "recoded": (
        "The codes of column `{column}` mean different things in `{file}` and in `{other}`: {here}. The means of "
        "`{units}` over the rows of a code differ by {there}.",
        "Number the values once, over all files, and store the list beside them; read both files with it.",
    ),
    "leaked": (
        "Column `{column}` gives `{units}` away in one file only: they correlate {here} in `{file}` and {there} in "
        "`{other}`, while the other columns relate to `{units}` as before. It may be filled after the outcome is "
        "known.",
        "Find out when this column is filled. If that is after the outcome, leave it out of the inputs.",
    ),
    "leaked unlabelled": (
        "Column `{column}` may be filled after `{units}` is known: in one of `{file}` and `{other}`, which has no "
        "`{units}`, it is distributed as in rows of one class (the other class is {apart} away, of at most 1), while "
        "the other columns are as in rows of both.",
        "Find out when this column is filled. If that is after the outcome, leave it out of the inputs.",
    ),
    "rounded": (
        "Column `{column}` is rounded in one file: `{file}` has {here}, `{other}` has {there}, on the same scale.",
        "Write the file again with its decimals; look for a `%d`, `%.0f` or a cast to int in what wrote it.",
    ),
    "wrapped": (
        "Column `{column}` seems to have wrapped around in integers of {units}: `{file}` has {here}, `{other}` has "
        "{there}; without the wrap both have one distribution.",
        "Write the file again with a larger integer type (int32): what is stored is too low by 2**8 or 2**16, or more.",
    ),
    "wrapped beside": (
        "Column `{column}` seems to have wrapped around in integers of {units}: `{file}` has {here}, `{other}` has "
        "{there}. Rows of `{other}` with nearly the same inputs have exactly this much more.",
        "Write the file again with a larger integer type (int32): what is stored is too low by 2**8 or 2**16, or more.",
    ),
    "boxes": (
        "The boxes `{column}` mean different things: by the edges in the pictures they are {here} in `{file}` and "
        "{there} in `{other}`.",
        "Bring the boxes of both files into one form when they are read: `boxes[:, [1, 0, 3, 2]]`, or "
        "`torchvision.ops.box_convert(boxes, 'xywh', 'xyxy')`.",
    ),
    "overflowed": (
        "`{column}` in `{file}` seems to have overflowed integers of {units}: {here}{beside}. Large values "
        "come back at the other end of the range.",
        "Write the file again: `numpy.clip` before the cast, or a larger type (float32, int32).",
    ),
    "stretched": (
        "`{column}` is stretched{factor} in one file: what a position (or a frequency) n of `{file}` tells about the "
        "targets, one that is so much farther along tells in `{other}` (correlation {there}; {here} as they are).",
        "Compare how both files were recorded: sample rate, frame length, number of bands. Resample one of them.",
    ),
    "orientation": (
        "The pictures `{column}` of `{other}` seem to be {units} against those of `{file}`: the mean pictures "
        "correlate {here} as they are and {there} after turning.",
        "Bring the pictures of both files into one orientation when they are read.",
    ),
    "grids": (
        "The maps `{column}` of `{file}` and those of `{other}` do not lie on one another: their means correlate "
        "{here} as they are and {there} if one of them is {units}.",
        "Compare both files with a map: which row is the north? Turn one of them when it is read (`grid[::-1]`).",
    ),
    "text date": (
        "The dates in column `{column}` of `{file}` are written as {here}, and the script sorts them as text: the "
        "order is not that of time.",
        "Parse them before sorting: `datetime.strptime(text, '%d.%m.%Y')`.",
    ),
    "collapsed": (
        "Column `{column}` of `{file}` holds large whole numbers as float32: of {here} it can tell {there} apart. "
        "Neighbors have become one number.",
        "Write the file again with int64, or with numbers from 0 on (`numpy.unique(ids, return_inverse=True)`).",
    ),
    "times": (
        "The times in column `{column}` of `{file}` are all multiples of {here}, the step of float32 at such numbers: "
        "{there} of the rows have the time of the row before.",
        "Write the file again with float64 or int64. Subtract the first time before you convert to float32.",
    ),
    "day first": (
        "The dates in column `{column}` of `{file}` have the day first ({here}), and the script reads the month first: "
        "in dates up to the 12th of a month, day and month are exchanged.",
        "Read them with the one format that fits: `datetime.strptime(text, '%d/%m/%Y')`; let the others fail.",
    ),
    "month first": (
        "The dates in column `{column}` of `{file}` have the month first ({here}), and the script reads the day first: "
        "in dates up to the 12th of a month, day and month are exchanged.",
        "Read them with the one format that fits: `datetime.strptime(text, '%m/%d/%Y')`; let the others fail.",
    ),
    "day month": (
        "Day and month are exchanged in dates up to the 12th of a month in column `{column}` of `{file}` ({here}): as "
        "they are written, the dates run back from one row to the next {there}; exchanged, {units} times.",
        "Export the file again with dates as text (year-month-day); a spreadsheet has read them in the wrong order.",
    ),
    "point": (
        "Column `{column}` of `{file}` seems to have lost decimal points: {here}, where the others are {there}; "
        "divided by {units} they have the same distribution.",
        "Write the file again from its source. Scale the column after that: a few such values decide its mean and its "
        "standard deviation.",
    ),
    "statistics": (
        "`{file}` holds {here} of different data: beside `{column}` of `{other}`, the deviations are {there}. Data "
        "that are normalized with them are neither centered nor scaled.",
        "Compute them from the training data of this run and store them beside it, with the name of the data set.",
    ),
    "precision": (
        "Column `{column}` of `{file}` needs more digits than float32 has: {here}; read as float32, {there}.",
        "Subtract the first value in float64, then convert: `(time - time[0]).astype(numpy.float32)`.",
    ),
}  # fmt: skip
