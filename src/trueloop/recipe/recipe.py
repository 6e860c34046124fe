"""What to train and how: one frozen value. Variants are functions of it, such as `--set name=value`.

    recipe = Recipe(name="mine", model=Net, data=read, task="multiclass", epochs=10, lr=3e-4)
    trueloop.train(recipe)
    trueloop.train(replace(recipe, seed=1))

A recipe says nothing about the machine except `device`. It holds functions that build the model and read the data, not
models and tensors, so it can be shown, compared and validated before anything runs. No torch here.
"""

from __future__ import annotations

import ast
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache, partial, wraps
from inspect import getargs
from itertools import pairwise
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from trueloop.errors import BadRecipe
from trueloop.recipe.field_names import field_meant

if TYPE_CHECKING:
    from trueloop.hook import Hook

__all__ = ["ARGUMENTS", "GROUPS", "DataRequest", "Recipe", "defaults", "describe", "field_docs", "field_types"]

ARGUMENTS: Final = ("table", "target")  # Of a recipe's function; the rest are its own hyperparameters
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DataRequest:
    """Where to look for a recipe's data."""

    folder: Path | None = None
    """--data DIR; None: $TRUELOOP_DATA, then the cache folder."""
    download: bool = False
    """May it be downloaded?"""
    seed: int = 0
    """For random splits."""


@dataclass(frozen=True)
class Recipe:
    """Every field with its default; the docstring below it says what it means."""

    # -- what --
    name: str
    """The name of its runs, unless --name is given."""
    model: Callable[..., Any]
    """Builds the model, or {"name": model} with step; called with the facts of the data (`Facts`) if it takes one."""
    data: Callable[..., Any]
    """data(request) or data() reads the data: `Splits` of train, valid and test, a tuple of these, or one dataset."""
    task: Literal["multiclass", "binary", "multilabel", "regression", "language"] = "multiclass"
    """multiclass | binary | multilabel | regression | language: selects loss, target checks and metrics."""
    loss: Callable[..., Any] | None = None
    """loss(output, targets) or (output, batch, state) -> losses per sample, mean, or sum and count; then {"kl": x}."""
    loss_count: Callable[[Any], Any] | None = None
    """What your own loss is a mean over: lambda targets: (targets != -100).sum(); None: samples."""
    step: Callable[..., Any] | None = None
    """Your own step(loop, batch), for several models, optimizers or losses: it calls loop.update(loss, name)."""
    evaluate: Callable[..., Any] | None = None
    """With step: evaluate(models, batch) -> {"loss": ...}, means over the batch; evaluate(models) needs no data."""
    metrics: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """More metrics, {"f1": f1}: functions (output, targets) -> values, mean or two sums; or torchmetrics objects."""
    metric: str = ""
    """Selects the best checkpoint: loss, accuracy, f1, mae, r2, one of metrics; empty: accuracy, or loss."""
    lower_is_better: tuple[str, ...] = ()
    """Those of your metrics for which less is better: ("perplexity",)."""
    label_smoothing: float = 0.0
    """For multiclass: 0.1 spreads a tenth of the target over all classes."""

    # -- how it learns --
    optimizer: str | Callable[..., Any] = "adamw"
    """sgd | momentum | adam | adamw, any class name of torch.optim, or a callable that takes parameters and lr."""
    lr: float = 1e-3
    """The highest learning rate of the schedule."""
    lr_scaling: Literal["none", "linear", "sqrt"] = "none"
    """none | linear | sqrt: lr is for reference_batch, and grows with batch, or with its square root."""
    reference_batch: int | None = None
    """The batch size that lr is for, with lr_scaling."""
    weight_decay: float = 0.0
    """On parameters of two or more dimensions only: not on biases and norms."""
    momentum: float = 0.9
    """For `momentum` only."""
    betas: tuple[float, float] = (0.9, 0.999)
    """For Adam and AdamW."""
    optimizer_options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Other arguments of the optimizer's class."""
    optimizers: Callable[[Any], Any] | None = None
    """With step: optimizers(models) -> {"generator": Adam(...), "discriminator": Adam(...)}."""
    schedules: Callable[[Any], Any] | None = None
    """With step: schedules(optimizers) -> {"generator": CosineAnnealingLR(...)}; None: `schedule` scales all rates."""
    groups: Callable[[Any], Any] | None = None
    """Your own parameter groups: lambda model: [{"params": ..., "lr_scale": 0.1, "weight_decay": 0}, ...]."""
    schedule: Literal["constant", "step", "cosine", "one-cycle", "linear", "plateau"] | Callable[[int, int], float] = (
        "constant"
    )
    """constant | step | cosine | one-cycle | linear | plateau, or your own schedule(step, total_steps): share of lr."""
    warmup: int | float = 0
    """Linear warm-up before it: optimizer steps, or, below 1, a share of the run (0.05)."""
    final: float = 0.0
    """cosine, linear, one-cycle: the last learning rate, as a share of lr."""
    step_size: int = 0
    """step: optimizer steps between two drops; 0: a third of the run."""
    gamma: float = 0.1
    """step, plateau: the factor of a drop."""
    plateau: int = 2
    """plateau: evaluations without a better metric before a drop."""
    epochs: int | None = None
    """Passes over the training data; give this or steps."""
    steps: int | None = None
    """Optimizer steps; give this or epochs."""
    batch: int = 64
    """Samples per optimizer step, over all micro-batches and processes."""
    accumulate: int = 1
    """Split each batch into this many micro-batches: less memory, the same gradient."""
    clip: float | None = None
    """Largest gradient norm."""
    ema: float | None = None
    """Decay of an average of the weights, which is evaluated: 0.999; at first min(ema, (1 + step) / (10 + step))."""
    patience: int | None = None
    """Early stopping: evaluations without a better metric before the run ends."""
    on_nonfinite: Literal["stop", "skip", "rollback"] = "stop"
    """A non-finite loss or gradient: stop and name the layer, skip the step, or go back to the last checkpoint."""
    max_nonfinite: int = 10
    """How many are skipped or rolled back before the run stops anyway."""
    on_collapse: Literal["stop", "mark"] = "stop"
    """With --baseline: a run below it, or no better than a constant answer, stops, or is marked and continues."""

    # -- data --
    order: Literal["shuffled", "sequential"] | Callable[..., Any] = "shuffled"
    """shuffled | sequential | your own order(epoch, generator, train): numbers of samples, or of batches of them."""
    carry: bool = False
    """A recurrent model's state goes from batch to batch: model(inputs, state) returns (output, state); see Tracks."""
    balanced: bool = False
    """Draw every class equally often."""
    drop_last: bool = False
    """Leave out the last, smaller batch of an epoch."""
    where: Literal["auto", "resident", "loader"] = "auto"
    """Batches from tensors on the device (resident), or from a loader; auto: resident if the data fit."""
    workers: int = 0
    """Worker processes of the loader. The batches do not depend on it."""
    prefetch: int = 2
    """Batches that each worker loads ahead."""
    pin: bool = True
    """Pinned memory for batches of a loader, so that copies to a CUDA device overlap with its work."""

    # -- on what --
    device: str = "auto"
    """cuda | cuda:N | mps | cpu | auto: the best available."""
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32"
    """fp32 | tf32 | bf16 | fp16: fp16 uses a gradient scaler; tf32 is for matrix products on CUDA devices."""
    program: Literal["eager", "cuda_graphs", "compiled_step"] = "eager"
    """eager | cuda_graphs (CUDA: replays several recorded steps) | compiled_step (CPU: one compiled function)."""
    steps_per_replay: int = 25
    """cuda_graphs: most optimizer steps that are replayed at once."""
    parallel: Literal["auto", "none", "ddp", "fsdp", "hsdp", "tp", "fsdp+tp", "pp"] = "auto"
    """auto (ddp) | ddp (copies) | fsdp (sharded weights) | hsdp (both) | tp (split layers) | fsdp+tp | pp (stages)."""
    shard_ranks: int = 0
    """hsdp: processes that hold one copy of the weights together; 0: those of one machine."""
    offload: bool = False
    """fsdp, hsdp: weights, gradients and optimizer state in the memory of the host; the device has one block's."""
    tensor_ranks: int = 2
    """fsdp+tp: processes that split a layer."""
    tensor_plan: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """tp: layers to split, {"*.qkv": "qkv", "*.up": "column", "*.down": "row"}; empty: pairs in nn.Sequential."""
    compile: Literal["off", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] = "off"
    """off | default | reduce-overhead | max-autotune | max-autotune-no-cudagraphs."""
    compile_dynamic: bool | None = None
    """Compile for changing sizes; None: torch decides."""
    compile_fullgraph: bool = False
    """Refuse models that torch cannot compile as one graph."""
    activation_checkpointing: bool = False
    """Recompute the blocks' activations in the backward instead of keeping them."""
    channels_last: bool = False
    """Images in channels-last memory format, which may speed up convolutions."""
    threads: int = 0
    """CPU threads per operation; 0: torch's default."""
    seed: int = 0
    """Weights, order, augmentation and dropout."""
    deterministic: bool = False
    """Only deterministic operations: repeated runs are bit-identical."""

    # -- when --
    log_every: int | None = None
    """Steps between two rows of metrics; None: 1 up to step 100, 10 up to step 1,000, then 50."""
    evaluate_every: int | None = None
    """Steps between two evaluations; None: at the end of each epoch."""
    evaluation_batch: int | None = None
    """Samples evaluated at once; None: a micro-batch with your own loss, else more: it changes nothing then."""
    digest_every: int | None = None
    """Steps between two checks that all replicas hold the same weights; None: at each evaluation; 0: never."""
    save_every: int | None = None
    """Steps between two checkpoints; None: after each evaluation."""
    keep: int = 2
    """How many of the last checkpoints are kept, besides the best."""
    statistics_every: int | None = None
    """Steps between two rows of layer statistics; None: after 1, 2, 4, 8 ... steps and every 100; 0: never."""

    # -- besides --
    trackers: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = ("tensorboard",)
    """Where metrics also go: tensorboard | wandb | mlflow. The run folder always holds them."""
    hooks: tuple[Hook, ...] = ()
    """Your own hooks."""
    start_from: str = ""
    """Initial weights (not a resume): a run (its best checkpoint), a checkpoint, a .safetensors or .pt file."""
    start_map: Mapping[str, str | None] = field(default_factory=lambda: _NOTHING)
    """For start_from: names there -> names here, {"encoder.*": "backbone.*", "head.*": None}; None drops tensors."""
    hyperparameters: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Your own, recorded with the run: the parameters of your function `recipe(...)`, filled in from there."""


def _checked(init: Callable[..., None]) -> Callable[..., None]:
    """A dataclass's own TypeError says neither which field was meant nor what to write."""

    @wraps(init)
    def checked(self: Recipe, *values: Any, **named: Any) -> None:
        names = [each.name for each in fields(Recipe)]
        unknown = [name for name in named if name not in names]
        missing = [name for name in names[len(values) :] if name not in defaults() and name not in named]
        if unknown or missing:
            said = [f"a recipe has no field {name!r}.{field_meant(name, names)}" for name in unknown]
            said += [f"a recipe needs {' and '.join(missing)}"] if missing else []
            sentence = "; ".join(said)
            end = "" if sentence.endswith("?") else "."
            where = "Nothing was run: `trueloop train digits --show` lists all fields."
            raise BadRecipe(f"{sentence[0].upper()}{sentence[1:]}{end} {where}")
        if "hyperparameters" not in named:
            named["hyperparameters"] = _parameters_of(sys._getframe(1))
        init(self, *values, **named)

    return checked


def _parameters_of(frame: FrameType) -> Mapping[str, Any]:
    """If the recipe is made in a function `recipe(hidden=64)` of a file, the values of its parameters there."""
    function = frame.f_globals.get("recipe")
    if getattr(function, "__code__", None) is not frame.f_code:
        return _NOTHING
    names = [name for name in getargs(frame.f_code).args if name not in ARGUMENTS]
    return {name: frame.f_locals[name] for name in names if name in frame.f_locals}


Recipe.__init__ = _checked(Recipe.__init__)  # type: ignore[method-assign]


GROUPS: Final[tuple[tuple[str, str], ...]] = (
    ("what", "name"),
    ("how it learns", "optimizer"),
    ("data", "order"),
    ("on what", "device"),
    ("when", "log_every"),
    ("besides", "trackers"),
)
"""Headings of `--show`, each with its first field."""


@lru_cache(maxsize=1)
def field_docs() -> Mapping[str, str]:
    """What each field means: the docstring below it, read from this file."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == Recipe.__name__)
    found: dict[str, str] = {}
    for above, below in pairwise(body):
        if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name) and isinstance(below, ast.Expr):
            found[above.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return found


@lru_cache(maxsize=1)
def field_types() -> Mapping[str, Any]:
    """The type of each field."""
    from trueloop.hook import Hook

    return typing.get_type_hints(Recipe, localns={"Hook": Hook})


@lru_cache(maxsize=1)
def defaults() -> Mapping[str, Any]:
    """The default of each optional field."""
    given = {each.name: each.default for each in fields(Recipe) if each.default is not MISSING}
    return given | {each.name: each.default_factory() for each in fields(Recipe) if each.default_factory is not MISSING}


def describe(recipe: Recipe) -> dict[str, Any]:
    """The recipe as plain values, for run.json, `--show` and `compare`: functions by their names."""
    return {each.name: _plain(getattr(recipe, each.name)) for each in fields(recipe)}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, partial):
        values = [*map(_plain, value.args), *(f"{key}={_plain(item)!r}" for key, item in value.keywords.items())]
        return f"{_plain(value.func)}({', '.join(map(str, values))})"
    named = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{named}" if named else type(value).__qualname__
