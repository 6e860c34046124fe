"""`[tool.trueloop]` in pyproject.toml: what to select, ignore, allow per file, and how severe a rule is to be.

[tool.trueloop]
select = ["GRD", "LOS"]
ignore = ["metric-averaged-over-batches"]
severity = { GRD104 = "error" }
[tool.trueloop.per-file-ignores]
"experiments/*.py" = ["MOD"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from trueloop.errors import Misuse, did_you_mean
from trueloop.finding import Finding, Severity

__all__ = ["Settings", "load_settings", "severity_named"]


@dataclass(frozen=True, slots=True)
class Settings:
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pattern of a path, relative to the folder of pyproject.toml -> codes, prefixes or names."""
    severity: Mapping[str, Severity] = field(default_factory=dict)
    """Code or name -> what it counts as."""
    root: str = ""
    """The folder of pyproject.toml."""

    def ignores(self, finding: Finding) -> bool:
        if finding.place is None:
            return False
        path = Path(finding.place.path)
        shown = str(path.relative_to(self.root)) if self.root and path.is_relative_to(self.root) else str(path)
        return any(
            fnmatch(shown, pattern) and any(_names(finding, word) for word in words) for pattern, words in self.per_file_ignores.items()
        )

    def severity_of(self, finding: Finding) -> Severity:
        return self.severity.get(finding.code, self.severity.get(finding.name, finding.severity))


def _names(finding: Finding, word: str) -> bool:
    return finding.code.startswith(word.upper()) or finding.name == word


def severity_named(word: str) -> Severity:
    try:
        return Severity[word.upper()]
    except KeyError:
        known = [s.word for s in Severity]
        raise Misuse(f"{word!r} is no severity.{did_you_mean(word, known)} There are: {', '.join(known)}.") from None


def load_settings(start: Path) -> Settings:
    """From the nearest pyproject.toml at or above a folder; the defaults if there is none."""
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            return _read(file)
    return Settings()


def _read(file: Path) -> Settings:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("trueloop", {})
    except tomllib.TOMLDecodeError as error:
        raise Misuse(f"{file} is not valid TOML ({error}). Nothing was run.") from None
    known = ("select", "ignore", "per-file-ignores", "severity")
    for key in table:
        if key not in known:
            raise Misuse(f"{file}: [tool.trueloop] has no setting {key!r}.{did_you_mean(key, known)} Nothing was run.")
    return Settings(
        select=_words(file, table, "select"),
        ignore=_words(file, table, "ignore"),
        per_file_ignores={pattern: _words(file, table["per-file-ignores"], pattern) for pattern in _table(file, table, "per-file-ignores")},
        severity={rule: severity_named(str(word)) for rule, word in _table(file, table, "severity").items()},
        root=str(file.parent),
    )


def _words(file: Path, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise Misuse(f"{file}: {key!r} in [tool.trueloop] must be a list of rule codes or names. Nothing was run.")
    return tuple(value)


def _table(file: Path, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise Misuse(f"{file}: {key!r} in [tool.trueloop] must be a table. Nothing was run.")
    return value
