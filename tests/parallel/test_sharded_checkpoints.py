"""Checkpoints of runs that are spread over processes: any layout is read into any other, and all or nothing is
written."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, final

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tests.checkpoint.disks import fill, forbid_writing, limit_files, mount_small_disk, own_mounts
from tests.checkpoint.test_sharded import Attack
from tests.conftest import in_child
from tests.parallel.ranks import on_ranks
from trueloop.checkpoint.contents import TRAINING, Contents, newest_valid, read_contents, take_snapshot
from trueloop.checkpoint.layout import FullLayout
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.saver import Saver
from trueloop.checkpoint.sharded_contents import ShardedLayout, ShardedSnapshot, open_checkpoint, take_sharded_snapshot
from trueloop.checkpoint.store import MANIFEST, Folder, Store, Writer, seal_json, unseal_json
from trueloop.engine.checkpoints import Checkpoints
from trueloop.errors import BadCheckpoint, CannotSave
from trueloop.parallel.peers import find_peers

CPU = torch.device("cpu")
NAME = name_of(3)
LAYOUTS = ("alone", "ddp", "fsdp", "fsdp of 3", "tp")
"""How a model is spread over two processes, unless another number is named."""


class Net(nn.Module):
    """Rows that do not divide evenly, a bias of one number, statistics, and a state that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(5, 14), nn.BatchNorm1d(5), nn.Linear(14, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.down(torch.tanh(self.up(self.norm(inputs))))
        return answer

    def get_extra_state(self) -> dict[str, int]:
        return {"layers": 3}

    def set_extra_state(self, state: dict[str, int]) -> None:
        assert state == {"layers": 3}


def world_of(layout: str) -> int:
    return 1 if layout == "alone" else 3 if layout.endswith("3") else 2


def spread(layout: str) -> nn.Module:
    torch.manual_seed(0)
    net = Net()
    if layout.startswith("fsdp"):
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        fully_shard(net.up, mesh=mesh)
        fully_shard(net, mesh=mesh)
    elif layout == "tp":
        parallelize_module(net, init_device_mesh("cpu", (2,)), {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return net


def optimizer_of(net: nn.Module) -> torch.optim.Optimizer:
    # Weights in parts apart from whole ones: torch's kernels take no mixture. The order is the same in all layouts.
    groups = [list(net.get_submodule(name).parameters()) for name in ("up", "norm")]
    down = net.get_submodule("down")
    groups += [[down.get_parameter("weight")], [down.get_parameter("bias")]]
    return torch.optim.AdamW([{"params": group} for group in groups], lr=0.01, foreach=False)


def losses(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int, seed: int) -> list[float]:
    """Every process computes the whole batch: what it learns does not depend on the layout."""
    draws, told = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        inputs = torch.randn(8, 5, generator=draws)
        optimizer.zero_grad()
        loss = (net(inputs) ** 2).mean()
        loss.backward()
        optimizer.step()
        told.append(loss.item())
    return told


def about(step: int = 3) -> dict[str, Any]:
    return {"step": step, "best_step": None}


def states(net: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"model": net.state_dict()}, {"optimizer": optimizer.state_dict(), "state": {"step": 3}}


def snapshot(
    layout: str, net: nn.Module, optimizer: torch.optim.Optimizer, step: int = 3
) -> Contents | ShardedSnapshot:
    if layout in ("alone", "ddp"):
        return take_snapshot(about(step), *states(net, optimizer))
    return take_sharded_snapshot(about(step), *states(net, optimizer), dist.new_group(backend="gloo"))


def saved(layout: str, folder: Path) -> list[float]:
    """Three steps, a checkpoint, and the losses of the next three."""
    net = spread(layout)
    optimizer = optimizer_of(net)
    losses(net, optimizer, 3, 1)
    taken = snapshot(layout, net, optimizer)
    after = losses(net, optimizer, 3, 2)  # the training goes on before it is written
    if isinstance(taken, ShardedSnapshot) or layout == "alone" or dist.get_rank() == 0:
        taken.write(Folder(folder), NAME)
    return after


def loaded(layout: str, folder: Path) -> list[float]:
    """The losses of the three steps after the checkpoint."""
    net = spread(layout)
    optimizer = optimizer_of(net)
    losses(net, optimizer, 1, 9)  # whatever was there before must not matter
    form = FullLayout() if layout in ("alone", "ddp") else ShardedLayout(find_peers(CPU))
    opened = form.read(Folder(folder), NAME)
    opened.fill_model("model", net)
    opened.fill_optimizer(optimizer)
    assert opened.training["state"] == {"step": 3}
    return losses(net, optimizer, 3, 2)


def run(layout: str, work: Callable[[str, Path], Any], folder: Path) -> list[Any]:
    return (
        [in_child(lambda: work(layout, folder))]
        if layout == "alone"
        else on_ranks(lambda _: work(layout, folder), world_of(layout))
    )


Made = Callable[[str], tuple[Path, list[float]]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A checkpoint of a layout, and what came after it."""

    @cache
    def make(layout: str) -> tuple[Path, list[float]]:
        folder = tmp_path_factory.mktemp("made")
        return folder, run(layout, saved, folder)[0]

    return make


QUICK = {
    ("fsdp", "alone"),
    ("alone", "fsdp of 3"),
    ("fsdp", "fsdp of 3"),
    ("tp", "fsdp"),
    ("fsdp", "tp"),
    ("fsdp", "fsdp"),
}
PAIRS = [
    pytest.param(one, other, marks=() if (one, other) in QUICK else pytest.mark.long, id=f"{one} to {other}")
    for one in LAYOUTS
    for other in LAYOUTS
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_every_layout_is_read_into_every_other(made: Made, before: str, after: str) -> None:
    folder, expected = made(before)
    told = run(after, loaded, folder)
    for each in told:
        if before == after:
            assert each == expected, "the same bits"
        assert each == pytest.approx(expected, rel=1e-5)


def test_each_process_writes_its_own_part_and_what_all_have_is_written_once(made: Made) -> None:
    store = Folder(made("fsdp")[0])
    manifest = store.manifest(NAME)
    assert sorted(manifest["files"]) == [
        f"{group}-{rank}-of-2.safetensors" for group in ("model", "optimizer") for rank in (0, 1)
    ] + [TRAINING]
    assert manifest["pieces"]["model/up.weight"]["pieces"] == {
        "model-0-of-2.safetensors": "0+7 0+5",
        "model-1-of-2.safetensors": "7+7 0+5",
    }
    assert len(manifest["pieces"]["model/norm.running_mean"]["pieces"]) == 1
    assert {path.name for path in store.folder.iterdir()} == {NAME}, "nothing is left aside"


def test_one_process_puts_together_what_it_could_have_had_alone(made: Made) -> None:
    alone = read_contents(Folder(made("alone")[0]), NAME)
    for layout in ("fsdp", "tp"):
        contents = read_contents(Folder(made(layout)[0]), NAME)
        assert contents.state_of("model").keys() == alone.state_of("model").keys()
        assert contents.training.keys() == alone.training.keys()
        for name, value in alone.weights["model"].items():
            assert torch.allclose(contents.weights["model"][name], value, rtol=1e-5), name
        theirs, ours = (each.training["optimizer"] for each in (contents, alone))
        assert theirs["param_groups"] == ours["param_groups"]
        assert {key: set(state) for key, state in theirs["state"].items()} == {
            key: set(state) for key, state in ours["state"].items()
        }


# -- in the background --


def test_the_training_goes_on_while_all_write_and_old_ones_go(tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        told = list[tuple[int, str]]()
        saver = Saver(Folder(tmp_path), 2, lambda step, path: told.append((step, path)), find_peers(CPU).any)
        net = spread("fsdp")
        optimizer = optimizer_of(net)
        group = dist.new_group(backend="gloo")
        for step in range(1, 6):
            losses(net, optimizer, 1, step)
            saver.save(take_sharded_snapshot(about(step), *states(net, optimizer), group))
            losses(net, optimizer, 2, step)  # messages of the training and of the save are on their ways at once
            saver.check()
        saver.finish()
        return told, threading.active_count()

    (told, threads), other = on_ranks(work)
    assert [step for step, _ in told] == [1, 2, 3, 4, 5]
    assert (told, threads) == other
    assert Folder(tmp_path).names() == [name_of(4), name_of(5)]


def failing(folder: Path, work: Callable[[int], object]) -> list[Any]:
    """A good checkpoint, then one that fails after `work(rank)`: what each process is told, and what there is
    afterwards."""

    def rank_work(rank: int) -> Any:
        saver = Saver(Folder(folder), 5, any_failed=find_peers(CPU).any)
        net = spread("fsdp")
        optimizer = optimizer_of(net)
        losses(net, optimizer, 1, 1)
        group = dist.new_group(backend="gloo")
        saver.save(take_sharded_snapshot(about(1), *states(net, optimizer), group))
        saver.finish()
        dist.barrier()
        work(rank)
        dist.barrier()
        saver.save(take_sharded_snapshot(about(2), *states(net, optimizer), group))
        try:
            while True:  # as at each line of the log: all are told at the same look
                losses(net, optimizer, 1, 1)
                saver.check()
        except CannotSave as error:
            limit_files(None)
            return str(error), sorted(path.name for path in folder.glob("*"))

    return on_ranks(rank_work)


def test_a_disk_that_is_full_for_one_process_is_a_sentence_on_all(tmp_path: Path) -> None:
    told = failing(tmp_path, lambda rank: limit_files(100) if rank == 1 else None)
    (words, _), (other, _) = told
    assert words == other
    place = tmp_path / name_of(2)
    assert (
        words
        == f"The checkpoint {place} could not be written (process 1: File too large); {tmp_path / name_of(1)} is untouched."  # noqa: E501
    )
    assert [path.name for path in tmp_path.iterdir()] == [name_of(1)], "nothing is left aside"
    assert read_contents(Folder(tmp_path), name_of(1)).about["step"] == 1


def test_a_full_disk_is_a_sentence_and_the_one_before_is_whole(tmp_path: Path) -> None:
    def work() -> Any:
        disk = tmp_path / "disk"
        if not own_mounts() or not mount_small_disk(disk, 100_000):
            return None
        told = failing(disk / "checkpoints", lambda rank: fill(disk) if rank == 0 else None)
        return told, read_contents(Folder(disk / "checkpoints"), name_of(1)).about["step"]

    answer = in_child(work)
    if answer is None:
        pytest.skip("This user may not mount a small disk; the test before does without.")
    told, step = answer
    assert all("No space left on device" in words for words, _ in told)
    assert step == 1


def test_a_folder_that_is_gone_is_a_sentence_on_all_and_does_not_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoints"
    folder.mkdir(parents=True)
    told = failing(folder, lambda rank: shutil.rmtree(tmp_path / "run") if rank == 0 else None)
    assert told[0] == told[1]
    assert "process 0: No such file or directory" in told[0][0]
    assert "there is no earlier one" in told[0][0]
    assert not (tmp_path / "run").exists()


def test_a_read_only_folder_is_a_sentence_on_all(tmp_path: Path) -> None:
    def work() -> Any:
        if not own_mounts():
            return None
        folder = tmp_path / "checkpoints"
        folder.mkdir()
        # Each process of the run inherits the mounts of this one; the first checkpoint is written before.
        on_ranks(lambda _: saved("fsdp", folder))
        if not forbid_writing(folder):
            return None
        return on_ranks(lambda _: _refused(folder))

    answer = in_child(work)
    if answer is None:
        pytest.skip("This user may not mount a folder read-only.")
    assert answer[0] == answer[1]
    assert "Read-only file system" in answer[0]
    assert read_contents(Folder(tmp_path / "checkpoints"), NAME).about["step"] == 3


def _refused(folder: Path) -> str:
    try:
        saved("fsdp", folder)
    except CannotSave as error:
        return str(error)
    return "it was written"


def test_processes_that_do_not_see_one_folder_are_told_so(tmp_path: Path) -> None:
    def work(rank: int) -> str:
        return _refused(tmp_path / str(rank))

    first, second = on_ranks(work)
    assert (
        "process 1: No such file or directory; it does not see the folder: use a folder that all processes can write to"
        in first
    )
    assert "use a folder that all processes can write to" in second
    assert not list(tmp_path.glob("*/*"))


def test_a_tensor_in_parts_where_none_is_looked_for_is_refused_when_it_is_saved() -> None:
    def work(rank: int) -> str:
        net = spread("fsdp")
        models, training = states(net, optimizer_of(net))
        hidden = {**training, "guard": {"kept": [next(net.parameters()).detach()]}}
        try:
            take_sharded_snapshot(about(), models, hidden, dist.new_group(backend="gloo"))
        except CannotSave as error:
            return str(error)
        return ""

    assert on_ranks(work)[0].startswith("the run's guard['kept'][0] is sharded over processes (a DTensor)")


def test_weights_in_parts_in_a_loop_of_ones_own_are_refused_in_a_sentence(tmp_path: Path) -> None:
    def work(rank: int) -> str:
        with Checkpoints(tmp_path, model=spread("fsdp")) as checkpoints:
            if rank:
                checkpoints.save(1)
                return ""
            with pytest.raises(CannotSave) as refusal:
                checkpoints.save(1)
            return str(refusal.value)

    first, _ = on_ranks(work)
    assert first.startswith("the model's state['up.weight'] is sharded over processes (a DTensor)")
    assert "value.full_tensor()" in first


# -- damage, as several processes see it --


@pytest.fixture
def two(tmp_path: Path) -> Folder:
    """Two whole checkpoints of two processes."""
    folder = Folder(tmp_path / "checkpoints")
    on_ranks(lambda _: saved("fsdp", folder.folder))
    shutil.copytree(folder.folder / NAME, folder.folder / name_of(9))
    return folder


def seen(folder: Path) -> tuple[str | None, list[str]]:
    """What each process takes, and what it passes over."""
    peers, group = find_peers(CPU), dist.new_group(backend="gloo")
    name, opened, troubles = newest_valid(
        Folder(folder), lambda store, name: open_checkpoint(store, name, peers, group)
    )
    if opened is not None:
        opened.fill_model("model", spread("fsdp"))
    return name, troubles


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def later(path: Path) -> None:
    manifest = path.parent / MANIFEST
    manifest.write_bytes(seal_json({**unseal_json(manifest.read_bytes(), ""), "format": 3}))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "model-1-of-2.safetensors is missing"),
    "flipped": (flip, "model-1-of-2.safetensors is damaged: its contents do not match the hash"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "model-1-of-2.safetensors is damaged: "),
    "later": (later, "has format 3"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_that_one_process_finds_is_passed_over_by_all(two: Folder, damage: str) -> None:
    harm, words = DAMAGE[damage]
    harm(two.folder / name_of(9) / "model-1-of-2.safetensors")
    first, second = on_ranks(lambda _: seen(two.folder))
    assert first == second
    name, (trouble,) = first
    assert name == NAME
    assert words in trouble


def test_a_planted_pickle_is_refused_by_all_and_nothing_runs(two: Folder, tmp_path: Path) -> None:
    trace, place = tmp_path / "it-ran", two.folder / name_of(9)
    bomb = pickle.dumps(Attack(trace))
    (place / ".metadata").write_bytes(bomb)
    manifest = two.manifest(name_of(9))
    files = {file: _bytes(bomb if file == TRAINING else two.read(name_of(9), file)) for file in manifest["files"]}
    two.write(name_of(9), manifest, files)
    first, second = on_ranks(lambda _: seen(two.folder))
    assert first == second
    assert first[0] == NAME
    assert "not safe to read and was refused" in first[1][0]
    assert not trace.exists()


def _bytes(data: bytes) -> Any:
    return lambda out: out.write(data)


def test_a_pickle_planted_as_a_piece_with_a_manifest_that_vouches_for_it_is_refused(
    two: Folder, tmp_path: Path
) -> None:
    trace = tmp_path / "it-ran"
    manifest, piece = two.manifest(name_of(9)), "model-1-of-2.safetensors"
    bomb = pickle.dumps((Attack(trace), b"\0" * 400))
    two.write(
        name_of(9),
        manifest,
        {file: _bytes(bomb if file == piece else two.read(name_of(9), file)) for file in manifest["files"]},
    )

    def work(rank: int) -> str:
        opened = open_checkpoint(two, name_of(9), find_peers(CPU), dist.new_group(backend="gloo"))
        try:
            opened.fill_model("model", spread("fsdp"))
        except BadCheckpoint as error:
            return str(error)
        return ""

    first, second = on_ranks(work)
    assert f"{piece} is not a safetensors file" in first
    assert f"{piece} is not a safetensors file" in second
    assert not trace.exists()


def test_another_model_is_a_sentence_on_all(two: Folder) -> None:
    def work(rank: int) -> str:
        opened = open_checkpoint(two, NAME, find_peers(CPU), dist.new_group(backend="gloo"))
        said = []
        for name, net in (("model", nn.Linear(2, 2)), ("ema", spread("fsdp"))):
            try:
                opened.fill_model(name, net)
            except BadCheckpoint as error:
                said.append(str(error))
        return " ".join(said)

    first, second = on_ranks(work)
    assert first == second
    assert "holds no model/weight: it is of a different model. Nothing was loaded." in first
    assert "This checkpoint holds no 'ema', only model." in first


# -- death in the middle --


@final
class Dying(Store):
    """A folder that kills its process when it is asked to do one thing."""

    def __init__(self, inner: Folder, at: str) -> None:
        self.inner, self.at = inner, at

    def begin(self, name: str) -> None:
        self.inner.begin(name)

    def put(self, name: str, file: str, writer: Writer) -> dict[str, Any]:
        if self.at == "put" and file.startswith("optimizer"):  # the model's piece is written already
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner.put(name, file, writer)

    def seal(self, name: str, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> str:
        if self.at == "seal":
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner.seal(name, about, files)

    def abandon(self, name: str) -> None:
        self.inner.abandon(name)

    def names(self) -> list[str]:
        return self.inner.names()

    def manifest(self, name: str) -> dict[str, Any]:
        return self.inner.manifest(name)

    def read(self, name: str, file: str) -> bytes:
        return self.inner.read(name, file)

    def remove(self, name: str) -> None:
        self.inner.remove(name)

    def where(self, name: str) -> str:
        return self.inner.where(name)


@pytest.mark.parametrize(("victim", "at"), [(1, "put"), (0, "put"), (0, "seal")])
def test_a_process_that_dies_in_a_save_leaves_the_checkpoint_before_it(tmp_path: Path, victim: int, at: str) -> None:
    folder = Folder(tmp_path / "checkpoints")
    told = tmp_path / "told"

    def work(rank: int) -> None:
        net = spread("fsdp")
        optimizer = optimizer_of(net)
        losses(net, optimizer, 1, 1)
        form = ShardedLayout(find_peers(CPU))
        form.snapshot(about(3), {"model": net}, optimizer, {}).write(folder, NAME)
        saver = Saver(Dying(folder, at) if rank == victim else folder, 1, any_failed=form.any_failed)
        saver.save(form.snapshot(about(4), {"model": net}, optimizer, {}))
        try:
            saver.finish()
        except RuntimeError as error:
            told.write_text(str(error), encoding="utf-8")

    with pytest.raises(pytest.fail.Exception, match=r"the process died|onnection"):
        on_ranks(work)
    assert told.exists(), "whoever is left is told that a message has not come"
    assert folder.names() == [NAME]
    assert [path.name for path in folder.folder.glob(".*")] == [f".writing-{name_of(4)}"]
    folder.sweep()
    assert [path.name for path in folder.folder.iterdir()] == [NAME]
    assert on_ranks(lambda _: seen(folder.folder)) == [(NAME, []), (NAME, [])]


def test_weights_under_two_names_come_back_under_both() -> None:
    """Tied: each name can be read alone, by anybody."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
            self.head.weight = self.table.weight

        def forward(self, inputs: Tensor) -> Tensor:
            answer: Tensor = self.head(self.table(inputs))
            return answer

    def work(rank: int) -> Any:
        with tempfile.TemporaryDirectory() as place:
            where = find_peers(CPU).gather(place)[0]
            net, again, form = Tied(), Tied(), ShardedLayout(find_peers(CPU))
            for each in (net, again):
                find_peers(CPU).share(each.parameters())
                fully_shard(each, mesh=init_device_mesh("cpu", (2,)))
            optimizer = torch.optim.AdamW(net.parameters())
            form.snapshot(about(3), {"model": net}, optimizer, {}).write(Folder(Path(where)), NAME)
            form.read(Folder(Path(where)), NAME).fill_model("model", again)
            whole = read_contents(Folder(Path(where)), NAME).weights["model"]
            dist.barrier()
            same = torch.equal(whole["table.weight"], whole["head.weight"])
            return sorted(whole), same, again.head.weight is again.table.weight

    assert on_ranks(work) == [(["head.weight", "table.weight"], True, True)] * 2
