"""A worker that can do nothing but answer: what its readers try fails, and no limit takes the caller down."""

from __future__ import annotations

import math
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import in_child
from trueloop.trust.confine import client, limits
from trueloop.trust.confine.client import Refused, Unconfined, read_confined
from trueloop.trust.confine.landlock import allow_reading_only
from trueloop.trust.confine.limits import Limits
from trueloop.trust.confine.seccomp import deny_harm, deny_processes, deny_writing

LIMITS = Limits.of(0, memory=1 << 27, seconds=1.0)


def ask(reader: str, data: bytes = b"", limits: Limits = LIMITS, most: int = 1 << 20, **options: object) -> bytes:
    return read_confined(f"tests.trust.readers:{reader}", data, limits, most, **options)


def test_the_answer_comes_back() -> None:
    assert ask("echo", b"what was in the file") == b"what was in the file"


def test_an_open_file_is_handed_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"contents")
    with (tmp_path / "file").open("rb") as file:
        assert read_confined("tests.trust.readers:echo", file.fileno(), LIMITS, 100) == b"contents"


def test_nothing_that_a_reader_tries_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUELOOP_CANARY", "secret")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "canary_module.py").write_text("", encoding="utf-8")
    home = tmp_path / "home"
    home.write_text("secret", encoding="utf-8")
    said = ask("attempts", home=str(home), folder=str(tmp_path), process=os.getpid()).decode()
    assert "done" not in said, said
    assert len(said.splitlines()) == 23
    assert sorted(each.name for each in tmp_path.iterdir()) == ["canary_module.py", "home"]
    assert home.read_text(encoding="utf-8") == "secret"


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        ("spin", "took longer than [13] s"),
        ("wait", "took longer than 3 s"),
        ("grow", "needs more than 134 MB of memory"),
        ("flood", "unpacks to more than 1 MB"),
        ("crash", "ended by SIGSEGV"),
        ("fail", r"\\x1b\[2Jlong"),
        ("leave", "3"),
        ("lie", "gave no answer"),
    ],
)
def test_a_file_that_breaks_its_reader_is_one_sentence(reader: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUSY", 3.0)  # seconds to wait: a minute for users
    with pytest.raises(Refused, match=said) as refused:
        ask(reader)
    assert len(str(refused.value)) <= 2010
    assert ask("echo", b"next") == b"next"  # and the next file is read


def test_no_file_meets_what_another_has_left_behind() -> None:
    assert (ask("remember"), ask("remember")) == (b"0", b"0")


def test_a_worker_that_was_killed_is_replaced() -> None:
    ask("echo")
    worker = client._Workers.of("tests.trust.readers")
    os.kill(worker._process.pid, signal.SIGKILL)
    worker._process.wait()
    assert ask("echo", b"x") == b"x"


def test_packages_beside_a_cuda_build_do_not_keep_torch_from_being_imported(tmp_path: Path) -> None:
    """`cuda.bindings` looks for libraries by temporary files and programs, both of which the worker is denied."""
    (tmp_path / "cuda" / "bindings").mkdir(parents=True)
    (tmp_path / "cuda" / "bindings" / "__init__.py").write_text(
        "import subprocess\nsubprocess.run(['true'])\nruntime = None\n", encoding="utf-8"
    )
    code = (
        "import sys\nfrom trueloop.trust.confine import client\nfrom trueloop.trust.confine.limits import Limits\n"
        "found = client._roots\nclient._roots = lambda module: [*found(module), sys.argv[1]]\n"
        "print(client.read_confined('tests.trust.readers:torch_version', b'', "
        "Limits.of(0, memory=1 << 33, seconds=60.0), 99).decode())"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert told.stdout.strip() == torch.__version__, told.stderr


def test_a_forked_child_has_its_own_worker() -> None:
    ask("echo")
    ours = client._Workers.of("tests.trust.readers")._process.pid

    def theirs() -> int:
        assert ask("echo", b"x") == b"x"
        found = client._Workers.of("tests.trust.readers")._process.pid
        client._Workers.close_all()
        return found

    assert in_child(theirs) != ours
    assert ask("echo", b"y") == b"y"


def test_an_interpreter_that_ends_takes_its_worker_along(tmp_path: Path) -> None:
    code = (
        "from trueloop.trust.confine import client\nfrom trueloop.trust.confine.limits import Limits\n"
        "client.read_confined('tests.trust.readers:echo', b'', Limits.of(0), 9)\n"
        "print(client._Workers.of('tests.trust.readers')._process.pid)"
    )
    told = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert not told.stderr
    assert not Path(f"/proc/{told.stdout.strip()}").exists()


def test_without_fences_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(Unconfined, match=r"no seccomp or Landlock to confine its reader; .* add --trust"):
        ask("echo")


@pytest.mark.parametrize("fence", ["landlock", "seccomp"])
def test_each_fence_holds_alone(fence: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x", encoding="utf-8")

    def try_both() -> tuple[bool, bool]:
        if fence == "landlock":
            assert allow_reading_only([sys.prefix], writable=["/dev/null"])
        else:
            assert all((deny_harm(), deny_writing(), deny_processes()))
        written = _works(lambda: secret.write_text("y", encoding="utf-8"))
        return written, _works(secret.read_text)

    written, read = in_child(try_both)
    assert not written
    assert read == (fence == "seccomp")  # it does not see paths
    assert secret.read_text(encoding="utf-8") == "x"


def _works(attempt: object) -> bool:
    try:
        attempt()  # type: ignore[operator]
    except PermissionError:
        return False
    return True


def test_a_shell_with_limits_of_its_own_can_open_files() -> None:
    """`ulimit -v`: no process may raise what its shell has lowered."""

    def limited() -> tuple[int, int]:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
        Limits(1 << 28, math.inf).apply()
        return resource.getrlimit(resource.RLIMIT_AS)[1], resource.getrlimit(resource.RLIMIT_DATA)[1]

    assert in_child(limited) == (1 << 33, 1 << 28)
