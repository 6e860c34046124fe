"""`python plain.py N SCRIPT ...`: run a script plainly, to its N-th optimizer step; the counterpart of `trueloop check
--steps N`."""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any


def main() -> None:
    last, script = int(sys.argv[1]), sys.argv[2]
    sys.argv[:] = sys.argv[2:]
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    from torch.optim.optimizer import register_optimizer_step_post_hook

    taken = 0

    def count(*_: Any) -> None:
        nonlocal taken
        taken += 1
        if taken == last:
            sys.exit(0)

    register_optimizer_step_post_hook(count)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
