"""What the system says of a process that cannot speak for itself: is it stopped, has it ended, does it work? Only Linux
answers."""

from __future__ import annotations

from pathlib import Path

__all__ = ["has_worked", "state_of", "work_of"]

Work = tuple[int, int]
"""Ticks of the processor, and bytes read, so far."""


def state_of(process: int) -> str:
    """One letter: R runs, S sleeps, D waits for a disk, T is stopped, Z has ended and nobody has asked how; empty if
    nobody says so."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def work_of(process: int, thread: int | None = None) -> Work | None:
    """What a process, or one thread of it, has done so far; None where that cannot be read."""
    folder = Path(f"/proc/{process}" if thread is None else f"/proc/{process}/task/{thread}")
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        read = next(line for line in (folder / "io").read_text().splitlines() if line.startswith("rchar:"))
        return int(fields[11]) + int(fields[12]), int(read.split()[1])
    except (OSError, IndexError, ValueError, StopIteration):
        return None


def has_worked(before: Work | None, now: Work | None) -> bool:
    """Between two looks, a second apart at most: read anything, or computed. Who only waits for something uses a tick
    at times."""
    return before is not None and now is not None and (now[1] != before[1] or now[0] - before[0] > 1)
