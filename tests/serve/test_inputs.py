"""What callers send, as arrays: by the port's shape and type, by the columns of a table, by the encoding of a text."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.serve.made import IMAGE, PORTS, TABLE, TEXT, artifact, png
from trueloop.errors import BadArtifact
from trueloop.results.artifact import Port
from trueloop.serve.inputs import Inputs, encoding_of, picture, row_of
from trueloop.serve.limits import Limits, Refused


def inputs(kind: str = "image", **fields: Any) -> Inputs:
    return Inputs(artifact(kind, **fields), Limits())


def one(taker: Inputs, value: Any) -> Any:
    (sample,) = taker.of_json(json.dumps({"input": value}).encode())
    return sample


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_numbers_are_of_the_port_s_own_type(dtype: str) -> None:
    taker = inputs("tensors", inputs=(Port("input", dtype, (None, 3)),))
    (found,) = one(taker, [1, 2, 3])
    assert found.dtype == np.dtype(dtype)
    assert found.tolist() == [1, 2, 3]


def test_whole_numbers_of_64_bits_are_exact() -> None:
    taker = inputs("tensors", inputs=(Port("input", "int64", (None, 2)),))
    assert one(taker, [2**53 + 1, -(2**63)])[0].tolist() == [2**53 + 1, -(2**63)]
    for beyond in (2**63, -(2**63) - 1, 2**64, 10**30):
        with pytest.raises(Refused, match="out of range"):
            one(taker, [beyond, 0])


def test_a_number_that_is_too_large_for_the_port_is_refused() -> None:
    taker = inputs("tensors", inputs=(Port("input", "float32", (None, 2)),))
    with pytest.raises(Refused, match=r"the model takes numbers from -3\.40.*e\+38 to"):
        one(taker, [1e39, 0])
    with pytest.raises(Refused, match="out of range"):
        one(taker, [10**400, 0])


def test_raw_bytes_are_read_with_the_lowest_byte_first_and_judged_too() -> None:
    taker = inputs("tensors", inputs=(Port("input", "float32", (None, 2)),))
    sent = {"base64": base64.b64encode(np.array([1.5, -2], "<f4").tobytes()).decode(), "shape": [2]}
    assert one(taker, sent)[0].tolist() == [1.5, -2]
    sent["base64"] = base64.b64encode(np.array([1.5, np.nan], "<f4").tobytes()).decode()
    with pytest.raises(Refused, match="NaN or Inf"):
        one(taker, sent)


def test_a_model_with_several_inputs_wants_each_by_its_name() -> None:
    taker = inputs("tensors")
    left, right = one(taker, {"left": [1, 2], "right": [3]})
    assert (left.dtype, left.tolist(), right.dtype, right.tolist()) == (np.float32, [1, 2], np.int64, [3])
    for wrong in ({"left": [1, 2]}, [1, 2], {"left": [1, 2], "right": [3], "more": [1]}):
        with pytest.raises(Refused, match="input must be an object with left, right and nothing else"):
            one(taker, wrong)


# -- tables --


def test_a_row_becomes_what_training_made_of_such_rows() -> None:
    found = row_of({"length": 10, "colour": "red"}, TABLE["columns"], PORTS["table"][0], "input")
    assert found.tolist() == [2.0, 0.0, 1.0, 0.0]
    assert row_of({"length": 2, "colour": "green"}, TABLE["columns"], PORTS["table"][0], "input").tolist() == [
        0.0,
        0.0,
        0.0,
        1.0,
    ]


def test_a_row_may_have_a_number_for_each_category() -> None:
    port = Port("input", "float32", (None, 2))
    assert row_of({"length": 2, "colour": "red"}, TABLE["columns"], port, "input").tolist() == [0.0, 1.0]


def test_a_row_is_the_same_as_the_table_s_own(tmp_path: Any) -> None:
    import torch

    from trueloop.data.table import read_table

    lines = [
        "size,colour,kind",
        *(f"{number},{'red' if number % 3 else 'blue'},{'a' if number % 2 else 'b'}" for number in range(40)),
    ]
    (tmp_path / "table.csv").write_text("\n".join(lines), encoding="utf-8")
    splits = read_table(tmp_path / "table.csv", "kind")[1]
    columns = splits.facts.more["columns"]
    mean, spread = columns[0]["mean"], columns[0]["spread"]
    batch = splits.train.fetch(torch.arange(5)).inputs
    for row in batch:
        size = round(float(row[0]) * spread + mean)
        again = row_of(
            {"size": size, "colour": "red" if size % 3 else "blue"},
            columns,
            Port("input", "float32", (None, len(row))),
            "input",
        )
        assert again == pytest.approx(row.numpy(), abs=1e-6)


# -- text --


def test_words_have_the_numbers_that_they_were_learned_with() -> None:
    from trueloop.data.text import Vocabulary

    known = Vocabulary.of(["a good film", "a bad film"], buckets=8)
    encode = encoding_of({"kind": "tokens", **known.plain()})
    assert encode is not None
    assert encode("a GOOD thing") == known.row("a good thing")


def test_letters_of_a_vocabulary_are_numbered_and_others_refused() -> None:
    taker = inputs("tokens", preprocessing={**TEXT, "encoding": "tokens", "tokens": 3, "vocabulary": ["a", "b", "c"]})
    assert one(taker, "abca")[0].tolist() == [0, 1, 2, 0]
    with pytest.raises(Refused, match="outside 0 to 2"):
        one(taker, "abx")


def test_an_encoding_that_is_not_known_takes_numbers_only() -> None:
    taker = inputs("tokens", preprocessing={**TEXT, "encoding": "tokens", "vocabulary": ["whole", "words"]})
    with pytest.raises(Refused, match="is a string, and this model takes numbers"):
        one(taker, "whole words")
    assert one(taker, [1, 0])[0].tolist() == [1, 0]


def test_a_damaged_encoding_is_refused_before_anything_is_served() -> None:
    with pytest.raises(BadArtifact, match="text encoding is damaged"):
        encoding_of({"kind": "tokens", "encoding": "words", "words": 3})


# -- pictures --


def test_the_channels_are_those_of_the_model() -> None:
    told = {**IMAGE, "channels": 3}
    file = io.BytesIO()
    Image.new("RGB", (4, 3), (10, 20, 30)).save(file, "PNG")
    found = picture(file.getvalue(), told, pixels=100, resize=False)
    assert found.shape == (3, 3, 4)
    assert found[:, 0, 0].tolist() == [10, 20, 30]


def test_a_picture_is_scaled_to_the_range_of_raw_values_if_that_is_narrow() -> None:
    assert picture(png(255), {**IMAGE, "range": [0, 16]}, pixels=100, resize=False).max() == 16
    assert picture(png(255), {**IMAGE, "range": [0, 254]}, pixels=100, resize=False).max() == 255


def test_a_photograph_that_was_taken_sideways_is_turned() -> None:
    file = io.BytesIO()
    shot = Image.new("L", (3, 4))
    exif = shot.getexif()
    exif[0x0112] = 6
    shot.save(file, "JPEG", exif=exif)
    assert picture(file.getvalue(), IMAGE, pixels=100, resize=False).shape == (1, 3, 4)


def test_a_model_that_does_not_prepare_pictures_itself_takes_none() -> None:
    taker = inputs(preprocessing={**IMAGE, "inside": False})
    assert not taker.takes_pictures
    with pytest.raises(Refused, match="does not accept images"):
        taker.of_picture(png(), resize=False)


def test_reading_requests_loads_no_torch() -> None:
    """It would double the memory of a server whose model runs in another runtime."""
    code = "import sys, trueloop.serve.app, trueloop.serve.inputs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
