"""TorchScript's table of builtin functions: it recognizes `torch.softmax` by identity. All 2.11+."""

from torch.jit import _builtins

__all__ = ["copy_builtin", "forget_builtin"]


def copy_builtin(original: object, wrapper: object) -> None:
    """Makes TorchScript treat a wrapper as the builtin that it wraps."""
    name = _builtins._find_builtin(original)  # type: ignore[no-untyped-call]
    if name is not None:
        _builtins._register_builtin(wrapper, name)


def forget_builtin(wrapper: object) -> None:
    _builtins._get_builtin_table().pop(id(wrapper), None)  # type: ignore[no-untyped-call]
