"""Gradient clipping."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from torch import Tensor
from torch.nn import utils
from torch.nn.utils import clip_grad

from trueloop.taps.calls import ClipCall
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, is_logged, is_unwatched

__all__ = ["ClipTap"]

_FUNCTIONS: Final = ("clip_grad_norm_", "clip_grad_value_")


class ClipTap(Tap):
    topics = ("clip_started", "clip_ended")

    def install(self) -> None:
        self.patches = [Patch(owner, name, self._wrap) for owner in (utils, clip_grad) for name in _FUNCTIONS]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, function = self.bus, original.__name__

        def clip(parameters: Tensor | Iterable[Tensor], limit: float, *args: Any, **kwargs: Any) -> Any:
            if is_unwatched(bus):
                return log(original(parameters, limit, *args, **kwargs))
            # parameters() is a generator: it can be read only once, so both readers get the same tuple
            tensors = (parameters,) if isinstance(parameters, Tensor) else tuple(parameters)
            call = ClipCall(function, tensors, float(limit), here(2))
            bus.publish("clip_started", call)
            result = original(tensors, limit, *args, **kwargs)
            bus.publish("clip_ended", call)
            return log(result)

        def log(norm: Any) -> Any:
            if bus.step_log is not None and is_logged(bus):
                bus.step_log.clipped(norm)
            return norm

        def clip_grad_norm_(parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> Any:
            return clip(parameters, max_norm, *args, **kwargs)

        def clip_grad_value_(parameters: Any, clip_value: float, *args: Any, **kwargs: Any) -> Any:
            return clip(parameters, clip_value, *args, **kwargs)

        return clip_grad_norm_ if function == "clip_grad_norm_" else clip_grad_value_
