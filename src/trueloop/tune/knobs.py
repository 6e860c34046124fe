"""The knobs: recipe fields that belong together, with the values worth trying."""

from abc import ABC, abstractmethod
from typing import ClassVar, Final, final

from trueloop.engine.row_schedule import row_interval
from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import OBJECTIVES, Changes, Objective
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["Knob", "all_knobs"]

LONG: Final = 0.02  # Seconds per step in fp32: above this, launch overhead is small, so graphs are tried last
FEW: Final = 2  # Steps per replay for such models: a long graph takes long to record
MOST: Final = 64  # Steps per replay: more gain nothing, and a long graph takes long to record
TRIED: Final = 2  # Numbers of steps per replay


class Knob(ABC):
    """Recipe fields that belong together, and the values worth trying."""

    name: ClassVar[str]
    on_cuda: ClassVar[float] = 1.0  # Expected gain as a factor: the most promising knob is tried first
    on_cpu: ClassVar[float] = 1.0
    helps: ClassVar[tuple[Objective, ...]] = OBJECTIVES
    fields: ClassVar[tuple[str, ...]]  # The recipe fields. A field that the user has set is not changed.

    @abstractmethod
    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        """Values other than the recipe's, the most promising first. Empty: see `why_not`."""

    @abstractmethod
    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        """Why there are no options, as a clause."""

    def hope(self, facts: MachineFacts) -> float:
        return {"cuda": self.on_cuda, "cpu": self.on_cpu}.get(facts.device, 1.0)


@final
class Precision(Knob):
    """tf32 and fp16 on CUDA devices, bf16 where the hardware supports it."""

    name = "precision"
    on_cuda, on_cpu = 3.0, 1.5
    fields = ("precision",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if recipe.precision in ("bf16", "fp16"):
            return []
        found = ["bf16"] if facts.native_bf16 else []
        if facts.device == "cuda":
            found += ["tf32", "fp16"] if recipe.program == "eager" else ["tf32"]  # no GradScaler inside a graph
        return [{"precision": name} for name in found if name != recipe.precision]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if recipe.precision in ("bf16", "fp16"):
            return f"the recipe uses {recipe.precision} already"
        if facts.device == "cpu":
            return "this CPU has no bf16 in hardware; in software it is some fifty times slower than fp32"
        return f"{facts.device} has no faster precision than {recipe.precision}"


@final
class ChannelsLast(Knob):
    """Images in channels-last memory format."""

    name = "channels last"
    on_cuda, on_cpu = 1.3, 1.4
    fields = ("channels_last",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        return [{"channels_last": not recipe.channels_last}] if facts.convolutions else []

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return "the model has no nn.Conv2d"


@final
class FusedOptimizer(Knob):
    """The optimizer step as one fused kernel."""

    name = "fused optimizer"
    on_cuda, on_cpu = 1.6, 1.3
    helps = ("throughput", "latency")
    fields = ("optimizer_options",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if self.why_not(recipe, facts):
            return []
        others = {name: value for name, value in recipe.optimizer_options.items() if name not in ("fused", "foreach")}
        return [{"optimizer_options": {**others, "fused": True}}]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if not facts.can_fuse:
            shown = recipe.optimizer if isinstance(recipe.optimizer, str) else "the recipe's own optimizer"
            return f"{shown} has no fused step on {facts.device}"
        given = recipe.optimizer_options
        if given.get("fused") is True or not {"fused", "foreach", "differentiable"} & set(given):
            return "the optimizer step is fused already"
        return "the optimizer must be differentiable" if given.get("differentiable") else ""


@final
class Threads(Knob):
    """CPU threads per operation: on a small or busy machine, or with small layers, fewer may be faster."""

    name = "threads"
    on_cpu = 1.6
    helps = ("throughput", "latency")
    fields = ("threads",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if facts.device != "cpu":
            return []
        counts = dict.fromkeys((facts.threads, facts.cores, 1, max(1, facts.cores // 2)))
        now = recipe.threads or facts.threads
        # 0: torch's default.
        return [{"threads": 0 if count == facts.threads else count} for count in counts if count != now]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return "the device does the work" if facts.device != "cpu" else "there is only one core"


@final
class StepProgram(Knob):
    """A training step as one program: CUDA graphs that replay several steps, or, on a CPU, one compiled function."""

    name = "step program"
    on_cuda, on_cpu = 5.0, 1.6
    helps = ("throughput", "latency")
    fields = ("program", "steps_per_replay")

    def hope(self, facts: MachineFacts) -> float:
        return 1.0 if facts.step_seconds > LONG else super().hope(facts)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if self.why_not(recipe, facts):
            return []
        if facts.device == "cpu":
            return [{"program": "compiled_step"}]
        # A replay cannot be longer than an epoch.
        most = min(max(1, facts.samples // recipe.batch), FEW if facts.step_seconds > LONG else recipe.steps_per_replay)
        return [{"program": "cuda_graphs"} | ({"steps_per_replay": most} if recipe.steps_per_replay > most else {})]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if recipe.program != "eager":
            return f"the recipe has program={recipe.program} already"
        if facts.device == "cpu":
            eager = (recipe.compile, recipe.precision) == ("off", "fp32")
            return facts.compiler or ("" if eager else "the recipe compiles already, or is not in fp32")
        if facts.device != "cuda":
            return f"CUDA graphs need a CUDA device, and this is {facts.device}"
        return ""


@final
class StepsPerReplay(Knob):
    """How many steps a CUDA graph replays at once."""

    name = "steps per replay"
    on_cuda = 1.2
    helps = ("throughput", "latency")
    fields = ("steps_per_replay",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if recipe.program != "cuda_graphs":
            return []
        # A remainder of the logging interval is replayed one by one.
        most = min(MOST, facts.samples // recipe.batch)
        fitting = [steps for steps in range(4, most + 1) if row_interval(recipe.log_every) % steps == 0]
        chosen = dict.fromkeys([*sorted(fitting, reverse=True)[:TRIED], 32])
        return [{"steps_per_replay": steps} for steps in chosen if steps != recipe.steps_per_replay and steps <= most]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        graphs = recipe.program == "cuda_graphs"
        return "no other number fits into an epoch" if graphs else "the program is not cuda_graphs"


@final
class CompileMode(Knob):
    """torch.compile."""

    name = "compile"
    on_cuda, on_cpu = 2.0, 1.3
    helps = ("throughput", "latency", "memory")
    fields = ("compile",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if facts.compiler:
            return []
        launches = facts.device == "cuda" and recipe.program != "cuda_graphs" and facts.step_seconds <= LONG
        modes = ["default", "reduce-overhead"] if launches else ["default"]
        return [{"compile": mode} for mode in modes if mode != recipe.compile]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return facts.compiler or f"compile={recipe.compile} is the only useful mode on {facts.device}"


@final
class AutotunedKernels(Knob):
    """torch.compile with max-autotune: several versions of each kernel are tried, for minutes."""

    name = "autotuned kernels"
    on_cuda = 0.9
    helps = ("throughput", "latency")
    fields = ("compile",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        # Without CUDA graphs: the step program and reduce-overhead try these.
        return [] if self.why_not(recipe, facts) else [{"compile": "max-autotune-no-cudagraphs"}]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if facts.device != "cuda":
            return f"it is for CUDA devices, and this is {facts.device}"
        if facts.compiler:
            return facts.compiler
        return "" if recipe.compile == "default" else "torch.compile gains nothing here"


@final
class ResidentData(Knob):
    """All samples as tensors on the device instead of a loader."""

    name = "resident data"
    on_cuda, on_cpu = 4.0, 2.0
    helps = ("throughput", "latency")
    fields = ("where", "workers")

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        return [] if self.why_not(recipe, facts) else [{"where": "resident", "workers": 0}]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if facts.data_bytes is None:
            return "the samples are read on demand and cannot be held as tensors"
        if not facts.data_fit:
            return f"the data take {facts.data_bytes / 1e9:.1f} GB, which leaves no room for training"
        return "" if recipe.where == "loader" else "the data are resident already"


@final
class Workers(Knob):
    """Loader processes, prefetching, and pinned memory."""

    name = "workers"
    on_cuda, on_cpu = 3.5, 1.8
    helps = ("throughput", "latency")
    fields = ("workers", "prefetch", "pin")

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if recipe.where == "resident" or (recipe.where == "auto" and facts.data_fit):
            return []
        counts = sorted({1, 2, facts.cores // 2, facts.cores, min(16, 2 * facts.cores)} - {0, recipe.workers})
        found: list[Changes] = [{"workers": count} for count in counts]
        if recipe.workers:
            found += [{"prefetch": count} for count in (4, 8) if count > recipe.prefetch]
        if facts.device == "cuda":
            found.append({"pin": not recipe.pin})
        return found

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return "the data are resident: there is no loader"


@final
class BatchSize(Knob):
    """The batch size. It changes the training, so it needs `--allow batch`."""

    name = "batch"
    on_cuda, on_cpu = 2.0, 1.2
    helps = ("throughput", "latency")
    fields = ("batch",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        sizes = (recipe.batch * 2, recipe.batch * 4, recipe.batch // 2)
        return [{"batch": size} for size in sizes if recipe.accumulate <= size <= facts.samples]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return f"there are {facts.samples:,} samples, and the batch size is {recipe.batch:,} already"


@final
class Accumulation(Knob):
    """Gradient accumulation: the same numbers with less memory. Refused with BatchNorm, which sees micro-batches."""

    name = "accumulation"
    on_cuda, on_cpu = 1.5, 1.5
    helps = ("memory",)
    fields = ("accumulate",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        counts = (recipe.accumulate * factor for factor in (4, 2))
        return [{"accumulate": count} for count in counts if recipe.batch % count == 0 and recipe.batch // count > 1]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return f"a batch of {recipe.batch} in {recipe.accumulate} micro-batches cannot be split further"


@final
class RecomputeActivations(Knob):
    """Activation checkpointing: less memory, more time."""

    name = "activation checkpointing"
    on_cuda, on_cpu = 1.4, 1.4
    helps = ("memory",)
    fields = ("activation_checkpointing",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        return [] if self.why_not(recipe, facts) else [{"activation_checkpointing": True}]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if recipe.activation_checkpointing:
            return "the recipe uses it already"
        return "" if facts.blocks else "the model has no repeated blocks"


@final
class KeepActivations(Knob):
    """Activation checkpointing off: faster, if the activations fit into memory."""

    name = "activations kept"
    on_cuda, on_cpu = 1.3, 1.3
    helps = ("throughput", "latency")
    fields = ("activation_checkpointing",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        return [{"activation_checkpointing": False}] if recipe.activation_checkpointing else []

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return "the recipe does not use activation checkpointing"


KNOBS: Final[tuple[type[Knob], ...]] = (
    *(Accumulation, AutotunedKernels, BatchSize, ChannelsLast, CompileMode, FusedOptimizer, KeepActivations),
    *(Precision, RecomputeActivations, ResidentData, StepProgram, StepsPerReplay, Threads, Workers),
)


def all_knobs(facts: MachineFacts) -> list[Knob]:
    """The most promising first."""
    return sorted((kind() for kind in KNOBS), key=lambda knob: -knob.hope(facts))
