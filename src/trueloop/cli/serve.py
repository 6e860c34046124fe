"""`trueloop serve ARTIFACT`: a model behind HTTP and gRPC, until SIGTERM; or files to serve it elsewhere."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueloop.cli.options import Parser, duration, size, whole_number
from trueloop.errors import MissingExtra, Misuse, did_you_mean
from trueloop.export.device import parse_device

if TYPE_CHECKING:
    from trueloop.export.exporter import Runner
    from trueloop.results.artifact import Artifact
    from trueloop.serve.grpc_server import GrpcServer
    from trueloop.serve.limits import Limits
    from trueloop.serve.model import Source
    from trueloop.serve.service import Service

__all__ = ["KEY", "add_limits", "limits_of", "not_a_run", "parser", "serve"]

ABOUT: Final = """Serve an exported model over HTTP:

  POST /predict   JSON, images or text; one sample or many
  POST /v2/...    KServe v2: tensors as JSON or binary, for clients of Triton
  GET  /          a page to try it
  GET  /docs      the API (/openapi.json)
  GET  /health    is the process alive?
  GET  /ready     is the model loaded and warm?
  GET  /metrics   for Prometheus

A run of a language model is served without export: POST /v1/completions and GET /v1/models, as OpenAI has them.

Samples that arrive within --wait are computed as one batch. With --latency, batches stay small enough for it, and
requests that would wait longer are rejected with 429 and a Retry-After. Bad requests get a 4xx with one sentence. On
SIGTERM, waiting requests are answered first; on SIGHUP, artifacts are loaded again. It listens on this machine only,
unless --host is given."""
WRITES: Final = ("triton", "docker", "kserve", "kubernetes")
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
KEY: Final = "TRUELOOP_API_KEY"
SAMPLES: Final = 6  # On the page: whoever reaches it can see them


def parser() -> Parser:
    made = Parser("serve", "[options] [NAME[:VERSION]=]ARTIFACT ...", ABOUT)
    add = made.add_argument
    folders = "folders that `trueloop export` wrote, or the run of a language model; NAME: as which it is served"
    add("artifacts", nargs="*", metavar="[NAME[:VERSION]=]ARTIFACT", help=folders)
    add("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine only)")
    add("--port", type=whole_number(0, 65535), default=8000, metavar="N", help="8000; 0: any free port")
    add("--grpc", type=whole_number(0, 65535), metavar="N", help="port for KServe v2 over gRPC; 0: any free port")
    add("--device", type=parse_device, help="cpu (default) | cuda | cuda:N; aoti: the device it is for")
    add("--api-key-file", type=Path, metavar="FILE", help=f"require this API key; or the variable {KEY}")
    add("--workers", type=whole_number(), metavar="N", help="compute in N processes, started again after a crash")
    add("--ray", action="store_true", help="--workers replicas on a cluster of Ray (RAY_ADDRESS), or here")
    shown = f"validation samples on the page ({SAMPLES} if only this machine can ask, else 0)"
    add("--samples", type=whole_number(0, 50), metavar="N", help=shown)
    add("--log", action="store_true", help="print a line for each request")
    add(
        "--write",
        nargs=2,
        metavar=("WHAT", "DIR"),
        help="write files for triton, docker, kserve or kubernetes; serve nothing",
    )
    add_limits(made)
    made.add_trust()
    return made


def add_limits(parser: Parser) -> None:
    limits = parser.add_argument_group("limits")
    for name, metavar, kind, default, help in (
        ("--batch", "N", whole_number(), "32", "largest batch (32); 1: no batching"),
        ("--wait", "TIME", duration, "5ms", "how long the first sample waits for others (5ms)"),
        ("--latency", "TIME", duration, None, "answer within this time, or reject with 429 (no limit)"),
        ("--queue", "N", whole_number(), "256", "samples that may wait; more are rejected with 429 (256)"),
        ("--max-body", "SIZE", size, "10MB", "largest request (10MB)"),
        ("--timeout", "TIME", duration, "10s", "to receive a request, to answer it, and to read the answer (10s)"),
        ("--grace", "TIME", duration, "10s", "from SIGTERM to the end (10s)"),
        ("--connections", "N", whole_number(), "1000", "open connections; requests on further ones get 503 (1000)"),
        ("--per-client", "N", whole_number(), "500", "connections or gRPC calls of an address; of a proxy more (500)"),
    ):
        limits.add_argument(name, metavar=metavar, type=kind, default=default, help=help)


def serve(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if not options.artifacts:
        made = "`trueloop export` makes one"
        raise Misuse(f"Which artifact? Nothing was run: type `trueloop serve runs/NAME/export/onnx`; {made}.")
    if options.write:
        return _write(options)
    if (found := _language_run(options.artifacts)) is not None:
        return _serve_text(found, options)
    try:
        from trueloop.serve.server import listen, run
        from trueloop.serve.service import Service
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Serving needs the package {error.name}: pip install 'trueloop[serve]'") from None
    from trueloop.export.catalogue import check_runnable
    from trueloop.export.confined_runner import is_confined
    from trueloop.serve.model import Source

    limits, key = limits_of(options), _key(options.api_key_file)
    workers = options.workers or 0
    places = [_named(each) for each in options.artifacts]
    sources = [
        Source(partial(_read, path.absolute(), options.device or ""), name, version) for name, version, path in places
    ]
    if options.ray:
        return _serve_on_ray(sources, limits, key, options)
    service = Service(sources, limits, key=key, workers=workers, samples=_sample_reader(options))
    beside = None if options.grpc is None else _grpc_server(service, options)
    door = listen(options.host, options.port)
    _announce(service, options.host, door.getsockname()[1])
    if beside is not None:
        _say(f"gRPC       {beside.address}  (KServe v2)")
    if service.read_samples is not None and _has_samples(service.first.artifact):
        _say("samples    of the run's validation data are shown on the page (--samples 0: none)")
    if confined := ", ".join(model.title for model in service.models if is_confined(model.artifact)):
        _say(
            f"confined   {confined}: not exported on this machine, so computed without network, files or other programs"
        )
    devices = {check_runnable(model.artifact, options.device or "")[1] for model in service.models}
    if devices != {"cpu"}:
        _say(f"device     {', '.join(sorted(devices))}")
    if workers:
        each = " for each model" if len(service.models) > 1 else ""
        _say(f"workers    {workers} {'process' if workers == 1 else 'processes'}{each}")
    run(service, door, _say, log=options.log, beside=beside)
    _say("stopped")
    return 0


def _sample_reader(options: argparse.Namespace) -> Callable[[Artifact], dict[str, Any]] | None:
    """Validation data are the user's own: other machines see them only if that is asked for."""
    count = options.samples
    if count is None:
        count = SAMPLES if options.host in LOOPBACK else 0
    if not count:
        return None
    from trueloop.inference.run_samples import samples_for_page

    return partial(samples_for_page, count=count)


def _has_samples(artifact: Artifact) -> bool:
    from trueloop.inference.run_samples import has_samples

    return has_samples(artifact)


def _serve_on_ray(sources: list[Source], limits: Limits, key: str, options: argparse.Namespace) -> int:
    if options.grpc is not None or options.log or options.samples:
        raise Misuse("--grpc, --log and --samples are not for --ray. Nothing was run.")
    try:
        from trueloop.serve.ray_deployment import run_on_ray
    except ModuleNotFoundError as error:
        raise MissingExtra(f"--ray needs the package {error.name}: pip install 'trueloop[serve,ray]'") from None
    from trueloop.serve.server import listen

    for source in sources:
        source.read()  # what cannot be served is refused here, not in each replica
    with listen(options.host, options.port) as door:  # Ray opens a port itself: is it free?
        port = door.getsockname()[1]
    replicas = options.workers or 1
    url = _address(options.host, port)
    _say(f"Ray Serve at {url}  ({replicas} {'replica' if replicas == 1 else 'replicas'}; POST /predict, /v2, /docs)")
    _warn_if_open(options.host, port, bool(key))
    run_on_ray(sources, limits, key, host=options.host, port=port, replicas=replicas, say=_say)
    _say("stopped")
    return 0


def _grpc_server(service: Service, options: argparse.Namespace) -> GrpcServer:
    """Raises Misuse: the port is taken."""
    try:
        from trueloop.serve.grpc_server import GrpcServer
    except ModuleNotFoundError as error:
        raise MissingExtra(f"gRPC needs the package {error.name}: pip install 'trueloop[serve,grpc]'") from None
    from trueloop.serve.server import listen

    with listen(options.host, options.grpc, "--grpc") as door:  # gRPC opens a port itself: is it free?
        port = door.getsockname()[1]
    return GrpcServer(service, options.host, port, _say if options.log else None)


def _language_run(typed: list[str]) -> Path | None:
    """The folder of a run, if the only argument is one whose task is language."""
    from trueloop.results.artifact import FILE
    from trueloop.session.folder import read_about

    path = Path(typed[0])
    run = next((place for place in (path, Path("runs") / path) if (place / "run.json").is_file()), None)
    if len(typed) > 1 or run is None or (path / FILE).is_file():
        return None
    return run if (read_about(run).get("recipe") or {}).get("task") == "language" else None


def _serve_text(run: Path, options: argparse.Namespace) -> int:
    """A language model of a run, with its KV cache."""
    if options.workers or options.write or options.ray or options.grpc is not None:
        artifacts = "--workers, --ray, --grpc and --write are for artifacts"
        raise Misuse(f"{run} is a run of a language model: {artifacts}. Nothing was run.")
    try:
        from trueloop.serve.server import listen
        from trueloop.serve.server import run as run_server
        from trueloop.serve.text_service import TextService
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Serving needs the package {error.name}: pip install 'trueloop[serve]'") from None
    from trueloop.inference.generate import LanguageModel
    from trueloop.inference.load import load
    from trueloop.inference.ragged_batch import RaggedBatch
    from trueloop.inference.text_coding import coding_of

    limits, key = limits_of(options), _key(options.api_key_file)
    loaded = load(run, device=options.device or "auto")
    coding = coding_of(loaded.splits.facts.more.get("text"), loaded.model)
    model = RaggedBatch(LanguageModel(loaded), coding, limits.batch)
    service = TextService(lambda: model, run.resolve().name, limits, key=key)
    door = listen(options.host, options.port)
    url = _address(options.host, door.getsockname()[1])
    _say(f"{service.name} at {url}/v1  (OpenAI-compatible: POST /v1/completions, GET /v1/models)")
    _say(f"texts      up to {limits.batch} at once, {limits.queue} may wait; context of {model.context} tokens")
    _warn_if_open(options.host, door.getsockname()[1], bool(key))
    run_server(service, door, _say, log=options.log)
    _say("stopped")
    return 0


def _named(text: str) -> tuple[str, int, Path]:
    """NAME=ARTIFACT, NAME:VERSION=ARTIFACT, or ARTIFACT: then the name is empty. Version 0: none. Raises Misuse."""
    before, equals, path = text.partition("=")
    if not equals or Path(text).exists():
        return "", 0, Path(text)
    found = re.fullmatch(r"([A-Za-z0-9._-]+)(?::([1-9][0-9]{0,8}))?", before)
    if not found or not path:
        form = "a name has letters, digits, '.', '_' and '-', and a version is a number from 1"
        raise Misuse(f"{text!r} is not NAME=ARTIFACT or NAME:VERSION=ARTIFACT: {form}. Nothing was run.")
    return found[1], int(found[2] or 0), Path(path)


def _read(path: Path, device: str) -> tuple[Artifact, Callable[[], Runner]]:
    from trueloop.export.catalogue import check_runnable, runner_of
    from trueloop.export.folder import read_artifact

    artifact = read_artifact(not_a_run(path, "serve"))
    return artifact, partial(runner_of, artifact, check_runnable(artifact, device)[1])


def not_a_run(path: Path, verb: str) -> Path:
    """The same path. Raises Misuse for a run, with the artifacts that were exported from it."""
    from trueloop.results.artifact import FILE

    run = next((place for place in (path, Path("runs") / path) if (place / "run.json").is_file()), None)
    if run is None or (path / FILE).is_file():
        return path
    if exported := sorted(file.parent for file in run.glob(f"export/*/{FILE}")):
        typed = " or ".join(f"`trueloop {verb} {each}`" for each in exported)
        raise Misuse(f"{path} is a run, not an artifact. Nothing was run: type {typed}.")
    typed = f"type `trueloop export {path} --to onnx`, then `trueloop {verb} {run / 'export' / 'onnx'}`"
    raise Misuse(f"{path} is a run that was not exported. Nothing was run: {typed}.")


def limits_of(options: argparse.Namespace) -> Limits:
    from trueloop.serve.limits import Limits

    latency = math.inf if options.latency is None else options.latency
    if options.queue < options.batch:
        small = f"--queue {options.queue} is smaller than --batch {options.batch}"
        raise Misuse(f"{small}: a batch is never full. Nothing was run.")
    if options.wait >= latency:
        limit = f"--latency {latency * 1e3:g}ms. Nothing was run."
        raise Misuse(f"--wait {options.wait * 1e3:g}ms must be shorter than {limit}")
    same = {
        name: getattr(options, name)
        for name in ("batch", "wait", "queue", "timeout", "grace", "connections", "per_client")
    }
    return Limits(**same, latency=latency, body=int(options.max_body))


def _key(file: Path | None) -> str:
    if file is None:
        return os.environ.get(KEY, "")
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"--api-key-file {file} cannot be read ({error}). Nothing was run.") from None
    if not key:
        raise Misuse(f"--api-key-file {file} is empty. Nothing was run: write the key into it.")
    return key


def _announce(service: Service, host: str, port: int) -> None:
    limits = service.limits
    url = _address(host, port)
    for model in service.models:
        which = f"?model={model.name}" if model.name != service.first.name else ""
        use = f"try it there; POST /predict{which}, /docs, /metrics"
        if model is not service.named(model.name):  # an older version
            use = f"POST /v2/models/{model.name}/versions/{model.version}/infer"
        _say(f"{model.title} as {model.artifact.target} at {url}  ({use})")
    several = f"up to {limits.batch} samples, the first waits {limits.wait * 1e3:g} ms"
    batches = several if limits.batch > 1 else "of one sample"
    _say(f"batches    {batches}; queue of {limits.queue}; requests up to {limits.body:,} bytes")
    if limits.latency < math.inf:
        _say(f"latency    answers within {limits.latency * 1e3:g} ms, or 429 at once")
    _warn_if_open(host, port, bool(service.key))


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _warn_if_open(host: str, port: int, keyed: bool) -> None:
    if host not in LOOPBACK and not keyed:
        warning = f"anybody who can reach {host}:{port} can use this model: no API key is set (--api-key-file, or"
        print(f"trueloop: {warning} {KEY}).", file=sys.stderr, flush=True)


def _say(line: str) -> None:
    print(line, flush=True)


def _write(options: argparse.Namespace) -> int:
    what, folder = options.write
    if what not in WRITES:
        near = did_you_mean(what, WRITES)
        raise Misuse(f"--write cannot be {what!r}.{near} Choose: {', '.join(WRITES)}. Nothing was run.")
    from trueloop.export.folder import read_artifact, verify_files
    from trueloop.serve.deployment import write_docker, write_triton
    from trueloop.serve.manifests import MANIFESTS, write_manifest
    from trueloop.trust.artifacts import check_artifact

    if len(options.artifacts) > 1:
        raise Misuse("--write takes one artifact. Nothing was written.")
    artifact = read_artifact(not_a_run(Path(options.artifacts[0]), "serve"))
    check_artifact(artifact)
    verify_files(artifact)
    writers = {"triton": write_triton, "docker": write_docker} | {name: write_manifest(name) for name in MANIFESTS}
    for path in writers[what](artifact, Path(folder), limits_of(options)):
        _say(f"written    {path}")
    return 0
