"""two-hosts: What changes when the two ranks are on different machines?

Two network namespaces are two hosts as far as the network goes: each has its own loopback, and a virtual cable
connects them. Everything between them goes through that cable, where it can be counted.

You will see what a rank must know (the address of rank 0, and the interface), and how much one all-reduce sends.
Needs root and `ip` (iproute2) on Linux.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trueloop.labs.lab import Lab, NotHere, Page
from trueloop.results.document import Code

__all__ = ["LAB"]

PATIENCE = 100.0
PORT, NUMBERS = 29517, 1_000_000
HOSTS = ("10.213.7.1", "10.213.7.2")

RANK = f"""
import datetime, json, os, socket, sys
import torch, torch.distributed as dist

rank = int(os.environ["RANK"])

def reaches(address):
    with socket.socket() as door:
        door.settimeout(5)
        return door.connect_ex((address, {PORT})) == 0

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
gradients = torch.full(({NUMBERS},), float(rank + 1))
sent = lambda: int(open(f"/sys/class/net/{{os.environ['GLOO_SOCKET_IFNAME']}}/statistics/tx_bytes").read())
before = sent()
dist.all_reduce(gradients)
dist.barrier()  # both have sent all of it
after = sent()
print(json.dumps({{
    "sum": gradients.unique().tolist(), "sent": after - before,
    "reaches rank 0 by its address": reaches(os.environ["MASTER_ADDR"]),
    "reaches rank 0 by localhost": reaches("127.0.0.1"),
}}), flush=True)
dist.barrier()
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, text=True, check=True)


@contextmanager
def two_hosts() -> Iterator[list[tuple[str, str]]]:
    """(host, its end of the cable), removed at the end."""
    pair = [(f"trueloop-lab-{os.getpid()}-{number}", f"tl{os.getpid()}-{number}") for number in (0, 1)]
    (one, one_end), (two, two_end) = pair
    try:
        ip("netns", "add", one)
        ip("netns", "add", two)
        ip("link", "add", one_end, "netns", one, "type", "veth", "peer", "name", two_end, "netns", two)
        for (host, end), address in zip(pair, HOSTS, strict=True):
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", host, "link", "set", end, "up")
        yield pair
    finally:
        for host, _ in pair:
            subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)


def rank_on(host: str, end: str, rank: int) -> subprocess.Popen[str]:
    """What a launcher sets: who I am, where rank 0 is, and through which interface."""
    told = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": HOSTS[0], "MASTER_PORT": str(PORT)}
    environment = {**os.environ, **told, "GLOO_SOCKET_IFNAME": end, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    words = ["ip", "netns", "exec", host, sys.executable, "-c", RANK]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def measure() -> dict[str, Any]:
    if os.geteuid() != 0:
        raise NotHere("Network namespaces need root, and you are another user here.")
    try:
        with two_hosts() as pair:
            return {"ranks": _talk(pair), "bytes": 4 * NUMBERS}
    except subprocess.CalledProcessError as error:
        raise NotHere(f"This system does not permit network namespaces ({error.stderr.strip()}).") from None


def _talk(pair: list[tuple[str, str]]) -> list[dict[str, Any]]:
    processes = [rank_on(host, end, rank) for rank, (host, end) in enumerate(pair)]
    try:
        printed = [process.communicate(timeout=PATIENCE) for process in processes]
    finally:
        for process in processes:
            process.kill()
    failed = [said for process, (_, said) in zip(processes, printed, strict=True) if process.returncode]
    if failed:
        raise RuntimeError(failed[0][-1000:])
    return [json.loads(said.splitlines()[-1]) for said, _ in printed]


def answer(page: Page, measured: dict[str, Any]) -> None:
    first, second = measured["ranks"]
    rows = [(name, str(first[name]), str(second[name])) for name in first]
    page.table(f"An all-reduce of {measured['bytes']:,} bytes", ("", "rank 0", "rank 1"), rows)
    page.says("Both ranks have the sum of both hosts' tensors.", first["sum"] == second["sum"] == [3.0])
    far = second["reaches rank 0 by its address"] and not second["reaches rank 0 by localhost"]
    page.says("`MASTER_ADDR=localhost` works for rank 0 only: each host has a localhost of its own.", far)
    share = first["sent"] / measured["bytes"]
    amount = f"Each rank sent {share:.2f} times the tensor's bytes through the cable: with two ranks, about once."
    page.says(amount, 0.9 < share < 1.5 and 0.9 < second["sent"] / measured["bytes"] < 1.5)
    typed = "trueloop launch --nnodes 2 --node-rank I --rendezvous node0:29500 -- train digits   # on each host"
    page.show(Code(typed, title="The same for a run; the interface is found by itself"))


LAB = Lab(code=(two_hosts, rank_on), measure=measure, answer=answer, needs="program ip", seconds=40)
