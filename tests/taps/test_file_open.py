"""Which files the user's code opens, through `open`, pathlib or NumPy; and nothing is left behind."""

from __future__ import annotations

import builtins
import io
import pickle
from pathlib import Path

import numpy
import pytest

from tests.conftest import in_child
from trueloop.doctor.examine import examine
from trueloop.doctor.launch import find_script
from trueloop.doctor.watch import Watch
from trueloop.taps.calls import FileOpened

SCRIPT = """
import csv
import pathlib
import numpy as np
import torch

with open("words.csv") as file:
    list(csv.reader(file))
pathlib.Path("config.json").read_text()
np.load("rows.npy")
np.loadtxt("table.csv", delimiter=",")
with open("out.log", "w") as file:
    file.write("done")
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
weight.sum().backward()
optimizer.step()
"""


def test_every_way_to_open_a_file_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "words.csv").write_text("a,b\n")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "table.csv").write_text("1,2\n3,4\n")
    numpy.save(tmp_path / "rows.npy", numpy.zeros(3))
    monkeypatch.chdir(tmp_path)

    def work() -> bytes:
        before = builtins.open, io.open, numpy.loadtxt
        seen: list[FileOpened] = []
        watch = Watch(script="train.py", select=())
        publish = watch._bus.publish

        def hear(topic: str, call: object) -> None:
            if isinstance(call, FileOpened):
                seen.append(call)
            publish(topic, call)

        monkeypatch.setattr(watch._bus, "publish", hear)
        verdict, error = examine(find_script("train.py", ()), watch)
        assert error is None
        assert not verdict.failures
        assert (builtins.open, io.open, numpy.loadtxt) == before
        return pickle.dumps([(Path(call.path).name, call.writing, call.place.line) for call in seen])

    opened = pickle.loads(in_child(work))
    assert opened == [
        ("words.csv", False, 7),
        ("config.json", False, 9),
        ("rows.npy", False, 10),
        ("table.csv", False, 11),
        ("out.log", True, 12),
    ]
