"""Patches softmax, sigmoid and clamp: notes the user's line on the graph node of the result, on deep steps."""

import sys
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.taps.graph_notes import ACTIVATION, write_note
from trueloop.taps.place import here, is_users, outer_frames
from trueloop.taps.tap import Patch, Tap, is_unwatched

__all__ = ["ActivationTap"]

_NAMES: Final = ("softmax", "log_softmax", "sigmoid", "clamp", "clip")


class ActivationTap(Tap):
    topics = ("loss_called",)  # publishes nothing: the loss observer reads the notes

    def install(self) -> None:
        for name in _NAMES:
            self.patches += [Patch(torch, name, self._wrap), Patch(Tensor, name, self._wrap)]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def activation(*args: Any, **kwargs: Any) -> Any:
            output = original(*args, **kwargs)
            if not is_unwatched(bus) and bus.deep and isinstance(output, Tensor):
                write_note(output, ACTIVATION, (here(2), _calling_layer()))
            return output

        return activation


def _calling_layer() -> str:
    """'Softmax' if torch's own layer class called the function. In a recorded step torch's frames of a function mode
    lie between the two, so all frames up to the user's are read."""
    for frame in outer_frames(sys._getframe(2)):
        if is_users(frame.f_code.co_filename):
            break
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            return type(owner).__name__ if type(owner).__module__.startswith("torch.nn") else ""
    return ""
