"""Hugging Face: `Trainer(callbacks=[trueloop.hf.Guard()])` checks `train` with the rules of `trueloop check`."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from trueloop.dropins.guard import GuardBase
from trueloop.errors import MissingExtra

__all__ = ["Guard"]


def _callback_class() -> Any:
    if find_spec("transformers") is None:
        raise MissingExtra("trueloop.hf needs transformers: pip install transformers")
    from transformers import TrainerCallback

    return TrainerCallback


if TYPE_CHECKING:
    _Callback = object
else:
    _Callback = _callback_class()


class Guard(GuardBase, _Callback):
    """Checks what `trainer.train` does, and prints the report when it ends.

        trainer = Trainer(..., callbacks=[trueloop.hf.Guard(fail_on="error")])

    `fail_on`: raise `GuardFailed` at the end of `train` for findings of this severity or worse (default: never).
    A training that ends with an exception is reported when the program ends: the Trainer calls no callback for it.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.begin_watch()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.end_watch()
