"""loader-hang: Training stands at its first batch, without an error. Where does it wait?

A worker of a DataLoader is a fork of the process. It inherits locks as they are: one that a thread of the parent held
at that moment stays locked forever in the worker, because that thread does not exist there. The parent waits for the
worker, the worker for nobody.

The stack of the parent names the victim. You will ask the worker for its own stack, and see the fix.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Code

__all__ = ["LAB"]

PATIENCE = 120.0

SCRIPT = """
import faulthandler, sys, threading
import torch
from torch.utils.data import DataLoader, Dataset

cache_lock = threading.Lock()


class Cached(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, number):
        with cache_lock:  # the worker waits here
            return torch.tensor(number)


def stack_after_a_second(worker):
    faulthandler.dump_traceback_later(1, file=open("worker.txt", "w"))


def own_lock(worker):
    global cache_lock
    cache_lock = threading.Lock()


def first_batch(init):
    loader = DataLoader(Cached(), num_workers=1, timeout=10, worker_init_fn=init, multiprocessing_context="fork")
    return next(iter(loader))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with cache_lock:  # a thread that fills the cache, at the moment of the fork
        try:
            print("batch", first_batch(own_lock if sys.argv[1:] == ["fixed"] else stack_after_a_second).item())
        except RuntimeError as error:
            print("error", error)
"""


def run_script(*arguments: str) -> tuple[str, str]:
    """(what it printed, the stack of its worker)"""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(SCRIPT, encoding="utf-8")
        words = [sys.executable, "train.py", *arguments]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=True)
        stack = Path(folder, "worker.txt")
        return done.stdout.strip(), stack.read_text(encoding="utf-8") if stack.is_file() else ""


def measure() -> dict[str, Any]:
    printed, stack = run_script()
    line = next(number for number, text in enumerate(SCRIPT.splitlines(), 1) if "the worker waits here" in text)
    innermost = next((each.strip() for each in stack.splitlines() if each.strip().startswith("File")), "")
    return {"printed": printed, "stack": stack, "innermost": innermost, "line": line, "fixed": run_script("fixed")[0]}


def answer(page: Page, measured: dict[str, Any]) -> None:
    page.show(Code(SCRIPT.strip(), title="train.py"))
    page.show(Code(measured["stack"].strip(), title="The stack of the worker after a second"))
    page.table("What is printed", ("run", "printed"), [("broken", measured["printed"]), ("fixed", measured["fixed"])])
    ends = "DataLoader timed out after 10 seconds" in measured["printed"]
    page.says("`DataLoader(timeout=...)` turns waiting forever into an error; the default is to wait.", ends)
    blind = "__getitem__" not in measured["printed"] and "cache_lock" not in measured["printed"]
    page.says("The error does not say where the worker waits.", blind)
    named = f"line {measured['line']}" in measured["innermost"] and "__getitem__" in measured["innermost"]
    page.says("`faulthandler.dump_traceback_later` in the worker does: the line of the lock.", named)
    page.says("With a lock that the worker makes itself, the batch comes.", measured["fixed"] == "batch 0")


LAB = Lab(code=(run_script,), measure=measure, answer=answer, seconds=40)
