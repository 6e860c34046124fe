"""A checkpoint does not fit the model that loads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from torch import Tensor

from trueloop.crash.explanation import Explanation, written
from trueloop.crash.origin import origin
from trueloop.crash.scene import Scene
from trueloop.results.check import counted

__all__ = ["explain"]

_PREFIXES: Final = {
    "module.": "DataParallel or DistributedDataParallel",
    "_orig_mod.": "torch.compile",
    "model.": "a module that held the model",
}
"""What wrappers put before every name, and who does it."""
_SHOWN: Final = 3
"""Names that are listed of each side."""


def explain(scene: Scene) -> Explanation | None:
    if "loading state_dict for" not in scene.message:
        return None
    step = next((step for step in scene.beyond if step.function == "load_state_dict" and step.owner is not None), None)
    state = step.locals.get("state_dict") if step is not None else None
    if step is None or not isinstance(state, Mapping) or step.owner is None:
        return None
    own = step.owner.state_dict()
    missing, unexpected = [key for key in own if key not in state], [key for key in state if key not in own]
    differing = [key for key in own if isinstance(state.get(key), Tensor) and state[key].shape != own[key].shape]
    name = type(step.owner).__name__
    where = origin(scene, scene.crash, scene.argument()).lines
    told = (
        _prefixed(name, own, state)
        or _nested(name, own, state, scene)
        or _sized(name, own, state, differing, missing or unexpected)
    )
    if told is None:
        told = (
            f"The names differ: {name} has {counted(len(missing), 'entry', 'entries')} that the checkpoint lacks, "
            f"and the checkpoint {counted(len(unexpected), 'entry', 'entries')} that {name} lacks.",
            _listed(missing, unexpected),
            "Load it into the model that it was saved from; strict=False leaves what does not match at its initial values.",
        )
    message, details, fix = told
    return Explanation("state-keys", message, (*where, *details), fix, scene.place)


_Told: TypeAlias = tuple[str, tuple[str, ...], str]


def _listed(missing: list[str], unexpected: list[str]) -> tuple[str, ...]:
    return tuple(
        f"{title}: {', '.join(keys[:_SHOWN])}{', …' if len(keys) > _SHOWN else ''}."
        for title, keys in (("Only in the model", missing), ("Only in the checkpoint", unexpected))
        if keys
    )


def _prefixed(name: str, own: Mapping[str, object], state: Mapping[str, object]) -> _Told | None:
    """All names are the same but for what stands before them."""
    for prefix, who in _PREFIXES.items():
        if (
            state
            and {key.removeprefix(prefix) for key in state} == set(own)
            and any(key.startswith(prefix) for key in state)
        ):
            message = f'Every name in the checkpoint starts with "{prefix}", the names of {name} do not: it was saved from {who}.'
            return (
                message,
                (),
                f'Take the prefix off: {{key.removeprefix("{prefix}"): value for key, value in state.items()}}.',
            )
        if (
            own
            and {key.removeprefix(prefix) for key in own} == set(state)
            and any(key.startswith(prefix) for key in own)
        ):
            message = f'Every name of {name} starts with "{prefix}", those in the checkpoint do not: the model is wrapped by {who}.'
            return message, (), "Load it before wrapping the model, or into the model inside the wrapper."
    return None


def _nested(name: str, own: Mapping[str, object], state: Mapping[str, object], scene: Scene) -> _Told | None:
    """The weights are one entry of what was saved."""
    inside = [key for key, value in state.items() if isinstance(value, Mapping) and set(value) == set(own)]
    if not inside:
        return None
    argument = scene.argument()
    text = scene.crash.text(argument) if argument is not None else "checkpoint"
    message = f"The checkpoint is a dict of {', '.join(map(repr, list(state)[:5]))}; the weights of {name} are in its entry {inside[0]!r}."
    return message, (), f"Load that entry: load_state_dict({text}[{inside[0]!r}])."


def _sized(
    name: str, own: Mapping[str, Tensor], state: Mapping[str, Tensor], differing: list[str], names_differ: object
) -> _Told | None:
    if not differing or names_differ:
        return None
    first = differing[0]
    message = (
        f"{counted(len(differing), 'entry', 'entries')} of {len(own)} {'has' if len(differing) == 1 else 'have'} another size: "
        f"`{first}` is {written(state[first].shape)} in the checkpoint and {written(own[first].shape)} in {name}."
    )
    details = tuple(
        f"`{key}`: checkpoint {written(state[key].shape)}, model {written(own[key].shape)}." for key in differing[1:4]
    )
    layers = {key.rpartition(".")[0] for key in differing}
    if len(layers) == 1:
        fix = f"Build the model with the sizes of the checkpoint, or leave `{next(iter(layers))}` out of it and train that layer anew."
    else:
        fix = "Build the model with the sizes that the checkpoint was trained with."
    return message, details, fix
