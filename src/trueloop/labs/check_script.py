"""`trueloop check` on a script of a lab, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

__all__ = ["check_script"]

PATIENCE: Final = 120.0  # seconds, after which the processes are ended
NAME: Final = "train.py"
TORCHRUN: Final = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")


def check_script(script: str, *options: str, ranks: int = 1) -> dict[str, Any]:
    """The report of `trueloop check OPTIONS train.py`, under torchrun if there are several ranks."""
    launch = (*TORCHRUN, str(ranks)) if ranks > 1 else ()
    words = [sys.executable, *launch, "-m", "trueloop", "check", "--format", "json", *options, NAME]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, NAME).write_text(script, encoding="utf-8")
        process = subprocess.Popen(
            words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        try:
            printed, said = process.communicate(timeout=PATIENCE)
        finally:
            with suppress(ProcessLookupError):  # the whole group has ended
                os.killpg(process.pid, signal.SIGKILL)
    if not printed:
        raise RuntimeError(f"trueloop check printed no report: {said[-500:]}")
    report: dict[str, Any] = json.loads(printed)
    return report
