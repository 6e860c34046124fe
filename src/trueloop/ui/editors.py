"""Addresses that open a line in an editor. A fixed list: an address from elsewhere never becomes a link."""

from types import MappingProxyType
from typing import Final

__all__ = ["EDITORS"]

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
