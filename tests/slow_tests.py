"""Which tests `make test` leaves to `make slow-test`: those that took more than a second, as measured.

The list is `slow_tests.txt`, one test function a line (all its parameters together: what counts is their mean). It is
written from the times of both targets (or of one run of all their tests):

    PYTEST_ADDOPTS='--junitxml build/test.xml' make test
    PYTEST_ADDOPTS='--junitxml build/slow-test.xml' make slow-test
    python -m tests.slow_tests build/test.xml build/slow-test.xml
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = ["mark_slow_tests", "slow_functions"]

LIST = Path(__file__).with_suffix(".txt")
SECONDS = 1.2


def mark_slow_tests(items: Iterable[pytest.Item]) -> None:
    """Gives the tests of the list the marker `slow`, unless they are `long` already."""
    listed = set(LIST.read_text().split())
    for item in items:
        if item.nodeid.partition("[")[0] in listed and not item.get_closest_marker("long"):
            item.add_marker("slow")


def slow_functions(junit_files: Iterable[Path], seconds: float) -> list[str]:
    """Test functions whose mean time over their parameters is above the limit, as pytest writes their ids."""
    times = defaultdict(list)
    for case in (case for junit in junit_files for case in ElementTree.parse(junit).iter("testcase")):
        if not case.get("classname"):  # a file that was not collected
            continue
        times[_node(case.get("classname", ""), case.get("name", ""))].append(float(case.get("time", 0)))
    return sorted(name for name, took in times.items() if sum(took) / len(took) > seconds)


def _node(classname: str, name: str) -> str:
    """`tests.cli.test_check.TestX` and `test_y[z]` of a junit file as `tests/cli/test_check.py::TestX::test_y`."""
    parts = classname.split(".")
    module = next(place for place, part in enumerate(parts) if part.startswith("test_")) + 1
    return "::".join(["/".join(parts[:module]) + ".py", *parts[module:], name.partition("[")[0]])


def _main() -> None:
    parser = argparse.ArgumentParser(description="Writes the list of slow tests from junit files.")
    parser.add_argument("junit", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="mean time above which a test is slow")
    arguments = parser.parse_args()
    LIST.write_text("".join(f"{name}\n" for name in slow_functions(arguments.junit, arguments.seconds)))


if __name__ == "__main__":
    _main()
