"""What is sent in every form comes back as the model's answer, from a real server."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serve.made import Served, png, points, served


def number(told: Any, at: int = 0) -> int:
    found: int = told["predictions"][at]["number"]
    return found


def test_lists_of_numbers_are_answered_with_a_class_and_probabilities(pictures: Served) -> None:
    status, told = pictures.json({"input": points(250)})
    assert status == 200
    assert told["predictions"][0]["class"] == "light"
    assert sum(told["predictions"][0]["probabilities"].values()) == pytest.approx(1)


def test_many_samples_are_answered_in_their_order(pictures: Served) -> None:
    status, told = pictures.json({"inputs": [points(value) for value in (250, 0, 128, 250)]})
    assert status == 200
    assert [number(told, at) for at in range(4)] == [2, 0, 1, 2]


def test_whole_numbers_may_be_written_with_a_point(pictures: Served) -> None:
    assert pictures.json({"input": [[[250.0] * 4] * 3]})[0] == 200


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_picture_is_answered_as_its_points_are(pictures: Served, form: str, mode: str) -> None:
    status, told = pictures.ask(png(250, form=form, mode=mode), f"image/{form.lower()}")
    assert (status, number(told)) == (200, 2)


def test_a_picture_may_come_as_base64(pictures: Served) -> None:
    assert number(pictures.json({"input": {"base64": base64.b64encode(png(250)).decode()}})[1]) == 2


def test_raw_bytes_may_come_as_base64(pictures: Served) -> None:
    told = pictures.json({"input": {"base64": base64.b64encode(bytes([250] * 12)).decode(), "shape": [1, 3, 4]}})[1]
    assert number(told) == 2


def test_a_form_may_hold_several_pictures(pictures: Served) -> None:
    body = b"".join(
        b'--sep\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
        + png(value)
        + b"\r\n"
        for value in (250, 0)
    )
    status, told = pictures.ask(body + b"--sep--\r\n", "multipart/form-data; boundary=sep")
    assert status == 200
    assert [number(told, at) for at in range(2)] == [2, 0]


def test_a_picture_of_another_size_is_scaled_only_if_asked(pictures: Served) -> None:
    status, told = pictures.ask(png(250, (40, 50)), "image/png")
    assert status == 422
    assert told["error"] == "The image is 40 x 50 and the model takes 4 x 3: resize it, or add ?resize=true."
    assert number(pictures.ask(png(250, (40, 50)), "image/png", path="/predict?resize=true")[1]) == 2


@pytest.fixture(scope="module")
def letters() -> Iterator[Served]:
    with served("tokens") as server:
        yield server


def test_text_is_answered_as_json_as_numbers_and_as_plain_text(letters: Served) -> None:
    due = letters.json({"input": "to be"})[1]
    assert letters.json({"input": [ord(letter) for letter in "to be"]})[1] == due
    assert letters.ask(b"to be", "text/plain; charset=utf-8")[1] == due


def test_texts_of_several_lengths_may_come_together(letters: Served) -> None:
    together = letters.json({"inputs": ["to be", "or", "not to be", "ok"]})[1]["predictions"]
    assert together == [
        letters.json({"input": text})[1]["predictions"][0] for text in ("to be", "or", "not to be", "ok")
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "The text has shape [0]; the model takes [1..16] of int64."),
        ("x" * 17, "The text has shape [17]; the model takes [1..16] of int64."),
    ],
    ids=["empty", "too long"],
)
def test_text_that_does_not_fit_is_refused(letters: Served, text: str, why: str) -> None:
    assert letters.ask(text.encode(), "text/plain") == (422, {"error": why})


def test_text_that_is_no_utf8_is_refused(letters: Served) -> None:
    assert letters.ask(b"\xff\xfe", "text/plain") == (400, {"error": "The text is not UTF-8."})


def test_a_letter_that_is_none_is_still_no_failure(letters: Served) -> None:
    assert letters.ask(b'{"input": "\\ud800"}')[0] == 200


def test_a_token_outside_the_vocabulary_is_refused(letters: Served) -> None:
    assert letters.json({"input": [1, 256]}) == (422, {"error": "input holds a token outside 0 to 255."})


def test_answers_tell_browsers_to_run_nothing_else(pictures: Served) -> None:
    headers = pictures.reply(b"{}")[2]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "server" not in headers
