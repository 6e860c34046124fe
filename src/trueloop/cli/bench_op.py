"""`trueloop bench ops.py:my_op --against torch.softmax --sizes 256,1024,4096`: an operation over sizes."""

from __future__ import annotations

import argparse
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trueloop.cli.deliver import Delivery
from trueloop.cli.subject_file import named_object, object_in_file
from trueloop.errors import Misuse
from trueloop.results.check import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["add_op_options", "bench_op"]

SIZES: Final = (64, 256, 1024, 4096)
PATTERNS: Final = ("f32[256,N]", "f32[N,N], f32[N,N]", "f32[256,N], f32[256,N]", "f32[256,N], -1", "f32[256,N], 1")
_N: Final = re.compile(r"\bN\b")


def add_op_options(parser: argparse.ArgumentParser, sizes: Callable[[str], tuple[int, ...]]) -> None:
    group = parser.add_argument_group("an operation (FILE.py:NAME)")
    group.add_argument("--against", metavar="REFERENCE", help="torch.softmax, a name in the file, or FILE.py:NAME")
    shown = ",".join(map(str, SIZES))
    group.add_argument("--sizes", metavar="N,N,...", type=sizes, default=SIZES, help=f"values of N ({shown})")
    group.add_argument("--inputs", metavar="TEXT", help='arguments, with N for the size: "bf16[4096,N], dim=-1"')


def bench_op(options: argparse.Namespace) -> int:
    from trueloop.export.device import torch_device
    from trueloop.op_bench.measure_op import measure_op
    from trueloop.op_claims.op_inputs import parsed_samples
    from trueloop.op_claims.op_subject import call_of, kind_of

    if len(options.what) > 1:
        raise Misuse("An operation is measured alone. Nothing was run: name one FILE.py:NAME, and --against REFERENCE.")
    (target,) = options.what
    delivery = Delivery(options)
    device = torch_device(options.device)
    op, module = object_in_file(target)
    kind_of(op, target.rpartition(":")[2])
    functions = {target: call_of(op)}
    if options.against:
        functions[options.against] = call_of(named_object(options.against, "--against", module))
    sizes = sorted(options.sizes)
    text = _inputs(options.inputs, functions, sizes[0], device)
    samples = [(size, parsed_samples([_N.sub(str(size), text)], device)[0]) for size in sizes]
    say = (lambda _: None) if options.quiet else partial(print, " ", file=sys.stderr)
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    delivery.deliver(measure_op(functions, samples, options.seconds, say))
    return ExitCode.CLEAN


def _inputs(given: str | None, functions: dict[str, Any], size: int, device: Any) -> str:
    """`--inputs`, or the first pattern that all functions take."""
    from trueloop.op_claims.op_inputs import parsed_samples

    if given is not None and not _N.search(given):
        raise Misuse('--inputs has no N. Nothing was run: write the size that varies as N: "f32[256,N], dim=-1".')
    error: Exception | None = None
    for text in [given] if given is not None else PATTERNS:
        sample = parsed_samples([_N.sub(str(size), text)], device)[0]
        try:
            for function in functions.values():
                sample.copied().call(function)
        except Exception as raised:  # noqa: BLE001 - the next pattern is tried; the last error is shown
            error = raised
            continue
        return text
    said = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}"
    typed = '`--inputs "f32[256,N], dim=-1"`'
    raise Misuse(
        f"No inputs are known that {' and '.join(functions)} take ({said}). Nothing was measured: type {typed}."
    )
