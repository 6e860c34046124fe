"""DAT155 rows-under-different-names: names, links or targets belong to different rows than they are read for.

What it sees
------------
Two data files that go together by position: a list of words and their vectors, nodes and the links between them, a
table and an array with as many rows, rows and the sizes of their groups. In the order that they have they fit no better
than in random orders. In one other order out of a small family (sorted as text or by number, reversed, moved by up to
four rows, counted from 1; or, for a table and an array, moved by one row from some row on, and by one more at some rows
after it: a cache from before entries were left out) they fit at least 8 standard deviations better than by chance. Or,
for words, no order fits, although the vectors have structure and the words tell the labels of the texts.

Or files that go together by name: a table with a target for each name, and the rows of each name, in a table, or in an
array beside a list of names. The rows of a name tell nothing about its target, and in an order by text or by number
they do.

Why it hurts
------------
Every shape is right, and every row gets the vector, the neighbors or the label of a different one. The model learns
what it can from noise.

Evidence
--------
Both files, the order that fits, and how far each order is from chance, in standard deviations over 40 random orders.

Use instead
-----------
    np.savez("vectors.npz", words=words, vectors=vectors)             # one file, written at once
    order = [row_of[word] for word in vocabulary]                     # or a lookup by name
    vectors = vectors[order]

When it is fine
---------------
A script that brings the rows into order itself: not reported where it sorts, where a further file (or array) has the
names of the rows and they can be looked up, where the inputs of the run predict their targets although the rows of the
files do not, nor, for numbers that count from 1, where it subtracts 1. Vectors that were drawn at random have no
structure and fit in no order. Rows that have an order of their own (series, rows sorted by class) fit as they are.
"""

import ast
import re
from typing import Final

from trueloop.event import AnswersCompared, InputsSummarized, RowsMisplaced, RunEnded, TablesRead
from trueloop.rules.rule import Finding, Findings, Rule, Severity
from trueloop.usercode.source import source_of

__all__ = ["RowsUnderDifferentNames"]

CHANCE: Final = 3.0  # standard errors
ANSWERS: Final = 100
UNRELATED: Final = 0.15
_SORTS: Final = frozenset(("sorted", "sort", "argsort", "lexsort", "sort_values", "sort_index", "natsorted", "reindex"))
_LISTINGS: Final = frozenset(("glob", "iglob", "rglob", "iterdir", "listdir", "scandir", "set"))
_MOVES: Final = re.compile(r"[\w\])]\s*-=?\s*1\b(?![.\d])|\benumerate\([^()]*,\s*(start\s*=\s*)?1\)|\broll\(")

_DROPS: Final = re.compile(r"\bdelete\(|\.drop\(|\.pop\(|\bdel\b|\binsert\(")
_PART: Final = "from row"  # an order that holds for the later rows only


class RowsUnderDifferentNames(Rule, code="DAT155", severity=Severity.WARNING):
    not_applicable = "no two data files that go together by position were read"
    applies_after = (TablesRead,)
    explained_by = ("rows-of-files-out-of-step",)

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], RowsMisplaced] = {}
        self._above_chance: list[float] = []  # how well inputs of the run predict their targets
        self._answers: list[float] = []  # correlation of the models' outputs with the targets of rows that are new

    def on_inputs_summarized(self, event: InputsSummarized) -> None:
        if event.probe is not None:
            self._above_chance.append(event.above_chance)

    def on_answers_compared(self, event: AnswersCompared) -> None:
        if event.rows >= ANSWERS:
            self._answers.append(abs(event.relation))

    def on_rows_misplaced(self, event: RowsMisplaced) -> None:
        paths = {*event.modules, event.place.path if event.place else ""}
        if _PART in event.order:
            if any(_DROPS.search("\n".join(source_of(path).lines)) for path in paths):
                return
        elif event.order.startswith("moved"):
            if any(_MOVES.search("\n".join(source_of(path).lines)) for path in paths):
                return
        elif event.kind == "names" and not event.about:  # each row has its name: sorting does not bring them together
            pass
        elif any(_sorts(source_of(path).tree) for path in paths):
            return
        self._found.setdefault((event.kind, event.other), event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for event in self._found.values():
            if event.kind not in ("rows", "names") or _PART in event.order or self._is_paired_so(event):
                yield self._report(event)

    def _is_paired_so(self, event: RowsMisplaced) -> bool:
        """In the run, too, the inputs tell nothing about their targets: it pairs them as they are in the files. Where
        both files have the names in their rows, no script pairs them differently: then the run may be silent."""
        if self._above_chance:
            return min(self._above_chance) < CHANCE
        named = event.kind == "names" and not event.about
        return min(self._answers, default=0.0 if named else UNRELATED) < UNRELATED

    def _report(self, event: RowsMisplaced) -> Finding:
        file, other = f"`{event.file}`", f"`{event.other}`"
        far = f"{event.fits:.0f} standard deviations from chance, as they are {event.used:.1f}"
        if event.kind == "words" and not event.order:
            message = (
                f"The {event.rows:,} vectors of {other} tell nothing about the words of {file}: neither about the "
                f"labels of the texts, nor about the words beside them, nor about their spelling, although the vectors "
                f"have structure. They seem to be those of a different list, or of these words in a different order."
            )
        elif event.kind == "words":
            message = (
                f"Word n of {file} does not have the vector in row n of {other}: with the words {event.order}, the "
                f"vectors fit the {event.about} ({far})."
            )
        elif event.kind == "links":
            message = (
                f"The links in {file} (`{event.column}`) join the wrong rows of {other}: rows that are joined are no "
                f"more alike than others. With the rows {event.order}, they are ({far})."
            )
        elif event.kind == "groups":
            message = (
                f"The sizes of groups in {file} do not belong to the rows of {other} in this order: rows of one group "
                f"are no more alike than others. With the sizes {event.order}, they are ({far})."
            )
        elif event.kind == "names":
            by = f", by the names in `{event.about}`," if event.about else ""
            message = (
                f"The rows of {other} that have the name of a row of {file}{by} tell nothing about its "
                f"`{event.column}`. With the rows {event.order}, they do ({far}): names and rows, or names and "
                f"targets, were sorted apart."
            )
        elif _PART in event.order:
            start = event.order[event.order.index(_PART) :]
            target = f"`{event.column}`" if event.column else "it"
            message = (
                f"Row n of {file} does not belong to row n of {other} {start}: there row n of {other} tells nothing "
                f"about {target}. {event.order.capitalize()}, the rows do ({far}): entries are missing, or are there "
                "twice."
            )
        else:
            message = (
                f"Row n of {other} does not belong to row n of {file}: it tells nothing about `{event.column}`. With "
                f"the rows {event.order}, it does ({far})."
            )
        return self.finding(
            event, message, fix=f"Make {other} again for the order of {file}, or store the names beside the rows.",
            evidence={"file": event.file, "other": event.other, "rows": event.rows, "order that fits": event.order,
                      "deviations as used": round(event.used, 1), "deviations": round(event.fits, 1)},
        )  # fmt: skip


def _sorts(tree: ast.Module) -> bool:
    """Whether a script brings something into an order, but names of files and classes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        ranks = any(keyword.arg == "descending" for keyword in node.keywords)  # best first: scores, not rows
        if name in _SORTS and not ranks and not (node.args and _is_listing(node.args[0])):
            return True
    return False


def _is_listing(argument: ast.expr) -> bool:
    if isinstance(argument, (ast.SetComp, ast.Set)):
        return True
    if not isinstance(argument, ast.Call):
        return False
    name = argument.func.attr if isinstance(argument.func, ast.Attribute) else getattr(argument.func, "id", "")
    return name in _LISTINGS
