"""Why a file of tensors was refused, in our own words.

torch's messages advise to load the file again with `weights_only=False`, or to allow the function that it names. Either
would execute the file, so none of their sentences is printed.
"""

import re
from typing import Final

from trueloop.trust.confine.client import LIMITS, Refused
from trueloop.trust.files import printable

__all__ = ["foreign_name", "kind_of", "why_unreadable"]

_FOREIGN: Final = re.compile(r"nsupported (?:global: )?GLOBAL (\S+)")


def kind_of(error: Exception) -> str:
    """The type of an error, which may have been raised in another process."""
    return error.kind if isinstance(error, Refused) else type(error).__name__


def foreign_name(error: Exception) -> str:
    """What the file would import and call: "posix.mkdir". Empty if torch refused it for another reason."""
    found = _FOREIGN.search(str(error))
    return printable(found[1])[:120] if found else ""


def why_unreadable(error: Exception, format: str = "torch.save") -> str:
    """A clause that follows the file's name; `format`: torch.save or numpy."""
    said, kind = str(error), kind_of(error)
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror or kind})"
    if isinstance(error, Refused) and kind in LIMITS:
        return f"was refused: {said}"
    if "TorchScript" in said:
        return "is a TorchScript archive: a program, not tensors. It was refused; no code was executed"
    if "Object arrays" in said:
        return "holds Python objects: loading it could execute code. It was refused; no code was executed"
    if name := foreign_name(error):
        refused = f"is not safe to read: loading it would execute code ({name}). It was refused; no code was executed"
        return f"{refused}. Ask for tensors only: torch.save(model.state_dict(), ...), or safetensors"
    if format == "numpy" and kind == "TypeError":
        return "holds values that no tensor can hold"
    return f"is damaged, or not a {format} file ({kind})"
