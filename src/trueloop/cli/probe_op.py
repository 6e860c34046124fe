"""`trueloop probe ops.py:my_op --against torch.relu`: claims about an operation, or an optimizer."""

from __future__ import annotations

import argparse
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trueloop.cli.deliver import Delivery
from trueloop.cli.probe_optimizer import is_optimizer, optimizer_subject
from trueloop.cli.subject_file import named_object, object_in_file
from trueloop.errors import Misuse
from trueloop.op_claims.catalogue import OP_CLAIMS
from trueloop.optimizer_claims.catalogue import OPTIMIZER_CLAIMS
from trueloop.report import Live, document_of
from trueloop.report.from_proof import proof_part
from trueloop.results.proof import Proof

if TYPE_CHECKING:
    import torch

    from trueloop.op_claims.op_subject import OpSubject
    from trueloop.op_claims.sample import Sample

__all__ = ["add_op_options", "op_samples", "probe_named"]


def add_op_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("operations and optimizers (FILE.py:NAME)")
    add = group.add_argument
    add("--against", metavar="REFERENCE", help="torch.relu, torch.optim.SGD, a name in the file, or FILE.py:NAME")
    add("--gradient-of", metavar="FUNCTION", help="compare gradients with this one's: identity, or as --against")
    shown = 'arguments, repeatable: "f32[4,8], i64[4]<8, dim=-1"'
    add("--inputs", metavar="TEXT", action="append", default=[], help=shown)
    add("--device", metavar="DEVICE", help="cpu or cuda (cuda where the operation takes it)")


def probe_named(options: argparse.Namespace, target: str, words: list[str]) -> int:
    """Claims about what `FILE.py:NAME` is: an optimizer, or an operation."""
    delivery = Delivery(options)
    found, module = object_in_file(target)
    name = target.rpartition(":")[2]
    about_optimizer = is_optimizer(found)
    catalogue = OPTIMIZER_CLAIMS if about_optimizer else OP_CLAIMS
    chosen = catalogue.chosen(words)
    live = Live(sys.stdout, color=delivery.color) if delivery.in_terminal else None

    def show(proof: Proof) -> None:
        if live is not None and not (delivery.quiet and proof.result != "fails"):
            live.show(proof_part(proof))

    claims = [catalogue.claim(each) for each in chosen]
    if about_optimizer:
        from trueloop.optimizer_claims.prove_optimizer import prove_optimizer

        optimizer = optimizer_subject(options, name, found, module)
        _introduce(live, delivery, f"{name}({', '.join(f'{key}={value}' for key, value in optimizer.options.items())})")
        result = prove_optimizer(optimizer, target, claims, show)
    else:
        from trueloop.op_claims.prove_op import prove_op

        op = _subject(options, target, found, module)
        shown = "; ".join(sample.describe() for sample in op.samples[:4])
        _introduce(live, delivery, f"{op.name}: {op.kind} on {op.device}; inputs {op.source}: {shown}")
        result = prove_op(op, target, claims, show)
    if live is None:
        delivery.deliver(result)
    elif not delivery.quiet or result.exit_code():
        live.close(document_of(result))
    return result.exit_code()


def _introduce(live: Live | None, delivery: Delivery, line: str) -> None:
    if live is not None and not delivery.quiet:
        print(line)


def _subject(options: argparse.Namespace, target: str, op: Any, module: ModuleType) -> OpSubject:
    from trueloop.op_claims.op_subject import OpSubject, call_of, kind_of

    name = target.rpartition(":")[2]
    kind_of(op, name)
    reference = call_of(named_object(options.against, "--against", module)) if options.against else None
    gradient = None
    if options.gradient_of:
        named = options.gradient_of
        gradient = _identity if named == "identity" else call_of(named_object(named, "--gradient-of", module))
    samples, source = op_samples(options, name, op, module, reference)
    return OpSubject(
        op, name, tuple(samples), source, reference, options.against or "", gradient, options.gradient_of or "",
        ("aot_eager", "inductor"), target,
    )  # fmt: skip


def _identity(x: Any, *_: Any, **__: Any) -> Any:
    return x * 1


def op_samples(
    options: argparse.Namespace, name: str, op: Any, module: ModuleType, reference: Any
) -> tuple[list[Sample], str]:
    """On the first device on which the operation runs."""
    import torch

    if options.device:
        try:
            devices = [torch.device(options.device)]
            torch.empty(1, device=devices[0])
        except (RuntimeError, AssertionError):
            raise Misuse(f"--device {options.device} is not available here. Nothing was run.") from None
    else:
        devices = [torch.device(kind) for kind in (["cuda"] if torch.cuda.is_available() else []) + ["cpu"]]
    error: BaseException | None = None
    for device in devices:
        samples, source = _on(options, name, op, module, reference, device)
        error = _first_error(samples, op) if samples else error
        if samples and error is None:
            return samples, source
    if error is not None:
        said = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        raise Misuse(f"{name} raises on the first inputs: {said}. Nothing was tested: give others by --inputs.")
    typed = '`--inputs "f32[4,8], f32[8]"`, or a function `samples()` in its file'
    raise Misuse(f"No inputs are known that {name} takes. Nothing was run: add {typed}.")


def _on(
    options: argparse.Namespace, name: str, op: Any, module: ModuleType, reference: Any, device: torch.device
) -> tuple[list[Sample], str]:
    from trueloop.op_claims.op_inputs import derived_samples, own_samples, parsed_samples
    from trueloop.op_claims.op_subject import call_of, reference_arguments

    if options.inputs:
        return parsed_samples(options.inputs, device), "from --inputs"
    own = getattr(module, f"samples_{name}", None) or getattr(module, "samples", None)
    if own is not None:
        return own_samples(own, device), f"from {own.__name__}()"
    return derived_samples(call_of(op), reference, reference_arguments(op), device), "tried and taken"


def _first_error(samples: list[Sample], op: Any) -> BaseException | None:
    from trueloop.op_claims.op_subject import call_of

    try:
        samples[0].copied().call(call_of(op))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - shown to the user as one sentence
        return error
    return None
