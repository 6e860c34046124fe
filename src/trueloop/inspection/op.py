"""One operation from Python to the kernel: binding, overloads, dispatcher, derivative, and what one call ran."""

import inspect
from pathlib import Path
from typing import Any

import torch

from trueloop.errors import Misuse
from trueloop.inspection.op_call import Call, profiled_call, traced_sample
from trueloop.inspection.op_files import derivative, missing_files, native_entry, native_function
from trueloop.inspection.op_table import Entry, Walk, complete_table, entries, walk
from trueloop.op_claims.op_subject import call_of, kind_of
from trueloop.op_claims.sample import Sample
from trueloop.results.document import Column, Document, Facts, Part, Table
from trueloop.torch_private.custom_ops import default_overload, is_custom_op, is_operator
from trueloop.torch_private.dispatch import operator_packet, operator_schema
from trueloop.torch_private.dispatch_table import call_keys, is_dispatched, traced_keys

__all__ = ["inspect_op"]


def inspect_op(op: Any, word: str, sample: Sample | None, source: str) -> Document:
    """`source`: where the sample comes from; without a sample, why there is none. Raises Misuse."""
    kind = kind_of(op, word)
    call = profiled_call(call_of(op), sample) if sample else None
    name = _main_operator(op, call)
    if name is None:
        raise Misuse(_not_found(word, call, source))
    parts: list[Part] = [Facts("Python", _binding(op, word, kind, name)), _overloads(name)]
    notes = [missing_files()]
    table = entries(name)
    path: Walk | None = None
    if call:
        parts.append(_ran(call))
        if _called(call, name):
            path = walk(table, call.sample.tensors())
            parts.append(path.table(name, *_trace(op, name, table, call)))
        notes += [call.note, _others(call, name)]
    else:
        notes.append(source)
    parts += [*_from_files(name, table, path, call), *complete_table(name, table)]
    on = f" on {call.sample.describe()} ({source})" if call else ""
    return Document(f"{word}{on}", tuple(parts), tuple(note for note in notes if note))


# -- which operator --


def _main_operator(op: Any, call: Call | None) -> str | None:
    """aten::add.Tensor: as named, or as called, or the operator of torch with the function's name."""
    if is_custom_op(op) or (is_operator(op) and not hasattr(op, "overloads")):
        return str(default_overload(op).name())
    own = getattr(op, "__name__", "")
    roots = [ran.name for ran in call.ran if ran.depth == 0 and is_dispatched(ran.name)] if call else []
    named = [name for name in roots if name.partition("::")[2].partition(".")[0] == own]
    if roots:
        return (named or roots)[0]
    packet = op if is_operator(op) else getattr(torch.ops.aten, own, None) if own and _is_torchs(op) else None
    return next(iter(_names(packet)), None) if packet is not None else None


def _is_torchs(op: Any) -> bool:
    module = getattr(op, "__module__", None) or getattr(getattr(op, "__objclass__", None), "__module__", None)
    return module is None or module.partition(".")[0] == "torch"


def _names(packet: Any) -> list[str]:
    """The overloads that the dispatcher knows, not those of TorchScript only."""
    names = [str(getattr(packet, overload).name()) for overload in packet.overloads()]
    return [name for name in names if is_dispatched(name)]


def _overload(name: str) -> Any:
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), overload or "default")


def _not_found(word: str, call: Call | None, source: str) -> str:
    if call is not None:
        return f"{word} called no operator of the dispatcher on {call.sample.describe()}. Nothing is shown."
    return f"{word} is not an operator by name. {source} Nothing is shown."


def _called(call: Call, name: str) -> bool:
    return any(ran.name == name and ran.depth == 0 for ran in call.ran)


def _others(call: Call, name: str) -> str:
    others = list(dict.fromkeys(ran.name for ran in call.ran if ran.depth == 0 and ran.name != name))
    if not others:
        return ""
    space, _, rest = others[0].partition("::")
    more = f"`trueloop inspect op torch.ops.{space}.{rest}`"
    return f"Python also calls {', '.join(others)}. The tables are those of {name}; type {more} for another."


# -- parts --


def _binding(op: Any, word: str, kind: str, name: str) -> dict[str, Any]:
    space, _, rest = name.partition("::")
    base = rest.partition(".")[0]
    facts = {word: f"{kind}, {_source(op)}", "operator": f"{space}::{base}"}
    others = _spellings(base, word) if space == "aten" else ""
    return facts | ({"also called as": others} if others else {})


def _source(op: Any) -> str:
    try:
        inner = getattr(op, "_init_fn", op)
        file, line = inspect.getsourcefile(inner), inspect.getsourcelines(inner)[1]
    except (TypeError, OSError):
        return "bound in C++: it has no Python source"
    return f"{_short(Path(file))}:{line}" if file else "without a source file"


def _short(file: Path) -> Path:
    installed = Path(torch.__file__).parent.parent
    return file.relative_to(installed) if file.is_relative_to(installed) else file


def _spellings(base: str, word: str) -> str:
    plain = base.removesuffix("_")
    owners = {"torch": torch, "torch.Tensor": torch.Tensor, "torch.nn.functional": torch.nn.functional}
    names = dict.fromkeys((base, plain, f"{plain}_", f"__{plain}__"))
    found = [f"{owner}.{name}" for name in names for owner, where in owners.items() if hasattr(where, name)]
    return ", ".join(each for each in found if each != word)


def _overloads(name: str) -> Table:
    shown = [(each, _overload(each)) for each in _names(operator_packet(_overload(name)))]
    rows = tuple(
        (
            each.partition("::")[2],
            str(operator_schema(operator)),
            _variants(each),
            ", ".join(tag.name for tag in operator.tags),
        )
        for each, operator in shown
    )
    best = frozenset(number for number, (each, _) in enumerate(shown) if each == name)
    columns = (Column("overload", "name"), Column("schema"), Column("Python"), Column("tags"))
    return Table("Overloads", columns, rows, "", best)


def _variants(name: str) -> str | None:
    """'function, method': which of torch.NAME and Tensor.NAME lead to it."""
    space, _, rest = name.partition("::")
    if space != "aten" or missing_files():
        return None
    native = native_entry(rest)
    return str(native.get("variants", "function")) if native else None


def _ran(call: Call) -> Table:
    rows = tuple(
        ("· " * ran.depth + ran.name, "  ".join(map(_sizes, ran.shapes)), ", ".join(ran.kernels)) for ran in call.ran
    )
    on_cpu = not any(tensor.is_cuda for tensor in call.sample.tensors())
    said = "Seen by the profiler; a dot is one level of calls inside torch."
    note = f"{said} Kernels of the CPU have no names in a profile." if on_cpu else said
    columns = (Column("operator"), Column("tensors"), Column("device kernels"))
    return Table("What this call ran", columns, rows, note)


def _trace(op: Any, name: str, table: dict[str, Entry], call: Call) -> tuple[list[str], str]:
    """The keys whose kernels ran in one more call; and why they could not be seen, or nothing."""
    sample = traced_sample(call)
    there = [key for key in call_keys(sample.tensors()) if key in table and not table[key].falls]
    try:
        ran = traced_keys(name, there, lambda: sample.call(call_of(op)))
        return ran, "" if ran else "none of its kernels was seen in a second call."
    except Exception as error:  # noqa: BLE001 - an operator whose kernels torch does not let us replace; it is said
        said = str(error).strip().partition("\n")[0].rstrip(".")[:160]
        return [], f"its kernels could not be replaced for a trace ({type(error).__name__}: {said})."


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _from_files(name: str, table: dict[str, Entry], path: Walk | None, call: Call | None) -> list[Part]:
    space, _, rest = name.partition("::")
    if space != "aten" or missing_files():
        return [Facts("Backward", {"grad_fn seen": ", ".join(call.backward)})] if call and call.backward else []
    formulas: dict[str, Any] = dict(derivative(rest))
    if not formulas:
        composite = any(each.kind == "math kernel" for each in table.values())
        none = "none of its own: the operations that it calls have theirs" if composite else "none in derivatives.yaml"
        formulas = {"formula": none}
    elif path and not path.has_autograd:
        formulas["used by this call"] = "no: its composite kernel calls other operations, which have theirs"
    if call:
        formulas["grad_fn seen"] = ", ".join(call.backward) or "none: the result needs no gradient"
    parts: list[Part] = [Facts(f"Derivative of {name}, from derivatives.yaml", formulas)]
    if path and path.last is not None:
        parts.append(_native(rest, path.last))
    return parts


def _native(name: str, entry: Entry) -> Facts:
    function, header = native_function(name, entry)
    values = {
        "key": entry.key,
        "function": f"at::native::{function}" if function else "unknown: native_functions.yaml does not name it",
        "declared in": header or "unknown",
        "registered in": entry.where,
    }
    if function:
        values["source"] = f"not in the wheel: search {function} in aten/src/ATen of the pytorch repository"
    return Facts("The native function of this call, from native_functions.yaml", values)
