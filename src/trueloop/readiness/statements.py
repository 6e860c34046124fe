"""A question of the note about a run. Its answer is one or several statements, or that the evidence is missing.

@question("data", "duplicates across splits", "trueloop train {recipe}")
def duplicates(run: Run) -> Statement: ...
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from trueloop.readiness.record import Absent, Record
from trueloop.results.readiness import Figure, Statement, stated

__all__ = ["Question", "Run", "answers", "claim_question", "question", "questions_in", "untested"]


@dataclass(frozen=True, slots=True)
class Run:
    record: Record
    name: str  # what a user types for it: runs/digits
    recipe: str = ""  # what to type after `trueloop train` for such a run: 'digits --set lr=0.1'
    claims: tuple[str, ...] = ()  # every claim of `trueloop probe`
    before: Record | None = None  # the last good run, if there is one
    twin: Record | None = None  # a finished run of the same recipe with a different seed
    proofs: str = "training-readiness/proofs.json"  # of a script: the file that `probe` writes
    probe: str = "trueloop probe {run} {claim}"  # tests a claim, and stores the result where this note finds it

    def command(self, template: str, **more: str) -> str:
        return template.format(run=self.name, recipe=self.recipe, proofs=self.proofs, **more)


Answer = Statement | Iterable[Statement]


@dataclass(frozen=True, slots=True)
class Question:
    section: str
    topic: str
    command: str  # what produces the evidence; {run} and {recipe} are filled in
    answer: Callable[[Run], Answer]
    essential: bool = False

    def statements(self, run: Run) -> Iterator[Statement]:
        try:
            answer = self.answer(run)
            for each in (answer,) if isinstance(answer, Statement) else answer:
                yield replace(each, essential=self.essential)
        except Absent as absent:
            why = f" ({absent.because})" if absent.because else ""
            address = run.record.address(absent.address)
            state = "not tested" if "proofs.json" in address else f"not recorded, `{address}` is missing"
            yield self._missing(run, f"{self.topic}: {state}{why}")
        except (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError) as error:
            # Files of a run may come from anybody: a list in place of a number is no reason to judge nothing.
            yield self._missing(run, f"{self.topic}: a recorded value cannot be right ({type(error).__name__})")
        except ZeroDivisionError:
            yield self._missing(run, f"{self.topic}: cannot be computed, a recorded divisor is zero")

    def _missing(self, run: Run, text: str) -> Statement:
        return Statement(self.section, "missing", text, command=run.command(self.command), essential=self.essential)


def question(
    section: str, topic: str, command: str, *, essential: bool = False
) -> Callable[[Callable[[Run], Answer]], Question]:
    """Makes a function the answer to a question."""
    return lambda answer: Question(section, topic, command, answer, essential)


def questions_in(names: dict[str, object]) -> list[Question]:
    """Those of a file, in order: `questions_in(vars(module))`."""
    return [each for each in names.values() if isinstance(each, Question)]


def answers(questions: Iterable[Question], run: Run) -> Iterator[Statement]:
    for each in questions:
        yield from each.statements(run)


# -- claims of `trueloop probe` --


def claim_question(section: str, topic: str, claim: str, holds: str, fails: str, command: str = "") -> Question:
    """Its answer is the result of a claim in the words of a section; Absent if it was not tested."""
    answer = partial(_claim_result, section=section, claim=claim, holds=holds, fails=fails)
    return Question(section, topic, command or f"trueloop probe {{run}} {claim}", answer)


def _claim_result(run: Run, section: str, claim: str, holds: str, fails: str) -> Statement:
    result, measured = (run.record.figure(f"proofs.json#{claim}.{part}") for part in ("result", "measured"))
    if result.value == "unproved":
        return untested(run, section, claim, measured)
    good = result.value == "holds"
    text = f"{holds if good else fails}: {{measured}}"
    return stated(section, "good" if good else "bad", text, measured=measured).and_see(*result.addresses)


def untested(run: Run, section: str, claim: str, reason: Figure) -> Statement:
    made = stated(section, "missing", f"{claim}: could not be tested here; {{reason}}", reason=reason)
    return made.advising(run.command(run.probe, claim=claim))
