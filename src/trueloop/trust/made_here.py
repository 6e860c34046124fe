"""Was it made here? A run or an artifact that names code to execute carries a stamp of this machine's key.

    stamp({"recipe": "/home/me/own.py"})                 # when trueloop writes it
    is_made_here({"recipe": ...}, kept)                   # when trueloop reads it, perhaps from a stranger

The key is a file that only its owner can read: TRUELOOP_KEY, or key in ~/.local/share/trueloop. It is made on first
use. A stamp shows that the same user made this on a machine with the same home folder; nothing is sent anywhere.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

__all__ = ["TRUST", "is_made_here", "is_trusted", "stamp"]

TRUST: Final = "TRUELOOP_TRUST"
"""Environment variable: 1 executes what strangers' files name. `--trust` sets it for one command."""
_LENGTH: Final = 32


def stamp(facts: Mapping[str, Any]) -> str:
    """Empty: this user cannot keep a key, so nothing can be known to be made here."""
    try:
        key = _read() or _make()
    except OSError:
        return ""
    return _sign(key, facts)


def is_made_here(facts: Mapping[str, Any], kept: Any) -> bool:
    try:
        key = _read()
    except OSError:
        return False
    return bool(key) and isinstance(kept, str) and kept.isascii() and hmac.compare_digest(_sign(key, facts), kept)


def is_trusted() -> bool:
    """Has the user said so?"""
    return os.environ.get(TRUST) == "1"


def _sign(key: bytes, facts: Mapping[str, Any]) -> str:
    return hmac.new(key, json.dumps(facts, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _place() -> Path:
    own, data = os.environ.get("TRUELOOP_KEY"), os.environ.get("XDG_DATA_HOME")
    return Path(own) if own else (Path(data) if data else Path.home() / ".local" / "share") / "trueloop" / "key"


def _read() -> bytes:
    try:
        key = _place().read_bytes()
    except FileNotFoundError:
        return b""
    return key if len(key) == _LENGTH else b""


def _make() -> bytes:
    """Written aside, then linked: of two processes that make it at once, both use the one that came first."""
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = place.with_name(f".key-{os.getpid()}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(_LENGTH))
    try:
        with suppress(FileExistsError):
            os.link(aside, place)
    finally:
        aside.unlink(missing_ok=True)
    return _read()
