"""DAT138 text-not-in-vocabulary: the words of a text are in the vocabulary file only in a different case or form.

What it sees
------------
The script opened a vocabulary file (a list of words or characters with an entry for unknown words or for padding; text
or json) and a text. As written, most words of the text are not in the vocabulary; if upper and lower case are the same,
nearly all of them are. Or a tenth of the words are not in it, and without regard to case all are. Nothing in the script
changes the case of text. Or a configuration file says that the text is
changed to lower case, while the vocabulary has the words of this text as they are written (or the other way round). Or
the script spells out an alphabet (`"ACGT"`) and the text is written in it, with 3 % or more of the letters in the other
case: soft-masked sequences.

Or a fifth of the words or more are not in it and become unknown in the run, and most of these begin as an entry that no
text ever uses: the vocabulary has stems (`insulat`) and the text full words (`insulation`), or the other way round. Or
most of the unknown words have the letters of an entry that no text uses, with other signs between them, without
accents, or with accents as signs of their own (`olive_oil` and `olive-oil`; NFC and NFD). Or the script changes text to
lower case, the vocabulary has the words as they are written, and as many symbols of the run are unknown as that loses.

Why it hurts
------------
Every word that is not in the vocabulary becomes the id of unknown words. The model gets sequences of one id, learns
from their lengths and from punctuation, and nothing fails.

Evidence
--------
The vocabulary, the text, the share of its words that the vocabulary has, as written and without regard to case.

Use instead
-----------
    words = text.lower().split()           # as the vocabulary was made
    unknown = sum(word not in vocabulary for word in words) / len(words)
    assert unknown < 0.1, f"{unknown:.0%} of the words are not in the vocabulary"

When it is fine
---------------
Not reported: where any module of the script changes case (`lower`, `upper`, `casefold`, `capitalize`, `title`,
`swapcase`) or uses a tokenizer of a library, which may do it; a vocabulary that knows 30 % of the words as written or
more and not all of them without regard to case (rare words are left out); one that knows less than 80 % even without
regard to case (it belongs to a different text); fewer than 200 words.
"""

import re
import unicodedata
from typing import Final

from trueloop.event import RunEnded, SequencesCounted, TablesRead, TokensCounted, VocabularyCompared
from trueloop.rules.rule import Finding, Findings, Rule, Severity
from trueloop.usercode.source import source_of

__all__ = ["TextNotInVocabulary"]

UNKNOWN: Final = 0.3  # of the words are known as written: a text with many names and acronyms has more
SOME: Final = 0.9  # are known as written, and all of the others in a different case only: no other word is missing
ALL: Final = 0.995
KNOWN: Final = 0.8  # of the words: the vocabulary was made from this text as it is written
LOST: Final = 0.15  # of the symbols of a run are unknown: the words that are not in the vocabulary get there
LEAST_ROWS: Final = 32
MANY: Final = 0.2  # of the entries are used by no text: more than a sample of the run leaves out
ENOUGH: Final = 0.9  # of the entries that are used
SPECIAL: Final = 2  # symbols: padding and unknown
HALF_OF: Final = 0.5  # of the words that are not in the vocabulary, at least, are unknown in the run
CASED: Final = 0.9  # of the words are known as written, where the script loses them in lower case
AS_LOST: Final = (0.8, 1.25)  # the share of unknown symbols in the run, in shares of the words that lower case loses
HALF: Final = 0.5  # of them are left, at most, in lower case
_CHANGES_CASE: Final = re.compile(
    r"\b(lower|upper|casefold|capitalize|title|swapcase|IGNORECASE|lowercase|do_lower_case|transformers|tokenizers"
    r"|sentencepiece|torchtext|sklearn|keras|nltk|spacy|tiktoken)\b"
)
_RESPELLS: Final = re.compile(
    r"\b(replace|translate|sub|normalize|unidecode|stem|stemmer|transformers|tokenizers|sentencepiece|torchtext|sklearn"
    r"|keras|nltk|spacy|tiktoken)\b"
)
_LOWERS: Final = re.compile(r"\.(lower|casefold)\(")
_MASKS: Final = re.compile(r"soft.?mask|islower|isupper|repeat", re.IGNORECASE)  # lower case means something there


class TextNotInVocabulary(Rule, code="DAT138", severity=Severity.WARNING):
    not_applicable = "no vocabulary file and text that belongs to it were read"
    applies_after = (TablesRead,)
    explained_by = ("most-tokens-unknown",)

    def __init__(self) -> None:
        self._compared: list[VocabularyCompared] = []
        self._forms: list[VocabularyCompared] = []
        self._unknown = 0.0  # share of the symbols of a run
        self._common = 0.0  # share of the most frequent symbol where sequences are flat
        self._counted = False
        self._different = 0  # symbols
        self._lost: list[VocabularyCompared] = []

    def on_sequences_counted(self, event: SequencesCounted) -> None:
        self._counted |= event.rows >= LEAST_ROWS
        if event.rows >= LEAST_ROWS and event.unknown is not None:
            self._unknown = max(self._unknown, event.unknown.share)
        self._different = max(self._different, event.token_count)

    def on_tokens_counted(self, event: TokensCounted) -> None:
        if event.rows >= LEAST_ROWS:
            self._common = max(self._common, event.most_common[1])

    def on_vocabulary_compared(self, event: VocabularyCompared) -> None:
        if event.follow:
            self._forms.append(event)
            return
        sources = _sources(event)
        if event.known >= CASED and 1 - event.lowered >= LOST and any(map(_LOWERS.search, sources)):
            self._lost.append(event)
        if event.literal:
            silent = any(_CHANGES_CASE.search(text) or _MASKS.search(text) for text in sources)
            known = not silent
        elif event.setting and _follows(event.setting, sources):
            known = event.known >= KNOWN and event.lowered < HALF if event.is_set else event.known < UNKNOWN
        else:
            missing = event.known < UNKNOWN or (event.known < SOME and event.ignoring_case >= ALL)
            known = missing and not any(map(_CHANGES_CASE.search, sources))
        if known:
            self._compared.append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        yield from map(self._of_forms, filter(self._is_lost, self._forms))
        for event in self._lost:
            low, high = (factor * (1 - event.lowered) for factor in AS_LOST)
            if event not in self._compared and low <= max(self._unknown, self._common) <= high:
                self._compared.append(event)
        for event in self._compared:
            yield self.finding(
                event,
                _message(event),
                fix="Change the text to the case of the vocabulary when it is read, or make the vocabulary again from "
                "this text.",
                evidence={"vocabulary": event.vocabulary, "text": event.file, "column": event.column,
                          "known": round(event.known, 3), "ignoring case": round(event.ignoring_case, 3)},
            )  # fmt: skip

    def _is_lost(self, event: VocabularyCompared) -> bool:
        """Whether words in another form become unknown in the run; without a count, nothing may change their form."""
        if not event.spelled:
            return self._unknown >= LOST
        if self._unknown or (self._counted and not self._leaves_out(event)):
            return self._unknown >= HALF_OF * (1 - event.known)
        return not any(map(_RESPELLS.search, _sources(event)))

    def _leaves_out(self, event: VocabularyCompared) -> bool:
        """Whether the run has nearly as many different symbols as the text has entries, and not those of another
        spelling too: which id stands for unknown words stays unknown in some scripts."""
        used = event.entries * (1 - event.unused)
        return event.unused >= MANY and ENOUGH * used <= self._different <= used + SPECIAL

    def _of_forms(self, event: VocabularyCompared) -> Finding:
        how = "have the letters of an entry" if event.spelled else "begin as an entry"
        run = f" In the run, {self._unknown:.0%} of the symbols are unknown." if self._unknown else ""
        composed = {unicodedata.normalize("NFC", word) for word in (event.example, event.entry)}
        marks = " (they look alike: one has accents as signs of their own, NFD)" if len(composed) == 1 else ""
        form = "spelling of the vocabulary" if event.spelled else "form of the vocabulary (the same stemmer)"
        return self.finding(
            event,
            f"{1 - event.known:.0%} of the words of `{event.file}` are not in the {event.entries:,} entries of "
            f"`{event.vocabulary}`, and {event.follow:.0%} of these {how} that no text uses "
            f"({event.unused:.0%} of the entries are unused): the text has {event.example!r}, the vocabulary "
            f"{event.entry!r}{marks}.{run}",
            fix=f"Make the vocabulary again from this text, or bring the words into the {form} when they are read.",
            evidence={"vocabulary": event.vocabulary, "text": event.file, "known": round(event.known, 3),
                      "unused entries": round(event.unused, 3), "unknown in the run": round(self._unknown, 3)},
        )  # fmt: skip


def _message(event: VocabularyCompared) -> str:
    what = "characters" if event.characters else "words"
    where = event.vocabulary if event.literal else f"the {event.entries:,} entries of `{event.vocabulary}`"
    if event.setting and event.is_set:
        return (
            f"The configuration sets `{event.setting}` to true, but `{event.vocabulary}` has the words of "
            f"`{event.file}` as they are written: {event.known:.0%} of them are in it now, {event.lowered:.0%} in "
            "lower case. The others become unknown words."
        )
    if event.known >= CASED and not event.literal:
        return (
            f"The script changes text to lower case, but `{event.vocabulary}` has the words of `{event.file}` as they "
            f"are written: {event.known:.0%} of them are in it as written, {event.lowered:.0%} in lower case. As many "
            "symbols of the run are unknown as that loses."
        )
    setting = f" The configuration sets `{event.setting}` to false." if event.setting else ""
    return (
        f"{1 - event.known:.0%} of the {what} of `{event.file}` are not in {where}: the text has {event.example!r}, "
        f"the vocabulary {event.entry!r}. Without regard to case, {event.ignoring_case:.0%} are in it.{setting}"
    )


def _follows(setting: str, sources: list[str]) -> bool:
    """Whether the script reads this setting, and changes case in one place only: where it does what the setting says"""
    named = any(re.search(rf"\b{setting}\b", text) for text in sources)
    return named and sum(len(_LOWERS.findall(text)) for text in sources) == 1


def _sources(event: VocabularyCompared) -> list[str]:
    return ["\n".join(source_of(path).lines) for path in {*event.modules, _path(event)}]


def _path(event: VocabularyCompared) -> str:
    return event.place.path if event.place else ""
