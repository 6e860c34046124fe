"""How large trueloop is, and how long it takes to start: `python benchmarks/package.py`.

Size: the files of the package as they are, and compressed as a wheel compresses them. Times: processor
time, which other work on the machine hardly changes, and the least of several processes.
"""

import io
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "trueloop"
TIMES = 5
STARTS = {
    "python, nothing imported": ["-c", "pass"],
    "import trueloop": ["-c", "import trueloop"],
    "trueloop explain LOS101": ["-m", "trueloop", "explain", "LOS101"],
    "trueloop check --help": ["-m", "trueloop", "check", "--help"],
    "import torch": ["-c", "import torch"],
}


def sizes() -> tuple[int, int, int]:
    """Files, bytes, bytes when compressed."""
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in files:
            wheel.write(path, path.relative_to(PACKAGE.parent))
    return len(files), sum(path.stat().st_size for path in files), len(packed.getvalue())


def seconds(arguments: list[str]) -> float:
    """Processor time of the process and its children."""
    taken = []
    for _ in range(TIMES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def main() -> None:
    files, plain, packed = sizes()
    print(f"package: {files:,} files, {plain / 1e6:.1f} MB, {packed / 1e6:.1f} MB compressed")
    for name, arguments in STARTS.items():
        print(f"{name:26} {seconds(arguments):6.2f} s")


if __name__ == "__main__":
    main()
