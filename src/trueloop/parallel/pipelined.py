"""pp: each process has some of the blocks, a stage of the model, and all of each batch, in `accumulate` micro-batches
that pass from stage to stage.

Weights outside of blocks (embeddings, the last layer; also tied ones) are on all processes. Their gradients are added
up over the stages that use them, so they stay the same everywhere. In place of the blocks of other stages are tensors
of the same shapes without memory. The first process puts a complete checkpoint together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast, final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trueloop.parallel.gradient import norm_of
from trueloop.parallel.peers import Alone, Group
from trueloop.parallel.stages import Stages
from trueloop.parallel.strategy import Strategy

__all__ = ["Pipelined"]

T = TypeVar("T")


@final
class Pipelined(Strategy):
    """As many stages as processes."""

    name = "pp"
    in_parts = copies = True

    def __init__(self, peers: Group, device: torch.device, micro_batches: int) -> None:
        self.peers, self.device, self.sharers = peers, device, Alone()
        self.group, self.stage, self.stages = peers, peers.rank, peers.world
        self.micro_batches = micro_batches
        self.split: dict[nn.Module, Stages] = {}
        self._stage_of: dict[Tensor, int] = {}

    @property
    def note(self) -> str:  # type: ignore[override]
        """Known in full when the model has been spread."""
        split = next(iter(self.split.values()), None)
        blocks = f"{len(split.blocks)} blocks in {self.stages} stages, " if split else ""
        unseen = "the rules that look into layers, and their statistics, see only the first stage"
        said = f"{blocks}1F1B with {self.micro_batches} micro-batches; weights outside of blocks on all; {unseen}"
        return f"parallel: pp over {self.peers.world} processes, {said}"

    def spread(self, model: nn.Module, blocks: Sequence[nn.Module]) -> None:
        self.split[model] = split = Stages(model, blocks, self.stages, self._through)
        split.stage = self.stage
        self._stage_of |= split.stage_of()
        for parameter, stage in split.stage_of().items():
            if stage != self.stage:
                parameter.data = parameter.new_zeros(()).expand(parameter.shape)

    @torch.no_grad()
    def _through(self, split: Stages, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A forward without a backward: stage after stage; all processes get what the model returns."""
        result: Any = None
        for stage in range(self.stages):
            if stage == self.stage:
                result = split.run(lambda: forward(*args, **kwargs), result)
            result = self._sent_by(stage, result)
        return result

    def _sent_by(self, stage: int, value: Any) -> Any:
        """A tensor as it is; anything else is pickled."""
        told = [(value.shape, value.dtype) if isinstance(value, Tensor) else value] if stage == self.stage else [None]
        is_tensor = [isinstance(value, Tensor)]
        both: list[Any] = [told, is_tensor]
        dist.broadcast_object_list(both, group=self.group.group, group_src=stage, device=self.device)
        (said,), (as_it_is,) = both
        if not as_it_is:
            return said
        shape, kind = said
        tensor = value.contiguous() if stage == self.stage else torch.empty(shape, dtype=kind, device=self.device)
        dist.broadcast(tensor, group=self.group.group, group_src=stage)
        return tensor

    def keeps(self, parameter: Tensor) -> bool:
        return self._stage_of.get(parameter, self.stage) == self.stage

    def micros(self, micros: Sequence[T], samples: int) -> Iterable[T]:
        """All as one: they are computed together, overlapping (engine/programs/pipeline.py)."""
        kind = cast(Callable[..., T], type(micros[0]))
        return [kind(*map(list, zip(*cast(Sequence[Any], micros), strict=True)))]

    def add_up(self, losses: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
        return self.peers.add_up(losses, self._everywhere(parameters))

    def _everywhere(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [parameter for parameter in parameters if parameter not in self._stage_of]

    @torch.no_grad()
    def norm(self, parameters: Sequence[Tensor]) -> Tensor:
        own = [parameter for parameter in parameters if parameter in self._stage_of]
        squares = self.peers.sum(norm_of(own).to(self.device).double().square())
        everywhere = norm_of(self._everywhere(parameters)).to(self.device).double().square()
        norm: Tensor = (squares + everywhere).sqrt().float()
        return norm

    def mine(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        return [tensor if self.keeps(tensor) else tensor.new_empty(0) for tensor in tensors]

    def where(self, tensor: Tensor) -> tuple[tuple[str, int], ...]:
        return (("stage", self.stage),) if tensor in self._stage_of else ()

    # -- states --

    def _joined(self, own: dict[Any, Any]) -> dict[Any, Any]:
        """On the first process: what all have, in the memory of the host."""
        everybody: list[Any] | None = [None] * self.peers.world if self.peers.first else None
        dist.gather_object(own, everybody, group=self.group.group, group_dst=0)
        return {key: value for each in everybody or [own] for key, value in each.items()}

    def model_state(self, model: nn.Module) -> dict[str, Any]:
        """Complete on the first process only, which writes it."""
        state = model.state_dict(keep_vars=True)
        others = {name: value.detach().cpu() for name, value in state.items() if self._is_mine_alone(value)}
        joined = self._joined(others)
        return {name: joined.get(name, value.detach()) for name, value in state.items()}

    def _is_mine_alone(self, value: Any) -> bool:
        return isinstance(value, Tensor) and self._stage_of.get(value) == self.stage

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Complete on the first process only."""
        state, parameters = optimizer.state_dict(), _parameters(optimizer)
        own = {number: value for number, value in state["state"].items() if self._is_mine_alone(parameters[number])}
        joined = self._joined({number: _on_host(entry) for number, entry in own.items()})
        shared = {key: value for key, value in state["state"].items() if parameters[key] not in self._stage_of}
        return {**state, "state": dict(sorted({**joined, **shared}.items()))}

    def load_model(self, model: nn.Module, state: Mapping[str, Any]) -> None:
        here = model.state_dict(keep_vars=True)
        elsewhere = {name for name, value in here.items() if not self.keeps(value)}
        held = {name: value for name, value in state.items() if name not in elsewhere}
        missing, unexpected = model.load_state_dict(held, strict=False)
        wrong = [*(set(missing) - elsewhere), *unexpected, *(elsewhere - set(state))]
        if wrong:
            raise RuntimeError(f"{', '.join(sorted(wrong)[:3])}: in the model or in the checkpoint, not in both")

    def load_optimizer(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        parameters = _parameters(optimizer)
        held = {number: entry for number, entry in state["state"].items() if self.keeps(parameters[number])}
        optimizer.load_state_dict({**state, "state": held})


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """In the order of their numbers in its state."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _on_host(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.cpu() if isinstance(value, Tensor) else value for name, value in entry.items()}
