"""One model behind three servers on one machine: trueloop, LitServe and BentoML, each with one model process and
batches of up to 32 that wait 5 ms.

    python -m benchmarks.serving_peers [--install] [--only trueloop litserve] [--requests 2000] [--slow 200]
        [--parts slow]

One table: requests per second and p99 of 64 callers; what a SIGKILL of the model's process costs; what callers cost
that send and never read; and how malformed requests are answered. `--install` makes an environment for each peer under
.venv-peers. All answers are compared with the model's own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime

from benchmarks.peers.environments import install, program
from benchmarks.serving import made
from trueloop.serve.client import Address, Connection, Reply
from trueloop.serve.malformed import MALFORMED

ROOT: Final = Path(__file__).parent.parent
CLIENTS: Final = 64
PATIENCE: Final = 15.0  # Seconds for an answer; then it counts as none
CRASH: Final = 20.0  # Seconds of load around a crash, which comes after the first two
FLOOD: Final = 10.0  # Seconds of callers that never read
PACE: Final = 0.2  # Seconds between two requests of such a caller, and between two questions to /health
HEALTH: Final = 5.0  # Seconds for /health; a supervisor waits no longer
PARTS: Final = ("throughput", "crash", "slow", "malformed")
LITSERVE: Final = """
import sys
import litserve
import numpy


class Api(litserve.LitAPI):
    def setup(self, device):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(sys.argv[1], options)

    def decode_request(self, request):
        return numpy.asarray(request["input"], numpy.uint8)

    def batch(self, inputs):
        return numpy.stack(inputs)

    def predict(self, batch):
        return self.session.run(None, {"input": batch})[0]

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        return {"scores": output.tolist()}


if __name__ == "__main__":
    api = Api(max_batch_size=32, batch_timeout=0.005, api_path="/predict")
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, log_level="error")
"""
BENTOML: Final = """
import os
import bentoml
import numpy


@bentoml.service(workers=1)
class Served:
    def __init__(self):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(os.environ["MODEL"], options)

    @bentoml.api(batchable=True, max_batch_size=32, max_latency_ms=10_000, route="/predict")
    def predict(self, input: list) -> list:
        return self.session.run(None, {"input": numpy.asarray(input, numpy.uint8)})[0].tolist()
"""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    package: str
    command: Callable[[Path, Path, int], list[str]]  # Of the artifact, a folder to write to, and the port
    body: Callable[[Any], Any]  # A sample -> the request
    answer: Callable[[Any], int]  # The answer -> the number of the class
    health: str = "/health"  # The path that asks whether the process is alive


def _ours(artifact: Path, folder: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "trueloop", "serve", str(artifact), "--port", str(port), "--workers", "1"]


def _litserve(artifact: Path, folder: Path, port: int) -> list[str]:
    (folder / "lit.py").write_text(LITSERVE, encoding="utf-8")
    return [str(program("litserve")), str(folder / "lit.py"), str(artifact / "model.onnx"), str(port)]


def _bentoml(artifact: Path, folder: Path, port: int) -> list[str]:
    (folder / "bento.py").write_text(BENTOML, encoding="utf-8")
    options = ["--host", "127.0.0.1", "--port", str(port), "--working-dir", str(folder)]
    return [str(program("bentoml")), "-m", "bentoml", "serve", "bento:Served", *options]


PEERS: Final = (
    Peer(
        "trueloop", "", _ours, lambda sample: sample, lambda told: "abcdefghij".index(told["predictions"][0]["class"])
    ),
    Peer("litserve", "litserve", _litserve, lambda sample: sample, lambda told: int(np.argmax(told["scores"]))),
    Peer("bentoml", "bentoml", _bentoml, lambda sample: [sample], lambda told: int(np.argmax(told[0])), "/healthz"),
)


# -- processes --


@contextmanager
def served(peer: Peer, artifact: Path, folder: Path) -> Iterator[tuple[Address, int]]:
    """Its address and process, ended at the end with all its children."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MODEL": str(artifact / "model.onnx")}
    environment |= {"BENTOML_DO_NOT_TRACK": "1", "BENTOML_HOME": str(folder / "bentoml")}
    with (folder / f"{peer.name}.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            peer.command(artifact, folder, port), cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        yield Address("127.0.0.1", port), process.pid
    finally:
        for each in (*descendants(process.pid), process.pid):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()


def descendants(process: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, waiting = [], [process]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def model_process(process: int) -> int:
    """The youngest one that has loaded ONNX Runtime."""
    found = []
    for each in descendants(process):
        with suppress(OSError):
            if "onnxruntime" in Path(f"/proc/{each}/maps").read_text(encoding="utf-8", errors="replace"):
                found.append(each)
    return max(found, default=0)


def memory(process: int) -> float:
    """MB of the process and its children."""
    pages = 0
    for each in (process, *descendants(process)):
        with suppress(OSError):
            pages += int(Path(f"/proc/{each}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


# -- callers --


@dataclass(slots=True)
class Load:
    peer: Peer
    address: Address
    questions: list[tuple[bytes, int]]  # Body and class

    async def ask(self, connection: Connection, number: int) -> tuple[Reply, bool]:
        """And whether the answer is wrong."""
        body, expected = self.questions[number % len(self.questions)]
        try:
            reply = await asyncio.wait_for(connection.ask(self.address.post(body)), PATIENCE)
        except (OSError, TimeoutError):
            await connection.close()
            return Reply(0), False
        return reply, reply.status == 200 and self.peer.answer(json.loads(reply.body)) != expected

    async def run(self, more: Callable[[], bool], clients: int) -> tuple[list[tuple[float, float, int]], int]:
        """Begin, seconds and status of each request, and the number of wrong answers."""
        told: list[tuple[float, float, int]] = []
        wrong = 0

        async def client(first: int) -> None:
            nonlocal wrong
            number = first
            async with Connection(self.address) as connection:
                while more():
                    begun = time.perf_counter()
                    reply, different = await self.ask(connection, number)
                    told.append((begun, time.perf_counter() - begun, reply.status))
                    wrong += different
                    number += 1
                    if reply.status != 200:
                        await asyncio.sleep(0.05)

        await asyncio.gather(*(client(first) for first in range(clients)))
        return told, wrong


async def until_ready(load: Load) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        async with Connection(load.address) as connection:
            if (await load.ask(connection, 0))[0].status == 200:
                return
        await asyncio.sleep(0.2)
    raise SystemExit(f"{load.peer.name} did not answer within 120 s")


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[max(0, math.ceil(0.99 * len(seconds)) - 1)] if seconds else math.nan


async def throughput(load: Load, requests: int) -> dict[str, str]:
    await load.run(_times(200), CLIENTS)
    begun = time.perf_counter()
    told, wrong = await load.run(_times(requests), CLIENTS)
    seconds = time.perf_counter() - begun
    good = [each for _, each, status in told if status == 200]
    lost = len(told) - len(good)
    return {
        "requests/s": f"{len(good) / seconds:,.0f}",
        "p99": f"{p99(good) * 1e3:.0f} ms",
        "wrong or lost": f"{wrong + lost} of {len(told):,}",
    }


def _times(count: int) -> Callable[[], bool]:
    left = iter(range(count))
    return lambda: next(left, None) is not None


async def crash(load: Load, process: int) -> dict[str, str]:
    end = time.perf_counter() + CRASH
    running = asyncio.create_task(load.run(lambda: time.perf_counter() < end, 16))
    await asyncio.sleep(2)
    victim, killed = model_process(process), time.perf_counter()
    if victim:
        os.kill(victim, signal.SIGKILL)
    told, _ = await running
    after = [(begun, seconds, status) for begun, seconds, status in told if begun + seconds > killed]
    lost = sum(status != 200 for _, _, status in after)
    again = min((begun + seconds for begun, seconds, status in after if status == 200 and begun > killed), default=0.0)
    back = f"answers again after {again - killed:.1f} s" if again else f"no answer within {CRASH - 2:.0f} s"
    return {"model process killed": f"{lost} of {len(after):,} requests lost; {back}" if victim else "not found"}


async def slow_readers(load: Load, process: int, count: int) -> dict[str, str]:
    """Callers that send requests as fast as the server reads them, and read nothing."""
    before, end = memory(process), time.perf_counter() + FLOOD
    request = load.address.post(load.questions[0][0])

    async def flood() -> None:
        with suppress(OSError, asyncio.TimeoutError):
            async with Connection(load.address) as connection:
                reader, writer = await connection.open()
                reader._transport.pause_reading()  # type: ignore[attr-defined]
                while time.perf_counter() < end:
                    writer.write(request)
                    await asyncio.wait_for(writer.drain(), max(0.1, end - time.perf_counter()))
                    await asyncio.sleep(PACE)

    floods = [asyncio.create_task(flood()) for _ in range(count)]
    await asyncio.sleep(1)
    (told, _), healthy = await asyncio.gather(load.run(lambda: time.perf_counter() < end, 4), health(load, end))
    after = memory(process)
    await asyncio.gather(*floods)
    good = [seconds for _, seconds, status in told if status == 200]
    others = f"others: {len(good) / (FLOOD - 1):,.0f} requests/s, p99 {p99(good) * 1e3:,.0f} ms"
    return {
        f"{count} callers never read": f"{others}, {len(told) - len(good)} lost; memory {after - before:+,.0f} MB",
        f"/health while {count} callers never read": healthy,
    }


async def health(load: Load, end: float) -> str:
    """Asked on a new connection each time, as a supervisor does."""
    request = load.address.head("GET", load.peer.health, "Connection: close")
    good: list[float] = []
    asked = 0
    while time.perf_counter() < end:
        asked += 1
        begun = time.perf_counter()
        with suppress(OSError, TimeoutError):
            async with Connection(load.address) as connection:
                if (await asyncio.wait_for(connection.ask(request), HEALTH)).status == 200:
                    good.append(time.perf_counter() - begun)
        await asyncio.sleep(PACE)
    median = sorted(good)[len(good) // 2] * 1e3 if good else math.nan
    return (
        f"{len(good)} of {asked} answered, median {median:,.0f} ms, slowest {max(good, default=math.nan) * 1e3:,.0f} ms"
    )


async def malformed(load: Load) -> dict[str, str]:
    found: Counter[str] = Counter()
    for send in MALFORMED.values():
        try:
            status = (await asyncio.wait_for(send(load.address, load.questions[0][0]), PATIENCE)).status
        except (OSError, TimeoutError) as error:
            status = -1 if isinstance(error, TimeoutError) else 0
        found[{-1: "no answer", 0: "closed"}.get(status, f"{status // 100}xx")] += 1
    async with Connection(load.address) as connection:
        alive = (await load.ask(connection, 0))[0].status == 200
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))
    return {f"{len(MALFORMED)} malformed requests": kinds + ("" if alive else "; then no answer")}


# -- the table --


def questions_of(peer: Peer, artifact: Path) -> list[tuple[bytes, int]]:
    session = onnxruntime.InferenceSession(str(artifact / "model.onnx"))
    images = np.random.default_rng(0).integers(0, 256, (64, 1, 28, 28)).astype(np.uint8)
    classes = [int(session.run(None, {"input": image[None]})[0].argmax()) for image in images]
    return [
        (json.dumps({"input": peer.body(image.tolist())}).encode(), number)
        for image, number in zip(images, classes, strict=True)
    ]


async def measured(
    peer: Peer, artifact: Path, folder: Path, requests: int, slow: int, parts: Sequence[str]
) -> dict[str, str]:
    """Each part has a fresh server."""
    told: dict[str, str] = {}
    for part in parts:
        with served(peer, artifact, folder) as (address, process):
            load = Load(peer, address, questions_of(peer, artifact))
            await until_ready(load)
            match part:
                case "throughput":
                    told |= await throughput(load, requests)
                case "crash":
                    told |= await crash(load, process)
                case "slow":
                    told |= await slow_readers(load, process, slow)
                case _:
                    told |= await malformed(load)
        print(f"{peer.name}: {part} {list(told.values())[-1]}", file=sys.stderr, flush=True)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--only", nargs="+", choices=[peer.name for peer in PEERS])
    parser.add_argument("--artifact", type=Path, help="an ONNX export of 28 x 28 images and 10 classes a to j")
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    chosen = [peer for peer in PEERS if not options.only or peer.name in options.only]
    for peer in chosen:
        if peer.package and options.install and (why := install(peer.package, [peer.package, "onnxruntime", "numpy"])):
            raise SystemExit(f"{peer.package} could not be installed: {why}. Nothing was measured.")
    with tempfile.TemporaryDirectory() as place:
        artifact = options.artifact.absolute() if options.artifact else made(Path(place), "deep")
        told = {
            peer.name: asyncio.run(measured(peer, artifact, Path(place), options.requests, options.slow, options.parts))
            for peer in chosen
        }
    print("| | " + " | ".join(told) + " |\n|---|" + "---|" * len(told))
    for row in next(iter(told.values())):
        print(f"| {row} | " + " | ".join(each.get(row, "") for each in told.values()) + " |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
