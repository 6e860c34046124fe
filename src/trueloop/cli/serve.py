"""`trueloop serve ARTIFACT`: a model behind HTTP, until SIGTERM; or the files with which Triton or Docker would serve
it."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.options import Parser
from trueloop.cli.quantities import duration, size
from trueloop.errors import MissingExtra, Misuse, did_you_mean
from trueloop.export.device import parse_device

if TYPE_CHECKING:
    from trueloop.results.artifact import Artifact
    from trueloop.serve.limits import Limits

__all__ = ["KEY", "add_limits", "limits_of", "not_a_run", "serve"]

USAGE: Final = "[options] ARTIFACT"
ABOUT: Final = """Serve an exported model over HTTP:

  POST /predict   JSON, pictures or text, one sample or many      GET /health    does it live?
  GET  /          a page to try it                                GET /ready     is the model loaded and warm?
  GET  /docs      what can be asked (/openapi.json)               GET /metrics   for Prometheus

Samples of many callers that arrive within --wait are computed together. With --latency, batches are kept small enough for it, and who would
have to wait longer is told so at once: 429, with when to come again. What cannot be answered is refused with one sentence; SIGTERM ends it
when everybody who waits is answered. It listens on this machine only, unless --host says otherwise."""
WRITES: Final = ("triton", "docker")
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
KEY: Final = "TRUELOOP_API_KEY"


def serve(arguments: list[str]) -> int:
    asked = _parsed(arguments)
    if asked.write:
        return _write(asked)
    try:
        from trueloop.serve.server import listen, run
        from trueloop.serve.service import Service
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Serving needs {error.name}, which is not installed. Nothing was run: pip install 'trueloop[serve]'"
        ) from None
    from trueloop.export.catalogue import check_runnable, runner_of
    from trueloop.export.folder import read_artifact

    artifact = read_artifact(not_a_run(asked.artifact, "serve", "served"))
    _, device = check_runnable(artifact, asked.device or "")
    limits, key = limits_of(asked), _key(asked.api_key_file)
    service = Service(artifact, lambda: runner_of(artifact, device), limits, key=key)
    door = listen(asked.host, asked.port)
    _announce(artifact, limits, asked.host, door.getsockname()[1], bool(key))
    if device != "cpu":
        _say(f"device     {device}")
    run(service, door, _say, log=asked.log)
    _say("stopped")
    return 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("serve", USAGE, ABOUT)
    parser.add_argument(
        "artifact", nargs="?", metavar="ARTIFACT", type=Path, help="the folder that `trueloop export` made"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1: this machine only)")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="8000; 0: any that is free")
    add_limits(parser)
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        type=parse_device,
        help="cpu | cuda | cuda:N (cpu; what machine code is for, it runs on)",
    )
    parser.add_argument(
        "--api-key-file", type=Path, metavar="FILE", help=f"callers must know what stands there; or the variable {KEY}"
    )
    parser.add_argument("--log", action="store_true", help="a line for each request")
    parser.add_argument(
        "--write", nargs=2, metavar=("WHAT", "DIR"), help="serve nothing; write a triton repository, or a docker folder"
    )
    asked = parser.parse_all(arguments)
    if asked.artifact is None:
        raise Misuse(
            "Which artifact? Nothing was served: type `trueloop serve runs/NAME/export/onnx`; `trueloop export` makes one."
        )
    return asked


def not_a_run(path: Path, verb: str, undone: str) -> Path:
    """The same path. Raises Misuse where a run stands in place of what was exported from it, with what to type."""
    from trueloop.results.artifact import FILE

    run = next((place for place in (path, Path("runs") / path) if (place / "run.json").is_file()), None)
    if run is None or (path / FILE).is_file():
        return path
    if made := sorted(file.parent for file in run.glob(f"export/*/{FILE}")):
        raise Misuse(
            f"{path} is a run. Nothing was {undone}: type "
            + " or ".join(f"`trueloop {verb} {each}`" for each in made)
            + "."
        )
    typed = f"type `trueloop export {path} --to onnx`, and then `trueloop {verb} {run / 'export' / 'onnx'}`."
    raise Misuse(f"{path} is a run, and was not exported. Nothing was {undone}: {typed}")


def add_limits(parser: Parser) -> None:
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--batch", metavar="N", default="32", help="samples that are computed together at most (32); 1: no batching"
    )
    limits.add_argument(
        "--wait", metavar="TIME", default="5ms", help="how long the first of them waits for others (5ms)"
    )
    limits.add_argument(
        "--latency", metavar="TIME", default="", help="answer within it, or refuse at once: 429 (as long as it takes)"
    )
    limits.add_argument("--queue", metavar="N", default="256", help="samples that may wait; then callers get 429 (256)")
    limits.add_argument("--max-body", metavar="SIZE", default="10MB", help="of a request (10MB)")
    limits.add_argument("--timeout", metavar="TIME", default="10s", help="to send a request, and to answer it (10s)")
    limits.add_argument("--grace", metavar="TIME", default="10s", help="from SIGTERM to the end (10s)")


def limits_of(asked: argparse.Namespace) -> Limits:
    from trueloop.serve.limits import Limits

    batch, queue = _count(asked.batch, "--batch"), _count(asked.queue, "--queue")
    if queue < batch:
        raise Misuse(
            f"--queue {queue} is shorter than --batch {batch}: no batch would ever be full. Nothing was served: make it longer."
        )
    wait = duration(asked.wait, "--wait", "served")
    latency = duration(asked.latency, "--latency", "served") if asked.latency else math.inf
    if wait >= latency:
        raise Misuse(
            f"--wait {asked.wait} leaves nothing of --latency {asked.latency}. Nothing was served: wait for less, or allow more."
        )
    return Limits(
        batch=batch,
        wait=wait,
        latency=latency,
        queue=queue,
        body=int(size(asked.max_body, "--max-body", "served")),
        timeout=duration(asked.timeout, "--timeout", "served"),
        grace=duration(asked.grace, "--grace", "served"),
    )


def _count(text: str, option: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise Misuse(f"{option} cannot be {text!r}. Nothing was served: write a number from 1 on.")
    return int(text)


def _key(file: Path | None) -> str:
    if file is None:
        return os.environ.get(KEY, "")
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"--api-key-file {file} cannot be read ({error}). Nothing was served.") from None
    if not key:
        raise Misuse(f"--api-key-file {file} is empty: everybody would be refused, or nobody. Nothing was served.")
    return key


def _announce(artifact: Artifact, limits: Limits, host: str, port: int, keyed: bool) -> None:
    shown = f"[{host}]" if ":" in host else host
    _say(
        f"{artifact.name} as {artifact.target} at http://{shown}:{port}  (try it there; POST /predict, /docs, /metrics)"
    )
    together = (
        f"up to {limits.batch} samples at once, the first waits {limits.wait * 1e3:g} ms"
        if limits.batch > 1
        else "one sample at a time"
    )
    _say(f"batches    {together}; {limits.queue} may wait; requests up to {limits.body:,} bytes")
    if limits.latency < math.inf:
        _say(f"latency    answered within {limits.latency * 1e3:g} ms, or refused at once (429)")
    if host not in LOOPBACK and not keyed:
        print(
            f"trueloop: anybody who reaches {host}:{port} can use this model: there is no API key (--api-key-file, or {KEY}).",
            file=sys.stderr,
            flush=True,
        )


def _say(line: str) -> None:
    print(line, flush=True)


def _write(asked: argparse.Namespace) -> int:
    what, folder = asked.write
    if what not in WRITES:
        raise Misuse(
            f"--write cannot be {what!r}.{did_you_mean(what, WRITES)} Nothing was written. There are: {', '.join(WRITES)}."
        )
    from trueloop.export.folder import read_artifact, verify_files
    from trueloop.serve.dockerfile import write_docker
    from trueloop.serve.triton import write_triton

    artifact = read_artifact(not_a_run(asked.artifact, "serve", "written"))
    verify_files(artifact)
    for path in (write_triton if what == "triton" else write_docker)(artifact, Path(folder), limits_of(asked)):
        _say(f"written    {path}")
    return 0
