"""Many callers at once, some of them rude: how many answers a second, how late, and whether each is the model's own."""

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
from typing import Any, Final

import numpy as np

from trueloop.errors import Misuse
from trueloop.export.exporter import Array, Runner
from trueloop.results.artifact import Artifact, Port, answer_of
from trueloop.serve.client import Address, Connection
from trueloop.serve.malformed import RUBBISH

__all__ = ["Outcome", "Question", "alike", "asked_alone", "drive", "made_up", "questions_of", "waited_for"]

DIFFERENT: Final = 64
"""Samples that are asked about, again and again."""
TOLERANCE: Final = 1e-4
"""Between two answers to the same sample: in a batch of another size, sums are rounded otherwise."""
WARM: Final = 200
"""Questions before anything is counted: what a server takes once, it has taken then."""
LONGEST_PAUSE: Final = 5.0
"""Seconds that a caller who is sent away stays away at most, whatever the server asks for."""
LENGTH: Final = 16
"""Of a free dimension, if no limit is known."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and the prediction that it must get."""

    body: bytes
    due: Any


@dataclass(slots=True)
class Outcome:
    """What was seen."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Of those that were answered, in seconds."""
    statuses: Counter[int] = field(default_factory=Counter)
    """Of questions that were right."""
    wrong: int = 0
    """Answers that are not the model's own."""
    rubbish: dict[str, Counter[int]] = field(default_factory=dict)
    """How it was sent away; 0: the connection was closed."""
    memory: tuple[float, float] = (math.nan, math.nan)
    """Of the server, before and after, in bytes."""

    def add(self, later: Outcome) -> None:
        """What was seen of the same server in another round."""
        self.memory = (later.memory[0] if not self.seconds else self.memory[0], later.memory[1])
        self.seconds += later.seconds
        self.latencies += later.latencies
        self.statuses += later.statuses
        self.wrong += later.wrong
        for kind, counts in later.rubbish.items():
            self.rubbish[kind] = self.rubbish.get(kind, Counter()) + counts

    @property
    def throughput(self) -> float:
        return self.statuses[200] / self.seconds

    def percentile(self, share: float) -> float:
        """Seconds; the slowest of the quickest `share`."""
        ordered = sorted(self.latencies)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan

    @property
    def failures(self) -> int:
        """Of the server: 5xx to anybody, silence to a question that was right, and wrong answers."""
        all_statuses = sum(self.rubbish.values(), Counter()) + self.statuses
        return self.wrong + self.statuses[0] + sum(count for status, count in all_statuses.items() if status >= 500)


# -- questions --


def made_up(ports: Sequence[Port], preprocessing: Mapping[str, Any], seed: int = 0) -> list[list[Array]]:
    """Samples of random values within what the model takes: [samples][inputs]."""
    draws = np.random.default_rng(seed)
    return [[_drawn(port, preprocessing, draws) for port in ports] for _ in range(DIFFERENT)]


def _drawn(port: Port, preprocessing: Mapping[str, Any], draws: np.random.Generator) -> Array:
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
    """With the runner's own answers, each sample alone."""
    made = []
    for sample in made_up(artifact.inputs, artifact.preprocessing):
        outputs = runner.run([array[None] for array in sample])
        made.append(Question(body_of(sample, artifact.inputs), answer_of(artifact, outputs[0][0].tolist())))
    return made


async def asked_alone(address: Address) -> tuple[list[Question], float]:
    """For a server of which only the address is known: what it answers to each when nobody else asks, and its own limit
    in seconds."""
    async with Connection(address) as connection:
        model = await _model(address, connection)
        ports = [
            Port(port["name"], port["dtype"], tuple(port["shape"]), tuple(port["most"])) for port in model["inputs"]
        ]
        made = []
        for sample in made_up(ports, model["preprocessing"]):
            body = body_of(sample, ports)
            reply = await connection.ask(address.post(body))
            if reply.status != 200:
                said = reply.body[:200].decode(errors="replace")
                raise Misuse(f"A plain question is answered with {reply.status}: {said} Nothing more was asked.")
            made.append(Question(body, json.loads(reply.body)["predictions"][0]))
        limit = model.get("latency_ms")
        return made, math.inf if limit is None else limit / 1e3


async def _model(address: Address, connection: Connection) -> dict[str, Any]:
    told = await connection.get("/model")
    if told.status != 200:
        where = f"http://{address.host}:{address.port}/model"
        raise Misuse(
            f"{where} answers {told.status}: it is no server of trueloop's, or wants an API key. Nothing was asked."
        )
    model: dict[str, Any] = json.loads(told.body)
    return model


def alike(answer: Any, due: Any) -> bool:
    """Numbers within the tolerance, everything else the same."""
    match answer, due:
        case dict(), dict():
            return answer.keys() == due.keys() and all(alike(value, due[name]) for name, value in answer.items())
        case list(), list():
            return len(answer) == len(due) and all(map(alike, answer, due))
        case int() | float(), int() | float():
            return math.isclose(answer, due, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        case _:
            return bool(answer == due)


# -- asking --


async def drive(
    address: Address, questions: Sequence[Question], *, clients: int, requests: int, rubbish: float = 0.0, seed: int = 0
) -> Outcome:
    """All of it. `rubbish`: the share of requests that are."""
    outcome = Outcome()
    draws = random.Random(seed)
    kinds = list(RUBBISH)
    count = round(requests * rubbish)
    todo = [kinds[number % len(kinds)] if number < count else "" for number in range(requests)]
    draws.shuffle(todo)
    await _all(address, questions, iter([""] * min(WARM, requests)), Outcome(), [], clients)
    before = await _memory(address)
    answers: list[tuple[int, bytes]] = []
    begun = time.perf_counter()
    await _all(address, questions, iter(todo), outcome, answers, clients)
    outcome.seconds = time.perf_counter() - begun
    outcome.memory = (before, await _memory(address))
    right: dict[tuple[int, bytes], bool] = {}
    for number, body in answers:
        if (number, body) not in right:
            right[number, body] = alike(json.loads(body)["predictions"], [questions[number].due])
        outcome.wrong += not right[number, body]
    return outcome


async def _all(
    address: Address,
    questions: Sequence[Question],
    todo: Iterator[str],
    outcome: Outcome,
    answers: list[tuple[int, bytes]],
    clients: int,
) -> None:
    numbers = iter(_rounds(len(questions)))

    async def one() -> None:
        async with Connection(address) as connection:
            for kind in todo:
                number = next(numbers)
                if kind:
                    reply = await RUBBISH[kind](address, questions[number].body)
                    outcome.rubbish.setdefault(kind, Counter())[reply.status] += 1
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
                group.create_task(one())
    except* OSError as errors:
        where = f"http://{address.host}:{address.port}"
        raise Misuse(f"{where} cannot be reached ({errors.exceptions[0]}): is it served there?") from None


def _rounds(count: int) -> Iterator[int]:
    while True:
        yield from range(count)


async def _memory(address: Address) -> float:
    async with Connection(address) as connection:
        reply = await connection.get("/metrics")
    for line in reply.body.decode(errors="replace").splitlines():
        if line.startswith("process_resident_memory_bytes "):
            return float(line.split()[1])
    return math.nan


async def waited_for(address: Address, alive: Callable[[], bool]) -> bool:
    """Until it is ready; False: it will never be."""
    while alive():
        with suppress(OSError):  # not listening yet
            async with Connection(address) as connection:
                if (await connection.get("/ready")).status == 200:
                    return True
        await asyncio.sleep(0.05)
    return False
