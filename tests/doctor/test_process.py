"""What the system says of a process: asked of real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from trueloop.doctor.process import Work, has_worked, state_of, work_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")


def test_a_stopped_process_is_told_from_one_that_sleeps() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert state_of(child.pid) != "T"
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert state_of(child.pid) == "T"
        finally:
            child.kill()


def test_a_process_that_has_ended_unasked_is_a_zombie_and_then_gone() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert state_of(child) == "Z"
    os.waitpid(child, 0)
    assert state_of(child) == ""
    assert work_of(child) is None


def test_reading_is_work_of_the_thread_that_reads() -> None:
    before = work_of(os.getpid(), threading.get_native_id())
    with open(__file__, "rb") as file:
        file.read()
    assert has_worked(before, work_of(os.getpid(), threading.get_native_id()))


@pytest.mark.parametrize(
    ("now", "worked"), [((10, 5), False), ((11, 5), False), ((12, 5), True), ((10, 6), True), (None, False)]
)
def test_a_tick_at_times_is_no_work(now: Work | None, worked: bool) -> None:
    assert has_worked((10, 5), now) is worked
    assert not has_worked(None, now), "the first look has nothing to compare"
