"""DAT164 clocks-of-files-apart: two files are joined by time, and their times do not mean the same moment.

What it sees
------------
Two data files with a time column in common (`power_2022.csv`, `weather_2022.csv`), and two of the same kinds for other
times (2023). What a series does beyond its own past happens once, so both files show it at one delay, which is a
property of the instruments. In one pair this delay is several steps longer than in the other pair. Both delays are
sharp: at least 10 standard errors, and twice the correlation at every other delay of up to 47 steps.

Why it hurts
------------
Rows are joined with the values of a different hour or day: a time zone, local time written as UTC, a time stamp at the
end of a day. The join finds a partner for nearly every row, so nothing fails, and the relation that the model should
learn is not in the training data.

Evidence
--------
The four files, the two columns that follow each other, both delays and both correlations.

Use instead
-----------
    power.index = power.index - pd.Timedelta(hours=24)   # the file that is late, before the join
    power.index = power.index.tz_localize("Europe/Berlin").tz_convert("UTC")

When it is fine
---------------
Files whose times are brought together by the script (`timedelta`, time zones, `shift`, an offset in a configuration):
these scripts are not reported. Delays that are not sharp, or that differ by one step; times with a time zone; files
that the run writes.
"""

import re
from typing import Final

from trueloop.event import ClocksDiffer, RunEnded, TablesRead
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import source_of

__all__ = ["ClocksOfFilesApart"]

_MOVES: Final = re.compile(
    r"timedelta\(|to_timedelta|tzinfo|astimezone|tz_convert|tz_localize|zoneinfo|pytz|\w*offsets?\b|\.shift\(|\broll\("
    r"|\w*(lag|delay|dead_?time)\w*|correlate\(|merge_asof|searchsorted|interp\(|DateOffset",
    re.IGNORECASE,
)
"""Words in a script that moves times, or looks for the delay itself."""
_HOUR: Final = 3600.0
_DAY: Final = 86_400.0


class ClocksOfFilesApart(Rule, code="DAT164", severity=Severity.WARNING):
    not_applicable = "no two pairs of data files with times in equal steps were read"
    applies_after = (TablesRead,)

    def __init__(self) -> None:
        self._found: list[ClocksDiffer] = []

    def on_clocks_differ(self, event: ClocksDiffer) -> None:
        paths = {*event.modules, event.place.path if event.place else ""}
        if not any(_MOVES.search(line) for path in paths for line in source_of(path).lines):
            self._found.append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        if not self._found:
            return
        event = max(self._found, key=lambda each: abs(each.correlation))
        (early, late), delay = _in_order(event.files, event.delay)
        of = [f"`{column}` of `{file}`" for column, file in zip(event.columns, event.files, strict=True)]
        first, second = of if event.delay > 0 else of[::-1]
        usually = f"`{event.usual_files[0]}` and `{event.usual_files[1]}`"
        more = {event.files for event in self._found} - {event.files}
        yield self.finding(
            event,
            f"The times of `{late}` seem to be {_duration(delay, event)} late against `{early}`: sudden changes of "
            f"{first} show in {second} {_duration(delay, event)} later (correlation {event.correlation:.2f}), but in "
            f"{usually} {_usual(event)} ({event.usual_correlation:.2f}). Rows joined by `{event.time}` belong to "
            f"different moments." + (f" The same holds for {_pairs(more)}." if more else ""),
            fix="Find out in which time zone each file is written, and whether a row is stamped at the begin or at the "
            "end of its interval. Convert before the join, for example "
            f"`time - timedelta(seconds={delay * event.interval:g})` for `{late}`."
            if event.dated
            else f"Find out what `{event.time}` counts in each file, and subtract {delay * event.interval:g} from that "
            f"of `{late}` before the join, if it is the file that is late.",
            evidence={"files": event.files, "columns": event.columns, "steps": event.delay, "correlation":
                      round(event.correlation, 3), "usual files": event.usual_files, "usual steps": event.usual,
                      "usual correlation": round(event.usual_correlation, 3)},
        )  # fmt: skip


def _in_order(files: tuple[str, str], delay: int) -> tuple[tuple[str, str], int]:
    return (files, delay) if delay > 0 else ((files[1], files[0]), -delay)


def _usual(event: ClocksDiffer) -> str:
    """When the changes show in the other pair; seen from the file that is early in the first pair."""
    steps = event.usual if event.delay > 0 else -event.usual
    if not steps:
        return "at the same time"
    return f"{_duration(abs(steps), event)} {'later' if steps > 0 else 'earlier'}"


def _duration(steps: int, event: ClocksDiffer) -> str:
    amount = steps * event.interval
    if not event.dated:
        return f"{amount:g} units of `{event.time}`"
    for size, unit in ((_DAY, "days"), (_HOUR, "hours"), (60.0, "minutes")):
        if amount >= 2 * size or amount == size:
            return f"{amount / size:g} {unit if amount != size else unit[:-1]}"
    return f"{amount:g} seconds"


def _pairs(files: set[tuple[str, str]]) -> str:
    named = [f"`{one}` and `{other}`" for one, other in sorted(files)]
    return "; ".join(named[:3]) + (f"; and {len(named) - 3} more pairs" if len(named) > 3 else "")
