"""A profile as one JSON document, for programs. Version 1 is a promise: keys may be added, never renamed or removed."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, Final

from trueloop.event import Place
from trueloop.report.evidence import as_json
from trueloop.results.profile import Profile

__all__ = ["document"]

VERSION: Final = 1
"""Raised when a key changes its meaning or goes away."""


def document(profile: Profile) -> str:
    whole = {
        "version": VERSION,
        "verdict": profile.bound,
        **{each.name: getattr(profile, each.name) for each in fields(profile)},
    }
    del whole["bound"]
    whole |= {"mfu": profile.mfu, "busy_share": profile.busy_share}
    return json.dumps(as_json(_plain(whole)), indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Dataclasses as mappings, all the way down; places stay, they have words of their own."""
    if isinstance(value, Place):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
