"""Write the golden losses anew: `python -m tests.golden.record [RECIPE ...]`, when a change of the numbers is meant.

With TRUELOOP_DATA set, the losses on the real data too; without it, those that were recorded stay if the machine is the
same.
"""

from __future__ import annotations

import json
import os
import sys

import torch

from tests.golden.short_runs import KINDS, SHORT, fingerprint, record_file, twice_in_a_fresh_process


def main(names: list[str]) -> None:
    torch.set_num_threads(1)  # as the tests do
    for name in names or SHORT:
        file = record_file(name)
        before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        losses = dict(before.get("losses", {})) if before.get("fingerprint") == fingerprint() else {}
        for kind in KINDS.get(name, ("real", "stand-in")):
            if kind == "stand-in" or name in KINDS or os.environ.get("TRUELOOP_DATA"):
                losses[kind] = twice_in_a_fresh_process(name, kind)[0]
                print(f"{name} ({kind}): {losses[kind][0]:.4f} to {losses[kind][-1]:.4f} in {len(losses[kind])} steps")
            else:
                print(
                    f"{name} ({kind}): {'as before' if kind in losses else 'not recorded'}; set TRUELOOP_DATA to "
                    "record it"
                )
        file.write_text(json.dumps({"fingerprint": fingerprint(), "losses": losses}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
