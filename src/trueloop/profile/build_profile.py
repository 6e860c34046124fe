"""Build a profile from the observations: join the facts, add the ceilings, derive verdict and advice."""

import os
import platform
from dataclasses import replace
from traceback import FrameSummary
from typing import Final

import torch
import torch.distributed as dist

from trueloop.event import Place
from trueloop.profile.advice import advice_for
from trueloop.profile.ceilings import ceilings_of, machine_name
from trueloop.profile.clock import extend_to_busy, summary
from trueloop.profile.observer import Observer
from trueloop.profile.verdict import bound_of
from trueloop.results.profile import Ceilings, Compiled, CompilerNote, Machine, ModuleCost, Operation, Profile, Work
from trueloop.taps.place import is_users
from trueloop.torch_private.compiler import compile_seconds, compiler_notes

__all__ = ["build_profile", "compile_facts"]

CONVOLUTIONS: Final = (
    "mkldnn_convolution",
    "cudnn_convolution",
    "miopen_convolution",
    "_slow_conv2d_forward",
    "_conv_depthwise2d",
)
"""Names under which libraries report the time of `convolution`."""


def build_profile(observer: Observer, subject: str, notes: tuple[str, ...] = ()) -> Profile:
    """Call when the run has ended and the observer is removed. Measures the ceilings if they are not cached."""
    steps = summary(observer.clock.steps)
    host = observer.seen.host if observer.seen else None
    if steps is not None and host is not None and host.busy is not None:
        steps = extend_to_busy(steps, host.busy)
    device = observer.device
    ceilings = ceilings_of(device) if steps is not None else None
    profile = Profile(
        subject=subject,
        machine=_machine(device),
        steps=steps,
        host=host,
        operations=_operations(observer),
        modules=_modules(observer),
        work=_work(observer, ceilings),
        ceilings=ceilings,
        memory=observer.tensors.memory(observer.counter, observer.peak) if observer.tensors else None,
        compiled=compile_facts(),
        loading=observer.loading(),
        updating=observer.updating(),
        lines=observer.lines,
        copies=observer.counter.copies.found(observer.counter.work().bytes) if observer.counter else (),
        timeline=tuple(observer.seen.timeline) if observer.seen else (),
        notes=(*observer.notes, *notes),
        failures=tuple(observer.bus.failures),
        batch=observer.batch_size,
    )
    if profile.mfu is not None and profile.mfu > 1:
        # Above the ceiling: other work slowed down the machine when the ceiling was measured.
        ceilings = ceilings_of(device, again=True)
        profile = replace(profile, ceilings=ceilings, work=_work(observer, ceilings))
    return replace(profile, bound=bound_of(profile), advice=advice_for(profile))


def _machine(device: torch.device) -> Machine:
    distributed = dist.is_available() and dist.is_initialized()
    return Machine(
        device=str(device),
        name=machine_name(device),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        python=platform.python_version(),
        ranks=dist.get_world_size() if distributed else int(os.environ.get("WORLD_SIZE", "1")),
    )


def _operations(observer: Observer) -> tuple[Operation, ...]:
    """Times from the profiler, FLOPs and bytes from the counter, joined by the operation's name."""
    if observer.seen is None:
        return ()
    counted = observer.counter.operations if observer.counter else {}

    def joined(each: Operation) -> Operation:
        name = "convolution" if each.name in CONVOLUTIONS else each.name
        return replace(each, flops=counted[name].flops, bytes=counted[name].bytes) if name in counted else each

    return tuple(map(joined, observer.seen.operations))


def _modules(observer: Observer) -> tuple[ModuleCost, ...]:
    if observer.seen is None:
        return ()
    flops = observer.counter.flops_by_module if observer.counter else {}
    activations = observer.counter.activations if observer.counter else {}

    def joined(each: ModuleCost) -> ModuleCost:
        parameters = observer.module_parameters.get(each.name, 0)
        kept = activations.get(each.name, 0)
        return replace(each, flops=flops.get(each.name, 0), activations=kept, parameters=parameters)

    return tuple(map(joined, observer.seen.modules))


def _work(observer: Observer, ceilings: Ceilings | None) -> Work | None:
    counter = observer.counter
    if counter is not None and counter.shapes:
        roof = 0.0
        if ceilings is not None and ceilings.bandwidth:
            top = max(ceilings.flops.values())
            for flops, moved, kind in counter.shapes:
                roof += max(flops / ceilings.flops.get(kind, top), moved / ceilings.bandwidth)
        return replace(counter.work(), roof=roof)
    if observer.seen is not None and observer.seen.flops:
        return Work(operations=observer.seen.calls, flops=observer.seen.flops, bytes=0, source="estimated")
    return None


def compile_facts() -> Compiled | None:
    """None if nothing was compiled."""
    graphs, breaks, failures = compiler_notes()
    if not graphs and not breaks:
        return None
    failed = ((code, reason) for code, reasons in failures.items() for reason in reasons)
    places = ((reason, Place(code.co_filename, code.co_firstlineno, code.co_name)) for code, reason in failed)
    recompiles = tuple(CompilerNote(reason, place) for reason, place in places)
    notes = tuple(CompilerNote(reason.split("\n")[0], _place(stack)) for reason, stack in breaks)
    return Compiled(graphs=graphs, seconds=compile_seconds(), breaks=notes, recompiles=recompiles)


def _place(stack: list[FrameSummary]) -> Place | None:
    own = [frame for frame in stack if is_users(frame.filename)]
    return Place(own[-1].filename, own[-1].lineno or 0, own[-1].name) if own else None
