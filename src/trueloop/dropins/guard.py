"""What the callbacks of the frameworks share: a watch from the begin of a training to its end."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from trueloop.errors import GuardFailed, Misuse, did_you_mean
from trueloop.finding import Finding, Severity
from trueloop.report.evidence import where
from trueloop.results.check import counted

if TYPE_CHECKING:
    from trueloop.doctor.watch import Watch

__all__ = ["GuardBase"]

NEVER: Final = "never"


class GuardBase:
    """Watches from `begin_watch` to `end_watch` and prints the report of `trueloop check` there.

    `fail_on`: error, warning or advice. With a finding of this severity or worse the end raises `GuardFailed`, after
    the report; the default, never, only reports. The other arguments are those of `trueloop.watch()`.
    Does nothing inside `trueloop check` or another `trueloop.watch()`: these report.
    """

    def __init__(
        self,
        *,
        fail_on: str = NEVER,
        select: Iterable[str] = (),
        ignore: Iterable[str] = (),
        budget: float | None = None,
        run: bool = True,
    ) -> None:
        known = (NEVER, *(severity.word for severity in Severity))
        if fail_on not in known:
            near = did_you_mean(fail_on, known)
            raise Misuse(f"fail_on cannot be {fail_on!r}.{near} Nothing was watched: choose {', '.join(known)}.")
        self._fail_on = None if fail_on == NEVER else Severity[fail_on.upper()]
        self._select, self._ignore, self._budget, self._run = tuple(select), tuple(ignore), budget, run
        self._watch: Watch | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the last training; of one that runs, so far."""
        return () if self._watch is None else self._watch.findings

    def begin_watch(self) -> None:
        from trueloop.doctor.watch import current_watch  # torch is imported when a training begins, not before
        from trueloop.session.watched import watch

        if self._watch is not None and current_watch() is self._watch:
            self._watch.close()  # the last training ended with an exception that the framework did not report
        self._watch = None
        if current_watch() is None:
            self._watch = watch(select=self._select, ignore=self._ignore, budget=self._budget, run=self._run)

    def end_watch(self, error: BaseException | None = None) -> None:
        """Print the report, once. `error`: the exception that ended the training; it is not replaced by another."""
        watch = self._watch
        if watch is None or watch.verdict is not None:
            return
        watch.close(error)
        if self._fail_on is None or error is not None:
            return
        severe = [finding for finding in self.findings if finding.severity >= self._fail_on]
        if severe:
            listed = "; ".join(f"{each.code} {each.name} {where(each.place)}".rstrip() for each in severe)
            many = counted(len(severe), "finding")
            raise GuardFailed(
                f"Guard(fail_on={self._fail_on.word!r}): the training has {many} ({listed}). "
                f"It ended first, and its report is above: `trueloop explain {severe[0].code}` says more."
            )
