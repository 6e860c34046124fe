"""The tests of skorch, plain and with `pytest --trueloop`: does anything break, and what is found?

    python benchmarks/foreign_suite.py [--tests FILE ...]

Downloads skorch's source distribution, whose tests train many small networks, into a temporary folder, and runs some of
its test files twice with this Python. Fails if a test ends differently for a reason other than findings.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

PACKAGE = "skorch==1.4.0"
NEEDS = ("flaky", "tabulate")  # of its tests
TESTS = ("test_classifier.py", "test_regressor.py", "test_toy.py")
SOURCE = Path(__file__).parent.parent / "src"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files of skorch/tests")
    files = [f"skorch/tests/{name}" for name in parser.parse_args().tests]
    with tempfile.TemporaryDirectory(prefix="trueloop-") as place:
        folder = unpack(Path(place))
        plain = run(folder, [*files])
        watched = run(folder, [*files, "--trueloop=warn"])
    print("| | plain | `--trueloop=warn` |\n|---|---|---|")
    for row in ("passed", "failed", "trained", "seconds"):
        print(f"| {row} | {plain[row]} | {watched[row]} |")
    for finding, count in sorted(watched["findings"].items()):
        print(f"{count:3} {finding}")
    return int(plain["outcomes"] != watched["outcomes"])


def unpack(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", folder, PACKAGE]
    subprocess.run(pip, check=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder / "needs", *NEEDS]
    subprocess.run(pip, check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def run(folder: Path, words: list[str]) -> dict[str, object]:
    """Outcomes of the tests, and their findings, from pytest's own file."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--junitxml=found.xml"]
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}:{folder}:{folder.parent / 'needs'}", "OMP_NUM_THREADS": "1"}
    begin = time.perf_counter()
    ended = subprocess.run(
        [*command, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=1800
    )
    if ended.returncode not in (0, 1):  # 1: tests failed, which is counted
        raise SystemExit(f"pytest ended with {ended.returncode}:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    seconds = round(time.perf_counter() - begin)
    cases = list(ElementTree.parse(folder / "found.xml").iter("testcase"))
    outcomes = {
        f"{case.get('classname')}.{case.get('name')}": case.find("failure") is None and case.find("error") is None
        for case in cases
    }
    told = [entry for case in cases for entry in case.iter("property")]
    found = Counter(str(entry.get("value")) for entry in told if entry.get("name") == "trueloop_finding")
    return {
        "outcomes": outcomes,
        "passed": sum(outcomes.values()),
        "failed": len(outcomes) - sum(outcomes.values()),
        "trained": sum(entry.get("name") == "trueloop_steps" for entry in told),
        "seconds": seconds,
        "findings": found,
    }


if __name__ == "__main__":
    sys.exit(main())
