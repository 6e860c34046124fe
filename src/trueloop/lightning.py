"""Lightning: `Trainer(callbacks=[trueloop.lightning.Guard()])` checks `fit` with the rules of `trueloop check`."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from trueloop.dropins.guard import GuardBase
from trueloop.errors import MissingExtra

__all__ = ["Guard"]

PACKAGES: Final = ("lightning.pytorch", "pytorch_lightning")  # One framework under two names


def _callback_class() -> Any:
    """The base class of the package that the script uses; without one yet, of the one that is installed."""
    used = [name for name in PACKAGES if name in sys.modules]
    installed = [name for name in PACKAGES if find_spec(name.partition(".")[0])]
    for name in (*used, *installed):
        return import_module(name).Callback
    raise MissingExtra("trueloop.lightning needs Lightning: pip install lightning")


if TYPE_CHECKING:
    _Callback = object
else:
    _Callback = _callback_class()


class Guard(GuardBase, _Callback):
    """Checks what `trainer.fit` does, and prints the report when it ends.

        trainer = Trainer(callbacks=[trueloop.lightning.Guard(fail_on="error")])

    `fail_on`: raise `GuardFailed` at the end of `fit` for findings of this severity or worse (default: never).
    """

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            self.begin_watch()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.end_watch(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            self.end_watch()
