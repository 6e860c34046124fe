"""torchdata's StatefulDataLoader and Hugging Face datasets: killed with SIGKILL in the middle of an epoch,
bit-identical; and what their own states leave out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tests.session.killed import assert_survives
from trueloop.data.accept import as_splits
from trueloop.engine.loader_state import gives_ready_batches
from trueloop.engine.loader_stream import LoaderStream, as_stream
from trueloop.errors import BadData
from trueloop.recipe.recipe import Recipe

datasets = pytest.importorskip("datasets")
torchdata = pytest.importorskip("torchdata.stateful_dataloader")
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated", "ignore:.*fork")

BATCHES, SAMPLES = 12, 30


class Noisy(torch.utils.data.Dataset[Any]):
    """Draws for each sample."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> Any:
        return number + random.random(), torch.rand(1)


class Drawn(IterableDataset[Any]):
    """Draws as it reads, without a state."""

    def __iter__(self) -> Iterator[Any]:
        for number in range(SAMPLES):
            yield number + random.random(), torch.rand(1)


class Placed(IterableDataset[Any]):
    """With a state, at the start again when it is over."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[Any]:
        while self.at < SAMPLES:
            self.at += 1
            yield float(self.at), torch.ones(1)
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def rows() -> Any:
    return datasets.Dataset.from_dict({"x": list(range(SAMPLES))})


def streamed() -> Any:
    return rows().to_iterable_dataset(num_shards=3)


def buffered() -> Any:
    return streamed().shuffle(seed=1, buffer_size=10).map(dict)


def plain() -> Any:
    return TensorDataset(torch.arange(SAMPLES))


def stateful(dataset: Any, workers: int = 0, **options: Any) -> Any:
    return torchdata.StatefulDataLoader(dataset, batch_size=8, num_workers=workers, **options)


def shuffled(dataset: Any, workers: int = 0, **options: Any) -> Any:
    return stateful(dataset, workers, shuffle=True, **options)


def own() -> torch.Generator:
    return torch.Generator().manual_seed(3)


STATE, DRAWS, BUFFER, WITHOUT = "is in every", "workers draw random numbers, which", "with a shuffle buffer", "without"
LOADERS: dict[str, tuple[Any, str]] = {
    "shuffled": (lambda: shuffled(plain()), STATE),
    "own generator": (lambda: shuffled(plain(), generator=own()), STATE),
    "draws here": (lambda: shuffled(Noisy()), STATE),
    "workers": (lambda: shuffled(plain(), 2, persistent_workers=True, snapshot_every_n_steps=3), STATE),
    "workers draw": (lambda: shuffled(Noisy(), 2, generator=own()), DRAWS),
    "persistent workers draw": (lambda: shuffled(Noisy(), 1, persistent_workers=True), DRAWS),
    "iterable": (lambda: stateful(Drawn()), WITHOUT),
    "iterable with a state": (lambda: stateful(Placed()), STATE),
    "iterable with a state in a worker": (
        lambda: stateful(Placed(), 1),
        "Random numbers that its workers draw are not",
    ),
    "streamed": (streamed, STATE),
    "streamed by workers": (lambda: stateful(streamed(), 2), "Random numbers that its workers draw are not"),
    "streamed in batches": (lambda: streamed().batch(8), STATE),
    "streamed in batches of tensors": (lambda: streamed().with_format("torch").batch(8), STATE),
    "streamed in shuffled batches": (lambda: streamed().batch(8).shuffle(seed=1, buffer_size=2), BUFFER),
    "shuffle buffer": (buffered, BUFFER),
    "shuffle buffer in a loader": (lambda: DataLoader(buffered(), batch_size=8), BUFFER),
    "shuffle buffer in a stateful loader": (lambda: stateful(buffered()), BUFFER),
    "shuffle buffer in workers": (lambda: stateful(buffered(), 2), BUFFER),
}


def opened(make: Any) -> LoaderStream:
    random.seed()
    torch.seed()
    stream = as_stream(make(), Recipe("mine", model=None, data=None, batch=8), train=True)  # type: ignore[arg-type]
    assert isinstance(stream, LoaderStream)
    return stream


def read(stream: LoaderStream, count: int) -> list[str]:
    return [str(stream.next()) for _ in range(count)]


@pytest.mark.parametrize("kind", LOADERS)
def test_a_stream_continues_where_it_was(kind: str) -> None:
    make, said = LOADERS[kind]
    stream = opened(make)
    assert said in stream.note
    states, batches = [stream.state_dict()], []
    for _ in range(BATCHES):
        batches += read(stream, 1)
        states.append(stream.state_dict())
    stream.close()
    for place in (2, 4, 5, 7, 8):  # in an epoch, at its end, with a worker that has ended
        resumed = opened(make)
        resumed.load_state_dict(states[place])
        resumed.state_dict()  # as the engine does before its first step
        assert read(resumed, BATCHES - place) == batches[place:], place
        resumed.close()


@pytest.mark.parametrize("stream", [streamed().batch(8), streamed().with_format("torch").batch(8).take(3)])
def test_ready_batches_are_taken_as_they_are(stream: Any) -> None:
    taken = opened(lambda: stream)
    batch = taken.next()
    assert batch["x"].tolist() == list(range(8))
    assert not gives_ready_batches(streamed().map(dict, batched=True))


def ragged() -> Any:
    return datasets.Dataset.from_dict({"x": [[1.0] * (3 + i % 2) for i in range(16)]}).to_iterable_dataset()


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (lambda: ragged().batch(8), r"'x' of a batch has rows of 3 and of 4 values. Pad them before `.batch\(\)`"),
        (ragged, "'x' of sample 0 of a batch is \\[3\\], of sample 1 of a batch \\[4\\]. Pad them in the tokenizer"),
    ],
)
def test_rows_of_different_lengths_are_one_sentence(stream: Any, sentence: str) -> None:
    with pytest.raises(BadData, match=sentence):
        opened(stream).next()


def test_a_dataset_dict_is_data_by_the_names_of_its_splits() -> None:
    splits = {"train": rows(), "validation": rows().select(range(4)), "test": rows().select(range(5)), "other": rows()}
    taken = as_splits(datasets.DatasetDict(splits), lambda *_: None)
    assert [len(each) for each in (taken.train, taken.valid, taken.test) if each is not None] == [SAMPLES, 4, 5]
    with pytest.raises(BadData, match=r"a DatasetDict of first. Nothing was trained: there is no 'train'.*\['first'\]"):
        as_splits(datasets.DatasetDict(first=rows()), lambda *_: None)
    with pytest.raises(BadData, match=r"name the split to validate on, as in .*\['validation_matched'\]"):
        as_splits(datasets.DatasetDict(train=rows(), validation_matched=rows()), lambda *_: None)


@pytest.mark.parametrize("dataset", [plain, Placed])
def test_a_different_number_of_workers_is_one_sentence(dataset: Any) -> None:
    stream = opened(lambda: stateful(dataset(), 1))
    read(stream, 2)
    state = stream.state_dict()
    stream.close()
    with pytest.raises(BadData, match=r"read by 0 workers now, and was by 1 when .* Nothing was run: use 1 again"):
        opened(lambda: stateful(dataset(), 0)).load_state_dict(state)


RECIPE = """
import random
import datasets, torch
from torch import nn
from torchdata.stateful_dataloader import StatefulDataLoader
from trueloop import Recipe

inputs = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
rows = datasets.Dataset.from_dict({"x": inputs.tolist(), "labels": (inputs[:, 0] > 0).long().tolist()})

class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, number):
        return inputs[number] + 0.1 * torch.randn(4) + random.random(), int(inputs[number, 0] > 0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 2))
    def forward(self, x):
        return self.layers(x)

def recipe(kind: str = "rows") -> Recipe:
    def data(request):
        valid = rows.select(range(20))
        if kind == "rows":
            return rows, valid
        if kind == "buffer":
            return rows.to_iterable_dataset(num_shards=2).shuffle(seed=1, buffer_size=20), valid
        if kind == "workers":
            return StatefulDataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=1)
        return StatefulDataLoader(Noisy(), batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(3))
    return Recipe("mine", model=Net, data=data, batch=8, steps=21, epochs=None, save_every=1, log_every=1, lr=0.01,
                  evaluate_every=7, device="cpu", trackers=())
"""


@pytest.mark.parametrize(
    "kind", ["buffer", "stateful", *(pytest.param(each, marks=pytest.mark.long) for each in ("rows", "workers"))]
)
def test_a_killed_run_is_bit_identical(kind: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RECIPE, encoding="utf-8")
    assert_survives(tmp_path, "mine.py", (4, 13), "--set", f"kind={kind}")
