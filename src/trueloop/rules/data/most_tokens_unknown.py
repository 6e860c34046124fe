"""DAT116 most-tokens-unknown: most tokens of the text have one id, probably that of unknown words.

What it sees
------------
In the integer inputs of a model with an embedding, one id makes up most of the tokens inside the sequences, and only a
small part of the embedding's rows is used. Padding at the ends does not count. The ids may be a table, one flat tensor
with offsets (`nn.EmbeddingBag`), a list of sequences, or one sequence per call.

In evaluation that one id is enough, if no id is that common in training.

Half of the tokens are enough where the script itself calls this id unknown: a constant `UNK`, an entry `"<unk>"` of a
vocabulary. So is an id that the script gives to symbols without an entry (`code.get(base, 4)`), or a one-hot position
that has no symbol at all, also with small alphabets, if the model has learned little or nothing.

Why it hurts
------------
The text is lost before the model sees it: a vocabulary of another corpus, another tokenizer or another case maps nearly
every word to the id of unknown words.

Evidence
--------
The id, its share, and the number of distinct ids.

Use instead
-----------
    unknown = sum(word not in vocabulary for word in words) / len(words)
    assert unknown < 0.1, f"{unknown:.0%} of the words are not in the vocabulary"

When it is fine
---------------
Not reported: shares below 60 % (50 % of an id that is called unknown); inputs with fewer than four distinct ids; inputs
that use a quarter of the embedding or more (boards, pixels, text with many masks), unless the id is called unknown;
flat ids of single categories (one per row) or of the nodes of graphs; and, in evaluation, an id that is common in
training too (a mask from which text is generated).
"""

from typing import Final

from trueloop.event import (
    AnswersCompared,
    InputsSummarized,
    LossAgainstChance,
    RunEnded,
    SequencesCounted,
    TokensCounted,
)
from trueloop.rules.outcome import Outcome
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["MostTokensUnknown"]

SHARE: Final = 0.6
CALLED: Final = 0.5  # of an id that the script calls unknown
LEAST_TOKENS: Final = 4
LEAST_ROWS: Final = 32
USED: Final = 0.25  # of the embedding
COMMON: Final = 0.3
FLAT: Final = -1  # instead of a position


class MostTokensUnknown(Rule, code="DAT116", severity=Severity.WARNING):
    not_applicable = "no model was given sequences of tokens"

    def __init__(self) -> None:
        self._events: list[tuple[int, InputsSummarized | TokensCounted]] = []
        self._sequences: list[SequencesCounted] = []
        self._outcome = Outcome()

    def on_sequences_counted(self, event: SequencesCounted) -> None:
        if event.rows >= LEAST_ROWS and event.unknown is not None:
            self._sequences.append(event)

    def on_answers_compared(self, event: AnswersCompared) -> None:
        self._outcome.add(event)

    def on_loss_against_chance(self, event: LossAgainstChance) -> None:
        self._outcome.add(event)

    def on_inputs_summarized(self, event: InputsSummarized) -> None:
        if event.kind == "tokens" and event.most_common is not None and event.rows >= LEAST_ROWS:
            self._events.append((event.position, event))

    def on_tokens_counted(self, event: TokensCounted) -> None:
        if event.rows >= LEAST_ROWS:
            self._events.append((FLAT, event))

    def on_run_ended(self, _: RunEnded) -> Findings:
        reported = {event.model for event in self._sequences if self._is_unknown(event)}
        yield from self._by_name(reported)
        trained = {(e.model, position): e.most_common for position, e in self._events if e.phase == "training"}
        for position, event in self._events:
            token, share = event.most_common or (0, 0.0)
            if share < SHARE or event.token_count < LEAST_TOKENS or event.model in reported:
                continue
            there = trained.get((event.model, position)) if event.phase == "evaluation" else None
            if event.phase == "evaluation" and (there is None or (there[0] == token and there[1] >= COMMON)):
                continue
            if event.token_count >= USED * event.table and (there is None or there[1] >= COMMON):
                continue
            yield self.finding(
                event,
                f"{share:.0%} of the tokens inside the sequences of `{event.name}` are the id {token}; only "
                f"{event.token_count} of {event.table} ids occur. The text is probably not in the vocabulary.",
                fix="Check that the vocabulary belongs to this text: same tokenizer, same case, same file version.",
                evidence={"token": token, "share": round(share, 3), "distinct": event.token_count,
                          "embedding": event.table, "phase": event.phase},
            )  # fmt: skip

    def _is_unknown(self, event: SequencesCounted) -> bool:
        unknown = event.unknown
        if unknown is None or unknown.share < (CALLED if unknown.called else SHARE):
            return False
        return bool(unknown.called) or bool(self._outcome.poor(event.model))

    def _by_name(self, models: set[int]) -> Findings:
        for model in models:
            found = [event for event in self._sequences if event.model == model and self._is_unknown(event)]
            event = found[0]
            unknown = event.unknown
            assert unknown is not None
            what = "no symbol at all" if unknown.token is None else f"the id {unknown.token}"
            source = f"`{unknown.called}`" if unknown.called else f"what `{unknown.fallback}` gives to unknown symbols"
            named = "" if unknown.token is None else f", {source}"
            poor = "" if unknown.called else f"; {self._outcome.poor(model)}"
            phases = " and ".join(dict.fromkeys(event.phase for event in found))
            yield self.finding(
                event,
                f"{unknown.share:.0%} of the symbols inside the sequences of `{event.name}` are {what}{named} "
                f"({phases}){poor}. The text is not in the vocabulary.",
                fix="Check that the vocabulary belongs to this text: same tokenizer, same case, same file version.",
                evidence={"token": unknown.token, "share": round(unknown.share, 3), "distinct": event.token_count,
                          "unknown": unknown.called or unknown.fallback, "phase": event.phase},
            )  # fmt: skip
