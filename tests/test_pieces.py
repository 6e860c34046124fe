"""The pieces, each alone in somebody's own loop: accumulate, Checkpoints, Precision, Schedule; and the loop of a
recipe."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

import trueloop
from tests.conftest import in_child
from trueloop.checkpoint.store import Memory
from trueloop.errors import BadCheckpoint, BadRecipe, CannotSave, Misuse
from trueloop.recipe.recipe import DataRequest

IGNORED = -100


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters() if parameter.grad is not None])


def weights(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().double().reshape(-1) for value in model.state_dict().values()])


# -- accumulate --


def sequences(*valid: int) -> list[tuple[Tensor, Tensor]]:
    """One batch for each number: one sequence of 32 tokens, of which so many count."""
    batches = []
    for number, length in enumerate(valid):
        draws = torch.Generator().manual_seed(number)
        targets = torch.randint(0, 5, (1, 32), generator=draws)
        targets[:, length:] = IGNORED
        batches.append((torch.randn(1, 32, 8, generator=draws), targets))
    return batches


def loss_sum(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum", ignore_index=IGNORED)


def counted(batch: tuple[Tensor, Tensor]) -> Tensor:
    return (batch[1] != IGNORED).sum()


def test_uneven_token_counts_give_the_gradient_of_the_one_big_batch() -> None:
    batches = sequences(1, 2, 4, 32)
    model = nn.Linear(8, 5)
    inputs, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=IGNORED).backward()  # type: ignore[no-untyped-call]
    whole = gradient(model)
    model.zero_grad()
    (window,) = trueloop.accumulate(batches, 4, counted)
    for batch in window:
        (loss_sum(model, *batch) / window.targets).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(gradient(model), whole)


def test_the_last_window_holds_what_is_left_and_has_its_own_divisor() -> None:
    windows = list(trueloop.accumulate(sequences(3, 3, 3, 3, 7), 4, counted))
    assert [len(window) for window in windows] == [4, 1]
    assert [int(window.targets) for window in windows] == [12, 7]


def test_without_a_count_each_sample_counts_once() -> None:
    pairs = [(torch.zeros(3, 2), torch.zeros(3)), (torch.zeros(1, 2), torch.zeros(1))]
    named = [{"inputs": torch.zeros(2, 4), "labels": torch.zeros(2)}]
    assert [window.targets for window in trueloop.accumulate(pairs, 2)] == [4]
    assert [window.targets for window in trueloop.accumulate(named, 2)] == [2]


def test_no_batch_is_taken_before_its_window() -> None:
    taken: list[int] = []

    def loader() -> Iterator[Tensor]:
        for number in range(6):
            taken.append(number)
            yield torch.zeros(1)

    windows = trueloop.accumulate(loader(), 2)
    assert taken == []
    next(windows)
    assert taken == [0, 1]
    next(windows)
    assert taken == [0, 1, 2, 3]


def test_an_empty_loader_has_no_windows_and_windows_of_none_are_refused() -> None:
    assert list(trueloop.accumulate([], 4)) == []
    with pytest.raises(Misuse, match="windows of 1 or more, not 0"):
        trueloop.accumulate([], 0)


def _rank(number: int, port: Path, answers: Path) -> None:
    """One of two processes under DistributedDataParallel: the first has 1 and 2 valid tokens, the second 4 and 32."""
    dist.init_process_group("gloo", init_method=f"file://{port}", rank=number, world_size=2)
    torch.manual_seed(0)
    model = nn.Linear(8, 5)
    parallel = nn.parallel.DistributedDataParallel(model)
    batches = sequences(1, 2, 4, 32)
    (window,) = trueloop.accumulate(batches[2 * number : 2 * number + 2], 2, counted)
    for batch in window:
        (loss_sum(parallel, *batch) / window.targets).backward()  # type: ignore[no-untyped-call]
    if number == 0:
        torch.save(gradient(model), answers)
    dist.barrier()  # who leaves first takes the meeting place away
    os._exit(0)  # and who tears the group down while the other still talks may wait for ever


def test_two_processes_give_the_gradient_of_the_one_big_batch(tmp_path: Path) -> None:
    # Not forked: a process whose threads have run a backward cannot go on in a child.
    context = torch.multiprocessing.get_context("spawn")
    settings = [(number, tmp_path / "port", tmp_path / "answer.pt") for number in range(2)]
    ranks = [context.Process(target=_rank, args=each, daemon=True) for each in settings]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    assert [rank.exitcode for rank in ranks] == [0, 0]
    torch.manual_seed(0)
    model = nn.Linear(8, 5)
    batches = sequences(1, 2, 4, 32)
    (sum((loss_sum(model, *batch) for batch in batches), torch.zeros(())) / 39).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(torch.load(tmp_path / "answer.pt"), gradient(model))


# -- Checkpoints --


class Counting:
    """A loader with a position, as StatefulDataLoader has one: shuffled, endless."""

    def __init__(self) -> None:
        self.taken = 0

    def state_dict(self) -> dict[str, int]:
        return {"taken": self.taken}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.taken = state["taken"]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            draws = torch.Generator().manual_seed(self.taken)
            self.taken += 1
            yield torch.randn(16, 8, generator=draws), torch.randint(0, 3, (16,), generator=draws)


class Job:
    """A loop of one's own that draws from all random states: dropout, numpy and Python."""

    def __init__(self, store: Any, **more: Any) -> None:
        torch.manual_seed(0), np.random.seed(0), random.seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 1e-2, total_steps=30)
        self.loader = Counting()
        self.checkpoints = trueloop.Checkpoints(
            store, model=self.model, optimizer=self.optimizer, scheduler=self.scheduler, loader=self.loader, **more
        )

    def train(self, until: int, save_at: tuple[int, ...] = ()) -> Tensor:
        step = self.checkpoints.resume()
        for window in islice(trueloop.accumulate(self.loader, 2), until - step):
            for inputs, targets in window:
                inputs = inputs + float(np.random.normal()) + random.random()
                (F.cross_entropy(self.model(inputs), targets, reduction="sum") / window.targets).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.scheduler.step()
            step += 1
            if step in save_at:
                self.checkpoints.save(step)
        self.checkpoints.finish()
        return weights(self.model)


def test_a_loop_of_ones_own_resumes_with_the_same_bits(tmp_path: Path) -> None:
    undisturbed = Job(tmp_path / "a").train(20)
    Job(tmp_path / "b").train(13, save_at=(5, 11))
    assert torch.equal(Job(tmp_path / "b").train(20), undisturbed)


def test_saving_moves_nothing_in_the_training(tmp_path: Path) -> None:
    assert torch.equal(Job(tmp_path / "a").train(12, save_at=tuple(range(1, 12))), Job(tmp_path / "b").train(12))


def test_the_newest_whole_checkpoint_is_chosen_and_the_damaged_one_named(tmp_path: Path) -> None:
    undisturbed = Job(Memory()).train(20)
    Job(tmp_path).train(13, save_at=(5, 11))
    damaged = tmp_path / "step-00000011" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:100])
    job = Job(tmp_path)
    with pytest.warns(UserWarning, match=r"step-00000011/model.safetensors is damaged.*step-00000005 is valid"):
        assert job.checkpoints.resume() == 5
    with pytest.warns(UserWarning, match="damaged"):
        assert torch.equal(Job(tmp_path).train(20), undisturbed)


def test_a_folder_with_nothing_whole_is_refused_and_an_empty_one_begins_at_zero(tmp_path: Path) -> None:
    Job(tmp_path).train(3, save_at=(3,))
    (tmp_path / "step-00000003" / "manifest.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BadCheckpoint, match="There is no valid checkpoint"):
        Job(tmp_path).checkpoints.resume()
    assert Job(tmp_path / "new").checkpoints.resume() == 0


def test_values_come_back_beside_the_parts() -> None:
    store = Memory()
    checkpoints = trueloop.Checkpoints(store, model=nn.Linear(2, 2))
    checkpoints.save(7, epoch=3, curve=[0.5, 0.25])
    checkpoints.finish()
    again = trueloop.Checkpoints(store, model=nn.Linear(2, 2))
    assert again.resume() == 7
    assert again.values == {"epoch": 3, "curve": [0.5, 0.25]}


def test_the_last_ones_and_the_best_are_kept(tmp_path: Path) -> None:
    with trueloop.Checkpoints(tmp_path, keep=2, model=nn.Linear(2, 2)) as checkpoints:
        for step in range(1, 6):
            checkpoints.save(step, best=step == 2)
    assert checkpoints.store.names() == ["step-00000002", "step-00000004", "step-00000005"]
    assert checkpoints.store.best() == "step-00000002"


def test_other_parts_than_were_saved_are_refused_before_anything_is_loaded() -> None:
    store = Memory()
    with trueloop.Checkpoints(store, model=nn.Linear(2, 2), scaler=None) as checkpoints:
        checkpoints.save(1)
    model = nn.Linear(2, 2)
    before = weights(model)
    with pytest.raises(BadCheckpoint, match="model= is only there, net= is only here"):
        trueloop.Checkpoints(store, net=model).resume()
    assert torch.equal(weights(model), before)


def test_a_part_without_a_state_and_checkpoints_of_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"loader= is list, without state_dict\(\) and load_state_dict\(\)"):
        trueloop.Checkpoints(tmp_path, loader=[])  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="There is nothing to save"):
        trueloop.Checkpoints(tmp_path, scaler=None)


class Odd:
    """A state that only running code from the file could bring back."""

    def state_dict(self) -> dict[str, Any]:
        return {"path": Path("x")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError("never reached")


def test_what_could_not_be_read_back_is_refused_when_it_is_saved(tmp_path: Path) -> None:
    checkpoints = trueloop.Checkpoints(tmp_path, model=nn.Linear(2, 2), odd=Odd())
    with pytest.raises(CannotSave, match="which a checkpoint cannot hold"):
        checkpoints.save(1)
    assert checkpoints.store.names() == []


@pytest.mark.parametrize(
    "build",
    [
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3),
        lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 5]),
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8),
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step),
        lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1),
    ],
    ids=["step", "multistep", "cosine", "lambda", "plateau"],
)
def test_torchs_schedulers_go_on_where_they_were(build: Callable[[torch.optim.Optimizer], Any]) -> None:
    def made() -> tuple[torch.optim.Optimizer, Any, trueloop.Checkpoints]:
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        scheduler = build(optimizer)
        return optimizer, scheduler, trueloop.Checkpoints(store, model=model, optimizer=optimizer, scheduler=scheduler)

    def go_on(optimizer: torch.optim.Optimizer, scheduler: Any, steps: int) -> list[float]:
        rates = []
        for _ in range(steps):
            optimizer.step()
            scheduler.step(1.0) if isinstance(
                scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau
            ) else scheduler.step()
            rates.append(float(optimizer.param_groups[0]["lr"]))
        return rates

    store = Memory()
    optimizer, scheduler, checkpoints = made()
    go_on(optimizer, scheduler, 3)
    checkpoints.save(3)
    expected = go_on(optimizer, scheduler, 4)
    checkpoints.finish()
    optimizer, scheduler, checkpoints = made()
    checkpoints.resume()
    assert go_on(optimizer, scheduler, 4) == expected


def test_a_save_that_failed_is_heard_even_if_nobody_waits_for_it(tmp_path: Path) -> None:
    script = f"""
import torch, trueloop
from pathlib import Path
Path({str(tmp_path)!r}, "file").write_text("in the way")
checkpoints = trueloop.Checkpoints({str(tmp_path / "file")!r}, model=torch.nn.Linear(2, 2))
checkpoints.save(1)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "CannotSave" in ran.stderr


def test_a_save_that_failed_is_raised_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    checkpoints = trueloop.Checkpoints(tmp_path / "file", model=nn.Linear(2, 2))
    checkpoints.save(1)
    with pytest.raises(CannotSave, match="could not be written"):
        checkpoints.save(2)


class Extra(nn.Module):
    """Says more than tensors of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        self.weight = nn.Parameter(torch.zeros(2))
        self.tied = self.weight

    def get_extra_state(self) -> dict[str, int]:
        return {"seen": self.seen}

    def set_extra_state(self, state: Any) -> None:
        self.seen = state["seen"]


def test_tied_weights_and_extra_states_of_modules_come_back() -> None:
    store = Memory()
    model = Extra()
    model.seen = 5
    with torch.no_grad():
        model.weight.fill_(3.0)
    with trueloop.Checkpoints(store, model=model) as checkpoints:
        checkpoints.save(1)
    again = Extra()
    trueloop.Checkpoints(store, model=again).resume()
    assert again.seen == 5
    assert again.weight.tolist() == [3.0, 3.0]
    assert again.tied is again.weight


# -- Precision and Schedule --


def test_an_overflow_of_fp16_leaves_the_step_out() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    precision = trueloop.Precision("fp16", torch.device("cpu"))
    before = weights(model)
    for scale, taken in ((float("inf"), False), (1.0, True)):
        with precision.autocast():
            loss = model(torch.ones(1, 2)).sum() * scale
        precision.scaled(loss).backward()  # type: ignore[no-untyped-call]
        precision.unscale(optimizer)
        precision.step(optimizer)
        precision.learn()
        optimizer.zero_grad()
        assert torch.equal(weights(model), before) != taken
        assert bool(weights(model).isfinite().all())


def test_bf16_computes_in_bf16_and_steps_plainly() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    precision = trueloop.Precision("bf16", torch.device("cpu"))
    with precision.autocast():
        output = model(torch.ones(1, 2))
    assert output.dtype == torch.bfloat16
    before = weights(model)
    precision.scaled(output.float().sum()).backward()  # type: ignore[no-untyped-call]
    precision.step(optimizer)
    assert not torch.equal(weights(model), before)


def test_a_schedule_of_twenty_steps_reaches_its_end_in_twenty_steps() -> None:
    model = nn.Linear(2, 2)
    groups: list[dict[str, Any]] = [{"params": [model.weight]}, {"params": [model.bias], "lr_scale": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    rate = trueloop.Schedule("linear", lr=1.0, total=20, final=0.1)
    trueloop.set_rate(optimizer, rate(0))
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 0.5]
    trueloop.set_rate(optimizer, rate(20))
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.1, 0.05])


# -- the loop of a recipe --


def read(request: DataRequest) -> trueloop.Splits:
    draws = torch.Generator().manual_seed(0)
    return trueloop.Splits(
        train=trueloop.Tensors(torch.randn(96, 8, generator=draws), torch.randint(0, 3, (96,), generator=draws))
    )


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 3))


RECIPE = trueloop.Recipe(name="small", model=network, data=read, epochs=2, batch=16, device="cpu")


def test_a_loop_and_train_learn_the_same_bits(tmp_path: Path) -> None:
    loop = trueloop.Loop.of(RECIPE)
    assert loop.train().reason == "finished"
    assert torch.equal(weights(loop.parts.model), weights(trueloop.train(RECIPE, runs=tmp_path, hooks=()).model))


def test_a_loop_goes_on_from_where_it_stands() -> None:
    whole = trueloop.Loop.of(RECIPE)
    whole.train()
    parts = trueloop.Loop.of(RECIPE).parts
    halved = trueloop.Loop(replace(parts, total_steps=5))
    halved.train()
    trueloop.Loop(parts, state=halved.state).train()
    assert torch.equal(weights(parts.model), weights(whole.parts.model))


def test_a_loop_of_a_wrong_recipe_is_refused() -> None:
    with pytest.raises(BadRecipe, match="cannot be trained"):
        trueloop.Loop.of(trueloop.Recipe(name="wrong", model=network, data=read, batch=0, epochs=1))


FRAMES = """
import sys
from pathlib import Path
import torch
from torch import nn
import trueloop

depths = []

class Deep(nn.Linear):
    def forward(self, input):
        if self.training:
            frame, files = sys._getframe(1), []
            while frame is not None:
                files.append(Path(frame.f_code.co_filename))
                frame = frame.f_back
            depths.append(sum("trueloop" in file.parts for file in files))
        return super().forward(input)

def read(request):
    return trueloop.Splits(trueloop.Tensors(torch.randn(32, 8), torch.randint(0, 3, (32,))))

recipe = trueloop.Recipe(name="deep", model=lambda: Deep(8, 3), data=read, steps=1, batch=16, device="cpu", trackers=())
"""


def test_frames_from_train_and_from_the_command_line_to_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(FRAMES, str(tmp_path / "deep.py"), "exec"), names)
    trueloop.train(names["recipe"], runs=tmp_path / "runs", hooks=())
    assert names["depths"][-1] <= 3
    trueloop.Loop.of(names["recipe"]).train()
    assert names["depths"][-1] <= 2
    tell = 'import atexit\natexit.register(lambda: print("depths", depths))\n'
    (tmp_path / "deep.py").write_text(FRAMES + tell, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "from trueloop.cli.main import main; main(['train', 'deep.py'])"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    depth = int(done.stdout.split("depths [")[1].split("]")[0].split(",")[-1])
    assert 3 < depth <= 8, done.stderr


def test_every_public_name_is_there_and_none_loads_torch_before_it_is_used() -> None:
    code = (
        "import sys, trueloop; assert 'torch' not in sys.modules; trueloop.Recipe, trueloop.Hook; assert 'torch' not "
        "in sys.modules; "
        "[getattr(trueloop, name) for name in trueloop.__all__]; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_name_is_no_public_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Trainer'"):
        trueloop.Trainer  # noqa: B018


def test_a_forked_child_saves_and_its_parent_resumes(tmp_path: Path) -> None:
    """Another process, another memory: everything that counts is on the disk."""
    ended: list[float] = in_child(lambda: Job(tmp_path).train(9, save_at=(9,)).tolist())
    job = Job(tmp_path)
    assert job.checkpoints.resume() == 9
    assert weights(job.model).tolist() == ended
