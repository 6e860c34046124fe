"""What the installed torch says of an operator in its own files: native_functions.yaml, derivatives.yaml, headers."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from trueloop.inspection.op_table import Entry

__all__ = ["derivative", "has_formula", "missing_files", "native_entry", "native_function"]

NATIVE: Final = "ATen/native/native_functions.yaml"
DERIVATIVES: Final = "autograd/derivatives.yaml"
COMPOSITES: Final = {
    "math kernel": ("CompositeImplicitAutograd",),
    "default backend kernel": ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"),
}


@cache
def _folder(package: str) -> Path | None:
    spec = find_spec(package)
    return Path(next(iter(spec.submodule_search_locations))) if spec and spec.submodule_search_locations else None


def missing_files() -> str:
    """Why these files cannot be read here; empty: they can."""
    if find_spec("yaml") is None:
        return "PyYAML is not installed, so derivatives and native functions are not shown: `pip install pyyaml`."
    folder = _folder("torchgen")
    if folder is None or not all((folder / "packaged" / file).is_file() for file in (NATIVE, DERIVATIVES)):
        return "This build of torch ships no native_functions.yaml, so derivatives and native functions are not shown."
    return ""


@cache
def _texts(file: str) -> Mapping[str, str]:
    """'add.Tensor' -> its entry, as text: to parse all of them takes seconds without libyaml."""
    folder = _folder("torchgen")
    text = (folder / "packaged" / file).read_text(encoding="utf-8") if folder else ""
    found: dict[str, str] = {}
    for entry in re.split(r"^(?=- (?:func|name): )", text, flags=re.MULTILINE):
        name = re.match(r"- (?:func|name): ([\w.]+)\(", entry)
        if name:
            found.setdefault(name[1], entry)
    return found


def _entry(file: str, name: str) -> dict[str, Any]:
    import yaml

    text = _texts(file).get(name)
    return dict(yaml.safe_load(text)[0]) if text else {}


def native_entry(name: str) -> dict[str, Any]:
    """Of 'add.Tensor'; empty: there is none."""
    return _entry(NATIVE, name)


def has_formula(name: str) -> bool:
    """Does derivatives.yaml say what the gradient of 'add.Tensor' is, or that it has none by nature? Without PyYAML."""
    base, dot, overload = name.partition(".")
    texts = _texts(DERIVATIVES)
    text = texts.get(name) or texts.get(f"{base.removesuffix('_')}{dot}{overload}") or ""
    return bool(text) and "not_implemented" not in text


def derivative(name: str) -> dict[str, str]:
    """Input -> formula; `result` is the forward-mode derivative. In-place variants share those of the plain one."""
    base, dot, overload = name.partition(".")
    plain = f"{base.removesuffix('_')}{dot}{overload}"
    entry = _entry(DERIVATIVES, name) or _entry(DERIVATIVES, plain)
    formulas: dict[str, str] = {}
    for key, value in entry.items():
        if key == "dispatch":
            for autograd, inner in value.items():
                formulas |= {f"{each} ({autograd})": str(formula) for each, formula in inner.items()}
        elif key not in ("name", "output_differentiability"):
            formulas[str(key)] = str(value)
    return formulas


def native_function(name: str, entry: Entry) -> tuple[str, str]:
    """(the C++ function behind the kernel of this key, the header that declares it); empty where it is unknown."""
    base = name.partition(".")[0]
    plain = base.removesuffix("_")  # In-place variants share kernels and header
    own = native_entry(name)
    delegate = native_entry(own["structured_delegate"]) if "structured_delegate" in own else {}
    function = _dispatched(own, entry) or _dispatched(delegate, entry)
    if not function and "ufunc_inner_loop" in (delegate or own) and entry.key in ("CPU", "CUDA"):
        function = f"ufunc_{plain}_{entry.key}"
    if not function and own and "dispatch" not in own and not delegate and entry.kind == "math kernel":
        function = base
    folder = _folder("torch")
    header = folder / "include" / "ATen" / "ops" / f"{plain}_native.h" if folder else None
    if not function or header is None or not header.is_file():
        return function, ""
    declared = re.search(rf"\b(structured_)?{re.escape(function)}\b", header.read_text(encoding="utf-8"))
    return function, f"torch/include/ATen/ops/{header.name}" if declared else ""


def _dispatched(native: Mapping[str, Any], entry: Entry) -> str:
    wanted = {entry.key, *COMPOSITES.get(entry.kind, ())}
    for keys, function in native.get("dispatch", {}).items():
        if wanted & {key.strip() for key in keys.split(",")}:
            return str(function)
    return ""
