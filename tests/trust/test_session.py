"""A file that stays open in a confined process: it can do nothing but answer, and its end is one sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import in_child
from trueloop.trust.confine.client import Refused
from trueloop.trust.confine.limits import Limits
from trueloop.trust.confine.session import Session

LIMITS = Limits.of(0, memory=1 << 28)


def opened(reader: str, seconds: float = 60.0) -> Session:
    handle = os.memfd_create("file")
    os.write(handle, b"contents")
    os.lseek(handle, 0, os.SEEK_SET)
    try:
        return Session(f"tests.trust.readers:{reader}", handle, LIMITS, seconds)
    finally:
        os.close(handle)


@pytest.fixture
def session() -> Iterator[Session]:
    made = opened("talk")
    yield made
    made.close()


def ask(session: Session, name: str, seconds: float = 60.0, **options: object) -> str:
    return bytes(session.ask([json.dumps([name, options]).encode()], seconds)).decode()


def test_it_answers_again_and_again(session: Session) -> None:
    assert [ask(session, "echo") for _ in range(3)] == ["contents"] * 3


def test_nothing_that_it_tries_works(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUELOOP_CANARY", "secret")
    home = tmp_path / "home"
    home.write_text("secret", encoding="utf-8")
    said = ask(session, "attempts", home=str(home), folder=str(tmp_path), process=os.getpid())
    assert len(said.splitlines()) == 23
    assert "done" not in said, said
    assert [each.name for each in tmp_path.iterdir()] == ["home"]


def test_an_error_is_not_the_end(session: Session) -> None:
    with pytest.raises(Refused, match="long") as refused:
        ask(session, "fail")
    assert refused.value.kind == "ValueError"
    with pytest.raises(Refused, match="needs more than 268 MB of memory"):
        ask(session, "grow")
    assert ask(session, "echo") == "contents"


@pytest.mark.parametrize(
    ("name", "said"),
    [("crash", "ended by SIGSEGV"), ("leave", "process ended"), ("wait", "within 1 s"), ("spin", "within 1 s")],
)
def test_its_end_is_one_sentence(session: Session, name: str, said: str) -> None:
    begun = time.monotonic()
    with pytest.raises(Refused, match=said) as refused:
        ask(session, name, seconds=60.0 if "ended" in said else 1.0)
    assert refused.value.kind in ("Crash", "Limit")
    assert time.monotonic() - begun < 30
    assert session.ended
    with pytest.raises(Refused, match="has ended"):
        ask(session, "echo")


def test_a_process_that_is_killed_is_one_sentence(session: Session) -> None:
    children = Path(f"/proc/{session._worker._process.pid}/task/{session._worker._process.pid}/children")
    os.kill(int(children.read_text()), signal.SIGKILL)
    with pytest.raises(Refused, match="ended by SIGKILL"):
        ask(session, "echo")


def test_a_worker_that_is_killed_is_one_sentence(session: Session) -> None:
    os.killpg(session._worker._process.pid, signal.SIGKILL)
    with pytest.raises(Refused, match="process ended"):
        ask(session, "echo")


def test_a_file_that_cannot_be_opened_is_the_readers_own_error() -> None:
    with pytest.raises(Refused, match="it is not a model") as refused:
        opened("fail_to_open")
    assert refused.value.kind == "ValueError"


def test_claims_are_not_believed() -> None:
    with pytest.raises(Refused, match="gave an answer of 18,446,744,073,709,551,615 bytes"):
        opened("claim")


def test_a_question_that_is_not_read_does_not_hang() -> None:
    session = opened("deaf")
    with pytest.raises(Refused, match="did not answer within 1 s"):
        session.ask([bytes(1 << 22)], 1.0)
    assert session.ended


def test_a_forked_child_does_not_end_it(session: Session) -> None:
    assert in_child(lambda: session._close() is None)
    assert ask(session, "echo") == "contents"


def test_it_ends_with_the_process_that_asked() -> None:
    """Also where it computes and no longer listens, and the process that asked was killed."""
    code = (
        "import os, threading, time\nfrom tests.trust.test_session import ask, opened\n"
        "session = opened('talk')\nthreading.Thread(target=ask, args=(session, 'spin')).start()\ntime.sleep(0.5)\n"
        "print(session._worker._process.pid, flush=True)\nos.kill(os.getpid(), 9)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    worker = told.stdout.strip()
    assert worker, told.stderr
    until = time.monotonic() + 20
    while _runs(worker) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _runs(worker)


def _runs(group: str) -> bool:
    """Is there a process of this group that is not a zombie?"""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[2] == group and fields[0] != "Z":
            return True
    return False
