"""named-hang: Two ranks wait for each other forever. Which line is wrong?

A collective is a meeting of all ranks: a rank that calls one which others never call waits for as long as the timeout
of the process group, 30 minutes by default, and the traceback after that names the victim, not the fault.

`trueloop check` records the collectives of every rank. If a rank makes no progress, the records are compared: the
first call that is not the same on all ranks is the fault.
"""

import inspect
from typing import Any

import torch
import torch.distributed as dist

from trueloop.labs.check_script import check_script
from trueloop.labs.lab import Lab, Page
from trueloop.labs.on_ranks import on_ranks
from trueloop.results.document import Code

__all__ = ["LAB"]


def hangs(rank: int) -> None:
    for step in range(3):
        loss = torch.ones(()) * (rank + step)
        dist.all_reduce(loss)
        if rank == 0:
            dist.barrier()  # "all should have arrived before I print"
            print(step, loss.item() / 2)  # noqa: T201


def runs(rank: int) -> list[float]:
    means = []
    for step in range(3):
        loss = torch.ones(()) * (rank + step)
        dist.all_reduce(loss)
        dist.barrier()  # every rank calls it
        means.append(loss.item() / 2)
    return means


def script() -> str:
    head = "import torch\nimport torch.distributed as dist\n\n\n"
    return f"{head}{inspect.getsource(hangs)}\n\ndist.init_process_group('gloo')\nhangs(dist.get_rank())\n"


def measure() -> dict[str, Any]:
    report = check_script(script(), "--select", "PAR106", "--hang-after", "3s", ranks=2)
    findings = report["findings"]
    line = next(number for number, text in enumerate(script().splitlines(), 1) if "dist.barrier" in text)
    return {
        "ended": report["script"]["reason"],
        "findings": len(findings),
        "message": findings[0]["message"] if findings else "",
        "fix": findings[0]["fix"] if findings else "",
        "evidence": findings[0]["evidence"] if findings else {},
        "line": findings[0]["line"] if findings else 0,
        "barrier": line,
        "fixed": on_ranks(runs),
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    rows = [(name, str(what)) for name, what in measured["evidence"].items()]
    page.table("Where each rank waits", ("rank", "collective, line, state"), rows, note=measured["message"])
    page.show(Code("torchrun --nproc-per-node 2 -m trueloop check --hang-after 3s train.py", title="How it was found"))
    found = measured["ended"] == "hung" and measured["findings"] == 1
    page.says("The run was ended after 3 seconds without progress, not after 30 minutes.", found)
    where = "Its second collective differs: rank 0 waits in a barrier, rank 1 in the all_reduce of the next step."
    message = measured["message"]
    page.says(where, "rank 0 waits in barrier #2" in message and "rank 1 waits in all_reduce #2" in message)
    page.says("The finding names the line of the barrier.", measured["line"] == measured["barrier"])
    page.says("It names the condition that keeps rank 1 out, too.", "if rank == 0:" in measured["fix"])
    page.says("With the call on every rank, both ranks end.", measured["fixed"] == [[0.5, 1.5, 2.5]] * 2)


LAB = Lab(code=(hangs, runs), measure=measure, answer=answer, seconds=60)
