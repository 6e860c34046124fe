"""Peak memory since a moment: of the CUDA device, or of this process above its start."""

import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, final

import torch

__all__ = ["PeakMemory", "resident_bytes"]

_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
RESET_PEAK: Final = "5"  # Makes Linux restart the peak of a process


def resident_bytes(status: Path = _STATUS, name: str = "VmRSS") -> int:
    """Of a process now (VmRSS) or at most (VmHWM); 0: it has ended, or this is not Linux."""
    try:
        text = status.read_text(encoding="utf-8")
    except OSError:
        return 0
    found = next((line for line in text.splitlines() if line.startswith(f"{name}:")), "")
    return int(found.split()[1]) * 1024 if found else 0


@final
class PeakMemory:
    """Created before the recipe is built: Python and torch are not counted."""

    def __init__(self) -> None:
        self.before = resident_bytes()

    def reset(self) -> None:
        """Excludes compiling and warm-up."""
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        with suppress(OSError):  # then the peak includes the warm-up
            _CLEAR.write_text(RESET_PEAK, encoding="ascii")

    def peak(self) -> int:
        if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
            return torch.cuda.max_memory_allocated()
        most = resident_bytes(name="VmHWM")
        if not most:
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return max(0, most - self.before)
