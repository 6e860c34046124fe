"""The optimizer of a recipe: fused where torch has it, weight decay on matrices only."""

import inspect
from typing import Any, Final

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from trueloop.engine.own_groups import own_groups
from trueloop.engine.schedule import peak_lr
from trueloop.errors import BadRecipe, did_you_mean
from trueloop.parallel.strategy import Single, Strategy
from trueloop.recipe.call import call_own
from trueloop.recipe.recipe import Recipe

__all__ = ["build_optimizer", "optimizer_class", "optimizer_problems", "parameter_groups"]

MOMENTUM: Final = "momentum"  # SGD with the recipe's momentum: the one name that is not torch's
# Optimizers of torch that this loop cannot drive, and why
UNFIT: Final = {"LBFGS": "it computes the loss several times in a step", "SparseAdam": "it takes sparse gradients only"}
FUSED_EVERYWHERE: Final = ("SGD", "Adam", "AdamW")  # fused on CUDA and MPS too; others on the CPU only
FUSED_IN_PARTS: Final = ("Adam", "AdamW")  # Those whose fused step takes parameters of which processes hold parts
TAKE_SPARSE: Final = ("SGD", "Adagrad")  # Those that take sparse gradients, as of nn.Embedding(sparse=True)
DEVICES: Final = ("cpu", "cuda", "mps")  # Where there are fused steps


def build_optimizer(
    recipe: Recipe, model: nn.Module, device: torch.device, strategy: Strategy | None = None
) -> Optimizer:
    """`strategy`: how several processes hold the model."""
    strategy = strategy or Single()
    _refuse_lazy(model)
    groups = strategy.groups(_groups(recipe, model))
    if not groups:
        raise BadRecipe(f"{type(model).__name__} has no trainable parameter: nothing can be trained. Nothing was run.")
    if callable(recipe.optimizer):
        return _of_the_users(recipe, groups)
    mistakes = optimizer_problems(recipe)
    if mistakes:
        raise BadRecipe(f"{'; '.join(mistakes)}. Nothing was run.")
    kind = optimizer_class(recipe.optimizer)
    _refuse_sparse(model, kind)
    options: dict[str, Any] = {"lr": peak_lr(recipe), **_options(recipe, kind), **recipe.optimizer_options}
    if "fused" in inspect.signature(kind).parameters and not {"fused", "foreach", "differentiable"} & set(options):
        known = FUSED_IN_PARTS if strategy.in_parts else FUSED_EVERYWHERE
        on_cpu = device.type == "cpu" and not strategy.in_parts
        fused = on_cpu or (device.type in DEVICES and kind.__name__ in known and not recipe.offload)
        options["fused"] = fused and all(each.is_floating_point() for group in groups for each in group["params"])
    try:
        return kind(groups, **options)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadRecipe(f"{kind.__name__} refuses these parameters or options: {error}. Nothing was run.") from None


def _groups(recipe: Recipe, model: nn.Module) -> list[dict[str, Any]]:
    if recipe.groups is None:
        return parameter_groups(model, recipe.weight_decay)
    return own_groups(recipe, model, None if callable(recipe.optimizer) else optimizer_class(recipe.optimizer))


def optimizer_problems(recipe: Recipe) -> list[str]:
    """Problems that are known without a model: an unknown optimizer, an option that it does not take."""
    if not isinstance(recipe.optimizer, str):
        return []
    try:
        kind = optimizer_class(recipe.optimizer)
    except BadRecipe as error:
        return [str(error)]
    accepted = [name for name in inspect.signature(kind).parameters if name != "params"]
    fields = ("lr", "weight_decay", *_options(recipe, kind))
    found = [
        f"{name} is a field of the recipe, not an option of its optimizer: give {name}={value!r} there"
        for name, value in recipe.optimizer_options.items()
        if name in fields
    ]
    found += [
        f"{kind.__name__} takes no {name!r}.{did_you_mean(name, accepted)} It takes: {', '.join(accepted)}"
        for name in recipe.optimizer_options
        if name not in accepted
    ]
    if recipe.weight_decay and "weight_decay" not in accepted:
        found.append(f"{kind.__name__} has no weight decay: give weight_decay=0")
    return found


def optimizer_class(name: str) -> type[Optimizer]:
    """`momentum`, or the name of a class of torch.optim, in capitals or not. Raises BadRecipe."""
    known = {each.lower(): kind for each, kind in vars(torch.optim).items() if _is_optimizer(kind)}
    kind: type[Optimizer] | None = known.get("sgd" if name == MOMENTUM else name.lower())
    if kind is None:
        names = [MOMENTUM, *sorted(each for each, kind in known.items() if kind.__name__ not in UNFIT)]
        near = did_you_mean(name.lower(), names)
        raise BadRecipe(f"there is no optimizer {name!r}.{near} There are: {', '.join(names)}")
    if kind.__name__ in UNFIT:
        raise BadRecipe(
            f"optimizer {kind.__name__} cannot be used: {UNFIT[kind.__name__]}; give another, as adamw, or "
            "a step of your own with optimizers="
        )
    return kind


def _is_optimizer(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer


def _of_the_users(recipe: Recipe, groups: list[dict[str, Any]]) -> Optimizer:
    assert callable(recipe.optimizer)
    form, options = "def optimizer(parameters, lr)", {"lr": peak_lr(recipe), **recipe.optimizer_options}
    built = call_own("optimizer", form, recipe.optimizer, groups, **options)
    if not isinstance(built, Optimizer):
        raise BadRecipe(f"The recipe's optimizer returned a {type(built).__name__}, not an Optimizer. Nothing was run.")
    return built


def _options(recipe: Recipe, kind: type[Optimizer]) -> dict[str, Any]:
    if recipe.optimizer == MOMENTUM:
        return {"momentum": recipe.momentum}
    return {"betas": recipe.betas} if kind in (torch.optim.Adam, torch.optim.AdamW) else {}


def _refuse_lazy(model: nn.Module) -> None:
    lazy = [name for name, parameter in model.named_parameters() if is_lazy(parameter)]
    if lazy:
        raise BadRecipe(
            f"{lazy[0]} of {type(model).__name__} has no shape yet, because its layer is lazy, so it cannot be seeded "
            "or saved. Nothing was run: give the layer its sizes, or run one batch through the model when building it."
        )


def _refuse_sparse(model: nn.Module, kind: type[Optimizer]) -> None:
    for name, module in model.named_modules():
        sparse = isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse
        if sparse and kind.__name__ not in TAKE_SPARSE:
            said = f"{name} ({type(module).__name__}) has sparse gradients, and {kind.__name__} takes none"
            raise BadRecipe(f"{said}. Nothing was run: leave out `sparse=True`, or give optimizer=sgd.")


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters that can learn, each once: those of two and more dimensions with weight decay, the others without.
    The decay stands in each group, also where it is zero: AdamW's own default is not."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not weight_decay:
        return [{"params": learning, "weight_decay": 0.0}] if learning else []
    matrices, vectors = ([each for each in learning if (each.dim() >= 2) is wide] for wide in (True, False))
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
