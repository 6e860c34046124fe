"""Whether a script uses a column of a data file: by the names in its source and in its configuration files."""

from typing import Final, final

from trueloop.measure.small_files import occurrences, text_of
from trueloop.measure.tables import Table
from trueloop.usercode.left_out import leaves_out, takes_all_columns, takes_the_rest

__all__ = ["ColumnUse"]


@final
class ColumnUse:
    def __init__(self, modules: set[str], settings: set[str]) -> None:
        """`modules`: source files of the user. `settings`: files that were read and are not tables: configurations."""
        self.modules: Final = modules
        self.settings: Final = settings

    @property
    def source(self) -> str:
        """The user's modules, and the small files that are not tables."""
        return "".join(map(text_of, sorted(self.modules | self.settings)))

    def is_used(self, column: str, others: list[str]) -> bool:
        """Whether the script names a column as often as the others, or names none and takes all that a header has."""
        source = self.source
        counts = sorted(occurrences(name, source) for name in others)
        usual, own = counts[len(counts) // 2], occurrences(column, source)
        takes_all = takes_the_rest(source) or (not usual and takes_all_columns(source))
        return (usual > 0 and own >= usual) or (takes_all and not leaves_out(column, self.modules))

    def is_left_out(self, column: str, table: Table) -> bool:
        """Whether the script names most of the other columns of a file, and not this one."""
        source = self.source
        named = [occurrences(name, source) > 0 for name in table.names if name != column]
        return sum(named) > len(named) / 2 and not occurrences(column, source)
