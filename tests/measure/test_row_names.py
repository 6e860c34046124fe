"""Files that name the rows of another one, and files that do not."""

import json
from pathlib import Path

import numpy
import pytest
import torch

from trueloop.measure.row_names import names_rows

NAMES = ["b", "a", "d", "c"]


def test_lists_and_mappings_name_rows(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(json.dumps(NAMES))
    (tmp_path / "index.json").write_text(json.dumps({"rows": {name: row for row, name in enumerate(NAMES)}}))
    (tmp_path / "names.txt").write_text("\n".join(NAMES) + "\n")
    (tmp_path / "table.csv").write_text("\n".join(["name,label", *(f"{name},1" for name in NAMES)]))
    numpy.savez(tmp_path / "bundle.npz", names=numpy.array(NAMES), values=numpy.zeros((4, 2)))
    numpy.save(tmp_path / "ids.npy", numpy.array([30, 10, 40, 20]))
    torch.save({"names": NAMES, "values": torch.zeros(4, 2)}, tmp_path / "bundle.pt")
    for path in tmp_path.iterdir():
        assert names_rows(str(path), 4), path.name
        assert not names_rows(str(path), 7), path.name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("counted.csv", "id,label\n0,1\n1,0\n2,1\n3,1\n"),
        ("twice.txt", "a\nb\na\nc\n"),
        ("labels.json", "[1, 0, 1, 1]"),
        ("broken.json", '["a", "b", '),
        ("not_an_array.npz", "abcd"),
    ],
)
def test_other_files_do_not(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert not names_rows(str(tmp_path / name), 4)


def test_a_file_that_is_gone_names_nothing(tmp_path: Path) -> None:
    assert not names_rows(str(tmp_path / "gone.txt"), 4)
