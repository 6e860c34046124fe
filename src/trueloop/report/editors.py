"""Addresses that open a line in an editor. A fixed list: an address from elsewhere never becomes a link."""

import os
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from trueloop.event import Place

__all__ = ["EDITORS", "editor_address"]

EDITORS: Final = MappingProxyType(
    {
        "vscode": "vscode://file/{path}:{line}",
        "vscodium": "vscodium://file/{path}:{line}",
        "cursor": "cursor://file/{path}:{line}",
        "windsurf": "windsurf://file/{path}:{line}",
        "zed": "zed://file/{path}:{line}",
        "pycharm": "pycharm://open?file={path}&line={line}",
        "idea": "idea://open?file={path}&line={line}",
        "none": "",
    }
)
"""`--editor` -> the address; none: no links."""


def editor_address(place: Place | None, editor: str = "vscode") -> str:
    """Of a line in a file; empty for a cell of a notebook, and for a file that is not on this machine."""
    if place is None or not os.path.isfile(place.path):
        return ""
    path, address = quote(os.path.abspath(place.path)), EDITORS[editor]
    return address.format(path=path.removeprefix("/") if "://file/" in address else path, line=place.line)
