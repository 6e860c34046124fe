"""What to train and how: one frozen value. Variants are functions of it; `--set name=value` is one of them.

    recipe = Recipe(name="mine", model=Net, data=read, task="multiclass", epochs=10, lr=3e-4)
    trueloop.train(recipe)
    trueloop.train(replace(recipe, seed=1))

A recipe says nothing about the machine it will run on but `device`; it holds functions that build the model and read
the data, not models and tensors, so that it can be shown, compared and judged before anything runs. No torch here.
"""

from __future__ import annotations

import ast
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from trueloop.hook import Hook

__all__ = ["GROUPS", "DataRequest", "Recipe", "defaults", "describe", "field_docs", "field_types"]

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DataRequest:
    """Where a recipe's data may be looked for."""

    folder: Path | None = None
    """--data DIR; None: the variable TRUELOOP_DATA, then the cache folder."""
    download: bool = False
    """May it be fetched from its public home?"""
    seed: int = 0
    """For splits that are drawn."""


@dataclass(frozen=True)
class Recipe:
    """Every field with its default; the docstring under each says what it means."""

    # -- what --
    name: str
    """What runs are called unless --name says otherwise."""
    model: Callable[..., Any]
    """Builds the model: called without arguments, or with the facts of the data (`Facts`) if it takes one."""
    data: Callable[[DataRequest], Any]
    """Reads the data: `Splits` of train, valid and test."""
    task: Literal["multiclass", "binary", "multilabel", "regression", "language"] = "multiclass"
    """multiclass | binary | multilabel | regression | language: the loss that fits, the checks of the targets, the
    metrics."""
    loss: Callable[[Any, Any], Any] | None = None
    """Your own loss(output, targets): one loss per sample (best: then accumulation is exact), or their mean."""
    metric: str = ""
    """What chooses the best checkpoint: loss, accuracy, f1, mae, r2; empty: the task's own (accuracy; loss for
    regression and language)."""
    label_smoothing: float = 0.0
    """For multiclass: 0.1 moves a tenth of the target to all classes alike."""

    # -- how it learns --
    optimizer: str | Callable[..., Any] = "adamw"
    """sgd | momentum | adam | adamw, the name of any class of torch.optim, or a callable that takes parameters and
    lr."""
    lr: float = 1e-3
    """The highest learning rate of the schedule."""
    lr_scaling: Literal["none", "linear", "sqrt"] = "none"
    """none | linear | sqrt: lr was found for reference_batch, and grows with batch, or with its square root."""
    reference_batch: int | None = None
    """The batch that lr was found for, with lr_scaling."""
    weight_decay: float = 0.0
    """On matrices and kernels only: never on biases, norms and embeddings' vectors of one dimension."""
    momentum: float = 0.9
    """For `momentum` only."""
    betas: tuple[float, float] = (0.9, 0.999)
    """For Adam and AdamW."""
    optimizer_options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Anything else the optimizer's class takes."""
    schedule: Literal["constant", "step", "cosine", "one-cycle", "linear", "plateau"] = "constant"
    """constant | step | cosine | one-cycle | linear | plateau: a function of the optimizer step, whatever the batch or
    the processes."""
    warmup: int = 0
    """Steps of linear warm-up before it."""
    final: float = 0.0
    """cosine, linear, one-cycle: where they end, as a share of lr."""
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
    """Split each batch into this many micro-batches: less memory, the same numbers."""
    clip: float | None = None
    """Largest norm of the whole gradient."""
    ema: float | None = None
    """Decay of an exponential moving average of the weights, which is then what is evaluated: 0.999."""
    patience: int | None = None
    """Early stopping: evaluations without a better metric before the run ends."""
    on_nonfinite: Literal["stop", "skip", "rollback"] = "stop"
    """A gradient that is no number: stop and name the layer, skip the step, or go back to the last checkpoint
    (rollback)."""
    max_nonfinite: int = 10
    """How many are skipped or rolled back before the run stops all the same."""
    on_collapse: Literal["stop", "mark"] = "stop"
    """With --baseline: a run that falls below it, or is no better than a constant answer, stops, or is marked and goes
    on."""

    # -- data --
    balanced: bool = False
    """Draw every class equally often."""
    drop_last: bool = False
    """Leave out the last, smaller batch of an epoch."""
    where: Literal["auto", "resident", "loader"] = "auto"
    """Batches from tensors on the device (resident), or from a loader; auto: resident when the set fits."""
    workers: int = 0
    """Processes of the loader. The batches do not depend on it."""
    prefetch: int = 2
    """Batches that each of these processes has ready ahead."""
    pin: bool = True
    """Batches of a loader for a CUDA device in memory that it can copy from while it computes."""

    # -- on what --
    device: str = "auto"
    """cuda | cuda:N | mps | cpu | auto: the best that is there."""
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32"
    """fp32 | tf32 | bf16 | fp16: fp16 brings a scaler; tf32 is for matrix products of CUDA devices."""
    program: Literal["eager", "cuda_graphs", "compiled_step"] = "eager"
    """eager | cuda_graphs (CUDA: optimizer steps recorded, several replayed at once) | compiled_step (CPU: loss and gradients compiled
    as one function)."""
    steps_per_replay: int = 25
    """cuda_graphs: optimizer steps that are replayed at once, at most."""
    parallel: Literal["auto", "none", "ddp", "fsdp", "tp", "fsdp+tp"] = "auto"
    """Several processes: auto (ddp) | ddp (a copy of the model each) | fsdp (a part of each weight) | tp (a part of
    layers) | fsdp+tp."""
    tensor_ranks: int = 2
    """fsdp+tp: processes that share a layer."""
    tensor_plan: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """tp: linear layers that are split, {"blocks.*.up": "column", "blocks.*.down": "row"}; empty: pairs found in each
    nn.Sequential."""
    compile: Literal["off", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] = "off"
    """off | default | reduce-overhead | max-autotune | max-autotune-no-cudagraphs."""
    compile_dynamic: bool | None = None
    """Compile for sizes that change; None: torch decides."""
    compile_fullgraph: bool = False
    """Refuse models that torch cannot compile in one piece."""
    activation_checkpointing: bool = False
    """Compute the blocks' activations again in the backward instead of keeping them."""
    channels_last: bool = False
    """Images with their channels side by side in memory, which convolutions may like better."""
    threads: int = 0
    """Of the CPU, within an operation; 0: as many as torch takes."""
    seed: int = 0
    """Weights, order, augmentation and dropout."""
    deterministic: bool = False
    """Only operations that give the same bits each time."""

    # -- when --
    log_every: int = 50
    """Steps between two lines of metrics; in between, the host never waits for the device."""
    evaluate_every: int | None = None
    """Steps between two evaluations; None: at the end of each epoch."""
    digest_every: int | None = None
    """Steps between two looks whether copies of weights are still the same on all processes; None: at each evaluation;
    0: never."""
    save_every: int | None = None
    """Steps between two checkpoints; None: after each evaluation."""
    keep: int = 2
    """How many last checkpoints stay, besides the best."""
    statistics_every: int = 500
    """Steps between two looks at gradients, updates and activations layer by layer; 0: never."""

    # -- besides --
    trackers: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = ("tensorboard",)
    """Where metrics also go: tensorboard | wandb | mlflow. The run folder always has them."""
    hooks: tuple[Hook, ...] = ()
    """What the user adds."""
    start_from: str = ""
    """Whose weights the model starts with (not a resume): a run (its best), a checkpoint, a .safetensors or .pt
    file."""
    start_map: Mapping[str, str | None] = field(default_factory=lambda: _NOTHING)
    """Names there -> names here, for start_from: {"encoder.*": "backbone.*", "head.*": None}; None leaves tensors
    out."""


GROUPS: Final[tuple[tuple[str, str], ...]] = (
    ("what", "name"),
    ("how it learns", "optimizer"),
    ("data", "balanced"),
    ("on what", "device"),
    ("when", "log_every"),
    ("besides", "trackers"),
)
"""Headings for `--show`, each with the field it stands before."""


@lru_cache(maxsize=1)
def field_docs() -> Mapping[str, str]:
    """What each field means: the docstring under it, read from this very file."""
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
    """The value of each field that need not be given."""
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
    named = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{named}" if named else type(value).__qualname__
