"""A recipe that cannot be trained is refused before anything runs, with all its problems at once. No torch.

There are three kinds of problems: a value of the wrong type or name, a number out of range, and values that do not fit
together. Each is a sentence that says what to write instead. What needs torch (optimizers, devices) is checked in
`engine/preflight.py`.
"""

import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from trueloop.errors import BadRecipe, did_you_mean
from trueloop.recipe.recipe import Recipe, defaults, field_types

__all__ = ["METRICS", "bullet_list", "find_problems", "suggestion", "unused_fields", "validate"]

METRICS: Final[Mapping[str, tuple[str, ...]]] = {
    "multiclass": ("accuracy", "loss"),
    "binary": ("accuracy", "f1", "loss"),
    "multilabel": ("accuracy", "f1", "loss"),
    "regression": ("loss", "mae", "r2"),
    "language": ("loss", "accuracy"),
}
"""The metrics of each task, its default first. A custom loss is its own only metric."""

_SYNONYMS: Final[Mapping[str, Mapping[str, str]]] = {
    "task": {"multiclass": "classification", "language": "lm generation", "binary": "bce", "regression": "mse"},
    "schedule": {
        "constant": "none",
        "one-cycle": "onecycle",
        "cosine": "cosineannealing",
        "plateau": "reducelronplateau",
        "linear": "warmup",
    },
    "precision": {"fp16": "16 half float16", "fp32": "32 float32", "bf16": "bfloat16 mixed"},
    "compile": {"default": "true on yes 1", "off": "false no none 0"},
    "device": {"cuda": "gpu nvidia", "mps": "metal", "cuda:0": "0"},
    "program": {"cuda_graphs": "graph graphs cudagraph cuda-graph cudagraphs", "eager": "plain"},
    "parallel": {
        "ddp": "dp data replicate",
        "fsdp": "zero zero3 deepspeed fsdp2",
        "hsdp": "hybrid hybrid_shard",
        "tp": "tensor megatron",
        "fsdp+tp": "2d tp+fsdp",
        "pp": "pipeline 1f1b gpipe",
    },
    "where": {"resident": "device gpu memory", "loader": "disk"},
    "on_nonfinite": {"stop": "raise error", "skip": "ignore"},
    "on_collapse": {"stop": "raise error end", "mark": "warn note ignore"},
    "trackers": {"wandb": "wb weights-and-biases", "tensorboard": "tb"},
}
"""Field -> value -> the words that other frameworks use for it. Used in suggestions only."""


def suggestion(field: str, word: str, known: Iterable[str]) -> str:
    """' Did you mean x? There are: ...' for an unknown value."""
    known = list(known)
    meant = next((value for value, words in _SYNONYMS.get(field, {}).items() if word.lower() in words.split()), None)
    return f"{f' Did you mean {meant}?' if meant else did_you_mean(word.lower(), known)} There are: {', '.join(known)}"


def validate(recipe: Recipe, more: Iterable[str] = ()) -> Recipe:
    """The recipe itself. Raises BadRecipe with its problems, and with those in `more`."""
    found = [*find_problems(recipe), *more]
    if found:
        raise BadRecipe(f"The recipe {recipe.name!r} cannot be trained:{bullet_list(found)}\nNothing was run.")
    return recipe


def bullet_list(mistakes: Iterable[str]) -> str:
    """One line each."""
    return "".join(f"\n  - {mistake}{'' if mistake.endswith('?') else '.'}" for mistake in mistakes)


def find_problems(recipe: Recipe) -> list[str]:
    """Each is a clause that says what to write instead; empty: the recipe can be trained."""
    wrong = {name: said for name, kind in field_types().items() if (said := _misfit(name, getattr(recipe, name), kind))}
    sound = _without(recipe, wrong)
    outside = {
        name: f"{name} is {value!r}: {said}"
        for name, (good, said) in ((name, _RANGES[name]) for name in field_types() if name in _RANGES)
        if not _passes(value := getattr(sound, name), good)
    }
    sound = _without(sound, outside)
    together = [
        *_own_step(sound),
        *_length(sound),
        *_learning(sound),
        *_carrying(sound),
        *_machine(sound),
        *_parallel(sound),
    ]
    return [*wrong.values(), *outside.values(), *_builders(sound), *_names(sound), *together]


def _without(recipe: Recipe, wrong: Iterable[str]) -> Recipe:
    """The recipe with a valid value in place of each wrong one, so that each problem is reported once."""
    stand_ins = {name: defaults()[name] for name in wrong if name in defaults()}
    if {"epochs", "steps"} & set(stand_ins):
        stand_ins |= {"epochs": 1, "steps": None}
    return replace(recipe, **stand_ins)


# -- types --


def _misfit(name: str, value: Any, kind: Any) -> str | None:
    """What is wrong with a value that does not have its field's type."""
    if _fits(value, kind):
        return None
    inside = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and inside[1:] == (...,) and isinstance(value, tuple):
        return next(said for item in value if (said := _misfit(name, item, inside[0])))
    words = next((typing.get_args(part) for part in _parts(kind) if typing.get_origin(part) is Literal), ())
    if words and isinstance(value, str):
        return f"{name} cannot be {value!r}.{suggestion(name, value, words)}"
    plain = value is None or isinstance(value, (bool, int, float, str, tuple, list, dict))
    return f"{name} cannot be {repr(value) if plain else f'a {type(value).__name__}'}: it is {_spoken(kind)}"


def _parts(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (types.UnionType, typing.Union) else (kind,)


def _fits(value: Any, kind: Any) -> bool:
    if len(_parts(kind)) > 1:
        return any(_fits(value, part) for part in _parts(kind))
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return isinstance(value, str) and value in inside
    if origin is tuple:
        several = inside[1:] == (...,)
        return (
            isinstance(value, tuple)
            and (several or len(value) == len(inside))
            and all(_fits(item, inside[0]) for item in value)
        )
    if origin is not None:
        return callable(value) if origin is Callable else isinstance(value, origin)
    if kind in (int, float):
        return isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    return isinstance(value, kind)


_WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    type(None): "None",
    Callable: "a function",
    Mapping: "a dict",
}


def _spoken(kind: Any) -> str:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if len(_parts(kind)) > 1:
        return " or ".join(_spoken(part) for part in _parts(kind))
    if origin is Literal:
        return f"one of {', '.join(inside)}"
    if origin is tuple:
        return "a tuple" if inside[1:] == (...,) else f"a tuple of {len(inside)} numbers"
    return _WORDS.get(origin or kind, f"a {getattr(kind, '__name__', kind)}")


# -- ranges --

_Range = tuple[Callable[[Any], bool], str]

_COUNTS: Final = "plateau epochs steps batch accumulate reference_batch patience max_nonfinite prefetch log_every"
_MAY_BE_ZERO: Final = "weight_decay step_size workers threads digest_every statistics_every"
_SHARE: Final[_Range] = (lambda value: 0 <= value <= 1, "it is a share between 0 and 1")

_RANGES: Final[Mapping[str, _Range]] = {
    **dict.fromkeys(f"{_COUNTS} steps_per_replay".split(), (lambda value: value >= 1, "it is at least 1")),
    **dict.fromkeys(_MAY_BE_ZERO.split(), (lambda value: value >= 0, "it is 0 or more")),
    "label_smoothing": (lambda value: 0 <= value < 1, "it is 0 or more, and less than 1, as in 0.1"),
    "lr": (lambda value: value > 0, "a learning rate is more than 0, as in 3e-4"),
    "momentum": (lambda value: 0 <= value < 1, "it is 0 or more, and less than 1, as in 0.9"),
    "betas": (
        lambda value: all(0 <= beta < 1 for beta in value),
        "each is 0 or more, and less than 1, as in 0.9,0.999",
    ),
    "warmup": (
        lambda value: value >= 0 and (value < 1 or value == int(value)),
        "it is a number of steps, or a share of the run below 1, as in 0.05",
    ),
    "final": _SHARE,
    "gamma": _SHARE,
    "clip": (lambda value: value > 0, "it must be more than 0"),
    "ema": (lambda value: 0 < value < 1, "a decay lies between 0 and 1, as in 0.999; None: no average"),
    "shard_ranks": (lambda value: value == 0 or value >= 2, "a copy is held by at least 2; 0: by those of one machine"),
    "tensor_ranks": (lambda value: value >= 2, "a layer is shared by at least 2"),
    "seed": (lambda value: 0 <= value < 2**63, "a seed is a whole number from 0 to 2**63 - 1"),
    "evaluate_every": (lambda value: value >= 1, "it is at least 1; None: at the end of each epoch"),
    "evaluation_batch": (lambda value: value >= 1, "it is at least 1; None: as many as a micro-batch, or more"),
    "save_every": (lambda value: value >= 1, "it is at least 1; None: after each evaluation"),
    "keep": (lambda value: value >= 1, "it is at least 1: without a checkpoint no run can be resumed"),
}
"""Field -> the condition on its number, and how to say it. None, where a field may be None, is always valid."""


def _passes(value: Any, good: Callable[[Any], bool]) -> bool:
    finite = not isinstance(value, float) or math.isfinite(value)
    return value is None or (finite and good(value))


# -- combinations --

_IN_PARTS: Final = (
    "fsdp",
    "hsdp",
    "tp",
    "fsdp+tp",
    "pp",
)  # values of `parallel` that spread the weights


def _builders(recipe: Recipe) -> Iterator[str]:
    """A recipe holds functions that build model and loss: the seed is set before they run."""
    if callable(getattr(recipe.model, "state_dict", None)) and not isinstance(recipe.model, type):
        kind = type(recipe.model).__name__
        yield f"model is a {kind} built before the seed is set: give the function that builds it, as in model={kind}"
    if isinstance(recipe.loss, type):
        yield f"loss is the class {recipe.loss.__name__}: create one, as in loss={recipe.loss.__name__}()"


def _own_step(recipe: Recipe) -> Iterator[str]:
    """A step of one's own, and what goes with it."""
    if recipe.step is None:
        for name in ("optimizers", "schedules", "evaluate"):
            if getattr(recipe, name) is not None:
                yield f"{name} belongs to a step of your own: set step=, or leave {name} out"
        return
    if recipe.program != "eager":
        yield f"program={recipe.program} cannot execute a step of your own: set program=eager"
    if recipe.parallel in _IN_PARTS:
        yield f"parallel={recipe.parallel} cannot split the models of a step of your own: set parallel=ddp, or none"
    if recipe.compile != "off":
        yield "compile has no effect on a step of your own: call torch.compile on its models, and set compile=off"
    if recipe.loss is not None and recipe.evaluate is not None:
        yield "loss has no effect with step and evaluate: leave it out"
    if recipe.groups is not None and recipe.optimizers is not None:
        yield "groups has no effect with optimizers: give the groups to the optimizers that you build there"
    if recipe.schedules is not None and (recipe.schedule != "constant" or recipe.warmup):
        yield "schedules replaces schedule and warmup: leave those out"


def _names(recipe: Recipe) -> Iterator[str]:
    if not recipe.name or recipe.name.startswith(".") or re.search(r"[/\\\0]", recipe.name):
        yield f"name is {recipe.name!r}: a folder gets this name, so it needs a character, no slash and no leading dot"
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", recipe.device):
        devices = ("auto", "cuda", "cuda:N", "mps", "cpu")
        yield f"device cannot be {recipe.device!r}.{suggestion('device', recipe.device, devices)}"
    yield from _metrics(recipe)
    if recipe.start_from and not Path(recipe.start_from).exists():
        yield f"start_from is {recipe.start_from!r}, and there is no such file or folder"


def _metrics(recipe: Recipe) -> Iterator[str]:
    """What is measured, and which of it selects the best checkpoint."""
    if recipe.evaluate is not None:
        if recipe.metrics:
            yield "metrics has no effect with evaluate: return them there, or leave evaluate out"
        return
    tasks = ("loss",) if recipe.loss is not None else METRICS[recipe.task]
    whose = "a loss of your own" if recipe.loss is not None else f"task={recipe.task}"
    for name, metric in recipe.metrics.items():
        if not isinstance(name, str) or not name:
            yield f"metrics has the name {name!r}: a name is a text, as in metrics={{'f1': f1}}"
        elif name in tasks:
            yield f"metrics has {name!r}, which {whose} measures already: leave it out, or give it another name"
        elif not callable(metric) and not hasattr(metric, "compute"):
            form = "a function (output, targets) or a torchmetrics object"
            yield f"metrics[{name!r}] is a {type(metric).__name__}: it must be {form}"
    measured = (*tasks, *map(str, recipe.metrics))
    inside = any(recipe.metric.startswith(f"{name}_") for name in recipe.metrics)  # a metric that computes a dict
    if recipe.metric and recipe.metric not in measured and not inside:
        yield f"metric cannot be {recipe.metric!r} with {whose}.{suggestion('metric', recipe.metric, measured)}"
    for name in recipe.lower_is_better:
        if name not in recipe.metrics and not (inside and name == recipe.metric):
            yield f"lower_is_better has {name!r}, which is not one of metrics: add metrics={{{name!r}: ...}}"


def _length(recipe: Recipe) -> Iterator[str]:
    """Length and micro-batches."""
    if recipe.epochs is not None and recipe.steps is not None:
        yield f"epochs={recipe.epochs} and steps={recipe.steps} both set the length: set one of them"
    if recipe.epochs is None and recipe.steps is None:
        yield "the recipe has no length: set epochs, as in epochs=10, or steps"
    if recipe.accumulate > recipe.batch:
        yield (
            f"a batch of {recipe.batch} cannot be split into accumulate={recipe.accumulate} micro-batches: accumulate "
            f"splits the batch; for {recipe.accumulate} times as many samples per step set "
            f"batch={recipe.batch * recipe.accumulate}"
        )
    if recipe.steps is not None and recipe.warmup >= recipe.steps:
        yield f"warmup={recipe.warmup} is as long as the run (steps={recipe.steps}): set fewer, or a share as in 0.05"
    if recipe.on_nonfinite == "rollback" and recipe.steps is not None and (recipe.save_every or 0) >= recipe.steps:
        yield (
            f"on_nonfinite=rollback needs a checkpoint, but save_every={recipe.save_every} writes none before "
            f"steps={recipe.steps}: set a smaller save_every, or on_nonfinite=skip"
        )


def _learning(recipe: Recipe) -> Iterator[str]:
    """Task, loss and schedule."""
    if recipe.label_smoothing and recipe.loss is not None:
        yield f"label_smoothing={recipe.label_smoothing:g} has no effect on a loss of your own: smooth there, or set 0"
    elif recipe.label_smoothing and recipe.task != "multiclass":
        yield f"label_smoothing={recipe.label_smoothing:g} is for task=multiclass, not {recipe.task}: set 0"
    if recipe.balanced and recipe.loss is None and recipe.task not in ("multiclass", "binary"):
        yield f"balanced draws every class equally often, and task={recipe.task} has no classes: set balanced=False"
    if recipe.balanced and recipe.order != "shuffled":
        yield "balanced draws the samples, and so does order: set order=shuffled, or balanced=False"
    if recipe.schedule == "plateau" and recipe.patience is not None and recipe.patience <= recipe.plateau:
        yield (
            f"patience={recipe.patience} ends the run before plateau={recipe.plateau} can lower the learning rate: "
            f"set a patience of more than {recipe.plateau}"
        )


def _carrying(recipe: Recipe) -> Iterator[str]:
    """A state that goes from batch to batch."""
    if not recipe.carry:
        return
    if recipe.order != "sequential":
        yield 'carry=True needs batches that continue one another: set order="sequential", and data of Tracks'
    if recipe.accumulate > 1:
        yield "carry=True keeps one state per row of a batch, which micro-batches would mix up: set accumulate=1"
    if recipe.step is not None:
        yield "carry=True is not for a step of your own: keep the state in loop.memory, detached"
    if recipe.program != "eager" or recipe.compile != "off":
        yield "carry=True runs the model operation by operation: set program=eager and compile=off"
    if recipe.parallel not in ("auto", "none", "ddp"):
        yield f"carry=True does not train with parallel={recipe.parallel}: set parallel=ddp or none"


def _machine(recipe: Recipe) -> Iterator[str]:
    """Device, precision, compiler, data."""
    if recipe.device == "cpu" and recipe.precision == "fp16":
        yield "precision=fp16 on the CPU is slow and overflows: set precision=bf16, or fp32"
    if recipe.device in ("cpu", "mps") and recipe.precision == "tf32":
        yield f"precision=tf32 needs a CUDA device, not device={recipe.device}: set precision=fp32"
    if recipe.compile == "off" and recipe.compile_fullgraph:
        yield "compile_fullgraph=True does nothing while compile is off: set compile=default too"
    if recipe.compile == "off" and recipe.compile_dynamic is not None:
        yield f"compile_dynamic={recipe.compile_dynamic} does nothing while compile is off: set compile=default too"
    if recipe.program == "cuda_graphs" and recipe.device in ("cpu", "mps"):
        yield f"program=cuda_graphs needs a CUDA device, not device={recipe.device}: set program=eager"
    if recipe.program == "compiled_step" and (
        recipe.precision != "fp32" or recipe.compile != "off" or recipe.device not in ("auto", "cpu")
    ):
        yield (
            "program=compiled_step compiles by itself, in fp32, for a CPU: set precision=fp32, compile=off and "
            "device=cpu, or program=eager"
        )
    if recipe.program == "cuda_graphs" and callable(recipe.order):
        yield "program=cuda_graphs replays batches of one size, not an order of your own: set program=eager"
    if recipe.program == "cuda_graphs" and recipe.precision == "fp16":
        yield "program=cuda_graphs has no gradient scaler for precision=fp16: set precision=bf16, or program=eager"
    if recipe.program == "cuda_graphs" and recipe.compile in ("reduce-overhead", "max-autotune"):
        yield f"compile={recipe.compile} records CUDA graphs inside those of program=cuda_graphs: set compile=default"
    if recipe.where == "resident" and recipe.workers:
        yield f"workers={recipe.workers} has no effect with where=resident: set workers=0, or where=loader"


def _parallel(recipe: Recipe) -> Iterator[str]:
    """Several processes."""
    way, spread = recipe.parallel, recipe.parallel in _IN_PARTS
    if recipe.program == "cuda_graphs" and spread:
        yield f"program=cuda_graphs trains in one process, not with parallel={way}: set program=eager, or parallel=none"
    if recipe.program == "compiled_step" and spread:
        yield f"program=compiled_step cannot compile a model that parallel={way} splits: set program=eager"
    if recipe.precision == "fp16" and spread:
        yield f"precision=fp16 needs a gradient scaler, which parallel={way} does not support: set precision=bf16"
    if recipe.compile != "off" and way in ("tp", "fsdp+tp", "pp"):
        yield f"compile={recipe.compile} does not support parallel={way}: set compile=off, or parallel=fsdp"
    if recipe.offload and way not in ("fsdp", "hsdp"):
        yield f"offload=True is for parallel=fsdp and hsdp, not {way}: set parallel=fsdp, or offload=False"
    for pattern, style in recipe.tensor_plan.items():
        if style not in ("column", "row", "qkv"):
            ways = "'column' (its outputs), 'row' (its inputs) or 'qkv' (the heads of a fused projection)"
            yield f"tensor_plan splits {pattern} by {style!r}: set {ways}"
    if recipe.lr_scaling != "none" and recipe.reference_batch is None:
        yield f"lr_scaling={recipe.lr_scaling} needs the batch size that lr={recipe.lr:g} is for: set reference_batch"


# -- notes --

_ONLY_FOR: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("final", "schedule", ("cosine", "linear", "one-cycle")),
    ("step_size", "schedule", ("step",)),
    ("gamma", "schedule", ("step", "plateau")),
    ("plateau", "schedule", ("plateau",)),
    ("momentum", "optimizer", ("momentum",)),
    ("betas", "optimizer", ("adam", "adamw", "Adam", "AdamW")),
    ("max_nonfinite", "on_nonfinite", ("skip", "rollback")),
    ("steps_per_replay", "program", ("cuda_graphs",)),
    ("reference_batch", "lr_scaling", ("linear", "sqrt")),
    ("shard_ranks", "parallel", ("hsdp",)),
    ("tensor_ranks", "parallel", ("fsdp+tp",)),
    ("tensor_plan", "parallel", ("tp", "fsdp+tp")),
)
"""Field, the field that decides whether it is used, and the values for which it is."""


def unused_fields(recipe: Recipe) -> list[str]:
    """Values that have no effect. They are not errors: `--set optimizer=adam` may leave some behind."""
    return [
        f"{name}={getattr(recipe, name)!r} does nothing with {decider}={getattr(recipe, decider)}: "
        f"it is for {' and '.join(users)}."
        for name, decider, users in _ONLY_FOR
        if getattr(recipe, name) != defaults()[name]
        and isinstance(getattr(recipe, decider), str)
        and getattr(recipe, decider) not in users
    ]
