"""Everything that a stranger can send: it is refused with one sentence, nothing of it is kept, and the server goes on
as before."""

from __future__ import annotations

import base64
import json
import socket
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serve.made import PATIENCE, Served, png, points, served


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is huge."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )


def comment_bomb() -> bytes:
    """A PNG with a comment that becomes 100 MB."""
    whole = png()
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(b"a" * 100_000_000, 9))
    return whole[:33] + text[:90_000] + whole[33:]


def coded(data: bytes, **more: Any) -> dict[str, Any]:
    return {"input": {"base64": base64.b64encode(data).decode(), **more}}


JSON: dict[str, tuple[bytes, int, str]] = {
    "nothing": (b"", 400, "The body is not JSON"),
    "no JSON": (b"hello", 400, "The body is not JSON"),
    "half of it": (json.dumps({"input": points()}).encode()[:20], 400, "The body is not JSON"),
    "not UTF-8": (b'{"input": "\xff"}', 400, "The body is not UTF-8."),
    "UTF-16": ('{"input": 1}'.encode("utf-16"), 400, "The body is not UTF-8."),
    "lists without end": (b'{"input": ' + b"[" * 50_000, 400, "The JSON is nested too deeply."),
    "objects without end": (b'{"a":' * 15_000, 400, "The JSON is nested too deeply."),
    "nested deeply, and closed": (b'{"input": ' + b"[" * 900 + b"]" * 900 + b"}", 422, "input "),
    "a number of many digits": (b'{"input": [[[' + b"9" * 50_000 + b"]]]}", 400, "The body is not JSON"),
    "NaN": (b'{"input": [[[NaN, 1, 1, 1]]]}', 422, "The JSON holds NaN"),
    "infinite": (b'{"input": [[[-Infinity, 1, 1, 1]]]}', 422, "The JSON holds -Infinity"),
    "a list": (b"[1]", 422, "The JSON must be"),
    "null": (b"null", 422, "The JSON must be"),
    "another key": (b'{"data": 1}', 422, "The JSON must be"),
    "a key too many": (b'{"input": 1, "inputs": [1]}', 422, "The JSON must be"),
    "no samples": (b'{"inputs": []}', 422, "inputs must be a list of 1 to 16 samples."),
    "too many samples": (
        json.dumps({"inputs": [points()] * 17}).encode(),
        422,
        "inputs must be a list of 1 to 16 samples.",
    ),
    "one of them wrong": (json.dumps({"inputs": [points(), [1]]}).encode(), 422, "inputs[1] "),
}
VALUES: dict[str, tuple[Any, str]] = {
    "a number": (3, "input is 3, and this model takes [1, 3, 4] of uint8."),
    "true": (True, "input is true,"),
    "text": ("hello", "input is a string, and this model takes numbers."),
    "an object": ({"a": 1}, "input is an object, and this model takes [1, 3, 4] of uint8."),
    "too few dimensions": ([1, 2, 3], "input is ragged or has too few dimensions"),
    "too many dimensions": ([points()], "input holds a value that is not a number, or has too many dimensions"),
    "uneven": ([[[1, 2, 3, 4], [1, 2, 3], [1, 2, 3, 4]]], "input is ragged"),
    "another size": ([[[1] * 5] * 3], "input has shape [1, 3, 5]; the model takes [1, 3, 4] of uint8."),
    "empty": ([[[]]], "input has shape [1, 1, 0]"),
    "texts among numbers": ([[["1", 2, 3, 4]] * 3], "input holds a value that is not a number"),
    "a long text among numbers": ([[["a" * 30_000, 2, 3, 4]] * 2], "input holds a value that is not a number"),
    "true among numbers": ([[[True, 2, 3, 4]] * 3], "input holds a value that is not a number"),
    "null among numbers": ([[[None, 2, 3, 4]] * 3], "input holds a value that is not a number"),
    "below": (
        [[[-1] * 4] * 3],
        "input is out of range: the model takes integers from 0 to 255.",
    ),
    "above": ([[[256] * 4] * 3], "input is out of range"),
    "far above": ([[[10**300] * 4] * 3], "input is out of range"),
    "broken numbers": ([[[1.5] * 4] * 3], "input holds 1.5, and the model takes integers."),
    "far above, with a point": ([[[1e300] * 4] * 3], "input is out of range"),
    "no base64": ({"base64": "!!"}, "input.base64 is not valid base64."),
    "base64 that is no text": ({"base64": 3}, "input is an object"),
    "base64 of no picture": ({"base64": "aGVsbG8="}, "The image cannot be read"),
    "base64 with more": (
        {"base64": "aGVsbG8=", "dtype": "object"},
        'input must be {"base64": "...", "shape": [sizes]}',
    ),
    "bytes that do not fit the shape": (
        {"base64": "aGVsbG8=", "shape": [1, 3, 4]},
        "input has 5 bytes; uint8 of shape [1, 3, 4] has 12",
    ),
    "a negative shape": ({"base64": "aGVsbG8=", "shape": [-1, -5]}, 'input must be {"base64"'),
    "a huge shape": ({"base64": "aGVsbG8=", "shape": [2**31 - 1] * 60}, 'input must be {"base64"'),
}
PICTURES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "cannot be read"),
    "text": (b"hello", "cannot be read"),
    "cut off": (png()[:-20], "cannot be read"),
    "a wrong sum": (png()[:40] + b"\0\0" + png()[42:], "cannot be read"),
    "another format": (png(form="GIF"), "cannot be read"),
    "a huge one": (bomb(100_000, 100_000), "The image has more than 10,000 pixels, the limit of this server."),
    "one of more than it decodes": (bomb(200, 200), "The image has more than"),
    "a comment that becomes 100 MB": (comment_bomb(), "cannot be read"),
}


@pytest.mark.parametrize("name", JSON)
def test_json_that_is_wrong_is_refused(pictures: Served, name: str) -> None:
    body, due, why = JSON[name]
    status, told = pictures.ask(body)
    assert (status, list(told)) == (due, ["error"])
    assert told["error"].startswith(why)
    assert "\n" not in told["error"]


@pytest.mark.parametrize("name", VALUES)
def test_a_sample_that_is_wrong_is_refused(pictures: Served, name: str) -> None:
    value, why = VALUES[name]
    status, told = pictures.json({"input": value})
    assert status == 422
    assert told["error"].startswith(why)
    assert len(told["error"]) < 700


def test_a_number_that_is_too_large_for_a_float_is_not_finite(pictures: Served) -> None:
    assert pictures.ask(b'{"input": [[[1e999, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]]}')[0] == 422


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_that_is_wrong_is_refused(pictures: Served, name: str) -> None:
    data, why = PICTURES[name]
    status, told = pictures.ask(data, "image/png")
    assert status == 422
    assert why in told["error"]


FORMS: dict[str, tuple[bytes, str, int]] = {
    "no boundary": (b"hello", "multipart/form-data", 400),
    "rubbish": (b"hello", "multipart/form-data; boundary=sep", 400),
    "a field": (
        b'--sep\r\nContent-Disposition: form-data; name="a"\r\n\r\nhello\r\n--sep--\r\n',
        "multipart/form-data; boundary=sep",
        400,
    ),
    "no file": (b"--sep--\r\n", "multipart/form-data; boundary=sep", 422),
    "a file that is no picture": (
        b'--sep\r\nContent-Disposition: form-data; name="a"; filename="../../etc/passwd"\r\n\r\nhello\r\n--sep--\r\n',
        "multipart/form-data; boundary=sep",
        422,
    ),
    "many files": (
        b'--sep\r\nContent-Disposition: form-data; name="a"; filename="a"\r\n\r\n\r\n' * 50 + b"--sep--\r\n",
        "multipart/form-data; boundary=sep",
        400,
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_that_is_wrong_is_refused(pictures: Served, name: str) -> None:
    body, kind, due = FORMS[name]
    status, told = pictures.ask(body, kind)
    assert (status, list(told)) == (due, ["error"])


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-pickle", "image/gif", "application/octet-stream", "a" * 5_000]
)
def test_another_content_type_is_refused_with_those_that_are_taken(pictures: Served, kind: str) -> None:
    status, told = pictures.ask(b"x", kind)
    assert status == 415
    assert "this model accepts application/json, image/png, image/jpeg, multipart/form-data" in told["error"]


def test_resize_is_true_or_false(pictures: Served) -> None:
    assert pictures.ask(png(), "image/png", path="/predict?resize=perhaps") == (
        422,
        {"error": "resize must be true or false."},
    )


# -- how much, how slowly --


def head(*lines: str) -> bytes:
    return "\r\n".join(("POST /predict HTTP/1.1", "Host: a", "Content-Type: application/json", *lines, "", "")).encode()


def status_of(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1]) if reply else 0


def test_a_body_that_says_it_is_too_large_is_refused_though_it_never_comes(pictures: Served) -> None:
    assert status_of(pictures.raw(head("Content-Length: 100000000") + b"[1,")) == 413


def test_who_asks_before_sending_too_much_is_told_at_once(pictures: Served) -> None:
    reply = pictures.raw(head("Content-Length: 100000000", "Expect: 100-continue"))
    assert status_of(reply) == 413
    assert b"100 Continue" not in reply


def test_a_large_body_is_told_why_it_is_refused(pictures: Served) -> None:
    status, told = pictures.ask(b"1," * 5_000_000)
    assert status == 413
    assert told == {"error": "The request is larger than the limit of 100,000 bytes."}


def test_a_body_in_pieces_is_counted_as_it_comes(pictures: Served) -> None:
    piece = b"10000\r\n" + b"1" * 0x10000 + b"\r\n"
    assert status_of(pictures.raw(head("Transfer-Encoding: chunked") + piece * 20 + b"0\r\n\r\n")) == 413


def test_who_sends_slowly_is_told_that_it_took_too_long(pictures: Served) -> None:
    reply = pictures.raw(head("Content-Length: 100") + b"[1,")
    assert status_of(reply) == 408
    assert b"The request was not sent within 2 seconds." in reply


@pytest.mark.parametrize("data", [b"", b"POST /predict HTTP/1.1\r\nHost: a\r\nX-"], ids=["silent", "half a header"])
def test_who_sends_no_request_is_hung_up_on(pictures: Served, data: bytes) -> None:
    assert pictures.raw(data) == b""


def test_who_goes_in_the_middle_is_forgotten(pictures: Served) -> None:
    with socket.create_connection(("127.0.0.1", pictures.port), timeout=PATIENCE) as door:
        door.sendall(head("Content-Length: 100") + b"[1,")
    assert pictures.json({"input": points()})[0] == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        head("Content-Length: -5"),
        head("Content-Length: 5", "Content-Length: 6") + b"hello",
        head("Content-Length: five") + b"hello",
        head("Transfer-Encoding: chunked") + b"zz\r\nhello\r\n",
        head("Transfer-Encoding: gzip") + b"hello",
        head("Connection: close", "X-A: " + "a" * 100_000),
        head("Connection: close", *(f"X-{number}: {'a' * 90}" for number in range(1_000))),
        b"POST /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=[
        "TLS",
        "negative",
        "two lengths",
        "no length",
        "no chunk",
        "no such coding",
        "a long header",
        "many headers",
        "no ascii",
    ],
)
def test_what_is_no_http_is_refused(pictures: Served, data: bytes) -> None:
    assert status_of(pictures.raw(data)) in (0, 400, 431, 501)


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/predict/", "//predict", "/%00", "/static/x", "/a" * 2_000],
)
def test_no_path_leads_anywhere_else(pictures: Served, path: str) -> None:
    status, told = pictures.get(path)
    assert (status, list(told)) == (404, ["error"])


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/predict"), ("DELETE", "/predict"), ("POST", "/health"), ("PUT", "/metrics")]
)
def test_another_method_is_refused_with_those_that_there_are(pictures: Served, method: str, path: str) -> None:
    status, told, headers = pictures.reply(method=method, path=path, kind="")
    assert (status, told["error"]) == (405, f"Method Not Allowed: this path accepts {headers['allow']}.")


def test_a_websocket_is_not_opened(pictures: Served) -> None:
    asked = (
        b"GET /predict HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: "
        b"websocket\r\nSec-WebSocket-Key: a\r\n\r\n"
    )
    assert status_of(pictures.raw(asked)) == 405


def test_two_questions_in_one_breath_are_both_answered(pictures: Served) -> None:
    body = json.dumps({"input": points()}).encode()
    one = head(f"Content-Length: {len(body)}") + body
    last = head(f"Content-Length: {len(body)}", "Connection: close") + body
    assert pictures.raw(one + last).count(b'"class": "light"') == 2
    wished = head(f"Content-Length: {len(body)}", "Connection: Upgrade", "Upgrade: h2c") + body
    assert status_of(pictures.raw(one + wished)) == 200


def test_rubbish_after_a_whole_question_does_not_harm_its_answer(pictures: Served) -> None:
    body = json.dumps({"input": points()}).encode()
    reply = pictures.raw(head(f"Content-Length: {len(body)}") + body + b"1,1,1" * 20_000)
    assert status_of(reply) == 200
    assert reply.count(b"HTTP/1.1") == 1
    assert b"connection: close" in reply.lower()


def test_another_protocol_that_is_wished_for_is_not_spoken(pictures: Served) -> None:
    body = json.dumps({"input": points()}).encode()
    reply = pictures.raw(head(f"Content-Length: {len(body)}", "Connection: Upgrade, close", "Upgrade: h2c") + body)
    assert status_of(reply) == 200


@pytest.mark.parametrize(
    "data",
    [
        head()[:-4] + b"\r\nX-A: " + b"a" * 200_000,
        head("Transfer-Encoding: chunked") + b"1\r\n1\r\n0\r\n" + b"X-A: aaaaaaaaaaaaaa\r\n" * 20_000,
        head("Transfer-Encoding: chunked") + b"1;" + b"a" * 200_000,
    ],
    ids=["headers", "after the body", "beside a piece"],
)
def test_headers_without_an_end_are_not_read_to_it(pictures: Served, data: bytes) -> None:
    assert status_of(pictures.raw(data)) in (0, 400, 431)


def test_after_all_that_nothing_has_failed_and_answers_are_right(pictures: Served) -> None:
    """Last in this file: the same server has taken it all."""
    status, told = pictures.json({"input": points(250)})
    assert (status, told["predictions"][0]["class"]) == (200, "light")
    counts = pictures.get("/metrics")[1]
    assert 'status="5' not in counts
    assert 'path="other",status="404"' in counts
    assert "etc" not in counts


# -- what only some models refuse --


@pytest.fixture(scope="module")
def rows() -> Iterator[Served]:
    with served("table", model="infinite") as server:
        yield server


def test_a_row_is_refused_by_the_names_of_its_columns(rows: Served) -> None:
    told = {
        "missing": ({"length": 1.0}, "input has no column 'colour'."),
        "unknown": (
            {"length": 1.0, "colour": "red", "lenght": 1},
            "input has an unknown column 'lenght'. Did you mean length?",
        ),
        "no number": ({"length": "1", "colour": "red"}, "input.length must be a number from "),
        "true": ({"length": True, "colour": "red"}, "input.length must be a number from "),
        "no text": ({"length": 1, "colour": 3}, "input.colour must be a string."),
        "far too large": ({"length": 10**400, "colour": "red"}, "input.length must be a number from "),
        "too large": ({"length": 1e300, "colour": "red"}, "input.length must be a number from "),
    }
    for name, (row, why) in told.items():
        status, answer = rows.json({"input": row})
        assert status == 422, name
        assert answer["error"].startswith(why), name
    assert rows.ask(b'{"input": {"\\ud800": 1}}')[0] == 422


def test_an_answer_that_is_not_finite_is_refused_and_not_sent(rows: Served) -> None:
    status, told = rows.json({"input": {"length": 3.0, "colour": "green"}})
    assert status == 422
    assert told["error"].startswith("The model's output for this input is NaN or Inf")
