"""`[tool.trueloop]` in pyproject.toml: rules to select and ignore, ignores per file, severities, the folder of runs,
and defaults of options of `trueloop check`.

[tool.trueloop]
select = ["GRD", "LOS"]
ignore = ["metric-averaged-over-batches"]
severity = { GRD104 = "error" }
runs = "experiments"            # where `check` and `watch()` keep their runs; false: they keep none
fail-on = "warning"             # an option of the same name on the command line wins
[tool.trueloop.per-file-ignores]
"experiments/*.py" = ["MOD"]
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from trueloop.errors import Misuse, did_you_mean
from trueloop.finding import Finding, Severity

__all__ = ["Settings", "load_settings", "severity_named"]

OPTIONS: Final = ("fail-on", "steps", "budget", "format", "baseline", "hang-after", "fail-fast", "quiet", "verbose")
"""Settings that are options of `trueloop check` without their dashes."""
KEYS: Final = ("select", "ignore", "per-file-ignores", "severity", "runs", *OPTIONS)  # The settings of [tool.trueloop]


@dataclass(frozen=True, slots=True)
class Settings:
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Path pattern, relative to the folder of pyproject.toml -> codes, prefixes or names."""
    severity: Mapping[str, Severity] = field(default_factory=dict)  # Code, prefix or name; the longest match decides
    root: str = ""  # The folder of pyproject.toml
    runs: str | None = (
        "runs"  # The folder of the runs of `check`, from the working directory on; None: no runs are kept
    )
    options: Mapping[str, object] = field(default_factory=dict)  # Name of an option -> its value, as it is written

    def ignores(self, finding: Finding) -> bool:
        if finding.place is None:
            return False
        path = Path(finding.place.path)
        shown = (path.relative_to(self.root) if self.root and path.is_relative_to(self.root) else path).as_posix()
        return any(
            fnmatch(shown, pattern) and any(_names(finding, word) for word in words)
            for pattern, words in self.per_file_ignores.items()
        )

    def severity_of(self, finding: Finding) -> Severity:
        fitting = [word for word in self.severity if _names(finding, word)]
        return self.severity[max(fitting, key=len)] if fitting else finding.severity

    def words(self) -> Iterator[tuple[str, str]]:
        """(setting, word) of every rule that is named, so that a misspelled one can be rejected."""
        yield from (("select", word) for word in self.select)
        yield from (("ignore", word) for word in self.ignore)
        yield from (("per-file-ignores", word) for words in self.per_file_ignores.values() for word in words)
        yield from (("severity", word) for word in self.severity)


def _names(finding: Finding, word: str) -> bool:
    return finding.code.startswith(word.upper()) or finding.name == word


def severity_named(word: str) -> Severity:
    try:
        return Severity[word.upper()]
    except KeyError:
        known = [s.word for s in Severity]
        raise Misuse(
            f"{word!r} is not a severity.{did_you_mean(word, known)} Use one of {', '.join(known)}. Nothing was run."
        ) from None


def load_settings(start: Path) -> Settings:
    """From the nearest pyproject.toml with [tool.trueloop] at or above a folder; the defaults without one."""
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file() and (table := _table_of(file)) is not None:
            return _settings(file, table)
    return Settings()


def _table_of(file: Path) -> Mapping[str, Any] | None:
    import tomllib  # lazy: `trueloop explain` does not need it

    try:
        tool = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misuse(f"{file} is not valid TOML ({error}). Nothing was run.") from None
    except OSError as error:
        raise Misuse(f"{file} cannot be read ({error.strerror}). Nothing was run.") from None
    table = tool.get("trueloop") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise Misuse(f"{file}: tool.trueloop must be a table. Nothing was run.")
    return table


def _settings(file: Path, table: Mapping[str, Any]) -> Settings:
    for key in table:
        if key not in KEYS:
            raise Misuse(f"{file}: [tool.trueloop] has no setting {key!r}.{did_you_mean(key, KEYS)} Nothing was run.")
    patterns = _table(file, table, "per-file-ignores")
    return Settings(
        select=_words(file, table, "select"),
        ignore=_words(file, table, "ignore"),
        per_file_ignores={pattern: _words(file, patterns, pattern) for pattern in patterns},
        severity={rule: _severity(file, rule, word) for rule, word in _table(file, table, "severity").items()},
        root=str(file.parent),
        runs=_runs(file, table),
        options={key: table[key] for key in OPTIONS if key in table},
    )


def _words(file: Path, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
        raise Misuse(f"{file}: {key!r} in [tool.trueloop] must be a list of rule codes or names. Nothing was run.")
    return tuple(value)


def _runs(file: Path, table: Mapping[str, Any]) -> str | None:
    value = table.get("runs", "runs")
    if value is False:
        return None
    if not isinstance(value, str) or not value:
        raise Misuse(f"{file}: 'runs' in [tool.trueloop] must be the name of a folder, or false. Nothing was run.")
    return value if value == "runs" else str(file.parent / value)


def _table(file: Path, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise Misuse(f"{file}: {key!r} in [tool.trueloop] must be a table. Nothing was run.")
    return value


def _severity(file: Path, rule: str, word: object) -> Severity:
    try:
        return severity_named(str(word))
    except Misuse as error:
        raise Misuse(f"{file}: severity of {rule}: {error}") from None
