"""Tuning on a real CUDA device: honest variants are the same training, fp16 without its scaler is refused, the search
finds the graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.tune.worlds import FILE, network, recipe
from trueloop.recipe.recipe import DataRequest
from trueloop.results.tune import Agreement, Trial
from trueloop.tune.agreement import Evidence, agreement_of
from trueloop.tune.machine_facts import gather_facts
from trueloop.tune.process import Process, TrialFailed, TrialSpec
from trueloop.tune.timing import TrialRecipe
from trueloop.tune.trial_evidence import Order, collect_evidence
from trueloop.tune.tune import TuneRequest, tune

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]

STEPS, SEEDS = 40, 2
SOON = 180.0


def agreement(model: Callable[[], nn.Module], **changes: Any) -> Agreement:
    plain = recipe(model=model, device="cuda")
    reference = collect_evidence(
        TrialRecipe(plain, DataRequest()), plain, Order(STEPS, SEEDS, moved=2, gradients=False)
    )
    trial = collect_evidence(TrialRecipe(replace(plain, **changes), DataRequest()), plain, Order(STEPS, SEEDS))
    return agreement_of(Evidence.of(reference), Evidence.of(trial))


HONEST: list[dict[str, Any]] = [
    {},
    {"precision": "tf32"},
    {"precision": "bf16"},
    {"precision": "fp16"},
    {"accumulate": 4},
    {"where": "loader"},
    {"program": "cuda_graphs"},
    {"program": "cuda_graphs", "steps_per_replay": 8, "precision": "bf16"},
]


@pytest.mark.parametrize("changes", HONEST, ids=str)
def test_honest_variants_are_the_same_training(changes: dict[str, Any]) -> None:
    same = agreement(network, **changes)
    assert same.same, same.failures


@pytest.mark.filterwarnings("ignore")  # the compiler has warnings of its own, which differ from version to version
@pytest.mark.parametrize("changes", [{"compile": "default"}, {"compile": "default", "program": "cuda_graphs"}], ids=str)
def test_compiled_variants_are_the_same_training(changes: dict[str, Any]) -> None:
    same = agreement(network, **changes)
    assert same.same, same.failures


# -- the planted one --


class _Small(torch.autograd.Function):
    """A place where gradients are a millionth of what they are above: fp16 holds them only if the loss is scaled."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, unscaled: bool) -> Tensor:
        ctx.unscaled = unscaled
        return inputs.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        scaled = grads[0] / 65536 if ctx.unscaled else grads[0]
        return scaled * 1e-6, None


class Gated(nn.Module):
    takes_the_scale_away = False

    def __init__(self) -> None:
        super().__init__()
        self.below, self.head = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        half = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.float16
        hidden = _Small.apply(self.below(inputs).relu(), half and self.takes_the_scale_away)  # type: ignore[no-untyped-call]
        answer: Tensor = self.head(hidden)
        return answer


class GatedWithoutScale(Gated):
    takes_the_scale_away = True


def test_small_gradients_live_in_fp16_as_long_as_the_loss_is_scaled() -> None:
    assert agreement(Gated, precision="bf16").same
    same = agreement(Gated, precision="fp16")
    assert same.same, same.failures


def test_fp16_without_scaling_is_refused_where_gradients_underflow() -> None:
    same = agreement(GatedWithoutScale, precision="fp16")
    assert not same.same
    assert same.layer.startswith("below.")
    assert same.cosine < 0.5
    assert any("the gradient of below." in said for said in same.failures)


# -- processes --


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "small.py"
    made.write_text(FILE.replace('device="cpu"', 'device="cuda"'), encoding="utf-8")
    return made


def test_the_device_is_looked_at(file: Path) -> None:
    found = gather_facts(recipe(device="cuda"), DataRequest())
    assert found.device == "cuda"
    assert found.place.memory > 10**9
    assert found.place.name == torch.cuda.get_device_name()
    assert found.native_bf16 is (torch.cuda.get_device_capability() >= (8, 0))


def test_a_device_that_is_full_is_a_result(file: Path) -> None:
    large = (
        "class Large(nn.Module):\n    def forward(self, x):\n        return x + torch.zeros(1 << 30, "
        "device=x.device)[0]\n\n\n"
    )
    text = (
        file.read_text()
        .replace("def network", f"{large}def network")
        .replace("return nn.Sequential(", "return nn.Sequential(Large(), ")
    )
    file.write_text(text)
    process = Process(TrialSpec(str(file), log_every=4, fraction=0.01), 1 << 40)
    with pytest.raises(TrialFailed, match="out of memory"):
        process.listen(monotonic() + SOON)


def test_peaks_are_those_of_the_device(file: Path) -> None:
    process = Process(TrialSpec(str(file), log_every=4), 1 << 40)
    try:
        process.listen(monotonic() + SOON)
        peak = process.ask({"do": "window", "seconds": 0.1}, monotonic() + SOON)["peak"]
    finally:
        process.end()
    assert 0 < peak < 10**8  # a small model; the process itself takes more than that


def test_the_search_finds_graphs_for_a_small_model_by_itself(file: Path) -> None:
    told: list[Trial] = []
    asked = TuneRequest(str(file), seconds=SOON, seeds=2, settings={"compile": "off", "batch": "32"})
    made = tune(asked, told.append)
    said = [(trial.knob, dict(trial.added), trial.outcome, trial.said, round(trial.speed, 2)) for trial in told]
    assert made.best.changes.get("program") == "cuda_graphs", said
    assert made.best.speed > 2.0, said
    assert made.best.agreement is not None
    assert made.best.agreement.same
