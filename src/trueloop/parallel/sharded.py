"""fsdp, hsdp, tp, fsdp+tp: a process holds a part of the weights: torch's `fully_shard` (FSDP2), `parallelize_module`.

fsdp gathers a block's weights when the block is computed, and gives each process its part of the summed gradients; so
all processes that share a batch must compute equally many micro-batches. With precision=bf16 weights are gathered in
bf16 and gradients added up in fp32. A model in which some processes leave out layers that others compute cannot be
sharded so: they would wait for one another.

hsdp is a mesh of two dimensions: weights are gathered inside a group, which should be one machine, and only gradients
go between the groups, each process with those of the same part.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, final

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard

from trueloop.parallel.host_memory import return_freed_memory
from trueloop.parallel.parts import (
    clip_parts,
    divided,
    divided_form,
    in_one_form,
    norm_of_parts,
    own,
    part_of,
    where,
    whole,
)
from trueloop.parallel.peers import Alone, Group
from trueloop.parallel.strategy import Strategy
from trueloop.parallel.tensor import TensorPlan, plan_tensors, split_layers
from trueloop.torch_private.modules import BatchNorm

__all__ = ["Sharded"]

T = TypeVar("T")

COPIES: Final = "copies"  # hsdp: the dimension over which whole copies of the weights are replicated
DATA: Final = "data"  # The dimension of the mesh over which batches are split, and weights sharded
TENSOR: Final = "tensor"  # The dimension over which layers are split


@final
class Sharded(Strategy):
    """`tensor_ranks`: how many processes split a layer; 1: fsdp alone; all of them: tp alone. `shard_ranks`: how many
    hold one copy of the weights (hsdp); 0: all of them."""

    in_parts = True

    def __init__(
        self,
        peers: Group,
        device: torch.device,
        *,
        tensor_ranks: int = 1,
        shard_ranks: int = 0,
        precision: str = "fp32",
        plan: Mapping[str, str] | None = None,
        offload: bool = False,
    ) -> None:
        self.peers, self.device, self.precision = peers, device, precision
        if device.type == "cpu":
            return_freed_memory()
        replicas = peers.world // shard_ranks if shard_ranks else 1
        data, tensor = peers.world // tensor_ranks // replicas, tensor_ranks
        kinds = {"hsdp": replicas > 1, "fsdp+tp": data > 1 and tensor > 1, "tp": tensor > 1}
        self.name = next((name for name, is_it in kinds.items() if is_it), "fsdp")
        sizes = {name: size for name, size in ((COPIES, replicas), (DATA, data), (TENSOR, tensor)) if size > 1}
        self.mesh: DeviceMesh = init_device_mesh(device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        self.data: DeviceMesh | None = None
        if data > 1:
            self.data = self.mesh[COPIES, DATA] if replicas > 1 else self.mesh[DATA]
        self.tensor: DeviceMesh | None = self.mesh[TENSOR] if tensor > 1 else None
        self.shards, self.replicas = data, replicas
        if self.data is None:
            self.sharers = Alone()
        else:
            self.sharers = peers if replicas > 1 else Group(device, self.data.get_group())
        self.copies, self.in_step = self.tensor is not None or replicas > 1, self.data is not None
        self.offload = offload
        self._asked = dict(plan or {})
        self._plan: TensorPlan | None = None

    @property
    def note(self) -> str:  # type: ignore[override]
        """Known in full when the model has been spread."""
        copies = f", {self.replicas} copies of them" if self.replicas > 1 else ""
        parts = f"weights, gradients and optimizer state in {self.shards} parts{copies}"
        parts += ", in the memory of the host" if self.offload else ""
        shards = parts if self.data is not None else ""
        layers = self._plan.account(self.tensor.size()) if self._plan and self.tensor is not None else ""
        unseen = "the rules that look into layers, and their statistics, see nothing of weights in parts"
        said = "; ".join(filter(None, [shards, layers, unseen]))
        return f"parallel: {self.name} over {self.peers.world} processes, {said}"

    def spread(self, model: nn.Module, blocks: Sequence[nn.Module]) -> None:
        if self.tensor is not None:
            self._plan = self._plan or plan_tensors(model, self.tensor.size(), self._asked)
            split_layers(model, self._plan, self.tensor, apart=self.data is not None)
        if self.data is None:
            return
        options: dict[str, Any] = {"mesh": self.data, "mp_policy": _policy(self.precision, model)}
        if self.offload:
            options["offload_policy"] = CPUOffloadPolicy(pin_memory=self.device.type == "cuda")
        for part in (*blocks, model):
            fully_shard(part, **options)
        assert isinstance(model, FSDPModule)
        # Our losses are divided by the targets of all processes: gradients are added up, not averaged.
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)

    def groups(self, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return divided(groups)

    def settle(self, model: nn.Module) -> None:
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    def micros(self, micros: Sequence[T], samples: int) -> Iterable[T]:
        return micros  # each sends its gradients: kept until the last one, they would be whole on every process

    def add_up(self, losses: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
        return self.sharers.add_up(losses, ())

    def norm(self, parameters: Sequence[Tensor]) -> Tensor:
        return norm_of_parts(parameters, self.device)

    def clip(self, parameters: Sequence[Tensor], norm: Tensor, limit: float) -> None:
        clip_parts(parameters, norm, limit)

    def mine(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        return [own(tensor) for tensor in tensors]

    def where(self, tensor: Tensor) -> tuple[tuple[str, int], ...]:
        return where(tensor)

    # -- states --

    def kind(self, model: nn.Module) -> type[nn.Module]:
        modules = (kind for kind in type(model).__mro__ if issubclass(kind, nn.Module))
        return next(kind for kind in modules if not issubclass(kind, FSDPModule))

    def model_state(self, model: nn.Module) -> dict[str, Any]:
        return {name: whole(value) for name, value in model.state_dict().items()}

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        state: dict[str, Any] = whole(optimizer.state_dict())
        return in_one_form(state)

    def load_model(self, model: nn.Module, state: Mapping[str, Any]) -> None:
        mine = model.state_dict()
        model.load_state_dict({name: part_of(value, mine.get(name)) for name, value in state.items()})

    def load_optimizer(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        theirs = divided_form(state, optimizer.state_dict()["param_groups"])
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        entries = {
            number: {name: part_of(value, parameters[number]) for name, value in entry.items()}
            for number, entry in theirs["state"].items()
        }
        optimizer.load_state_dict({**theirs, "state": entries})


def _policy(precision: str, model: nn.Module) -> MixedPrecisionPolicy:
    """What autocast computes with can be gathered so; but BatchNorm wants its weights as wide as its statistics."""
    if precision != "bf16" or any(isinstance(module, BatchNorm) for module in model.modules()):
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
