"""LOS132 terminal-states-bootstrapped: the target adds a next state's value where there is none, or the wrong state's.

What it sees
------------
Recorded training steps compute `reward + discount * value`, where a model computed the value without a graph. Either
nothing masks the value, while a tensor of zeros and ones lies beside it, one number for each row, that no operation
reads: the flag of the end of an episode. The flags may also be stored beside the rewards that an index took out, and
the sum may be the first of a return over several steps. Or the value is that of the very states whose predictions are
trained, in all rows; or in nearly all, with different rewards for one state, while the other rows leave states that no
row enters (the copies that `reset` returned).

Why it hurts
------------
After the end of an episode there is nothing to gain. Without the mask the value of a failure is that of a state in
which the game continues, and all values drift to reward / (1 - discount). If the next state is the state itself (a
stored array that the environment changes later), no value spreads from one state to another.

Evidence
--------
The line, the discount, the name of the flag and its share of ones, or the number of rows with equal states.

Use instead
-----------
    target = reward + gamma * (1 - done) * target_net(next_state).max(1).values
    memory.append((state.copy(), action, reward, next_state.copy(), done))

When it is fine
---------------
Not reported: values that are multiplied by any tensor or overwritten by an index, batches without a flag, flags that
are all equal or that something reads, and flags whose names say that time ran out (truncated, timeout). Of stored
states: environments that change their state only now and then. Of stored
flags: indices that leave the marked rows out, and names that may mean the end of the time (end, last) unless the
rewards of the marked rows are others than those of all other rows.
"""

from typing import Final

from trueloop.event import StepProgram, TargetsBootstrapped
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.names import words_of

__all__ = ["TerminalStatesBootstrapped"]

SAMPLED: Final = 2  # steps that must show it
_TIME: Final = frozenset({"truncated", "truncation", "trunc", "timeout", "timeouts", "time", "limit", "cut"})


class TerminalStatesBootstrapped(Rule, code="LOS132", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"
    applies_after = (StepProgram,)

    def on_targets_bootstrapped(self, event: TargetsBootstrapped) -> Findings:
        flags = [name for name in event.flags if not _TIME.intersection(words_of(name))]
        if event.same_states:
            if self.count("same", event.place) == SAMPLED:
                yield self.finding(
                    event,
                    f"The target adds the values of next states, but in {event.same_rows} of {event.rows} rows the "
                    "next state is the state itself.",
                    fix="Store copies of the states, `state.copy()`, and give the next state to the target network.",
                    evidence={"rows": event.rows, "same": event.same_rows, "discount": event.discount},
                )
        elif len(flags) == 1 and len(event.flags) == 1 and self.count("flag", event.place) == SAMPLED:
            yield self.finding(
                event,
                f"The target adds {event.discount:g} times the value of the next state in all {event.rows} rows; "
                f"`{flags[0]}` marks {event.ones:.0%} of them, and nothing reads it.",
                fix=f"Leave the value out at the end of an episode: `{event.discount:g} * (1 - {flags[0]}) * ...`.",
                evidence={"rows": event.rows, "discount": event.discount, "flag": flags[0], "ones": event.ones},
                severity=Severity.WARNING,
            )
