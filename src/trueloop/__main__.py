"""`python -m trueloop`, and `torchrun -m trueloop`."""

import sys

from trueloop.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
