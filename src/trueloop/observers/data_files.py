"""The data files that a script read: at the end of the run they are read once more, as tables, and compared.

However the script cuts and feeds its data, it came from files. Files that this run wrote while it trained do not count:
they are logs and results.
"""

import json
import os
from itertools import combinations, permutations
from time import thread_time
from typing import Final

import numpy

from trueloop.event import (
    ClocksDiffer,
    ConsequenceCounted,
    FileListed,
    FilesDiffer,
    GroupsShared,
    InvariantBroken,
    KeysMissed,
    LaterRowsUsed,
    LengthsContradicted,
    OwnOutcomeIncluded,
    Place,
    RowsCopied,
    RowsMisplaced,
    RowsOutOfStep,
    RowsSorted,
    TablesRead,
    TextMarked,
    VocabularyCompared,
)
from trueloop.measure.alphabets import alphabets, known_letters
from trueloop.measure.box_formats import box_formats, converts_boxes
from trueloop.measure.clocks import Series, clocks_differ, series_of
from trueloop.measure.column_invariants import broken_invariants
from trueloop.measure.consequences import consequences
from trueloop.measure.file_headers import contradicted
from trueloop.measure.group_order import LostOrder, lost_order, sorted_events
from trueloop.measure.integer_overflow import overflows
from trueloop.measure.join_keys import missed_keys
from trueloop.measure.link_tables import first_only
from trueloop.measure.look_ahead import LookAhead, look_ahead
from trueloop.measure.mirrored_pairs import mirrored_pairs
from trueloop.measure.named_rows import misplaced_groups, misplaced_links, misplaced_rows
from trueloop.measure.near_copies import near_copies
from trueloop.measure.outcome_columns import leaks
from trueloop.measure.own_outcomes import own_outcome
from trueloop.measure.parallel_lines import shifted_lines
from trueloop.measure.picture_orientation import turned
from trueloop.measure.recoded import recoded
from trueloop.measure.row_names import names_rows
from trueloop.measure.rows_by_name import misplaced_by_name
from trueloop.measure.shared_groups import shared_groups
from trueloop.measure.sister_files import is_in_two_units, sisters, standing_out
from trueloop.measure.sixteen_bits import counts_beyond_range
from trueloop.measure.small_files import LARGEST, is_small, occurrences, repeated_names, text_of
from trueloop.measure.splits import is_part, kind_of, listed_rows, sides, split_of
from trueloop.measure.stored_statistics import foreign_statistics, read_statistics
from trueloop.measure.stretched import stretched_arrays
from trueloop.measure.table_differences import Difference, differences, forms_differ, group_differences, single_file
from trueloop.measure.table_relations import (
    as_difference,
    parts_by_group,
    relations,
    relations_of_files,
    shifted_targets,
)
from trueloop.measure.table_rows import copied_rows, have_keys, ids_from_one, row_order
from trueloop.measure.tables import Table, read_tables
from trueloop.measure.text_markers import marker
from trueloop.measure.text_order import text_order
from trueloop.measure.turned_columns import turned_columns
from trueloop.measure.turned_grids import turned_grids
from trueloop.measure.unit_relations import conversions, in_two_units
from trueloop.measure.vocabulary import Vocabulary, case_setting, coverage, read_vocabularies
from trueloop.measure.word_forms import other_words
from trueloop.measure.word_vectors import best_text, misplaced_words, read_word_lists, stored_vectors
from trueloop.measure.wrapped_targets import wrapped_targets
from trueloop.measure.wrong_lengths import wrong_lengths
from trueloop.observers.column_use import ColumnUse
from trueloop.observers.observer import Observer
from trueloop.taps.calls import FileOpened, RunEnd
from trueloop.usercode.modules import users_modules
from trueloop.usercode.source import source_of

__all__ = ["DataFilesObserver"]

MOST_FILES: Final = 48
MOST_BYTES: Final = 2**25  # of all files
MOST_MODULES: Final = 40  # of the user's that are searched for an alphabet
SECONDS: Final = 4.0  # of the processor, to read and to compare
ALIKE: Final = 0.6  # of the columns: two files of one kind
FEW_PARTS: Final = 3  # of a file: training, validation, test
_OF_ROWS: Final = ("order", "direction")  # these matter without the column
LETTERS: Final = 2  # in the name of a column that does not tell what it is: x, y, z, ax
FEW_MORE: Final = 0.01  # rows: one file has lost some


class DataFilesObserver(Observer):
    emits = (
        TablesRead, FilesDiffer, RowsOutOfStep, RowsCopied, FileListed, TextMarked, VocabularyCompared, LaterRowsUsed,
        KeysMissed, InvariantBroken, RowsMisplaced, LengthsContradicted, RowsSorted, GroupsShared, ClocksDiffer,
        OwnOutcomeIncluded, ConsequenceCounted,
    )  # fmt: skip
    safe_on_shards = True

    def prepare(self) -> None:
        self._places: dict[str, Place] = {}
        self._written: set[str] = set()
        self._row_lists: dict[str, dict[str, list[int]]] = {}
        self._tables: list[Table] = []
        self._leaked: set[str] = set()
        """Columns that were found to give a label away."""

    def file_opened(self, opened: FileOpened) -> None:
        if opened.writing:
            if self.bus.step:
                self._written.add(opened.path)
        elif opened.path not in self._written:
            self._places.setdefault(opened.path, opened.place)

    @numpy.errstate(all="ignore")  # sums of numbers near the end of the range: Inf and NaN fail every comparison
    def run_ended(self, end: RunEnd) -> None:
        began = thread_time()
        tables = self._tables = self._read(began)
        tabular = {table.path for table in tables}
        read_in = {place.path for place in self._places.values()}
        self._use = ColumnUse(read_in.union(*map(users_modules, read_in)), self._places.keys() - tabular)
        self._repeated = repeated_names(tabular)
        if self._places:
            self.emit(TablesRead, None, len(self._places), len(tables))
        self._listed()
        self._vocabularies(tables)
        self._alphabets(tables)
        for header in contradicted(tables):
            self._broken("header", (header.column,), header.agrees, header.contradicts, header.table)
        self._across(tables)
        self._clocks(tables, began)
        self._statistics(tables)
        for table in tables:
            self._examine(table, began)
            self._links(table, tables)
            self._lengths(table, tables)
            self._named(table, tables, began)
        for first, second in combinations(tables, 2):
            if thread_time() - began > SECONDS:
                return
            if first.path != second.path:
                self._compare(first, second)
        self._consequences(tables, began)
        for turned_one in turned_columns(tables) if thread_time() - began < SECONDS else ():
            if not self._use.is_left_out(turned_one.difference.column, turned_one.table):
                self._differ(
                    turned_one.difference, turned_one.table.path, *turned_one.names, turned_one.rows, turned_one.group
                )
        self._splits(tables, began)
        if thread_time() - began < SECONDS:
            self._word_vectors(tables)

    def _read(self, began: float) -> list[Table]:
        tables: list[Table] = []
        left = MOST_BYTES
        for path in list(self._places)[:MOST_FILES]:
            size = os.path.getsize(path) if is_small(path) else LARGEST + 1
            if size <= min(LARGEST, left) and thread_time() - began < SECONDS / 2:
                left -= size
                tables += read_tables(path)
        return tables

    # -- one file --

    def _examine(self, table: Table, began: float) -> None:
        name = os.path.basename(table.path)
        for found in single_file(table):
            self._differ(found, table.path, name, name, (table.rows, table.rows))
        marked = marker(table)
        if marked is not None:
            self.emit(TextMarked, self._places[table.path], name, table.rows, *marked)
        order = text_order(table)
        if order is not None:
            place = self._places[table.path]
            self.emit(RowsSorted, place, name, table.rows, order.column, (order.first, order.second), order.series,
                      order.here, order.sorted, users_modules(place.path))  # fmt: skip
        updated = own_outcome(table)
        if updated is not None and not self._use.is_left_out(updated.column, table):
            self.emit(OwnOutcomeIncluded, self._places[table.path], name, *updated)
        for parts in parts_by_group(table):
            for part, other in combinations(parts, 2):
                if thread_time() - began > SECONDS / 2:  # the rest is for pairs of files
                    return
                rows = (len(part.rows), len(other.rows))
                labels = (f"{part.column} = {part.value}", f"{part.column} = {other.value}")
                different = group_differences(table, part.rows, other.rows)
                different += map(as_difference, relations(table, table, part.rows, other.rows))
                further = [each.rows for each in parts if each is not part and each is not other]
                for found in conversions(table, table, part.rows, other.rows):
                    values = table.column(found.column).numbers
                    if values is not None and in_two_units(
                        values[part.rows], values[other.rows], (values[each] for each in further)
                    ):
                        different.append(found)
                for found in different:
                    self._differ(found, table.path, *labels, rows, part.column)
                for ahead in look_ahead(table, table, part.rows, other.rows) if len(parts) <= FEW_PARTS else ():
                    self._looks_ahead(ahead, table, table, labels, rows)

    # -- two files --

    def _compare(self, first: Table, second: Table) -> None:
        common = set(first.names) & set(second.names)
        alike = len(common) >= ALIKE * max(len(first.columns), len(second.columns))
        if not (alike and self._copies(first, second)):  # copied rows in a different order are not out of step
            self._rows(first, second)
            self._misplaced(first, second)
            self._misplaced(second, first)
        if alike and self._is_of_two_kinds(first, second):
            return
        if not alike:
            self._keys(first, second)
            for table, other in ((first, second), (second, first)):
                self._lost_order(sorted_events(table, other), table, other)
            return
        if first.lines or second.lines:
            self._lines_differ(first, second)
            return
        names = os.path.basename(first.path), os.path.basename(second.path)
        rows = (first.rows, second.rows)
        found_alone = differences(first, second)
        known = {found.column for found in found_alone}
        found_alone = standing_out(found_alone, first, second, self._tables)
        found_alone += (
            found
            for found in conversions(first, second)
            if found.column not in known and is_in_two_units(found.column, first, second, self._tables)
        )
        related = relations_of_files(first, second, sisters(first, second, self._tables))
        for found in (*found_alone, *map(as_difference, related)):
            if (
                found.kind in _OF_ROWS
                or found.column not in first.names
                or not self._use.is_left_out(found.column, first)
            ):
                self._differ(found, second.path, *names, rows)
        for codes in recoded(first, second):
            if not self._use.is_left_out(codes.column, first):
                how = {"first": "they first come in the order 0, 1, 2, ... in both files",
                       "missing": f"one file lacks a value, and from code {codes.code} on its codes are one lower",
                       "permuted": "they are in different orders"}[codes.how]  # fmt: skip
                differ = f"{codes.apart:.0f} standard errors, {codes.agree:.1f} once they are matched"
                self._differ(Difference("recoded", codes.column, how, differ, 0.0, codes.by), second.path, *names, rows)
        for leak in leaks(first, second):
            if not self._use.is_used(
                leak.column, [name for name in first.names if name not in (leak.column, leak.label)]
            ):
                continue
            self._leaked.add(leak.column)
            kind = "leaked" if leak.labelled else "leaked unlabelled"
            here, there = (f"{correlation:.2f}" for correlation in leak.inside)
            self._differ(Difference(kind, leak.column, here, there, 0.0, leak.label), second.path, *names, rows)
        for table, other in ((first, second), (second, first)):
            self._lost_order(lost_order(table, other), table, other)
        for broken in broken_invariants(first, second):
            if not any(self._use.is_left_out(column, first) for column in broken.columns):
                intact, other = (first, second) if broken.in_first else (second, first)
                sides = (os.path.basename(intact.path), broken.holds), (os.path.basename(other.path), broken.fails)
                self._broken(broken.kind, broken.columns, *sides, other)
        for ahead in look_ahead(first, second):
            self._looks_ahead(ahead, first, second, names, rows)
        self._compare_arrays(first, second)

    def _lines_differ(self, first: Table, second: Table) -> None:
        found = forms_differ(first.columns[0].words or [], second.columns[0].words or [])
        if found is not None:
            names = os.path.basename(first.path), os.path.basename(second.path)
            self._differ(found._replace(column="line"), second.path, *names, (first.rows, second.rows))

    def _compare_arrays(self, first: Table, second: Table) -> None:
        """Sensors that are arrays of their own, and pictures."""
        names = os.path.basename(first.path), os.path.basename(second.path)
        rows = (first.rows, second.rows)
        if first.channels and second.channels:
            parts = [Table(each.path, each.channels, len(each.channels[0]), True) for each in (first, second)]
            for found in standing_out(differences(*parts), parts[0], parts[1], self._tables):
                self._differ(found, second.path, *names, rows)
        found_stretch = stretched_arrays(first, second)
        if found_stretch is not None:
            name, (_, factor, used, fits) = found_stretch
            self._differ(
                Difference("stretched", name or "array", f"{used:.2f}", f"{fits:.2f}", max(factor, 1 / factor)),
                second.path, *(names if factor > 1 else names[::-1]), rows,
            )  # fmt: skip
        for name, pictures in first.pictures:
            found_turn = turned(pictures, dict(second.pictures)[name]) if name in dict(second.pictures) else None
            if found_turn is not None:
                before, after = f"{found_turn.before:.2f}", f"{found_turn.after:.2f}"
                self._differ(
                    Difference("orientation", name, before, after, 0.0, found_turn.how), second.path, *names, rows
                )

    def _is_of_two_kinds(self, first: Table, second: Table) -> bool:
        """Whether the columns of two files mean different things although they have the same names, or none: those of
        an accelerometer and a gyroscope."""
        name, other = os.path.basename(first.path), os.path.basename(second.path)
        if kind_of(name) == kind_of(other):
            return False
        if not self._repeated.isdisjoint((name, other)):
            return True  # each folder has one file of each kind
        telling = [column for column in first.names if len(column) > LETTERS]
        told = first.named and second.named and len(telling) > 1  # besides a time
        return not told and not (split_of(name) and split_of(other))

    def _consequences(self, tables: list[Table], began: float) -> None:
        for table in tables:
            for found in consequences(table) if thread_time() - began < SECONDS else ():
                others = [name for name in table.names if name not in (found.column, found.label)]
                if found.column not in self._leaked and self._use.is_used(found.column, others):
                    self._leaked.add(found.column)
                    file = os.path.basename(table.path)
                    self.emit(ConsequenceCounted, self._places[table.path], file, *found)

    def _looks_ahead(
        self, found: LookAhead, first: Table, second: Table, names: tuple[str, str], rows: tuple[int, int]
    ) -> None:
        if self._use.is_left_out(found.column, first):
            return
        later = (first, names[0], found.last[0]), (second, names[1], found.last[1])
        (table, file, last), (_, other, other_last) = sorted(later, key=lambda side: -side[2])
        self.emit(LaterRowsUsed, self._places[table.path], found.column, found.source, file, last, other, other_last,
                  found.group, rows)  # fmt: skip

    def _differ(
        self, found: Difference, path: str, file: str, other: str, rows: tuple[int, int], group: str = ""
    ) -> None:
        self.emit(FilesDiffer, self._places[path], found.kind, found.column, file, other,  # type: ignore[arg-type]
                  found.here, found.there, found.factor, found.units, group, rows)  # fmt: skip

    def _copies(self, first: Table, second: Table) -> bool:
        """Rows of a file for evaluation that are in one for training; or of the shorter of two files of any names.
        Returns whether most rows are in both of two files with the same columns."""
        table, other = sorted((first, second), key=lambda each: (split_of(each.path) == "evaluation", -each.rows))
        splits = split_of(table.path), split_of(other.path)
        named, same = splits == ("training", "evaluation"), set(table.names) == set(other.names)
        if not named and (splits[0] == "evaluation" or not same or is_part(table.path) or is_part(other.path)):
            return False
        copied = copied_rows(table, other)
        if copied is None or not copied[0]:
            return False
        self.emit(RowsCopied, self._places[other.path], os.path.basename(table.path), os.path.basename(other.path),
                  copied[0], other.rows, copied[1], named)  # fmt: skip
        return same and copied[0] > other.rows / 2

    def _splits(self, tables: list[Table], began: float) -> None:
        """Rows for training beside rows for evaluation, in two files or in one."""
        for pair in sides(tables, self._row_lists):
            if thread_time() - began > SECONDS:
                return
            found = near_copies(pair.training, pair.evaluation)
            if found is not None:
                self.emit(RowsCopied, self._places[pair.evaluation.path], *pair.names,
                          round(found.share * pair.evaluation.rows), pair.evaluation.rows, 0.0,
                          near=(found.near, found.apart))  # fmt: skip
            mirrored = mirrored_pairs(pair.training, pair.evaluation)
            if mirrored is not None:
                self.emit(RowsCopied, self._places[pair.evaluation.path], *pair.names, mirrored.pairs,
                          pair.evaluation.rows, 0.0, mirrored=(*mirrored.columns, mirrored.label))  # fmt: skip
            groups = shared_groups(pair.training, pair.evaluation)
            if groups is not None:
                place = self._places[pair.evaluation.path]
                self.emit(GroupsShared, place, *pair.names, groups.column, groups.groups, groups.rows,
                          pair.evaluation.rows, groups.label, groups.constant, groups.own, groups.chance,
                          users_modules(place.path))  # fmt: skip

    def _clocks(self, tables: list[Table], began: float) -> None:
        """Files that are joined by time: each pair beside the other pairs of the same kinds."""
        series = sorted(filter(None, map(series_of, tables)), key=lambda each: kind_of(each.path))
        kinds: dict[tuple[str, str], list[tuple[Series, Series]]] = {}
        for first, second in combinations(series, 2):
            kinds.setdefault((kind_of(first.path), kind_of(second.path)), []).append((first, second))
        for (kind, other), pairs in kinds.items():
            for pair, usual in permutations(pairs, 2) if kind != other else ():
                if thread_time() - began > SECONDS:
                    return
                found = clocks_differ(pair, usual)
                if found is not None:
                    place = self._places[pair[1].path]
                    self.emit(ClocksDiffer, place, *found, users_modules(place.path))

    def _statistics(self, tables: list[Table]) -> None:
        """Means and deviations beside the data that they are stored for."""
        for path in [path for path in list(self._places)[:MOST_FILES] if is_small(path)]:
            for stated in read_statistics(path):
                found = foreign_statistics(stated, [table for table in tables if table.path != path])
                if found is not None:
                    self._differ(found.difference(), path, os.path.basename(path), found.file, (found.rows, found.rows))

    def _across(self, tables: list[Table]) -> None:
        """Numbers that wrapped around, and boxes in different forms: other arrays and pictures show it."""
        boxes = list(box_formats(tables))
        if boxes and converts_boxes(self._use.modules, self._use.source):
            boxes = []
        alone = (*overflows(tables), *wrapped_targets(tables), *counts_beyond_range(tables), *turned_grids(tables))
        for found, table, other in (*alone, *boxes):
            files = os.path.basename(table.path), os.path.basename(other.path)
            if found.column not in table.names or not self._use.is_left_out(found.column, table):
                self._differ(found, table.path, *files, (table.rows, other.rows))

    # -- what holds exactly in one file --

    def _broken(
        self, kind: str, columns: tuple[str, ...], here: tuple[str, str], there: tuple[str, str], table: Table
    ) -> None:
        place = self._places[table.path]
        self.emit(InvariantBroken, place, kind, columns, *here, *there, users_modules(place.path))  # type: ignore[arg-type]

    def _lost_order(self, found: LostOrder | None, table: Table, other: Table) -> None:
        if found is not None:
            here = f"the rows of each `{found.group}` are sorted by `{found.column}` (all of {found.groups:,})"
            there = f"by `{found.time}`" if found.time else f"{1 - found.elsewhere:.0%} of the sequences are not sorted"
            names = os.path.basename(other.path), os.path.basename(table.path)
            self._broken("sorted", (found.group, found.column), (names[0], there), (names[1], here), table)

    def _links(self, link: Table, tables: list[Table]) -> None:
        found = first_only(link, tables)
        if found is not None:
            here = f"each `{found.id}` has {found.mean:.1f} rows on average"
            there = (f"each of the {found.ids:,} has exactly one, as often as the first rows of the others (distance "
                     f"{found.to_first:.2f}; from all of their rows {found.distance:.2f})")  # fmt: skip
            name = os.path.basename(link.path)
            self._broken("first", (found.id, found.label), (f"{name} ({found.other})", here),
                         (f"{name} ({found.part})", there), link)  # fmt: skip

    def _keys(self, first: Table, second: Table) -> None:
        for table, lookup in ((first, second), (second, first)):
            found = missed_keys(table, lookup)
            if found is not None:
                place = self._places[lookup.path]
                self.emit(KeysMissed, place, os.path.basename(table.path), found.column, table.rows, found.matched,
                          os.path.basename(lookup.path), *found[2:], users_modules(place.path))  # fmt: skip
                return

    def _rows(self, first: Table, second: Table) -> None:
        names = os.path.basename(first.path), os.path.basename(second.path)
        place = self._places[second.path]
        for table, other in ((first, second), (second, first)):
            if ids_from_one(table, other):
                self.emit(RowsOutOfStep, self._places[table.path], "ids", os.path.basename(table.path),
                          os.path.basename(other.path), table.rows, other.rows)  # fmt: skip
        order = row_order(first, second)
        if order is not None:
            self.emit(RowsOutOfStep, place, "order", *names, first.rows, second.rows, order.column, order.other,
                      order.correlation, keyed=order.keyed)  # fmt: skip
        table, other = sorted((first, second), key=lambda each: -len(each.columns))
        shifted = shifted_targets(table, other)
        if shifted is not None:
            self.emit(RowsOutOfStep, self._places[other.path], "targets", os.path.basename(table.path),
                      os.path.basename(other.path), table.rows, other.rows, shifted.column, "", shifted.here,
                      shifted.moved, by=shifted.by, keyed=have_keys(table, other))  # fmt: skip
        stems = {os.path.splitext(each.path)[0] for each in (first, second)}  # 'train' of train.src and train.tgt
        if len(stems) > 1 or not (first.complete and second.complete):
            return
        if first.lines and second.lines:
            found = shifted_lines(first.columns[0].words or [], second.columns[0].words or [])
            if found is not None:
                self.emit(RowsOutOfStep, place, "shift", *names, first.rows, second.rows, "", "", found.here,
                          found.moved, (found.first, found.last), found.by)  # fmt: skip
                return
        missing = abs(first.rows - second.rows)
        if 0 < missing <= max(3, FEW_MORE * first.rows):
            self.emit(RowsOutOfStep, place, "count", *names, first.rows, second.rows)

    def _misplaced(self, first: Table, second: Table) -> None:
        """Rows of the second table that fit what the first one says about them only in a different order."""
        place = self._places[second.path]
        names = os.path.basename(first.path), os.path.basename(second.path)
        found = {
            "rows": misplaced_rows(first, second),
            "links": misplaced_links(first, second),
            "groups": misplaced_groups(first, second),
        }
        for kind, each in found.items():
            if each is not None and not self._named_elsewhere(first.path, second.rows):
                order, used, fits, _ = each.alignment
                self.emit(RowsMisplaced, place, kind, *names, second.rows, each.column, order,  # type: ignore[arg-type]
                          used, fits, "", users_modules(place.path))  # fmt: skip
                return

    def _named(self, table: Table, tables: list[Table], began: float) -> None:
        """Rows of a different name than the one by which their target is looked up."""
        found = misplaced_by_name(table, tables) if thread_time() - began < SECONDS / 2 else None
        if found is not None:
            place = self._places[found.rows.path]
            name, other, listed = (os.path.basename(each.path) for each in (table, found.rows, found.names))
            order, used, fits, _ = found.misplaced.alignment
            self.emit(RowsMisplaced, place, "names", name, other, table.rows, found.misplaced.column, order, used, fits,
                      "" if listed == other else listed, users_modules(place.path))  # fmt: skip

    def _lengths(self, table: Table, tables: list[Table]) -> None:
        place = self._places[table.path]
        for other in tables:
            found = wrong_lengths(table, other)
            if found is not None:
                self.emit(LengthsContradicted, place, os.path.basename(table.path), found.column,
                          os.path.basename(other.path), table.rows, found.factor, found.beyond, found.length,
                          found.end, found.positions, users_modules(place.path))  # fmt: skip

    def _named_elsewhere(self, path: str, *rows: int) -> bool:
        """Whether a further file, or the one of the rows, has their names: the script may look the rows up."""
        others = [other for other in list(self._places)[:MOST_FILES] if other != path and is_small(other)]
        return any(names_rows(other, count) for other in others for count in set(rows))

    # -- vocabularies --

    def _word_vectors(self, tables: list[Table]) -> None:
        """Lists of words beside files of as many vectors."""
        paths = [path for path in list(self._places)[:MOST_FILES] if is_small(path)]
        lists = [(path, each) for path in paths for each in read_word_lists(path)]
        vectors = [(path, each) for path in paths for _, each in stored_vectors(path)] if lists else []
        for path, listed in lists:
            words = best_text(listed, [table for table in tables if table.path != path]) if vectors else None
            for other, rows in vectors if words is not None else ():
                found = misplaced_words(listed, rows, words) if words is not None else None
                if found is not None and not self._named_elsewhere(path, len(rows), len(listed.words)):
                    order, used, fits, _ = found.alignment or ("", 0.0, 0.0, 0)
                    place = self._places[other]
                    self.emit(RowsMisplaced, place, "words", os.path.basename(path), os.path.basename(other),
                              len(rows), "", order, used, fits, found.about, users_modules(place.path))  # fmt: skip

    def _vocabularies(self, tables: list[Table]) -> None:
        """For each vocabulary, the text whose words it knows least, among the texts it was made for."""
        settings = {case_setting(text_of(path)) for path in self._use.settings} - {None}
        setting = next(iter(settings)) if len(settings) == 1 else None
        for path, place in list(self._places.items())[:MOST_FILES]:
            for vocabulary in read_vocabularies(path) if os.path.isfile(path) else ():
                texts = [(each, table) for table in tables if table.path != path
                         if (each := coverage(vocabulary, table)) is not None]  # fmt: skip
                self._forms(vocabulary, tables, place)
                if texts:
                    least, table = min(texts, key=lambda pair: pair[0].known)
                    self.emit(VocabularyCompared, place, os.path.basename(path), len(vocabulary.entries),
                              vocabulary.characters, os.path.basename(table.path), *least,
                              users_modules(place.path), False, *(setting or ("", False)))  # fmt: skip

    def _forms(self, vocabulary: Vocabulary, tables: list[Table], place: Place) -> None:
        """A vocabulary of stems beside texts of full words, or of words that are spelled in a different way."""
        found, path, spelled = other_words(vocabulary, tables)
        if found is not None:
            known = 1 - found.missing
            self.emit(VocabularyCompared, place, os.path.basename(vocabulary.path), len(vocabulary.entries), False,
                      os.path.basename(path), "", known, known, known, found.example, found.entry,
                      users_modules(place.path), follow=found.follow, unused=found.unused, spelled=spelled)  # fmt: skip

    def _alphabets(self, tables: list[Table]) -> None:
        """For each text, whether its letters are in an alphabet that the script spells out."""
        texts = [table for table in tables if any(column.words is not None for column in table.columns)]
        places = {self._places[table.path] for table in texts}
        modules = tuple(sorted({path for place in places for path in (place.path, *users_modules(place.path))}))
        readers = sorted({place.path for place in places})
        parsed = dict.fromkeys((*readers, *modules))  # the modules that open files first
        spelled = {each for path in list(parsed)[:MOST_MODULES] for each in alphabets(source_of(path).tree)}
        for table in texts:
            letters = known_letters(spelled, table)
            if letters is not None:
                place, name = self._places[table.path], os.path.basename(table.path)
                self.emit(VocabularyCompared, place, "the alphabet of the script", 0, True, name, letters.column,
                          letters.known, letters.ignoring_case, 0.0, letters.example, letters.entry, modules,
                          literal=True)  # fmt: skip
                return

    def _listed(self) -> None:
        """A file that is named more often than the others in a list of files."""
        names = {os.path.basename(path): path for path in self._places}
        for path, place in self._places.items():
            text = text_of(path)
            counts = {name: occurrences(name, text) for name, whole in names.items() if whole != path}
            counts = {name: count for name, count in counts.items() if count}
            for name, count in counts.items():
                others = sorted(number for other, number in counts.items() if other != name)
                if count > 1 and others and others[len(others) // 2] == 1:
                    self.emit(FileListed, place, os.path.basename(path), name, count, len(counts))
            if path.endswith(".json"):
                self._split_lists(path, place, text)

    def _split_lists(self, path: str, place: Place, text: str) -> None:
        """Rows that a list of rows names both for training and for evaluation."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            return
        lists = {key: set(value) for key, value in listed_rows(content)}
        numbers = {key: [row for row in value if type(row) is int] for key, value in listed_rows(content)}
        self._row_lists[path] = {key: value for key, value in numbers.items() if value}
        for key, rows in lists.items():
            for other, others in lists.items():
                shared = len(rows & others)
                if (split_of(key), split_of(other)) == ("training", "evaluation") and shared:
                    name = os.path.basename(path)
                    self.emit(RowsCopied, place, f"{key} of {name}", f"{other} of {name}", shared, len(others), 0.0)
