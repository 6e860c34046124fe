"""A vocabulary of stems beside texts of full words, and the other way round."""

from __future__ import annotations

import unicodedata

from trueloop.measure.word_forms import other_forms, other_spelling

SMALL = ["the", "of", "and", "with", "from", "into", "under", "over", "near", "after"]
STEMS = [
    "brew",
    "harvest",
    "milk",
    "garment",
    "suture",
    "toast",
    "peel",
    "comb",
    "knit",
    "polish",
    "conveyor",
    "press",
    "clamp",
    "grind",
    "weld",
    "spray",
    "fold",
    "wheel",
    "chass",
    "polymer",
    "distil",
    "ferment",
    "alloy",
    "resin",
    "solvent",
    "pigment",
    "turbin",
    "piston",
    "throttl",
    "pump",
    "damp",
    "lubricat",
    "sensor",
    "spectr",
    "index",
    "encod",
    "detect",
    "scann",
    "weigh",
    "modulat",
    "insulat",
    "transist",
    "solder",
    "relay",
]
FULL = [stem + ("ing", "ed", "er", "ation")[i % 4] for i, stem in enumerate(STEMS)]


def test_stems_beside_full_words() -> None:
    found = other_forms(SMALL + STEMS, (SMALL + FULL) * 10)
    assert found is not None
    assert found.example.startswith(found.entry)
    assert found.follow == 1


def test_full_words_beside_stems() -> None:
    found = other_forms(SMALL + FULL, (SMALL + STEMS) * 10)
    assert found is not None
    assert found.entry.startswith(found.example)


def test_a_letter_that_a_stemmer_changes() -> None:
    words = [f"{stem}y" for stem in STEMS]
    assert other_forms(SMALL + [f"{stem}i" for stem in STEMS], (SMALL + words) * 10) is not None


def test_rare_words_are_left_out() -> None:
    """Every entry is in the text; what is missing is rare, or a name."""
    assert other_forms(SMALL + FULL[:30], SMALL * 5 + FULL) is None


def test_a_vocabulary_of_a_larger_text() -> None:
    others = [f"{word}s" for word in STEMS]
    assert other_forms(SMALL + FULL + others, (SMALL + FULL) * 10) is None


def test_a_vocabulary_without_small_words() -> None:
    assert other_forms(FULL, (SMALL + FULL) * 10) is None


def test_a_vocabulary_of_another_language() -> None:
    assert other_forms([f"q{word}" for word in FULL], (SMALL + FULL) * 10) is None


COMPOUNDS = ["sea_salt", "olive_oil", "soy_sauce", "rice_wine", "lime_juice", "corn_meal", "bay_leaf", "fig_jam"]


def _with(sign: str) -> list[str]:
    return [word.replace("_", sign) for word in COMPOUNDS]


def test_compounds_that_are_joined_in_a_different_way() -> None:
    found = other_spelling(SMALL + _with("-"), (SMALL + COMPOUNDS) * 10)
    assert found is not None
    assert found.entry == found.example.replace("_", "-")
    assert other_spelling(SMALL + _with(""), (SMALL + _with("-")) * 10) is not None
    assert other_spelling(SMALL + [f"caf{n}x" for n in "abcdefgh"], [f"c\u00e1f{n}x" for n in "abcdefgh"]) is not None


def test_compounds_that_scripts_take_apart() -> None:
    parts = [part for word in COMPOUNDS for part in word.split("_")]
    assert other_spelling(SMALL + parts + _with(""), (SMALL + _with("-")) * 10) is None


def test_both_spellings_are_entries() -> None:
    assert other_spelling(SMALL + _with("-") + COMPOUNDS, (SMALL + COMPOUNDS) * 10) is None


def test_pieces_of_words() -> None:
    assert other_spelling([f"\u2581{word}" for word in SMALL + FULL], (SMALL + FULL) * 10) is None


def test_case_alone_is_no_spelling() -> None:
    assert other_spelling(SMALL + [word.capitalize() for word in FULL], (SMALL + FULL) * 10) is None


def test_numbers_are_no_words() -> None:
    assert other_spelling(SMALL + [f"1{n}00" for n in range(9)], SMALL * 9 + [f"1{n},00" for n in range(9)] * 9) is None


def test_accents_as_signs_of_their_own() -> None:
    names = [f"c\u00e0{n}r" for n in "abcdefgh"]
    apart = [unicodedata.normalize("NFD", name) for name in names]
    assert other_spelling(SMALL + names, (SMALL + apart) * 9) is not None
    assert other_spelling(SMALL + names, (SMALL + apart) * 9, elsewhere=names) is None  # another column has them so
