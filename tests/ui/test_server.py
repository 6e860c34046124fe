"""The server answers this machine only, reads only, and sends a policy that allows nothing from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.ui.conftest import Client
from tests.ui.folders import make_run
from trueloop.ui.page_list import PAGES
from trueloop.ui.server import STATIC, import_map, listen


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(client: Client, tmp_path: Path, method: str) -> None:
    answer = client(tmp_path).request(method, "/api/runs")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "192.168.0.1", ""]
)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/app.js", "/api/live"])
def test_a_foreign_host_is_refused(client: Client, tmp_path: Path, host: str, path: str) -> None:
    answer = client(tmp_path).get(path, headers={"host": host})
    assert answer.status_code == 400
    assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8770", "localhost", "localhost:1"])
def test_this_machine_is_answered(client: Client, tmp_path: Path, host: str) -> None:
    assert client(tmp_path).get("/", headers={"host": host}).status_code == 200


def test_every_answer_carries_the_policy(client: Client, tmp_path: Path) -> None:
    for path in ("/", "/api/runs", "/api/run?run=none", "/static/app.js", "/static/none", "/none"):
        headers = client(tmp_path).get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_our_files_name_no_other_host() -> None:
    for file in STATIC.rglob("*"):
        if file.is_file():
            addresses = re.findall(r"https?://[^\s\"']+", file.read_text())
            assert set(addresses) <= {"http://www.w3.org/2000/svg"}, file


def test_our_files_make_no_markup_from_strings() -> None:
    wrong = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc")
    for file in STATIC.rglob("*.js"):
        assert not wrong.search(file.read_text()), file


@pytest.mark.parametrize(
    "name", ["../server.py", "..%2fserver.py", "%2e%2e/server.py", "/etc/passwd", "pages/../../server.py", "pages"]
)
def test_only_listed_files_are_served(client: Client, tmp_path: Path, name: str) -> None:
    assert client(tmp_path).get(f"/static/{name}").status_code == 404


def test_plotly_comes_out_of_its_wheel(client: Client, tmp_path: Path) -> None:
    answer = client(tmp_path).get("/static/plotly.min.js")
    assert answer.status_code == 200
    assert b"plotly.js v" in answer.content[:200]


def test_every_page_has_data_and_a_module(client: Client, tmp_path: Path) -> None:
    make_run(tmp_path, "a")
    make_run(tmp_path, "b")
    listed = client(tmp_path).get("/api/pages").json()["pages"]
    assert [page["name"] for page in listed] == [page.name for page in PAGES]
    for page in PAGES:
        assert client(tmp_path).get(f"/api/{page.name}?run=a&run=b").status_code == 200, page.name
        if page.title:
            text = (STATIC / "pages" / f"{page.name}.js").read_text()
            assert "export async function show(root, route)" in text


def test_modules_import_only_modules_that_exist() -> None:
    table = json.loads(import_map())
    for file in STATIC.rglob("*.js"):
        for name in re.findall(r'from "([^"]+)"', file.read_text()):
            assert name in table["imports"], f"{file.name} imports {name}"


def test_it_listens_on_this_machine_only() -> None:
    listener = listen(0)
    try:
        assert listener.getsockname()[0] == "127.0.0.1"
        assert listener.getsockname()[1] > 0
    finally:
        listener.close()
