"""A recipe's own step: two models and two optimizers are what a plain loop makes of them, and resume exactly."""

# ruff: noqa: ARG005 - lambdas stand for functions of the user's, whose arguments are given

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from tests.docs_blocks import python_blocks
from tests.engine.small import SMALL, Read, begin, ran, same_bits
from tests.parallel.ranks import on_ranks
from trueloop.checkpoint.store import Memory
from trueloop.data.source import Splits
from trueloop.data.stream import Stream
from trueloop.data.tensors import Tensors
from trueloop.engine.loop import Loop
from trueloop.errors import BadRecipe, Misuse
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import validate

WIDTH, NOISE = 6, 4


def pair() -> dict[str, nn.Module]:
    return {
        "generator": nn.Sequential(nn.Linear(NOISE, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, WIDTH)),
        "critic": nn.Sequential(nn.Linear(WIDTH, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 1)),
    }


def adams(models: Any) -> dict[str, torch.optim.Optimizer]:
    rates = {"generator": 1e-2, "critic": 3e-3}
    return {name: torch.optim.Adam(models[name].parameters(), lr=rates[name]) for name in models}


def losses(models: Any, real: Tensor) -> tuple[Tensor, Callable[[], Tensor]]:
    """The critic's loss, and the generator's, computed after the critic has learned."""
    fake = models["generator"](torch.randn(len(real), NOISE))
    critic = F.softplus(-models["critic"](real)).mean() + F.softplus(models["critic"](fake.detach())).mean()
    return critic, lambda: F.softplus(-models["critic"](fake)).mean()


def adversarial(loop: Loop, batch: Any) -> dict[str, Tensor]:
    critic, generator = losses(loop.models, batch.inputs)
    loop.update(critic, "critic", clip=1.0)
    second = generator()
    loop.update(second, "generator")
    return {"critic": critic, "generator": second}


def distance(models: Any, batch: Any) -> dict[str, Tensor]:
    fake = models["generator"](torch.randn(len(batch.inputs), NOISE))
    return {"distance": (fake.mean(0) - batch.inputs.mean(0)).norm()}


GAN = replace(
    SMALL,
    name="gan", model=pair, step=adversarial, optimizers=adams, evaluate=distance, metric="distance", ema=0.9,
    lower_is_better=("distance",),
)  # fmt: skip


def of_models(recipe: Recipe = GAN, **changes: Any) -> Recipe:
    return replace(recipe, **changes)


# -- the same numbers as a loop by hand --


def test_it_is_the_plain_loop() -> None:
    loop, _, _ = begin(of_models(evaluate=None, metric="", lower_is_better=(), data=Read(valid=0), ema=None))
    models = dict(loop.models.items())
    copies = nn.ModuleDict({name: _copy(each) for name, each in models.items()})
    batches = [_batch(loop, epoch, number) for epoch in range(3) for number in range(4)]
    state = torch.get_rng_state()
    optimizers = adams(copies)
    for real in batches:
        critic, generator = losses(copies, real)
        _by_hand(critic, optimizers["critic"], copies["critic"], 1.0)
        _by_hand(generator(), optimizers["generator"], copies["generator"], math.inf)
    torch.set_rng_state(state)
    loop.train()
    for ours, theirs in zip(loop.model.parameters(), copies.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def _copy(module: nn.Module) -> nn.Module:
    import copy

    return copy.deepcopy(module).train()


def _batch(loop: Loop, epoch: int, number: int) -> Tensor:
    batch = loop.parts.batches.batch_at(epoch, number)
    assert batch is not None
    inputs: Tensor = batch.inputs
    return inputs


def _by_hand(loss: Tensor, optimizer: torch.optim.Optimizer, model: nn.Module, clip: float) -> None:
    for parameter in model.parameters():
        parameter.grad = None
    loss.backward(inputs=list(model.parameters()))  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()


def test_the_loss_of_one_leaves_no_gradient_in_the_other() -> None:
    seen: list[bool] = []

    def step(loop: Loop, batch: Any) -> None:
        _critic, generator = losses(loop.models, batch.inputs)
        loop.backward(generator(), "generator")
        seen.append(any(each.grad is not None for each in loop.models["critic"].parameters()))
        loop.apply("generator")

    ran(of_models(step=step, epochs=1))
    assert seen == [False] * 4


# -- exact resume --


def test_a_resumed_run_is_bit_identical() -> None:
    whole = ran(of_models(epochs=4))
    store = Memory()
    ran(of_models(epochs=2), store)
    rest = ran(of_models(epochs=4), store, go_on=True)
    assert same_bits(whole.weights, rest.weights)
    assert whole.kept.values("critic")[-4:] == rest.kept.values("critic")[-4:]
    ours, theirs = (each.loop.optimizers["critic"].state_dict() for each in (whole, rest))
    assert all(torch.equal(ours["state"][key]["exp_avg"], theirs["state"][key]["exp_avg"]) for key in ours["state"])


def test_its_memory_and_schedules_are_restored() -> None:
    def step(loop: Loop, batch: Any) -> dict[str, Tensor]:
        centre = loop.memory.get("centre", torch.zeros(WIDTH))
        loop.memory["centre"] = 0.9 * centre + 0.1 * batch.inputs.mean(0)
        critic, generator = losses(loop.models, batch.inputs - loop.memory["centre"])
        loop.update(critic, "critic")
        loop.update(generator(), "generator")
        return {"critic": critic}

    def schedules(optimizers: Any) -> Any:
        return {"critic": torch.optim.lr_scheduler.StepLR(optimizers["critic"], 3, 0.5)}

    recipe, store = of_models(step=step, schedules=schedules), Memory()
    whole = ran(replace(recipe, epochs=4))
    ran(replace(recipe, epochs=2), store)
    rest = ran(replace(recipe, epochs=4), store, go_on=True)
    assert same_bits(whole.weights, rest.weights)
    assert torch.equal(whole.loop.memory["centre"], rest.loop.memory["centre"])
    assert rest.loop.optimizers["critic"].param_groups[0]["lr"] == pytest.approx(3e-3 * 0.5**5)
    assert rest.loop.optimizers["generator"].param_groups[0]["lr"] == pytest.approx(1e-2)


def test_one_schedule_scales_every_rate() -> None:
    loop = ran(of_models(schedule="linear", epochs=2)).loop
    rates = [loop.optimizers[name].param_groups[0]["lr"] for name in ("generator", "critic")]
    assert rates == pytest.approx([1e-2 / 8, 3e-3 / 8])


# -- pieces --


def classify(loop: Loop, batch: Any) -> Tensor:
    loss = F.cross_entropy(loop.model(batch.inputs), batch.targets)
    loop.update(loss)
    return loss


def test_one_model_is_the_ordinary_recipe() -> None:
    ordinary, own = ran(SMALL), ran(replace(SMALL, step=classify))
    assert own.losses == pytest.approx(ordinary.losses, rel=1e-5)
    assert own.kept.values("accuracy", "valid") == ordinary.kept.values("accuracy", "valid")
    for name, value in ordinary.weights.items():
        torch.testing.assert_close(own.weights[name], value, rtol=1e-4, atol=1e-6)


def test_micro_batches_have_the_gradient_of_the_batch() -> None:
    def step(loop: Loop, batch: Any) -> None:
        for (inputs, targets), share in loop.micros(batch):
            loop.backward(F.cross_entropy(loop.model(inputs), targets) * share)
        loop.apply()

    whole, split = ran(replace(SMALL, step=classify)), ran(replace(SMALL, step=step, accumulate=3))
    assert split.losses == pytest.approx(whole.losses, rel=1e-5)


def test_an_optimizer_that_asks_again_and_again() -> None:
    def step(loop: Loop, batch: Any) -> Tensor:
        lbfgs = loop.optimizers["optimizer"]

        def closure() -> Tensor:
            lbfgs.zero_grad()
            loss = F.cross_entropy(loop.model(batch.inputs), batch.targets)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        return lbfgs.step(closure)  # type: ignore[return-value, arg-type]

    def optimizers(model: Any) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)

    recipe, store = replace(SMALL, step=step, optimizers=optimizers, batch=50, epochs=6), Memory()
    whole = ran(recipe)
    assert whole.losses[-1] < 0.5 * whole.losses[0]
    assert "gradient_norm" not in whole.kept.rows[0].values
    ran(replace(recipe, epochs=3), store)
    assert same_bits(whole.weights, ran(recipe, store, go_on=True).weights)


def test_an_evaluation_without_data() -> None:
    def play(models: Any) -> dict[str, float]:
        return {"reward": float(models["generator"](torch.ones(2, NOISE)).sum())}

    kept = ran(of_models(evaluate=play, metric="reward", data=Read(valid=0))).kept
    assert len(kept.values("reward", "valid")) == 3


def test_a_non_finite_loss_reaches_no_weight() -> None:
    def step(loop: Loop, batch: Any) -> None:
        critic, generator = losses(loop.models, batch.inputs)
        loop.update(critic, "critic")
        loop.update(generator() * (math.nan if loop.step == 2 else 1.0), "generator")

    run = ran(of_models(step=step, on_nonfinite="skip"))
    assert run.loop.state.skipped == 1
    assert all(torch.isfinite(each).all() for each in run.loop.model.parameters())
    assert "The layer is unknown" in run.kept.notes[0]
    assert "on_nonfinite=stop finds the layer" in run.kept.notes[0]
    ended = ran(of_models(step=step)).ending
    assert ended.reason == "nonfinite"
    assert "The loss is nan at step 3 (epoch 0, batch 2), though every layer's output is finite" in ended.message
    back = ran(of_models(step=step, on_nonfinite="rollback", save_every=1))
    assert back.loop.state.rollbacks == 1
    assert back.ending.reason == "finished"


class Overflows(nn.Module):
    """Finite forward or not, finite backward or not: as a fault of a batch decides."""

    def __init__(self) -> None:
        super().__init__()
        self.fault = ""

    def forward(self, x: Tensor) -> Tensor:
        scale = {"forward": 1e30, "backward": 0.0}.get(self.fault, 1.0)
        return torch.sqrt((x * scale).square()) if self.fault else x


def faulty() -> dict[str, nn.Module]:
    models = pair()
    models["critic"] = nn.Sequential(nn.Linear(WIDTH, 8), Overflows(), nn.Linear(8, 1))
    return models


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("forward", "The layer critic.1 (Overflows) gives inf from finite inputs in ["),
        ("backward", "layers and loss are finite, but the backward of critic.1 (Overflows) is not"),
        ("once", "The layer is unknown: it was finite when it was computed once more"),
        ("raises", "The layer is unknown: it raised KeyError when it was computed once more"),
    ],
)
def test_the_layer_of_a_non_finite_loss_is_named_when_the_run_ends(fault: str, words: str) -> None:
    """The step is computed once more; of what it does then, nothing is left in the run."""
    seen: list[int] = []

    def step(loop: Loop, batch: Any) -> None:
        seen.append(loop.step)
        loop.memory["steps"] = loop.memory.get("steps", 0) + 1
        at_fault, again = loop.step == 2, seen.count(2) > 1
        if again and fault == "raises":
            raise KeyError("closed")
        loop.models["critic"][1].fault = fault if at_fault else ""  # type: ignore[index]
        critic, generator = losses(loop.models, batch.inputs)
        loop.update(critic * (math.nan if at_fault and fault in ("once", "raises") and not again else 1.0), "critic")
        loop.models["critic"][1].fault = ""  # type: ignore[index]
        loop.update(generator(), "generator")

    run = ran(of_models(model=faulty, step=step))
    assert run.ending.reason == "nonfinite"
    assert words in run.ending.message, run.ending.message
    assert "at step 3 (epoch 0, batch 2)" in run.ending.message
    assert seen == [0, 1, 2, 2]
    assert run.loop.step == run.loop.memory["steps"] == 3
    seen.clear()
    reference = ran(of_models(model=faulty, step=step, on_nonfinite="skip", epochs=None, steps=3))
    assert same_bits(run.weights, reference.weights), "the repeated step updates nothing, running statistics included"
    assert all(each.grad is None for each in run.loop.model.parameters())


def test_a_batch_of_a_stream_is_computed_once_more_too() -> None:
    class Draws(Stream):
        def next(self, loop: Any) -> Any:
            return torch.randn(8, WIDTH)

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            pass

    def step(loop: Loop, batch: Any) -> None:
        loop.models["critic"][1].fault = "forward" if loop.step == 2 else ""  # type: ignore[index]
        loop.update(losses(loop.models, batch)[0], "critic")

    recipe = of_models(model=faulty, step=step, evaluate=lambda models: {"distance": 0.0}, epochs=None, steps=4)
    ended = ran(replace(recipe, data=lambda: Splits(Draws(), None))).ending
    assert "The layer critic.1 (Overflows) gives inf" in ended.message, ended.message


def test_a_non_finite_update_leaves_the_graphs_of_the_others_alone() -> None:
    """The generator's BatchNorm has moved when the critic's loss is NaN, and its backward comes later."""

    def step(loop: Loop, batch: Any) -> None:
        critic, generator = losses(loop.models, batch.inputs)
        loop.update(critic * (math.nan if loop.step == 2 else 1.0), "critic")
        loop.update(generator(), "generator")

    run = ran(of_models(step=step, on_nonfinite="skip"))
    assert run.loop.state.skipped == 1
    assert all(torch.isfinite(each).all() for each in run.loop.model.state_dict().values())


def test_two_processes_train_as_one() -> None:
    recipe = replace(SMALL, step=classify, epochs=2)
    alone = ran(recipe).weights

    def work(rank: int) -> list[Any]:
        return [each.tolist() for each in ran(recipe).weights.values()]

    for weights in on_ranks(work):
        for value, expected in zip(weights, alone.values(), strict=True):
            torch.testing.assert_close(torch.tensor(value), expected, rtol=1e-4, atol=1e-5)


def test_the_recipe_of_the_page_runs() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(python_blocks("training/your-own-step.md")[0], "your-own-step.md", "exec"), names)
    run = ran(replace(names["recipe"], trackers=()))
    assert run.loop.state.best == min(run.kept.values("distance", "valid"))
    assert not run.loop.parts.higher_is_better


def test_rows_name_the_optimizers() -> None:
    row = [row for row in ran(GAN).kept.rows if row.kind == "train"][-1].values
    assert row["lr/critic"] == pytest.approx(3e-3)
    assert row["lr"] == pytest.approx(1e-2)
    assert {"gradient_norm/critic", "gradient_norm/generator"} < set(row)


def test_one_loss_for_two_optimizers() -> None:
    def step(loop: Loop, batch: Any) -> bool:
        critic, generator = losses(loop.models, batch.inputs)
        return loop.update(critic + generator(), "critic", "generator")

    rows = [row for row in ran(of_models(step=step)).kept.rows if row.kind == "train"]
    assert all(0.5 < row.values["loss"] < 5 for row in rows)  # once, not twice, and not True
    assert rows[0].values["gradient_norm/generator"] > 0


def test_rows_have_the_rate_that_was_used() -> None:
    def schedules(optimizers: Any) -> Any:
        return {"critic": torch.optim.lr_scheduler.StepLR(optimizers["critic"], 2, 0.5)}

    rows = [row.values["lr/critic"] for row in ran(of_models(schedules=schedules)).kept.rows if row.kind == "train"]
    assert rows[:4] == pytest.approx([3e-3, 3e-3, 1.5e-3, 1.5e-3])


def test_data_without_targets_and_without_a_request() -> None:
    points = torch.randn(40, WIDTH)
    assert ran(of_models(data=lambda: Splits(Tensors(points), Tensors(points)))).ending.reason == "finished"


# -- mistakes --


def _fails(step: Any, match: str, **changes: Any) -> None:
    with pytest.raises(BadRecipe, match=match):
        ran(of_models(step=step, **changes))


def test_mistakes_are_one_sentence() -> None:
    def critic(loop: Loop, batch: Any) -> Tensor:
        return losses(loop.models, batch.inputs)[0]

    _fails(
        lambda loop, batch: loop.update(critic(loop, batch), "critics"), "no optimizer 'critics'. Did you mean critic"
    )
    _fails(lambda loop, batch: loop.update(critic(loop, batch)), "which\\? The recipe has: generator, critic")
    _fails(lambda loop, batch: loop.update(critic(loop, batch), "generator"), "reaches none of the 6 parameters")
    _fails(lambda loop, batch: loop.update(critic(loop, batch).item(), "critic"), "is a float: pass the tensor itself")
    _fails(lambda loop, batch: loop.update(critic(loop, batch).detach(), "critic"), "without a graph")
    _fails(lambda loop, batch: loop.update(loop.models["critic"](batch.inputs), "critic"), "take its mean")
    _fails(lambda loop, batch: loop.backward(critic(loop, batch), "critic"), "never loop.apply\\('critic'\\)")
    _fails(lambda loop, batch: loop.apply("critic"), "has no gradients")
    _fails(lambda loop, batch: [1], "step returned a list")
    _fails(lambda loop: None, "step cannot be called")
    _fails(adversarial, "optimizers returned a dict of str", optimizers=lambda models: {"a": "adam"})
    _fails(adversarial, "schedules returned None", schedules=lambda optimizers: None)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
    _fails(adversarial, "schedule='plateau'", schedules=lambda optimizers: {"critic": plateau(optimizers["critic"])})
    _fails(adversarial, "evaluate returned None", evaluate=lambda models, batch: None)
    _fails(adversarial, "selected by loss: set metric='distance'", metric="")
    _fails(adversarial, "a is a int", model=lambda: {"a": 1})


def test_models_by_name_need_a_step() -> None:
    with pytest.raises(BadRecipe, match="only a step of your own can train them"):
        ran(replace(SMALL, model=pair))


def test_an_ordinary_recipe_updates_itself() -> None:
    loop, _, _ = begin(SMALL)
    with pytest.raises(Misuse, match="for a recipe's own step"):
        loop.update(torch.zeros(()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"program": "cuda_graphs"}, "cannot execute a step of your own"),
        ({"parallel": "fsdp"}, "cannot split the models"),
        ({"compile": "default"}, "call torch.compile on its models"),
        ({"schedules": lambda optimizers: {}, "schedule": "cosine"}, "schedules replaces schedule"),
        ({"step": None}, "optimizers belongs to a step of your own"),
    ],
)
def test_combinations_are_refused_before_anything_runs(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRecipe, match=words):
        validate(of_models(**changes))
