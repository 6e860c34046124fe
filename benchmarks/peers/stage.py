"""Run one script under one peer, inside that peer's environment: `python stage.py ADAPTER SCRIPT WORK`.

Every script builds its parts in `main()` and hands them to `fit(model, loss_function, optimizer, train_loader, ...)`.
That call is where a user would put a peer's lines, so it is where the adapter takes over. What the peer complains of is
printed as `@alarm ...` lines.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def say(alarm: str) -> None:
    print("@alarm", " ".join(str(alarm).split()), flush=True)


def main(adapter_name: str, script: Path, work: Path) -> None:
    adapter = load(Path(__file__).parent / "adapters" / f"{adapter_name}.py", "adapter")
    if "examine" in vars(adapter):  # a peer that runs the script by itself
        for alarm in adapter.examine(script, work):
            say(alarm)
        return
    program = load(script, "program")
    fit = program.fit

    def watched_fit(model, loss_function, optimizer, train_loader, *more):
        def train():
            fit(model, loss_function, optimizer, train_loader, *more)

        for alarm in adapter.watch(train, model, loss_function, optimizer, train_loader):
            say(alarm)

    program.fit = watched_fit
    program.main()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve())
