"""What became of a training, as evidence for a suspicion that alone would be too weak."""

from typing import Final

from trueloop.event import AnswersCompared, LossAgainstChance

__all__ = ["Outcome"]

RELATED: Final = 0.35  # correlation of outputs with the targets of new rows
BETTER: Final = 0.8  # of the loss of a constant prediction
LOOKS: Final = 4  # sampled calls


class Outcome:
    def __init__(self) -> None:
        self._answers: dict[int, AnswersCompared] = {}
        self._losses: list[LossAgainstChance] = []

    def add(self, event: AnswersCompared | LossAgainstChance) -> None:
        if isinstance(event, AnswersCompared):
            self._answers[event.model] = event
        else:
            self._losses.append(event)

    def poor(self, model: int) -> str:
        """How poorly a model does, in words; empty: it learned something, or nothing is known.

        Judged by new rows where their targets are known, and else by the training loss."""
        answers = self._answers.get(model)
        if answers is not None:
            poor = answers.relation < RELATED
            return f"its outputs correlate {answers.relation:.2f} with the targets of new rows" if poor else ""
        for seen in self._losses:
            if seen.sampled_calls >= LOOKS and seen.chance > 0 and seen.last >= BETTER * seen.chance:
                return f"its training loss is {seen.last:.3g}, that of a constant prediction {seen.chance:.3g}"
        return ""
