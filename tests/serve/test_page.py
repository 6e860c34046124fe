"""The two pages for people: what they show, what they cannot be made to show, and that they work in a real browser."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.serve.made import PATIENCE, Served, artifact, png, process, until_ready
from trueloop.report.page import STYLE
from trueloop.results.artifact import Port
from trueloop.serve.inputs import Inputs
from trueloop.serve.limits import Limits
from trueloop.serve.page import curl_lines, docs_page, python_lines, try_page


class Elements(HTMLParser):
    """What a page holds: tags, ids, and what stands in its fields."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: set[str] = set()
        self.field = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids |= {value for name, value in attributes if name == "id" and value}

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "textarea" and data.startswith("{"):
            self.field = data


def page_of(kind: str, *, key: bool = False) -> Elements:
    told = artifact(kind)
    return Elements(try_page(told, Inputs(told, Limits()), key=key))


def test_a_model_of_pictures_has_a_field_for_them() -> None:
    page = page_of("image")
    assert {"file", "resize", "json", "send", "answer"} <= page.ids
    assert "text" not in page.ids
    assert "key" not in page.ids


def test_a_model_of_text_has_a_field_for_it() -> None:
    page = page_of("tokens")
    assert {"text", "say"} <= page.ids
    assert "file" not in page.ids


def test_a_server_with_a_key_asks_for_it() -> None:
    assert "key" in page_of("table", key=True).ids


@pytest.mark.parametrize("kind", ["image", "tokens", "table", "tensors"])
def test_the_example_on_the_page_is_one_that_the_model_takes(kind: str) -> None:
    taker = Inputs(artifact(kind), Limits())
    assert len(taker.of_json(page_of(kind).field.encode())) == 1


@pytest.mark.parametrize("kind", ["image", "tokens", "table", "tensors"])
def test_the_lines_to_copy_ask_for_a_prediction(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both send what /predict takes, with the key."""
    made = artifact(kind)
    taker = Inputs(made, Limits())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY", "seven")
    Path("image.png").write_bytes(png())
    sent: list[urllib.request.Request] = []

    def answer(request: urllib.request.Request) -> io.StringIO:
        sent.append(request)
        return io.StringIO('{"predictions": []}')

    monkeypatch.setattr("urllib.request.urlopen", answer)
    exec(python_lines(made, taker, key=True), {})
    assert sent[0].headers["Authorization"] == "Bearer seven"
    assert isinstance(sent[0].data, bytes)
    words = shlex.split(curl_lines(made, taker, key=True))
    assert words[1] == sent[0].full_url
    assert f"Content-Type: {sent[0].headers['Content-type']}" in words
    assert "Authorization: Bearer $KEY" in words
    if kind == "image":
        assert "@image.png" in words
        taker.of_picture(sent[0].data, resize=True)
    else:
        asked = words[words.index("-d") + 1].encode()
        assert json.loads(asked) == json.loads(sent[0].data)
        assert len(taker.of_json(asked)) == 1


def test_the_page_shows_what_the_model_saw(pictures: Served) -> None:
    status, told = pictures.ask(png(200, (8, 6)), "image/png", path="/preview?resize=true")
    assert status == 200
    assert told == {
        "inputs": [{"name": "input", "dtype": "uint8", "shape": [1, 3, 4], "values": [200] * 12}],
        "highest": 255,
    }
    assert pictures.ask(b"{", path="/preview")[0] == 400
    assert pictures.get("/preview")[0] == 405


def test_a_name_is_shown_and_not_run() -> None:
    told = artifact(name="<script>alert(1)</script>", inputs=(Port("<b>", "uint8", (None, 1, 3, 4)),), task="<i>")
    page = try_page(told, Inputs(told, Limits()), key=False)
    assert "<script>alert" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    described = docs_page(
        {"info": {"title": "<script>"}, "paths": {"/<b>": {"get": {"responses": {"200": {"description": "<i>"}}}}}}
    )
    assert not {"script", "b", "i"} & set(Elements(described).tags)


def test_the_page_of_what_can_be_asked_shows_every_path_and_status(pictures: Served) -> None:
    page = pictures.get("/docs")[1]
    document = pictures.get("/openapi.json")[1]
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            assert f"<h2>{method.upper()} {path}</h2>" in page
            for status in told["responses"]:
                assert f"<td>{status}" in page


@pytest.mark.long
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium here")
def test_the_button_asks_and_the_answer_is_shown_in_a_real_browser() -> None:
    code = (
        "import sys; import trueloop.serve.page as page; page.SCRIPT += \"at('send').click();\"; "
        "from tests.serve.made import child; child(sys.argv[1])"
    )
    with process(
        [sys.executable, "-c", code, json.dumps({"kind": "image", "model": "shade", "limits": {}})]
    ) as started:
        assert started.stdout is not None
        server = Served(int(started.stdout.readline()), started)
        until_ready(server)
        words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
        shown = subprocess.run(
            [*words, f"http://127.0.0.1:{server.port}/"], capture_output=True, text=True, timeout=PATIENCE * 4
        ).stdout
    assert "<td>dark</td>" in shown
    assert '"class": "dark"' in shown
    assert "What the model saw:" in shown
    assert "<canvas" in shown
    assert f"curl 'http://127.0.0.1:{server.port}/predict?resize=true'" in shown
    assert " ms</p>" in shown


def test_samples_are_offered_only_where_the_server_has_them(pictures: Served) -> None:
    told = artifact("image")
    assert "samples" in Elements(try_page(told, Inputs(told, Limits()), key=False, samples=True)).ids
    assert "samples" not in page_of("image").ids
    assert pictures.get("/samples") == (200, {"samples": [], "why": ""})


def test_both_pages_have_the_style_sheet_of_all_pages() -> None:
    sheet = STYLE.read_text(encoding="utf-8")
    made = artifact("image")
    for page in (try_page(made, Inputs(made, Limits()), key=True), docs_page({"info": {"title": "mine"}, "paths": {}})):
        assert page.count("<style>") == 1
        assert sheet in page
        assert set(re.findall(r"var\((--[a-z0-9]+)\)", page)) <= set(re.findall(r"(--[a-z0-9]+):", sheet))
