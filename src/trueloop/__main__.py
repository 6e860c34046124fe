"""`python -m trueloop`, and `torchrun -m trueloop`."""

from __future__ import annotations

import sys

from trueloop.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
