"""Some rules over every script of the tests: the pages of all rules, the healthy programs, the classic bugs. Prints
where they speak.

python -m tests.rules.cross DAT101 PRC ... [--only WORD]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conftest import check_script
from tests.healthy.test_healthy import PROGRAMS
from tests.pages import EXAMPLES, HANG_AFTER
from tests.test_classic_bugs import SCRIPTS

__all__ = ["scripts"]


def scripts() -> Iterator[tuple[str, str, int, set[tuple[str, int]]]]:
    """(name, text, the ranks it runs on, the findings that are marked in it)."""
    for example in EXAMPLES:
        if example.cuda:
            continue
        yield example.name, example.text, example.ranks, example.expected()
    for file in (*PROGRAMS, *SCRIPTS):
        yield f"{file.parent.parent.name}/{file.stem}", file.read_text(encoding="utf-8"), 1, set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="+", help="codes, beginnings of codes, or names")
    parser.add_argument("--only", default="", help="scripts whose name holds this word")
    options = parser.parse_args()
    spoken = 0
    for name, text, ranks, expected in scripts():
        if options.only not in name:
            continue
        with TemporaryDirectory() as folder:
            checked = check_script(Path(folder), text, ranks=ranks, select=options.rules, hang_after=HANG_AFTER)
        lines = [f"broke: {failure.splitlines()[-1]}" for failure in checked.verdict.failures]
        for finding in checked.findings:
            line = finding.place.line if finding.place else 0
            if (finding.name, line) not in expected:
                lines.append(
                    f"{finding.severity.name.lower()} {finding.code} {finding.name} line {line}: {finding.message}"
                )
        spoken += bool(lines)
        if lines:
            print(name, *lines, sep="\n    ", flush=True)
    print(f"{spoken} scripts where an unmarked finding appeared")
    return int(bool(spoken))


if __name__ == "__main__":
    sys.exit(main())
