"""DAT134 sequences-cut-off: every sequence is cut at the maximal length, and the model learns little from the rest.

What it sees
------------
The sequences of symbols that enter a model in training all have one width, which is a number that the script cuts
sequences at (`ids[:max_len]`). The script pads shorter sequences, but no row has any padding: hardly a sequence is
shorter than the limit. And the model hardly predicts the targets of new rows; where these are unknown, its training
loss is near that of a constant prediction.

Why it hurts
------------
What comes after the limit is thrown away. If the deciding words are at the end, nothing is left to learn from.

Evidence
--------
The limit and its name in the script, the share of rows without padding, and what the model has learned.

Use instead
-----------
    lengths = torch.tensor([len(text.split()) for text in texts]).float()
    print(lengths.quantile(0.99))        # a limit that cuts 1 % of the texts
    ids = ids[-max_len:]                 # or keep the end, if that decides

When it is fine
---------------
Not reported: models that predict new rows, sequences of which one in twenty is shorter than the limit, scripts that pad
nothing, rows of different widths. Sequences of one and the same length that fit exactly look the same: allow it there.
"""

from typing import Final

from trueloop.event import AnswersCompared, LossAgainstChance, RunEnded, SequencesCounted
from trueloop.rules.outcome import Outcome
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["SequencesCutOff"]

ROWS: Final = 100
FULL: Final = 0.95
SYMBOLS: Final = 5  # distinct ones: with fewer, they are no text


class SequencesCutOff(Rule, code="DAT134", severity=Severity.WARNING):
    not_applicable = "no model was given sequences of symbols"
    explained_by = ("most-tokens-unknown", "lengths-all-one")

    def __init__(self) -> None:
        self._training: dict[int, SequencesCounted] = {}
        self._outcome = Outcome()

    def on_sequences_counted(self, event: SequencesCounted) -> None:
        if event.phase == "training" and event.limit and event.rows >= ROWS and event.token_count >= SYMBOLS:
            self._training[event.model] = event

    def on_answers_compared(self, event: AnswersCompared) -> None:
        self._outcome.add(event)

    def on_loss_against_chance(self, event: LossAgainstChance) -> None:
        self._outcome.add(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for model, event in self._training.items():
            poor = self._outcome.poor(model)
            if event.full < FULL or not poor:
                continue
            yield self.finding(
                event,
                f"{event.full:.0%} of {event.rows} sequences of `{event.name}` are cut at `{event.limit}` = "
                f"{event.width}: they have no padding, so none is shorter. The model learned little: {poor}.",
                fix=f"Look at the lengths of the raw sequences and raise `{event.limit}`, or keep the part that "
                "decides.",
                evidence={"width": event.width, "limit": event.limit, "without_padding": round(event.full, 3)},
            )
