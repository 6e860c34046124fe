"""What Linux knows of a process that does not respond: is it stopped, has it ended, does it work?"""

from pathlib import Path

__all__ = ["has_worked", "state_of", "work_of"]

Work = tuple[int, int]  # CPU ticks used and bytes read so far


def state_of(process: int) -> str:
    """One letter: R running, S sleeping, D waiting for a disk, T stopped, Z zombie; empty if it cannot be read."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def work_of(process: int, thread: int | None = None) -> Work | None:
    """The work of a process, or of one of its threads, so far; None if it cannot be read."""
    folder = Path(f"/proc/{process}" if thread is None else f"/proc/{process}/task/{thread}")
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        read = next(line for line in (folder / "io").read_text().splitlines() if line.startswith("rchar:"))
        return int(fields[11]) + int(fields[12]), int(read.split()[1])
    except (OSError, IndexError, ValueError, StopIteration):
        return None


def has_worked(before: Work | None, now: Work | None) -> bool:
    """Did it read or compute between two samples, at most a second apart? A waiting process may use one tick."""
    return before is not None and now is not None and (now[1] != before[1] or now[0] - before[0] > 1)
