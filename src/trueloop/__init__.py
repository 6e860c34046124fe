"""trueloop makes a PyTorch training run true, fast and shippable, and shows the evidence.

The names are loaded when they are first used: `trueloop explain` must not wait for torch.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trueloop import hf as hf
    from trueloop import lightning as lightning
    from trueloop.data.dataset import Dataset as Dataset
    from trueloop.data.source import Facts as Facts
    from trueloop.data.source import Source as Source
    from trueloop.data.source import Splits as Splits
    from trueloop.data.stream import Stream as Stream
    from trueloop.data.tensors import Tensors as Tensors
    from trueloop.doctor.magics import load_ipython_extension as load_ipython_extension
    from trueloop.doctor.watch import Watch as Watch
    from trueloop.engine.accumulate import accumulate as accumulate
    from trueloop.engine.checkpoints import Checkpoints as Checkpoints
    from trueloop.engine.loop import Loop as Loop
    from trueloop.engine.precision import Precision as Precision
    from trueloop.engine.schedule import Schedule as Schedule
    from trueloop.engine.schedule import set_rate as set_rate
    from trueloop.engine.unprojected import Unprojected as Unprojected
    from trueloop.finding import Finding as Finding
    from trueloop.finding import Severity as Severity
    from trueloop.hook import Hook as Hook
    from trueloop.hook import log as log
    from trueloop.inference.load import Loaded as Loaded
    from trueloop.inference.load import load as load
    from trueloop.recipe.recipe import Recipe as Recipe
    from trueloop.session.own_loop import Session as Session
    from trueloop.session.own_loop import session as session
    from trueloop.session.train import resume as resume
    from trueloop.session.train import train as train
    from trueloop.session.watched import watch as watch

__all__ = [
    "Checkpoints",
    "Dataset",
    "Facts",
    "Finding",
    "Hook",
    "Loaded",
    "Loop",
    "Precision",
    "Recipe",
    "Schedule",
    "Session",
    "Severity",
    "Source",
    "Splits",
    "Stream",
    "Tensors",
    "Unprojected",
    "Watch",
    "accumulate",
    "load",
    "load_ipython_extension",
    "log",
    "resume",
    "session",
    "set_rate",
    "train",
    "watch",
]

__version__: Final = "0.1.0"

_HOME: Final = {
    "Checkpoints": "trueloop.engine.checkpoints",
    "Dataset": "trueloop.data.dataset",
    "Facts": "trueloop.data.source",
    "Finding": "trueloop.finding",
    "Hook": "trueloop.hook",
    "Loaded": "trueloop.inference.load",
    "Loop": "trueloop.engine.loop",
    "Precision": "trueloop.engine.precision",
    "Recipe": "trueloop.recipe.recipe",
    "Schedule": "trueloop.engine.schedule",
    "Session": "trueloop.session.own_loop",
    "Severity": "trueloop.finding",
    "Source": "trueloop.data.source",
    "Splits": "trueloop.data.source",
    "Stream": "trueloop.data.stream",
    "Tensors": "trueloop.data.tensors",
    "Unprojected": "trueloop.engine.unprojected",
    "Watch": "trueloop.doctor.watch",
    "accumulate": "trueloop.engine.accumulate",
    "load": "trueloop.inference.load",
    "load_ipython_extension": "trueloop.doctor.magics",
    "log": "trueloop.hook",
    "resume": "trueloop.session.train",
    "session": "trueloop.session.own_loop",
    "set_rate": "trueloop.engine.schedule",
    "train": "trueloop.session.train",
    "watch": "trueloop.session.watched",
}


_MODULES: Final = ("hf", "lightning")  # `trueloop.hf.Guard()` after `import trueloop`


def __getattr__(name: str) -> object:
    if name not in _HOME and name not in _MODULES:
        raise AttributeError(f"module 'trueloop' has no attribute {name!r}")
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"trueloop.{name}")
    return getattr(import_module(_HOME[name]), name)
