"""OpenAI's completions: what is asked for, pieces of text, and a server that is asked over HTTP."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serve.made import PATIENCE, Served, process, until_ready
from trueloop.serve.completions import TextPieces, completion_of
from trueloop.serve.limits import Limits, Refused
from trueloop.serve.text_streams import FakeTextModel


def read(**told: Any) -> Any:
    return completion_of(json.dumps({"prompt": "abc", **told}).encode(), FakeTextModel(), "letters")


def test_defaults_are_those_of_openai() -> None:
    asked = read(seed=7)
    stream = asked.stream
    assert (stream.prompt, stream.most, stream.temperature, stream.top_p, stream.top_k, stream.seed) == (
        (97, 98, 99), 16, 1.0, None, None, 7,
    )  # fmt: skip
    assert (asked.stops, asked.streamed, asked.usage) == ((), False, False)
    assert read().stream.seed != read().stream.seed


def test_everything_that_is_asked_for_is_kept() -> None:
    asked = read(prompt=[1, 2], max_tokens=3, temperature=0, top_p=0.5, top_k=4, stop="x", stream=True, model="letters",
                 user="me", n=1, stream_options={"include_usage": True})  # fmt: skip
    stream = asked.stream
    assert (stream.prompt, stream.most, stream.temperature, stream.top_p, stream.top_k) == ((1, 2), 3, 0, 0.5, 4)
    assert (asked.stops, asked.streamed, asked.usage) == (("x",), True, True)
    assert read(prompt=["ab"]).stream.prompt == read(prompt=[[97, 98]]).stream.prompt == (97, 98)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"n": 2}, "n is not supported"),
        ({"logprobs": 3}, "logprobs is not supported"),
        ({"echo": True}, "echo is not supported"),
        ({"presence_penalty": 0.5}, "presence_penalty is not supported"),
        ({"model": "gpt-4"}, "There is no model 'gpt-4' here: it is 'letters'"),
        ({"prompt": ""}, "The prompt has 0 tokens"),
        ({"prompt": "a" * 64}, "it must have 1 to 63"),
        ({"prompt": ["a", "b"]}, "one text, or one list of tokens"),
        ({"prompt": [1, -2]}, "one text, or one list of tokens"),
        ({"prompt": [256]}, "The prompt holds the token 256; the model knows 0 to 255"),
        ({"prompt": None}, "one text, or one list of tokens"),
        ({"max_tokens": 62}, "a context of 64 tokens, and 3 tokens of the prompt and max_tokens 62 are more"),
        ({"max_tokens": 0}, "max_tokens must be an integer from 1 to 64"),
        ({"max_tokens": True}, "max_tokens must be an integer"),
        ({"temperature": -1}, "temperature must be a number from 0 to 100"),
        ({"top_p": 2}, "top_p must be a number"),
        ({"stop": [""]}, "stop must be a text or a list of up to 4 texts"),
        ({"stop": list("abcde")}, "stop must be"),
    ],
)
def test_a_request_that_is_wrong_is_refused(told: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as refused:
        read(**told)
    assert why in refused.value.sentence


def pieces(tokens: bytes, *stops: str) -> tuple[list[str], bool]:
    text = TextPieces(FakeTextModel(), stops)
    found = []
    for token in tokens:
        found.append(text.add(token))
        if text.stopped:
            break
    return [*found, text.rest()], text.stopped


def test_half_a_character_is_held_back() -> None:
    assert pieces("aä€".encode()) == (["a", "", "ä", "", "", "€", ""], False)
    assert pieces(b"a\xe2\x82") == (["a", "", "", "\ufffd"], False)


def test_a_stop_sequence_ends_the_text_and_is_not_in_it() -> None:
    assert pieces(b"one. two", ". ") == (["", "o", "n", "e", "", ""], True)
    assert pieces(b"one.", ". ") == (["", "o", "n", "e", "."], False)


# -- a server --


def child() -> None:
    """The process of the server."""
    from trueloop.serve.server import listen, run
    from trueloop.serve.text_service import TextService

    door = listen("127.0.0.1", 0)
    print(door.getsockname()[1], flush=True)
    run(TextService(FakeTextModel, "letters", Limits(batch=4, queue=8)), door, lambda line: print(line, flush=True))


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    code = "from tests.serve.test_completions import child; child()"
    with process([sys.executable, "-c", code]) as started:
        assert started.stdout is not None
        made = Served(int(started.stdout.readline()), started)
        until_ready(made)
        yield made
        assert made.end() == 0


def complete(server: Served, **told: Any) -> tuple[int, Any]:
    return server.ask(json.dumps(told).encode(), path="/v1/completions")


def test_a_completion_is_answered_whole(server: Served) -> None:
    status, told = complete(server, prompt="a", max_tokens=3)
    assert status == 200
    assert told["id"].startswith("cmpl-")
    assert {name: told[name] for name in ("object", "model", "choices", "usage")} == {
        "object": "text_completion",
        "model": "letters",
        "choices": [{"text": "bcd", "index": 0, "logprobs": None, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4},
    }
    assert complete(server, prompt="a", max_tokens=20, stop="ef")[1]["choices"][0] == {
        "text": "bcd", "index": 0, "logprobs": None, "finish_reason": "stop",
    }  # fmt: skip
    assert complete(server, prompt="{", max_tokens=20)[1]["choices"][0]["finish_reason"] == "stop"


def events(server: Served, **told: Any) -> tuple[str, list[str]]:
    """The content type and the data of the events."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("POST", "/v1/completions", json.dumps(told), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert text.endswith("\n\n")
    return answer.headers.get_content_type(), [each.removeprefix("data: ") for each in text.split("\n\n")[:-1]]


def test_a_streamed_completion_comes_as_events(server: Served) -> None:
    asked = {"prompt": "a", "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}}
    kind, found = events(server, **asked)
    assert (kind, found[-1]) == ("text/event-stream", "[DONE]")
    told = [json.loads(each) for each in found[:-1]]
    assert [each["choices"][0]["text"] for each in told[:-1]] == ["b", "c", "d", "e"]
    assert [each["choices"][0]["finish_reason"] for each in told[:-1]] == [None, None, None, "length"]
    assert len({each["id"] for each in told}) == 1
    assert told[-1]["usage"]["completion_tokens"] == 4


def test_many_texts_at_once_are_each_their_own(server: Served) -> None:
    found: dict[str, str] = {}

    def ask(letter: str) -> None:
        found[letter] = complete(server, prompt=letter, max_tokens=5)[1]["choices"][0]["text"]

    threads = [threading.Thread(target=ask, args=(letter,)) for letter in "ABCDEFGHIJ"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {letter: "".join(chr(ord(letter) + 1 + number) for number in range(5)) for letter in "ABCDEFGHIJ"}


def test_errors_are_statuses_before_the_first_token(server: Served) -> None:
    assert complete(server, prompt="a", max_tokens=999)[0] == 400
    assert complete(server, prompt=[255], max_tokens=2, stream=True) == (
        500,
        {"error": "The model failed; see the server's log."},
    )
    assert server.get("/v1/completions")[0] == 405
    assert server.get("/nothing")[0] == 404


def test_its_models_and_its_metrics(server: Served) -> None:
    status, told = server.get("/v1/models")
    assert (status, told["data"][0]["id"], told["data"][0]["object"]) == (200, "letters", "model")
    complete(server, prompt="a", max_tokens=2)
    counts = server.get("/metrics")[1]
    assert 'trueloop_requests_total{path="/v1/completions",status="200"}' in counts
    assert "trueloop_tokens_total " in counts
