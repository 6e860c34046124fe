"""Where data are looked for, what is fetched when it may be, and what is said when neither helps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, final

import pytest

from trueloop.data import homes
from trueloop.data.find import DataFile, DataSet, cache_folder, find_data
from trueloop.errors import BadData
from trueloop.recipe.recipe import DataRequest

PLAYS, POEMS = b"To be, or not to be", b"Shall I compare thee"


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def writings(*mirrors: str) -> DataSet:
    files = (
        DataFile("plays.gz", digest(PLAYS), also=("plays",)),
        DataFile("poems", f"md5:{hashlib.md5(POEMS).hexdigest()}"),
    )
    return DataSet("Writings", ("writings", "Writings/raw"), files, mirrors, 1)


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(PLAYS if name.startswith("plays") else POEMS)
    return folder


@pytest.fixture(autouse=True)
def _nothing_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRUELOOP_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@final
class _Quiet(SimpleHTTPRequestHandler):
    """Serves a folder; a file whose name begins with 'half' is promised whole and sent half."""

    def log_message(self, format: str, *args: Any) -> None:
        asked.append(self.path)

    def do_GET(self) -> None:
        if not self.path.startswith("/half"):
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 10)


asked: list[str] = []
"""What the server was asked for in this test."""


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    """An address that holds the writings."""
    asked.clear()
    served = put(tmp_path / "served" / "good", "plays.gz", "poems")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(served.parent))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/good/"
        server.shutdown()


def test_a_named_folder_may_be_the_data_set_s_own(tmp_path: Path) -> None:
    own = put(tmp_path / "anything", "plays.gz", "poems")
    assert find_data(writings(), DataRequest(own)) == {"plays.gz": own / "plays.gz", "poems": own / "poems"}


@pytest.mark.parametrize("inside", ["writings", "Writings/raw"])
def test_a_named_folder_may_be_a_parent(tmp_path: Path, inside: str) -> None:
    put(tmp_path / inside, "plays.gz", "poems")
    assert find_data(writings(), DataRequest(tmp_path))["poems"] == tmp_path / inside / "poems"


def test_an_unpacked_file_is_as_good_as_the_packed_one(tmp_path: Path) -> None:
    own = put(tmp_path / "writings", "plays", "poems")
    assert find_data(writings(), DataRequest(tmp_path))["plays.gz"] == own / "plays"


def test_a_parent_s_folder_of_the_right_name_goes_before_the_parent_itself(tmp_path: Path) -> None:
    """MNIST's files are called like Fashion-MNIST's."""
    put(tmp_path, "plays.gz", "poems")
    named = put(tmp_path / "writings", "plays.gz", "poems")
    assert find_data(writings(), DataRequest(tmp_path))["poems"].parent == named


def test_the_variable_names_a_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUELOOP_DATA", str(tmp_path))
    own = put(tmp_path / "writings", "plays.gz", "poems")
    assert find_data(writings(), DataRequest())["poems"].parent == own


def test_the_variable_may_name_the_data_set_s_own_folder_if_it_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = put(tmp_path / "Writings" / "raw", "plays.gz", "poems")
    monkeypatch.setenv("TRUELOOP_DATA", str(own))
    assert find_data(writings(), DataRequest())["poems"].parent == own


def test_the_variable_s_folder_of_another_data_set_is_not_taken_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUELOOP_DATA", str(put(tmp_path / "letters", "plays.gz", "poems")))
    with pytest.raises(BadData, match="Writings was not found"):
        find_data(writings(), DataRequest())


def test_the_cache_folder_is_looked_in_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = put(cache_folder() / "writings", "plays.gz", "poems")
    assert cached.is_relative_to(tmp_path / "cache" / "trueloop")
    assert find_data(writings(), DataRequest())["poems"].parent == cached
    monkeypatch.setenv("TRUELOOP_DATA", str(tmp_path / "nearer"))
    assert find_data(writings(), DataRequest())["poems"].parent == cached
    nearer = put(tmp_path / "nearer" / "writings", "plays.gz", "poems")
    assert find_data(writings(), DataRequest())["poems"].parent == nearer


def test_without_a_cache_variable_the_cache_is_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "trueloop"


def test_a_named_folder_without_the_data_is_not_replaced_by_another(tmp_path: Path) -> None:
    put(cache_folder() / "writings", "plays.gz", "poems")
    with pytest.raises(BadData) as raised:
        find_data(writings(), DataRequest(tmp_path / "empty"))
    assert str(cache_folder()) not in str(raised.value)


def test_what_is_missing_is_said_with_where_and_what_to_type(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    with pytest.raises(BadData) as raised:
        find_data(writings(), DataRequest(empty))
    assert str(raised.value) == (
        f"Writings was not found: looked for plays.gz, poems (or unpacked) in {empty}/writings, {empty}/Writings/raw, "
        f"{empty}. "
        "Nothing was run: add `--data DIR` for its folder, or `--download` to download it (1 MB)."
    )


def test_half_a_data_set_is_told_apart_from_none(tmp_path: Path) -> None:
    half = put(tmp_path / "writings", "plays.gz")
    with pytest.raises(BadData, match=f"{half} lacks poems"):
        find_data(writings(), DataRequest(tmp_path))


def test_a_download_goes_to_the_cache_and_is_found_there_next_time(mirror: str) -> None:
    found = find_data(writings(mirror), DataRequest(download=True))
    assert {name: path.read_bytes() for name, path in found.items()} == {"plays.gz": PLAYS, "poems": POEMS}
    assert found["poems"].parent == cache_folder() / "writings"
    assert sorted(path.name for path in found["poems"].parent.iterdir()) == ["plays.gz", "poems"]
    assert find_data(writings("http://127.0.0.1:9/"), DataRequest(download=True)) == found


def test_a_download_goes_to_the_named_folder(tmp_path: Path, mirror: str) -> None:
    found = find_data(writings(mirror), DataRequest(tmp_path / "mine", download=True))
    assert found["poems"] == tmp_path / "mine" / "writings" / "poems"


def test_nothing_is_downloaded_unasked(mirror: str) -> None:
    with pytest.raises(BadData):
        find_data(writings(mirror), DataRequest())
    assert asked == []


def test_only_what_is_missing_is_downloaded(mirror: str) -> None:
    put(cache_folder() / "writings", "plays")
    find_data(writings(mirror), DataRequest(download=True))
    assert [path for path in asked if "plays" in path] == []


def test_a_mirror_that_has_it_not_is_passed_over_for_the_next(mirror: str) -> None:
    found = find_data(
        writings(mirror.replace("good", "gone"), "http://127.0.0.1:9/", mirror), DataRequest(download=True)
    )
    assert found["plays.gz"].read_bytes() == PLAYS


def test_a_file_that_is_not_the_published_one_is_refused_and_not_kept(tmp_path: Path, mirror: str) -> None:
    (tmp_path / "served" / "good" / "poems").write_bytes(b"an advertisement")
    with pytest.raises(
        BadData, match=r"poems is not the published file \(md5:\w+ instead of md5:\w+\).*Nothing was run"
    ):
        find_data(writings(mirror), DataRequest(download=True))
    assert [path.name for path in (cache_folder() / "writings").iterdir()] == ["plays.gz"]


def test_half_a_file_never_has_its_name(mirror: str) -> None:
    with pytest.raises(BadData, match="could not be downloaded"):
        find_data(writings(mirror.replace("good/", "half")), DataRequest(download=True))
    assert list((cache_folder() / "writings").iterdir()) == []


def test_when_no_mirror_answers_each_is_named_with_what_to_do() -> None:
    with pytest.raises(BadData) as raised:
        find_data(writings("http://127.0.0.1:9/", "http://127.0.0.1:10/"), DataRequest(download=True))
    said = str(raised.value)
    assert "http://127.0.0.1:9/plays.gz: " in said
    assert "http://127.0.0.1:10/plays.gz: " in said
    assert f"download plays.gz yourself into {cache_folder() / 'writings'}, or add `--data DIR`" in said


def test_a_place_that_cannot_be_made_is_said(tmp_path: Path, mirror: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadData, match="cannot create"):
        find_data(writings(mirror), DataRequest(tmp_path / "file", download=True))


@pytest.mark.parametrize(
    "known", [homes.MNIST, homes.FASHION_MNIST, homes.MOVIE_REVIEWS, homes.TINY_SHAKESPEARE], ids=lambda k: k.title
)
def test_every_public_home_is_complete(known: DataSet) -> None:
    assert all(mirror.startswith(("https://", "http://")) and mirror.endswith("/") for mirror in known.mirrors)
    for file in known.files:
        kind, _, digits = file.digest.partition(":")
        assert len(bytes.fromhex(digits)) == hashlib.new(kind).digest_size
    assert len({file.digest for file in known.files}) == len(known.files)
