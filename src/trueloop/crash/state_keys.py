"""A checkpoint does not fit the model that loads it."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from torch import Tensor

from trueloop.crash.explanation import Explanation, written
from trueloop.crash.origin import origins
from trueloop.crash.scene import Scene
from trueloop.results.check import counted
from trueloop.torch_private.modules import WRAPPED_MODULE

__all__ = ["explain"]

_PREFIXES: Final = {
    "module.": "DataParallel or DistributedDataParallel",
    f"{WRAPPED_MODULE}.": "torch.compile",
    "model.": "a module that held the model",
}  # The prefix that a wrapper puts before every key -> the wrapper
_SHOWN: Final = 3  # Keys listed for each side

_Parts: TypeAlias = tuple[str, tuple[str, ...], str]  # Message, details, fix


def explain(scene: Scene) -> Explanation | None:
    if "loading state_dict for" not in scene.message:
        return None
    step = next((step for step in scene.beyond if step.function == "load_state_dict" and step.owner is not None), None)
    state = step.locals.get("state_dict") if step is not None else None
    if step is None or not isinstance(state, Mapping) or step.owner is None:
        return None
    own, name = step.owner.state_dict(), type(step.owner).__name__
    parts = _prefixed(name, own, state) or _nested(name, own, state, scene) or _resized(name, own, state)
    message, details, fix = parts or _renamed(name, own, state)
    return scene.explanation(message, (*origins(scene, scene.argument()), *details), fix)


def _renamed(name: str, own: Mapping[str, object], state: Mapping[str, object]) -> _Parts:
    missing, unexpected = [key for key in own if key not in state], [key for key in state if key not in own]
    only_here, only_there = (counted(len(keys), "entry", "entries") for keys in (missing, unexpected))
    both = f"{name} has {only_here} that the checkpoint lacks, and the checkpoint has {only_there} that {name} lacks"
    lists = [(title, keys) for title, keys in (("model", missing), ("checkpoint", unexpected)) if keys]
    more = [(title, f"{', '.join(keys[:_SHOWN])}{', …' if len(keys) > _SHOWN else ''}") for title, keys in lists]
    fix = "Load it into the model that it was saved from. strict=False leaves unmatched entries at initial values."
    return f"The keys differ: {both}.", tuple(f"Only in the {title}: {keys}." for title, keys in more), fix


def _prefixed(name: str, own: Mapping[str, object], state: Mapping[str, object]) -> _Parts | None:
    """The keys are equal except for a prefix."""
    for prefix, wrapper in _PREFIXES.items():
        if _is_prefixed(state, own, prefix):
            message = f'Every key in the checkpoint starts with "{prefix}", but those of {name} do not'
            fix = f'Remove the prefix: {{key.removeprefix("{prefix}"): value for key, value in state.items()}}.'
            return f"{message}: it was saved from {wrapper}.", (), fix
        if _is_prefixed(own, state, prefix):
            message = f'Every key of {name} starts with "{prefix}", but those in the checkpoint do not'
            fix = "Load it before wrapping the model, or into the model inside the wrapper."
            return f"{message}: {wrapper} wraps the model.", (), fix
    return None


def _is_prefixed(keys: Mapping[str, object], others: Mapping[str, object], prefix: str) -> bool:
    return any(key.startswith(prefix) for key in keys) and {key.removeprefix(prefix) for key in keys} == set(others)


def _nested(name: str, own: Mapping[str, object], state: Mapping[str, object], scene: Scene) -> _Parts | None:
    """The weights are one entry of the saved dict."""
    entry = next((key for key, value in state.items() if isinstance(value, Mapping) and set(value) == set(own)), None)
    if entry is None:
        return None
    text = scene.named(scene.argument(), "checkpoint").strip("`")
    held = f"The checkpoint is a dict of {', '.join(map(repr, list(state)[:5]))}"
    message = f"{held}; the weights of {name} are in its entry {entry!r}."
    return message, (), f"Load that entry: load_state_dict({text}[{entry!r}])."


def _resized(name: str, own: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> _Parts | None:
    """The keys are equal, some shapes differ."""
    differing = [key for key in own if isinstance(state.get(key), Tensor) and state[key].shape != own[key].shape]
    if not differing or set(own) != set(state):
        return None
    (first, saved, now), *rest = ((key, written(state[key].shape), written(own[key].shape)) for key in differing)
    verb = "has a different shape" if len(differing) == 1 else "have different shapes"
    example = f"`{first}` is {saved} in the checkpoint and {now} in {name}"
    message = f"{counted(len(differing), 'entry', 'entries')} of {len(own)} {verb}: {example}."
    layers = {key.rpartition(".")[0] for key in differing}
    fix = "Build the model with the sizes that the checkpoint was trained with."
    if len(layers) == 1:
        leave = f"or leave `{layers.pop()}` out of it and train that layer again"
        fix = f"Build the model with the sizes of the checkpoint, {leave}."
    return message, tuple(f"`{key}`: checkpoint {saved}, model {now}." for key, saved, now in rest[:3]), fix
