"""Both forms of a checkpoint in one process: what either writes, either reads, and what does not fit is refused in a
sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from tests.parallel.one import world_of_one
from trueloop.checkpoint.contents import Contents
from trueloop.checkpoint.layout import CheckpointReader, FullLayout, FullReader, Layout
from trueloop.checkpoint.layout_choice import layout_for
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.saver import Saver
from trueloop.checkpoint.sharded import is_sharded, read_piece_table
from trueloop.checkpoint.sharded_contents import ShardedLayout, ShardedReader, ShardedSnapshot, _reduce_partial
from trueloop.checkpoint.store import Folder, Memory, Store
from trueloop.errors import BadCheckpoint, CannotSave
from trueloop.parallel.peers import Alone
from trueloop.parallel.strategy import Single, Strategy

NAME = name_of(10)
ABOUT = {"step": 10, "best_step": None}


@pytest.fixture(scope="module", autouse=True)
def _world() -> Iterator[None]:
    with world_of_one():
        yield


class Net(nn.Module):
    """A weight, a scalar, an empty tensor, a buffer of whole numbers, and something that no safetensors file holds."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0).reshape(3, 2) * scale)
        self.gain = nn.Parameter(torch.tensor(scale))
        self.none = nn.Parameter(torch.zeros(0, 4))
        self.register_buffer("count", torch.tensor(7))
        self.said = f"scale {scale}"

    def get_extra_state(self) -> str:
        return self.said

    def set_extra_state(self, state: Any) -> None:
        self.said = state

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs @ self.weight).sum() * self.gain


def trained(scale: float = 1.0, steps: int = 2) -> tuple[Net, torch.optim.AdamW]:
    net = Net(scale)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01 * scale)
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.ones(1, 3)).backward()
        optimizer.step()
    return net, optimizer


def pieces() -> ShardedLayout:
    return ShardedLayout(Alone())


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def written(store: Store, form: Layout, net: nn.Module, optimizer: torch.optim.Optimizer, **models: nn.Module) -> None:
    snapshot = form.snapshot(
        ABOUT, {"model": net, **models}, optimizer, {"state": {"step": 10}, "draws": torch.arange(3)}
    )
    assert snapshot is not None
    assert snapshot.write(store, NAME) == store.where(NAME)


FORMS: dict[str, Callable[[], Layout]] = {"whole": FullLayout, "pieces": pieces}


@pytest.mark.parametrize("writing", FORMS)
@pytest.mark.parametrize("reading", FORMS)
def test_what_either_writes_either_reads_to_the_last_bit(tmp_path: Path, writing: str, reading: str) -> None:
    store = Folder(tmp_path / "checkpoints")
    net, optimizer = trained()
    written(store, FORMS[writing](), net, optimizer, ema=Net(3.0))
    assert is_sharded(store.manifest(NAME)) is (writing == "pieces")
    found = FORMS[reading]().read(store, NAME)
    assert sorted(found.models) == ["ema", "model"]
    assert found.training["state"] == {"step": 10}
    assert torch.equal(found.training["draws"], torch.arange(3))
    assert found.about["step"] == 10
    other, others = trained(5.0, steps=1)
    found.fill_model("model", other)
    found.fill_optimizer(others)
    assert same(dict(other.state_dict()), dict(net.state_dict()))
    assert same(others.state_dict(), optimizer.state_dict())
    found.fill_model("ema", other)
    assert other.said == "scale 3.0"
    assert other.gain.item() == 3.0


@pytest.mark.parametrize("reading", FORMS)
def test_a_model_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path, reading: str) -> None:
    store = Folder(tmp_path)
    written(store, pieces(), *trained())
    with pytest.raises(BadCheckpoint, match=r"holds no 'ema', only model\. Nothing was loaded\."):
        FORMS[reading]().read(store, NAME).fill_model("ema", Net())


def test_a_model_with_a_weight_more_is_of_another_run(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    written(store, pieces(), *trained())
    other = Net()
    other.more = nn.Parameter(torch.zeros(1))
    with pytest.raises(BadCheckpoint, match=r"holds no model/more: it is of a different model\. Nothing was loaded\."):
        pieces().read(store, NAME).fill_model("model", other)


def test_a_weight_of_another_size_is_a_sentence_too(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    written(store, pieces(), *trained())
    other = Net()
    other.weight = nn.Parameter(torch.zeros(5, 2))
    with pytest.raises(BadCheckpoint, match="could not be loaded on process 0"):
        pieces().read(store, NAME).fill_model("model", other)


def test_a_snapshot_in_pieces_does_not_change_while_the_training_goes_on(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    net, optimizer = trained()
    taken = pieces().snapshot(ABOUT, {"model": net}, optimizer, {})
    before = float(net.gain.detach())
    with torch.no_grad():
        net.gain.fill_(99.0)
        optimizer.state[net.gain]["exp_avg"].fill_(99.0)
    taken.write(store, NAME)
    back, others = trained(2.0)
    found = FullLayout().read(store, NAME)
    found.fill_model("model", back)
    found.fill_optimizer(others)
    assert back.gain.item() == before
    assert float(others.state[back.gain]["exp_avg"]) != 99.0


def test_every_tensor_is_listed_under_its_group_with_its_shape_and_type(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    written(store, pieces(), *trained())
    told = read_piece_table(store.manifest(NAME), "here")
    assert {key: (spread.dtype, spread.shape) for key, spread in told.items() if key.startswith("model/")} == {
        "model/weight": ("float32", (3, 2)),
        "model/gain": ("float32", ()),
        "model/none": ("float32", (0, 4)),
        "model/count": ("int64", ()),
    }
    assert {piece.file for spread in told.values() for piece in spread.pieces} <= {
        "model-0-of-1.safetensors",
        "optimizer-0-of-1.safetensors",
    }
    assert any(key.startswith("optimizer/0.exp_avg") for key in told)


def test_a_parameter_in_parts_is_filled_in_parts(tmp_path: Path) -> None:
    mesh = init_device_mesh("cpu", (1,))
    store = Folder(tmp_path)
    net, optimizer = trained()
    written(store, pieces(), net, optimizer)
    other = Net(4.0)
    other.weight = nn.Parameter(distribute_tensor(torch.zeros(3, 2), mesh, [Shard(0)]))
    others = torch.optim.AdamW([other.weight, other.gain, other.none], lr=1.0, foreach=False)
    found = pieces().read(store, NAME)
    found.fill_model("model", other)
    found.fill_optimizer(others)
    assert isinstance(other.weight, DTensor)
    assert torch.equal(other.weight.full_tensor(), net.weight)
    moment = others.state[other.weight]["exp_avg"]
    assert isinstance(moment, DTensor)
    assert moment.placements == (Shard(0),)
    assert torch.equal(moment.full_tensor(), optimizer.state[net.weight]["exp_avg"])


def test_a_sum_that_has_not_been_made_is_made_before_it_is_cut() -> None:
    mesh = init_device_mesh("cpu", (1,))
    pending = DTensor.from_local(torch.ones(3), mesh, [Partial()], run_check=False)
    made = _reduce_partial(pending)
    assert isinstance(made, DTensor)
    assert made.placements == (Replicate(),)
    split = distribute_tensor(torch.ones(3), mesh, [Shard(0)])
    assert _reduce_partial(split) is split
    plain = torch.ones(3)
    assert _reduce_partial(plain) is plain


# -- which form --


@final
class InParts(Strategy):
    """A strategy whose processes hold parts."""

    name, in_parts = "parts", True

    def __init__(self, *, rank: int = 0) -> None:
        self.peers = self.sharers = Alone()
        self.peers.rank = rank

    def micros(self, micros: Any, samples: int) -> Any:
        return micros

    def add_up(self, losses: Any, parameters: Any) -> Tensor:
        return torch.zeros(())


def test_pieces_are_for_processes_that_hold_parts_and_share_a_folder(tmp_path: Path) -> None:
    assert isinstance(layout_for(Single(), Folder(tmp_path)), FullLayout)
    assert isinstance(layout_for(InParts(), Memory()), FullLayout)
    assert isinstance(layout_for(InParts(), Folder(tmp_path)), ShardedLayout)
    assert FullLayout().any_failed is None
    assert pieces().any_failed(True) is True


def test_only_the_first_process_writes_the_whole() -> None:
    net, optimizer = trained()
    assert FullLayout(InParts(rank=1)).snapshot(ABOUT, {"model": net}, optimizer, {}) is None
    assert isinstance(FullLayout(InParts(rank=0)).snapshot(ABOUT, {"model": net}, optimizer, {}), Contents)


def test_pieces_that_lie_in_the_memory_of_others_cannot_be_read() -> None:
    store = Memory()
    written(store, pieces(), *trained())
    with pytest.raises(
        BadCheckpoint, match="is in the memory of several processes, which cannot read each other's pieces"
    ):
        pieces().read(store, NAME)


def test_a_checkpoint_that_is_not_there_is_missing_for_both(tmp_path: Path) -> None:
    for form in (FullLayout(), pieces()):
        with pytest.raises(BadCheckpoint, match="is missing"):
            form.read(Folder(tmp_path), NAME)


def test_readings_are_of_one_kind(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    written(store, FullLayout(), *trained())
    assert isinstance(FullLayout().read(store, NAME), FullReader)
    assert isinstance(pieces().read(store, NAME), ShardedReader)
    assert all(isinstance(form.read(store, NAME), CheckpointReader) for form in (FullLayout(), pieces()))


# -- a disk that refuses --


def test_a_disk_that_is_full_leaves_nothing_half_written_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Folder(tmp_path / "checkpoints")
    net, optimizer = trained()
    written(store, pieces(), net, optimizer)

    def full(*_: Any) -> dict[str, Any]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Folder, "put", full)
    later = pieces().snapshot({"step": 20, "best_step": None}, {"model": net}, optimizer, {})
    with pytest.raises(
        CannotSave,
        match=rf"step-00000020 could not be written \(process 0: No space left on device\); .*{NAME} is untouched",
    ):
        later.write(store, name_of(20))
    assert [path.name for path in store.folder.iterdir()] == [NAME]


def test_what_is_superfluous_goes_after_a_save_in_pieces(tmp_path: Path) -> None:
    store, told = Folder(tmp_path / "checkpoints"), list[tuple[int, str]]()
    saver = Saver(store, 1, lambda step, where: told.append((step, where)), pieces().any_failed)
    net, optimizer = trained()
    form = pieces()
    for step, best in ((10, 10), (20, 10), (30, 10)):
        snapshot = form.snapshot({"step": step, "best_step": best}, {"model": net}, optimizer, {})
        assert isinstance(snapshot, ShardedSnapshot)
        assert snapshot.first
        saver.save(snapshot)
    saver.finish()
    assert store.names() == [name_of(10), name_of(30)]
    assert told == [(step, store.where(name_of(step))) for step in (10, 20, 30)]
