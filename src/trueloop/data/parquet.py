"""Parquet files within a memory budget: a file of a few hundred bytes may unpack to any size.

What the footer says is refused before any page is unpacked. It may say less than there is, so batches are counted while
they are read, and on Linux the process may not allocate more than the budget meanwhile.
"""

import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from trueloop.errors import BadData, MissingExtra

__all__ = ["memory_budget", "read_parquet"]

BATCH: Final = 1 << 16  # Rows that are unpacked at once
_ENCODED: Final = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"})
"""Encodings of text that pyarrow can leave encoded."""
_LIMITING: Final = threading.Lock()  # Two tables at once would restore the limit of one another
_SHARE: Final = 2  # A table may take one half of this machine's memory: what is made of it takes the rest


def memory_budget() -> int:
    """Bytes that an unpacked table may take."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _SHARE


def read_parquet(path: Path, usable: Any, per_cell: int) -> tuple[Any, Any]:
    """A table, and the schema of the file, of which `usable` chooses the columns. Text stays encoded: a word that fills
    many rows is held once. `per_cell`: bytes that the caller makes of each cell. Raises BadData."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        need = f"Reading {path.name} needs pyarrow, which is not installed"
        raise MissingExtra(f"{need}. Nothing was run: pip install 'trueloop[tables]'") from None
    budget = memory_budget()
    try:
        with _allocating_at_most(budget), path.open("rb") as file:
            opened = pq.ParquetFile(file)
            footer, schema = opened.metadata, opened.schema_arrow
            names: Sequence[str] = usable(schema)
            _refuse_by_footer(path, footer, set(names), per_cell, budget)
            texts = {name for name in names if _is_text(schema.field(name).type)}
            for chunk in _chunks(footer):
                if not _ENCODED.issuperset(chunk.encodings):
                    texts.discard(chunk.path_in_schema)
            opened = pq.ParquetFile(file, metadata=footer, read_dictionary=sorted(texts))
            batches, size, rows = [], 0, 0
            for batch in opened.iter_batches(BATCH, columns=list(names), use_threads=False):
                batches.append(batch)
                rows += batch.num_rows
                size += batch.nbytes
                if (held := size + per_cell * rows * len(names)) > budget:
                    raise _too_large(path, f"{rows:,} of its rows take {_mb(held)}", budget)
            return pa.Table.from_batches(batches, batches[0].schema if batches else _part(schema, names)), schema
    except MemoryError:
        raise _too_large(path, "unpacking it took more than this process may allocate", budget) from None
    except (pa.ArrowException, OSError) as error:
        why = str(error).splitlines()[0]
        raise BadData(f"{path} cannot be read as Parquet ({why}). Nothing was trained.") from None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _part(schema: Any, names: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names])


def _refuse_by_footer(path: Path, footer: Any, names: set[str], per_cell: int, budget: int) -> None:
    cells = per_cell * footer.num_rows * len(names)
    if cells > budget:
        shown = f"its {footer.num_rows:,} rows and {len(names):,} columns take {_mb(cells)}"
        raise _too_large(path, shown, budget)
    kept = (each for each in _chunks(footer) if each.path_in_schema.partition(".")[0] in names)
    size = sum(each.total_uncompressed_size for each in kept)
    if size > budget:
        raise _too_large(path, f"its {footer.num_rows:,} rows unpack to {_mb(size)}", budget)


def _chunks(footer: Any) -> Iterator[Any]:
    for group in range(footer.num_row_groups):
        columns = footer.row_group(group)
        yield from (columns.column(place) for place in range(footer.num_columns))


def _too_large(path: Path, what: str, budget: int) -> BadData:
    bytes = path.stat().st_size
    return BadData(
        f"{path} ({bytes:,} bytes) is too large for this machine: {what}, and a table may take {_mb(budget)}, half of "
        "the memory. Nothing was trained: write fewer rows or columns to the file, or use a machine with more memory."
    )


def _mb(bytes: int) -> str:
    return f"{bytes / 1e6:,.0f} MB"


@contextmanager
def _allocating_at_most(budget: int) -> Iterator[None]:
    """Allocations beyond the budget fail meanwhile. Other systems than Linux do not enforce such a limit."""
    if sys.platform != "linux":
        yield
        return
    import resource

    with _LIMITING:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        stated = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min([_private_bytes() + budget, *stated]), hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _private_bytes() -> int:
    """What RLIMIT_DATA counts in this process."""
    found = re.search(r"^VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None, "Linux lists VmData since 2.6"
    return int(found[1]) * 1024
