"""Several processes and the user's own code: steps, streams, loaders, carried states. They train as one process does,
each on its own share, or are refused in one sentence."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

from tests.conftest import in_child
from tests.engine.small import SMALL, WIDTH, blobs, ran, same_bits
from tests.engine.test_carry import RECIPE as CARRYING
from tests.parallel.ranks import on_ranks
from tests.parallel.test_two_ranks import told, weights
from trueloop.checkpoint.store import Folder
from trueloop.data.source import Splits
from trueloop.data.stream import Stream
from trueloop.data.tensors import Tensors
from trueloop.engine.loop import Loop
from trueloop.errors import BadData, BadRecipe
from trueloop.hook import Hook
from trueloop.recipe.recipe import Recipe

INPUTS, LABELS = blobs(49)
VALID = Tensors(*blobs(21, seed=1))


class Samples(IterableDataset):  # type: ignore[type-arg]
    """With draws of its own; `by_rank`: each process reads only some of it."""

    def __init__(self, by_rank: bool = False) -> None:
        self.by_rank = by_rank

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        first, step = (dist.get_rank(), dist.get_world_size()) if self.by_rank else (0, 1)
        for number in range(first, len(INPUTS), step):
            yield INPUTS[number] + 0.01 * torch.randn(WIDTH), LABELS[number]


class Draws(Stream):
    """`differs`: from the process's own random numbers, else the same in all processes."""

    def __init__(self, differs: bool = True) -> None:
        self.differs, self.given = differs, 0

    def next(self, loop: Any) -> Any:
        self.given += 1
        numbers = torch.randint(0, 49, (8,)) if self.differs else torch.arange(8) + self.given
        return INPUTS[numbers], LABELS[numbers]

    def state_dict(self) -> dict[str, Any]:
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.given = state["given"]


def of(train: Any, **more: Any) -> Recipe:
    length = {"epochs": None, "steps": 12, "evaluate_every": 6}
    return replace(SMALL, data=lambda: Splits(train(), VALID), **{**length, **more})


def loader(shared: bool = False, **more: Any) -> DataLoader[Any]:
    rows = TensorDataset(INPUTS, LABELS)
    if shared:
        return DataLoader(rows, batch_size=8, sampler=DistributedSampler(rows), **more)
    return DataLoader(rows, batch_size=16, shuffle=True, **more)


def classify(loop: Loop, batch: Any) -> dict[str, Any]:
    output = loop.model(batch.inputs)
    loss = F.cross_entropy(output, batch.targets)
    loop.memory["mine"] = loop.memory.get("mine", 0.0) + batch.inputs.sum().detach()  # of this process's samples
    loop.update(loss)
    return {"hits": (output.argmax(1) == batch.targets).float().mean()}


def ordered(epoch: int, generator: torch.Generator, train: Any) -> list[list[int]]:
    return [[4, 5, 6], [epoch], torch.randperm(9, generator=generator)[:4].tolist()]


def pair() -> dict[str, nn.Module]:
    return {
        "generator": nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, WIDTH)),
        "critic": nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 1)),
    }


def adams(models: Any) -> dict[str, torch.optim.Optimizer]:
    rates = {"generator": 1e-2, "critic": 3e-3}
    return {name: torch.optim.Adam(models[name].parameters(), lr=rates[name]) for name in models}


def adversarial(loop: Loop, batch: Any) -> dict[str, Tensor]:
    """Its noise follows from the sample: each process draws different numbers, and one process would draw others."""
    generator, critic, real = loop.models["generator"], loop.models["critic"], batch.inputs
    fake = generator(torch.sin(37 * real))
    first = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
    loop.update(first, "critic", clip=0.5)
    second = F.softplus(-critic(fake)).mean()
    loop.update(second, "generator")
    return {"critic": first, "generator": second}


def far(models: Any, batch: Any) -> dict[str, Tensor]:
    fake = models["generator"](torch.sin(37 * batch.inputs))
    return {"loss": (fake - batch.inputs).square().mean(), "score": models["critic"](fake).mean()}


GAN = of(
    lambda: Tensors(INPUTS, LABELS), batch=16, model=pair, step=adversarial, optimizers=adams, evaluate=far, ema=0.9
)


def certainty(output: Tensor, targets: Tensor) -> Tensor:
    """A value for each sample."""
    return output.softmax(1).max(1).values


def hits_of_class_one(output: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Two sums: a mean of means would be wrong over uneven batches."""
    asked = targets == 1
    return ((output.argmax(1) == 1) & asked).sum(), asked.sum()


OWN_METRICS = {"certainty": certainty, "recall": hits_of_class_one}


AS_ONE = {
    "gan": GAN,
    "metrics": of(lambda: Tensors(INPUTS, LABELS), batch=16, metrics=OWN_METRICS),
    "metrics, own step": of(lambda: Tensors(INPUTS, LABELS), batch=16, metrics=OWN_METRICS, step=classify),
    "loader": of(loader, batch=16),
    "iterable": of(Samples, batch=16),
    "loader, own step": of(loader, batch=16, step=classify),
    "order": of(lambda: Tensors(INPUTS, LABELS), order=ordered),
    "carry": replace(CARRYING, optimizer="sgd"),
}


@pytest.mark.parametrize("kind", AS_ONE)
def test_two_processes_train_as_one(kind: str) -> None:
    recipe = replace(AS_ONE[kind], log_every=1)
    alone = told(ran(recipe))
    first, second = on_ranks(lambda _: told(ran(recipe)))
    assert first["losses"] == pytest.approx(alone["losses"], abs=1e-5)
    assert first["measured"] == [pytest.approx(values, abs=1e-5) for values in alone["measured"]]
    assert same_bits(weights(first), weights(second)), "the parameters of both"
    for name, value in weights(alone).items():
        torch.testing.assert_close(weights(first)[name], value, rtol=1e-4, atol=1e-5)


def test_logged_values_of_a_step_are_means_over_all_samples() -> None:
    """Each fourth batch has one sample: one process has none of it, and its value does not count."""
    recipe = of(lambda: Tensors(INPUTS, LABELS), step=classify, batch=16, log_every=1)
    alone = ran(recipe).kept.values("hits")
    both = on_ranks(lambda _: ran(recipe).kept.values("hits"))[0]
    assert both == pytest.approx(alone, abs=1e-5)


class Leave(Hook):
    """Ends as if killed after a step: what was saved is what is left."""

    def __init__(self, step: int) -> None:
        self.at = step

    def stepped(self, loop: Any) -> None:
        if loop.step == self.at:
            loop.parts.saver.finish()
            loop.parts.peers.wait()
            raise KilledError


class KilledError(Exception):
    """Of a run that is left in the middle."""


OWN = {
    "stream": of(Draws),
    "sampler": of(lambda: loader(shared=True)),
    "step and memory": of(lambda: Tensors(INPUTS, LABELS), step=classify, batch=16),
    "stream, own step": of(Draws, step=classify),
    "gan": GAN,
    "carry": replace(CARRYING, epochs=None, steps=12, save_every=None),
}


@pytest.mark.parametrize("kind", OWN)
def test_each_process_has_its_own_and_a_resume_is_bit_identical(kind: str, tmp_path: Path) -> None:
    """The run that is resumed has ended after seven steps, in the middle of everything."""
    recipe = replace(OWN[kind], steps=12, log_every=3, save_every=5)

    def work(until: int | None) -> Callable[[int], Any]:
        def run(rank: int) -> Any:
            hooks = () if until is None else (Leave(until),)
            folder = tmp_path / ("whole" if until == 0 else "cut")
            try:
                over = ran(replace(recipe, hooks=hooks), Folder(folder), go_on=until is None)
            except KilledError:
                return None
            return told(over), {name: float(value) for name, value in over.loop.memory.items()}

        return run

    whole = on_ranks(work(0))
    on_ranks(work(7))
    again = on_ranks(work(None))
    for (before, mine), (after, ours) in zip(whole, again, strict=True):
        assert after["losses"] == before["losses"][-len(after["losses"]) :] if after["losses"] else True
        assert same_bits(weights(after), weights(before))
        assert mine == ours
    if "memory" in kind:
        assert whole[0][1] != whole[1][1], "they had different samples"
    assert same_bits(weights(whole[0][0]), weights(whole[1][0]))


def ends_alone(loop: Loop, batch: Any) -> None:
    classify(loop, batch)
    if loop.step == 4 and not loop.first_process:
        loop.end_training("enough")


def test_one_process_that_ends_the_training_ends_all() -> None:
    recipe = of(lambda: Tensors(INPUTS, LABELS), step=ends_alone, batch=16)
    assert on_ranks(lambda _: [each(ran(recipe).loop.state) for each in (step_of, why_of)]) == [[5, "enough"]] * 2


def step_of(state: Any) -> int:
    return int(state.step)


def why_of(state: Any) -> str:
    return str(state.ended_by)


def steps_itself(loop: Loop, batch: Any) -> None:
    F.cross_entropy(loop.model(batch.inputs), batch.targets).backward()  # type: ignore[no-untyped-call]
    loop.optimizers["optimizer"].step()


def adds_its_own(loop: Loop, batch: Any) -> None:
    F.cross_entropy(loop.model(batch.inputs), batch.targets).backward()  # type: ignore[no-untyped-call]
    loop.update(loop.model(batch.inputs).square().mean())


def wrong_rank() -> DataLoader[Any]:
    rows = TensorDataset(INPUTS, LABELS)
    return DataLoader(rows, batch_size=8, sampler=DistributedSampler(rows, num_replicas=2, rank=0))


REFUSED = {
    "an optimizer of its own": (of(lambda: Tensors(INPUTS, LABELS), step=steps_itself), "call loop.update(loss"),
    "a backward of its own": (of(lambda: Tensors(INPUTS, LABELS), step=adds_its_own), "instead of loss.backward()"),
    "the same stream": (of(lambda: Draws(differs=False)), "train on the same data"),
    "the same sampler": (of(wrong_rank), "train on the same data"),
    "split twice": (of(lambda: Samples(by_rank=True), batch=16), "without that split"),
    "an evaluation with a sampler": (
        replace(of(list), data=lambda: (Tensors(INPUTS, LABELS), loader(shared=True))),
        "leave the sampler out",
    ),
    "fewer tracks than processes": (replace(CARRYING, parallel="ddp"), "train in 3 processes"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_would_train_apart_or_on_the_same_data_is_refused(kind: str) -> None:
    recipe, words = REFUSED[kind]

    def work(_: int) -> str:
        with pytest.raises((BadRecipe, BadData)) as raised:
            ran(recipe)
        return str(raised.value)

    for said in on_ranks(work, 4 if "tracks" in kind else 2):
        assert words in said
    if kind in ("an optimizer of its own", "the same stream"):
        assert in_child(lambda: ran(recipe).ending.reason) == "finished", "in one process there is nothing to refuse"


def draws_its_own(models: Any) -> dict[str, float]:
    """An agent that plays: each process sees different games."""
    return {"reward": float(torch.rand(()))}


PLAYS = of(
    lambda: Tensors(INPUTS, LABELS), step=classify, batch=16, evaluate=draws_its_own, metric="reward", evaluate_every=1
)


def test_an_evaluation_without_data_is_the_mean_over_the_processes(tmp_path: Path) -> None:
    """They agree on the best step: `save` waits for all."""

    def work(rank: int) -> Any:
        own: list[float] = []

        def play(models: Any) -> dict[str, float]:
            own.append(draws_its_own(models)["reward"])
            return {"reward": own[-1]}

        over = ran(replace(PLAYS, evaluate=play, save_every=100), Folder(tmp_path / "run"))
        return own, over.kept.values("reward", "valid"), over.loop.state.best, over.loop.state.best_step

    (mine, logged, best, step), (yours, _, *agreed) = on_ranks(work)
    assert mine != yours
    assert logged == [(one + other) / 2 for one, other in zip(mine, yours, strict=True)]
    assert [best, step] == agreed == [max(logged), 1 + logged.index(max(logged))]


def test_equal_values_of_three_processes_are_not_rounded() -> None:
    always = replace(PLAYS, evaluate=lambda models: {"reward": 0.1}, steps=1)  # noqa: ARG005 - as users write it
    assert on_ranks(lambda _: ran(always).loop.state.best, 3) == [0.1] * 3


def test_processes_that_return_different_names_are_refused() -> None:
    def work(rank: int) -> str:
        with pytest.raises(BadRecipe) as raised:
            ran(replace(PLAYS, evaluate=lambda models: {"reward": 1.0} | ({"lives": 3} if rank else {})))  # noqa: ARG005
        return str(raised.value)

    assert all("reward in process 0 and reward, lives in process 1" in said for said in on_ranks(work))


@pytest.mark.parametrize("moment", ["before it", "within it"])
def test_a_signal_to_one_process_stops_all_around_an_evaluation_without_data(moment: str, tmp_path: Path) -> None:
    """Before it: the evaluation is due in the resumed run. Within it: it is finished first."""

    def work(rank: int) -> Any:
        played: list[int] = []
        loops: list[Loop] = []

        def play(models: Any) -> dict[str, float]:
            played.append(loops[0].step)
            if moment == "within it" and rank == 1 and loops[0].step == 6:
                os.kill(os.getpid(), signal.SIGTERM)
            return {"reward": 1.0}

        def step(loop: Loop, batch: Any) -> None:
            classify(loop, batch)
            if moment == "before it" and rank == 1 and loop.step == 5:
                os.kill(os.getpid(), signal.SIGTERM)

        recipe = replace(PLAYS, evaluate=play, step=step, evaluate_every=6)
        over = ran(recipe, Folder(tmp_path / "run"), before=loops.append)
        return played, over.ending.reason, over.ending.signal, over.loop.state.evaluation_due, over.loop.step < 12

    due = moment == "before it"
    assert on_ranks(work) == [([] if due else [6], "signal", signal.SIGTERM, due, True)] * 2


class Faulty(nn.Module):
    """Overflows where it is told to."""

    overflows = False

    def forward(self, x: Tensor) -> Tensor:
        return (x * 1e30).square() if self.overflows else x


def test_the_layer_of_a_non_finite_loss_in_one_process_is_named_by_all() -> None:
    def work(rank: int) -> str:
        def step(loop: Loop, batch: Any) -> None:
            loop.model[1].overflows = rank == 1 and loop.step == 2  # type: ignore[index]
            classify(loop, batch)

        def model() -> nn.Module:
            return nn.Sequential(nn.Linear(WIDTH, 8), Faulty(), nn.Linear(8, 3))

        return ran(of(lambda: Tensors(INPUTS, LABELS), batch=16, model=model, step=step)).ending.message

    assert all("The layer 1 (Faulty) gives inf from finite inputs" in said for said in on_ranks(work))
