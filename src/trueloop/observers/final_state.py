"""The models of a run at its end: equal ensemble members, weights that stay zero, statistics that cannot follow."""

import weakref
from collections import Counter, defaultdict
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.event import BatchNormSettings, ModelsIdentical, Place, ZeroWeights
from trueloop.measure.rows import digests
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, RunEnd, StepCall
from trueloop.torch_private.modules import BatchNorm

__all__ = ["FinalStateObserver"]

LEAST_STEPS: Final = 20
SLOW: Final = 0.02  # momentum below which batch norm follows slowly
FOLLOWED: Final = 3.0  # updates times momentum: the share of the initial statistics left is exp(-FOLLOWED)
MOST: Final = 64  # weights examined
REFRESH: Final = 64  # steps

_Zeros = tuple[list[str], list[tuple[str, float]]]


class FinalStateObserver(Observer):
    emits = (ModelsIdentical, ZeroWeights, BatchNormSettings)

    def prepare(self) -> None:
        self._training: Counter[int] = Counter()
        self._places: dict[int, Place | None] = {}
        self._zero: dict[int, list[tuple[str, weakref.ref[Tensor]]]] = {}
        self._digests: dict[int, tuple[str, int, tuple[int, ...]]] = {}
        """Class, parameter count and digest of models that were freed or are alive."""
        self._still_zero: dict[int, _Zeros] = {}
        self._slow: dict[int, tuple[int, float, int]] = {}

    @torch.no_grad()
    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or not (call.grad and call.training):
            return
        number = known.number
        self._training[number] += 1
        self._places[number] = call.place
        if number not in self._zero:
            self._zero[number] = [
                (name, weakref.ref(p)) for name, p in list(call.module.named_parameters())[:MOST] if _is_zero(p)
            ]

    @torch.no_grad()
    def step_ended(self, call: StepCall) -> None:
        """Models of a function are gone at the end of the run: they are examined now and then."""
        if call.index & (call.index - 1) == 0 or call.index % REFRESH == 0:
            self._examine()

    def _examine(self) -> None:
        self._digest_living()
        for known, module in self.objects.living_models():
            updates = self._training[known.number]
            if updates >= LEAST_STEPS:
                self._still_zero[known.number] = self._zero_weights(known.number, module)
                norms = [m for m in module.modules() if isinstance(m, BatchNorm) and m.track_running_stats]
                rates = [float(m.momentum) for m in norms if m.momentum is not None and m.momentum < SLOW]
                self._slow[known.number] = (len(rates), max(rates, default=0.0), updates)

    def _digest_living(self) -> None:
        for known, module in self.objects.living_models():
            if self._training[known.number] >= LEAST_STEPS:
                parameters = [p for p in module.parameters() if is_plain(p) and is_readable(p) and p.is_cpu]
                samples = [evenly_spaced(p.detach().reshape(-1), 64) for p in parameters[:MOST]]
                count = sum(p.numel() for p in parameters)
                if samples:
                    self._digests[known.number] = (
                        known.name, count, tuple(digests(sample.reshape(1, -1))[0] for sample in samples),
                    )  # fmt: skip

    @torch.no_grad()
    def run_ended(self, end: RunEnd) -> None:
        self._examine()
        self._report_identical()
        for number, (layers, momentum, updates) in self._slow.items():
            name, place = self.objects.models[number].name, self._places.get(number)
            if layers and updates * momentum < FOLLOWED:
                self.emit(BatchNormSettings, place, name, layers, momentum, updates)
            still, frozen = self._still_zero[number]
            if still:
                self.emit(ZeroWeights, place, name, tuple(still), False, 1.0, updates)
            for table, share in frozen:
                self.emit(ZeroWeights, place, name, (table,), True, share, updates)

    def _report_identical(self) -> None:
        groups: dict[tuple[str, int, tuple[int, ...]], list[int]] = defaultdict(list)
        for number, key in self._digests.items():
            groups[key].append(number)
        for (name, count, _), numbers in groups.items():
            trained = sum(key[0] == name and key[1] == count for key in self._digests.values())
            if len(numbers) > 1:
                self.emit(ModelsIdentical, self._places.get(max(numbers)), name, len(numbers), trained, count)

    def _zero_weights(self, number: int, module: nn.Module) -> _Zeros:
        """Trainable weights that are zero from the first call until now, and frozen tables of zeros."""
        still = [
            key for key, ref in self._zero.get(number, [])
            if (p := ref()) is not None and p.requires_grad and p.ndim >= 2 and _is_zero(p)
            and (p.grad is None or _is_zero(p.grad))
        ]  # fmt: skip
        frozen = []
        for key, layer in module.named_modules():
            if isinstance(layer, nn.Embedding) and not layer.weight.requires_grad and layer.num_embeddings >= 20:
                share = (layer.weight == 0).all(1).double().mean().item()
                if share > 0.5:
                    frozen.append((f"{key}.weight", share))
        return still, frozen


def _is_zero(tensor: Tensor) -> bool:
    return is_plain(tensor) and is_readable(tensor) and tensor.is_cpu and not bool(tensor.detach().any())
