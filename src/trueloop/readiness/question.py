"""A question that the note asks of a run. Its answer is a statement, or several; where evidence is absent, that it is
missing.

@asked("data", "repeated samples", "trueloop train {recipe}")
def leakage(run: Run) -> Statement: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from trueloop.readiness.record import Absent, Record
from trueloop.results.readiness import Statement

__all__ = ["Question", "Run", "answers", "asked", "questions_in"]


@dataclass(frozen=True, slots=True)
class Run:
    """What is asked about."""

    record: Record
    name: str
    """What a user types for it: runs/digits."""
    recipe: str = ""
    """What to type after `trueloop train` for such a run: 'digits --set lr=0.1'."""
    claims: tuple[str, ...] = ()
    """Every claim that `trueloop probe` knows."""
    before: Record | None = None
    """The last good run, if there is one."""
    twin: Record | None = None
    """A finished run of the very same recipe with another seed."""
    probe: str = "trueloop probe {run} {claim}"
    """What tries a claim, and keeps the proof where this note finds it."""

    def command(self, template: str, **more: str) -> str:
        """With the words of this run in it."""
        return template.format(run=self.name, recipe=self.recipe, **more)


Answer = Statement | Iterable[Statement]


@dataclass(frozen=True, slots=True)
class Question:
    section: str
    topic: str
    command: str
    """What would produce the evidence; {run} and {recipe} are filled in."""
    answer: Callable[[Run], Answer]
    essential: bool = False

    def statements(self, run: Run) -> Iterator[Statement]:
        try:
            made = self.answer(run)
            for each in (made,) if isinstance(made, Statement) else made:
                yield replace(each, essential=self.essential)
        except Absent as absent:
            why = f" ({absent.because})" if absent.because else ""
            text = f"{self.topic}: not known, `{run.record.address(absent.address)}` is not there{why}"
            yield self._missing(run, text)
        except ZeroDivisionError:
            yield self._missing(
                run, f"{self.topic}: cannot be computed, a recorded number that it is divided by is zero"
            )

    def _missing(self, run: Run, text: str) -> Statement:
        return Statement(self.section, "missing", text, command=run.command(self.command), essential=self.essential)


def asked(
    section: str, topic: str, command: str, *, essential: bool = False
) -> Callable[[Callable[[Run], Answer]], Question]:
    """Makes a function the answer of a question."""
    return lambda answer: Question(section, topic, command, answer, essential)


def questions_in(names: dict[str, object]) -> list[Question]:
    """Those of a file, in their order there: `questions_in(vars(module))`."""
    return [each for each in names.values() if isinstance(each, Question)]


def answers(questions: Iterable[Question], run: Run) -> Iterator[Statement]:
    for question in questions:
        yield from question.statements(run)
