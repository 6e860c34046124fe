"""Every verb that opens a stranger's file, with every format that it opens; nothing is missing from the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.matrix import ARTIFACTS, FORMATS, OPENED, OPENS_NOTHING, READ, WEIGHTS, put
from tests.hostile.pickles import PICKLES
from tests.hostile.verbs import call
from trueloop.checkpoint.contents import TRAINING
from trueloop.cli.main import VERBS
from trueloop.export.catalogue import find_exporter
from trueloop.export.exporter import installed_version

CELLS = [(kind, verb) for kind, verbs in OPENED.items() for verb in verbs]
QUICK = [(".npy", "inspect"), ("artifact pt2", "serve"), ("run.json", "inspect"), (".pt", "inspect activations")]
QUICK += [(".pt", "predict"), (".pth", "train start_from"), (WEIGHTS, "ready"), (TRAINING, "ready")]


def test_every_verb_is_in_the_table() -> None:
    opening = {words[0] for verbs in OPENED.values() for words in verbs.values()}
    assert opening | set(OPENS_NOTHING) == set(VERBS), "a new verb: say in matrix.py which formats it opens"
    assert not opening & set(OPENS_NOTHING)


def test_every_format_is_in_the_table() -> None:
    """Artifacts by the targets of `export`, files by the suffixes of `inspect`: a new one has a column at once."""
    assert set(OPENED) == set(FORMATS)
    assert all(OPENED.values())


def test_every_command_is_one_of_its_verb() -> None:
    assert all(words[0] == verb.split()[0] for verbs in OPENED.values() for verb, words in verbs.items())
    assert set(CELLS) >= READ


def test_the_canary_can_sing(tmp_path: Path) -> None:
    """What the table relies on: a reader that executes leaves the folder."""
    import pickle

    pickle.loads(PICKLES["evil_without_archive"](tmp_path / "it-ran"))
    assert (tmp_path / "it-ran").is_dir()


def _try(kind: str, verb: str, canary: Path) -> None:
    if kind in ARTIFACTS and not installed_version(runtime := find_exporter(ARTIFACTS[kind]).runtime):
        pytest.skip(f"{runtime} is not installed: nothing here opens this format")
    put(kind, canary)
    said = call(*OPENED[kind][verb])
    assert said.code in ((0, 1, 4) if (kind, verb) in READ else (1, 4)), said
    assert said.code == 0 or said.text.strip(), "refused without a sentence"


@pytest.mark.parametrize(("kind", "verb"), QUICK)
def test_some_cells(kind: str, verb: str, work: Path, canary: Path) -> None:
    _try(kind, verb, canary)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "verb"), [cell for cell in CELLS if cell not in QUICK])
def test_all_cells(kind: str, verb: str, work: Path, canary: Path) -> None:
    _try(kind, verb, canary)
