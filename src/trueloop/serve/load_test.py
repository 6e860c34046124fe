"""Load test: many concurrent callers, some malformed requests. Measures throughput and latency and checks every
answer."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

import numpy as np

from trueloop.errors import Misuse
from trueloop.export.exporter import Array, Runner
from trueloop.results.artifact import Artifact, Port, prediction_of
from trueloop.serve.client import Address, Connection
from trueloop.serve.malformed import MALFORMED

__all__ = ["Outcome", "Question", "equal", "fetch_questions", "questions_of", "random_samples", "run_load"]
__all__ += ["wait_ready"]

DIFFERENT: Final = 64  # Samples, asked again and again
TOLERANCE: Final = 1e-4  # Between two answers for one sample: other batch sizes round differently
WARM: Final = 200  # Requests before counting starts
LONGEST_PAUSE: Final = 5.0  # Seconds that a caller waits after a 429, at most
LENGTH: Final = 16  # Of a free dimension without a limit


@dataclass(frozen=True, slots=True)
class Question:
    """A request body and its expected prediction."""

    body: bytes
    expected: Any


@dataclass(slots=True)
class Outcome:
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)  # Of answered requests, in seconds
    statuses: Counter[int] = field(default_factory=Counter)  # Of valid requests
    wrong: int = 0  # Answers that differ from the model's own
    malformed: dict[str, Counter[int]] = field(default_factory=dict)  # Kind -> statuses; 0: the connection was closed
    memory: tuple[float, float] = (math.nan, math.nan)  # Bytes of the server, before and after

    def add(self, later: Outcome) -> None:
        """Another round of the same server."""
        self.memory = (later.memory[0] if not self.seconds else self.memory[0], later.memory[1])
        self.seconds += later.seconds
        self.latencies += later.latencies
        self.statuses += later.statuses
        self.wrong += later.wrong
        for kind, counts in later.malformed.items():
            self.malformed[kind] = self.malformed.get(kind, Counter()) + counts

    @property
    def throughput(self) -> float:
        return self.statuses[200] / self.seconds

    def percentile(self, share: float) -> float:
        """Seconds."""
        ordered = sorted(self.latencies)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan

    def plain(self) -> dict[str, Any]:
        seconds = {f"p{share}": self.percentile(share / 100) for share in (50, 95, 99)}
        counts = {name: getattr(self, name) for name in ("statuses", "wrong", "failures", "malformed", "memory")}
        return {"throughput": self.throughput, **seconds, **counts}

    @property
    def failures(self) -> int:
        """Any 5xx, valid requests without an answer, and wrong answers."""
        every = sum(self.malformed.values(), Counter()) + self.statuses
        return self.wrong + self.statuses[0] + sum(count for status, count in every.items() if status >= 500)


# -- questions --


def random_samples(ports: Sequence[Port], preprocessing: Mapping[str, Any], seed: int = 0) -> list[list[Array]]:
    """[samples][inputs], with valid values."""
    draws = np.random.default_rng(seed)
    return [[_random(port, preprocessing, draws) for port in ports] for _ in range(DIFFERENT)]


def _random(port: Port, preprocessing: Mapping[str, Any], draws: np.random.Generator) -> Array:
    shape = [port.limit(at) or LENGTH if size is None else size for at, size in enumerate(port.shape)][1:]
    dtype = np.dtype(port.dtype)
    if dtype.kind == "f":
        return draws.standard_normal(shape).astype(dtype)
    highest = preprocessing["range"][1] if "range" in preprocessing else (preprocessing.get("tokens") or 2) - 1
    return draws.integers(0, highest, shape, endpoint=True).astype(dtype)


def body_of(sample: Sequence[Array], ports: Sequence[Port]) -> bytes:
    values = {port.name: array.tolist() for port, array in zip(ports, sample, strict=True)}
    return json.dumps({"input": values if len(values) > 1 else next(iter(values.values()))}).encode()


def questions_of(artifact: Artifact, runner: Runner) -> list[Question]:
    """The runner's own answers, one sample at a time."""
    made = []
    for sample in random_samples(artifact.inputs, artifact.preprocessing):
        outputs = runner.run([array[None] for array in sample])
        chosen = set(artifact.sample_outputs)
        rows = [array[0].tolist() for array, port in zip(outputs, artifact.outputs, strict=True) if port in chosen]
        made.append(Question(body_of(sample, artifact.inputs), prediction_of(artifact, rows)))
    return made


async def fetch_questions(address: Address) -> tuple[list[Question], float]:
    """For a running server: its answers to single requests, and its latency limit in seconds."""
    async with Connection(address) as connection:
        reply = await connection.get("/model")
        if reply.status != 200:
            why = f"http://{address.host}:{address.port}/model answers {reply.status}:"
            raise Misuse(f"{why} not a trueloop server, or the API key is missing. Nothing was sent.")
        model: dict[str, Any] = json.loads(reply.body)
        ports = [Port(at["name"], at["dtype"], tuple(at["shape"]), tuple(at["most"])) for at in model["inputs"]]
        made = []
        for sample in random_samples(ports, model["preprocessing"]):
            body = body_of(sample, ports)
            reply = await connection.ask(address.post(body))
            if reply.status != 200:
                text = reply.body[:200].decode(errors="replace")
                raise Misuse(f"A valid request is answered with {reply.status}: {text} Nothing more was sent.")
            made.append(Question(body, json.loads(reply.body)["predictions"][0]))
        limit = model.get("latency_ms")
        return made, math.inf if limit is None else limit / 1e3


def equal(answer: Any, expected: Any) -> bool:
    """Numbers within the tolerance, everything else equal."""
    match answer, expected:
        case dict(), dict():
            return answer.keys() == expected.keys() and all(equal(answer[name], expected[name]) for name in answer)
        case list(), list():
            return len(answer) == len(expected) and all(map(equal, answer, expected))
        case int() | float(), int() | float():
            return math.isclose(answer, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        case _:
            return bool(answer == expected)


# -- load --


async def run_load(
    address: Address,
    questions: Sequence[Question],
    *,
    clients: int,
    requests: int,
    malformed: float = 0.0,
    seed: int = 0,
) -> Outcome:
    """`malformed`: the share of malformed requests."""
    outcome, kinds, count = Outcome(), list(MALFORMED), round(requests * malformed)
    todo = [kinds[number % len(kinds)] if number < count else "" for number in range(requests)]
    random.Random(seed).shuffle(todo)
    await _send_all(address, questions, iter([""] * min(WARM, requests)), Outcome(), [], clients)
    before = await _memory(address)
    answers: list[tuple[int, bytes]] = []
    begun = time.perf_counter()
    await _send_all(address, questions, iter(todo), outcome, answers, clients)
    outcome.seconds = time.perf_counter() - begun
    outcome.memory = (before, await _memory(address))
    correct: dict[tuple[int, bytes], bool] = {}
    for number, body in answers:
        if (number, body) not in correct:
            correct[number, body] = equal(json.loads(body)["predictions"], [questions[number].expected])
        outcome.wrong += not correct[number, body]
    return outcome


async def _send_all(
    address: Address,
    questions: Sequence[Question],
    todo: Iterator[str],
    outcome: Outcome,
    answers: list[tuple[int, bytes]],
    clients: int,
) -> None:
    numbers = cycle(range(len(questions)))

    async def client() -> None:
        async with Connection(address) as connection:
            for kind in todo:
                number = next(numbers)
                if kind:
                    reply = await MALFORMED[kind](address, questions[number].body)
                    outcome.malformed.setdefault(kind, Counter())[reply.status] += 1
                    continue
                begun = time.perf_counter()
                reply = await connection.ask(address.post(questions[number].body))
                outcome.statuses[reply.status] += 1
                if reply.status == 200:
                    outcome.latencies.append(time.perf_counter() - begun)
                    answers.append((number, reply.body))
                elif reply.status == 429:
                    await asyncio.sleep(min(reply.later, LONGEST_PAUSE))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client())
    except* OSError as errors:
        where = f"http://{address.host}:{address.port}"
        raise Misuse(f"{where} cannot be reached ({errors.exceptions[0]}): is the server running?") from None


async def _memory(address: Address) -> float:
    async with Connection(address) as connection:
        reply = await connection.get("/metrics")
    for line in reply.body.decode(errors="replace").splitlines():
        if line.startswith("process_resident_memory_bytes "):
            return float(line.split()[1])
    return math.nan


async def wait_ready(address: Address, alive: Callable[[], bool]) -> bool:
    """False: the process ended before it was ready."""
    while alive():
        with suppress(OSError):  # not listening yet
            async with Connection(address) as connection:
                if (await connection.get("/ready")).status == 200:
                    return True
        await asyncio.sleep(0.05)
    return False
