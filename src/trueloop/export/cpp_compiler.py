"""The C++ compiler for machine code: one whose programs share torch's C++ runtime.

A compiler that links a C++ runtime of its own into every library (`-static-libstdc++`) makes files that torch loads and
then crashes in: two runtimes exchange strings and exceptions. So each candidate compiles a small library first.
"""

import os
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from trueloop.errors import CannotExport

__all__ = ["cpp_compiler", "cpp_compiler_note"]

CANDIDATES: Final = ("g++", "c++", "clang++")  # after $CXX
PATIENCE: Final = 120.0  # Seconds for the small library
RUNTIMES: Final = (b"libstdc++.so.6\0", b"libc++.so.1\0", b"libc++.1.dylib\0")
"""How a library names a shared C++ runtime in its list of dependencies."""
SOURCE: Final = """
#include <stdexcept>
#include <string>
extern "C" int length_of(const char* text) {
  try {
    throw std::runtime_error(std::string(text) + "!");
  } catch (const std::exception& error) {
    return static_cast<int>(std::string(error.what()).size());
  }
}
"""


def cpp_compiler() -> str:
    """The first compiler that works, $CXX before all others. Raises CannotExport."""
    asked = os.environ.get("CXX", "")
    problems = {}
    for candidate in dict.fromkeys(filter(None, (asked, *CANDIDATES))):
        problems[candidate] = _problem_of(candidate)
        if not problems[candidate]:
            return candidate
    found = "; ".join(f"{candidate} {problem}" for candidate, problem in problems.items())
    raise CannotExport(
        f"aoti needs a C++ compiler that shares torch's C++ runtime, and none was found: {found}. Nothing was "
        "exported: install g++ (apt install g++) and set CXX=g++, or use --to pt2, which needs no compiler."
    )


def cpp_compiler_note() -> str:
    """A sentence if the compiler is not the one that $CXX names; otherwise empty."""
    asked = os.environ.get("CXX", "")
    used = cpp_compiler()
    return "" if asked in ("", used) else f"Compiled by {used}: $CXX ({asked}) {_problem_of(asked)}."


@cache  # compiling takes a second
def _problem_of(compiler: str) -> str:
    """Why it cannot be used, as the end of a sentence; empty: it can."""
    with TemporaryDirectory(prefix="trueloop-compiler-") as folder:
        source, library = Path(folder, "small.cpp"), Path(folder, "small.so")
        source.write_text(SOURCE, encoding="utf-8")
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=PATIENCE)
        except (FileNotFoundError, PermissionError):
            return "is not installed"
        except (OSError, subprocess.TimeoutExpired):
            return "does not run"
        if done.returncode or not library.is_file():
            return "does not compile a shared library"
        content = library.read_bytes()
    return "" if any(name in content for name in RUNTIMES) else "links a C++ runtime of its own"
