"""main-guard: Why does a script with workers need `if __name__ == "__main__":`, and what do fork and spawn copy?

A forked process is a copy of its parent, with all its variables. A spawned one is a new interpreter: it runs the top
level of the script again, under another name, and gets the rest by pickle. So without the guard a script would start
workers in its workers, and Python refuses that. macOS and Windows spawn by default; Linux forked until Python 3.13.

You will run one script in four ways, and count how often its top level runs.
"""

import multiprocessing
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trueloop.labs.lab import Lab, NotHere, Page
from trueloop.results.document import Code

__all__ = ["LAB"]

SCRIPT = """\
import multiprocessing
import sys

print("top level", flush=True)
SETTING = ["default"]


def work(queue):
    queue.put(SETTING[0])


def main():
    SETTING[0] = "changed"
    context = multiprocessing.get_context(sys.argv[1])  # fork or spawn
    queue = context.SimpleQueue()
    worker = context.Process(target=work, args=(queue,))
    worker.start()
    worker.join()
    print("the worker saw:", "nothing" if queue.empty() else queue.get())
"""
GUARD = '\n\nif __name__ == "__main__":\n    main()\n'
NO_GUARD = "\n\nmain()\n"
LOADER = """\
import sys

from torch.utils.data import DataLoader


class Data:
    def __init__(self):
        self.double = lambda index: 2 * index

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.double(index)


if __name__ == "__main__":
    loader = DataLoader(Data(), num_workers=1, multiprocessing_context=sys.argv[1])
    print("batches:", len(list(loader)))
"""


@dataclass(frozen=True)
class Ran:
    top_level: int  # how often it ran
    result: str  # what it printed; empty: it failed
    errors: str


def run(script: str, method: str) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.py"
        file.write_text(script, encoding="utf-8")
        done = subprocess.run([sys.executable, str(file), method], capture_output=True, text=True)
    results = [line.partition(": ")[2] for line in done.stdout.splitlines() if ": " in line]
    return Ran(done.stdout.count("top level"), "".join(results), done.stderr)


def measure() -> dict[str, Ran]:
    if "fork" not in multiprocessing.get_all_start_methods():
        raise NotHere("This system cannot fork.")
    return {
        "fork, no guard": run(SCRIPT + NO_GUARD, "fork"),
        "spawn, no guard": run(SCRIPT + NO_GUARD, "spawn"),
        "fork, guard": run(SCRIPT + GUARD, "fork"),
        "spawn, guard": run(SCRIPT + GUARD, "spawn"),
        "fork, a lambda in the dataset": run(LOADER, "fork"),
        "spawn, a lambda in the dataset": run(LOADER, "spawn"),
    }


def answer(page: Page, measured: dict[str, Ran]) -> None:
    page.show(Code(SCRIPT, "python", title="script.py"))
    rows = [
        (name, each.top_level, each.result or "an error") for name, each in measured.items() if "lambda" not in name
    ]
    page.table("Run in four ways", ("way", "top level ran", "the worker saw"), rows)
    page.show(Code(LOADER, "python", title="loader.py"))
    loaders = [(name, each.result or "an error") for name, each in measured.items() if "lambda" in name]
    page.table("A DataLoader with one worker", ("way", "batches"), loaders)
    broken = measured["spawn, no guard"]
    said = "An attempt has been made to start a new process before" in broken.errors and broken.result == "nothing"
    page.says("Without the guard, a spawned worker fails: it would start workers itself.", said)
    page.says("With fork the missing guard is not noticed: it fails only on another system.", _forked(measured))
    once = measured["fork, guard"].top_level == 1 and measured["spawn, guard"].top_level == 2
    page.says("A spawned worker runs the top level of the script again: keep it free of work.", once)
    seen = (measured["fork, guard"].result, measured["spawn, guard"].result) == ("changed", "default")
    page.says("A forked worker sees what main changed before; a spawned one sees the initial values.", seen)
    fails = measured["spawn, a lambda in the dataset"]
    pickled = measured["fork, a lambda in the dataset"].result == "4" and not fails.result and "pickle" in fails.errors
    page.says("To spawn, everything must be picklable: a lambda in a dataset works with fork only.", pickled)


def _forked(measured: dict[str, Ran]) -> bool:
    return measured["fork, no guard"].result == "changed"


LAB = Lab(code=(run,), measure=measure, answer=answer)
