"""`trueloop sample RUN`: token for token what a plain loop gives, with and without a cache, behind the context too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import trueloop
from tests.conftest import in_child
from trueloop.cli.main import main
from trueloop.errors import Misuse
from trueloop.inference.generate import LanguageModel, Sampling, choose
from trueloop.inference.text_coding import coding_of
from trueloop.results.check import ExitCode

Captured = pytest.CaptureFixture[str]

BYTES = """
from pathlib import Path
from torch import nn
from trueloop import Recipe, Splits
from trueloop.data.source import Facts
from trueloop.data.tokens import Tokens
from trueloop.recipes.shakespeare import GPT

TEXT = Path(__file__).with_name("text.txt")

def data(request):
    source = Tokens(TEXT, 8, stride=1)
    return Splits(source, source, facts=Facts(inputs=(8,), vocabulary=256, more={"text": {"encoding": "bytes"}}))

def model():
    return GPT(256, block=8, depth=2, heads=2, width=16, dropout=0.1)

recipe = Recipe(name="letters", model=model, data=data, task="language", steps=30, batch=8, lr=1e-2, ema=0.9,
                trackers=(), device="cpu")
"""
PLAIN = (
    BYTES.replace(
        "def model():\n    return GPT(",
        "class Plain(nn.Module):\n    def __init__(self, inner):\n        super().__init__()\n"
        "        self.inner = inner\n\n"
        "    def forward(self, tokens):\n        return self.inner(tokens)\n\ndef model():\n    return Plain(GPT(",
    )
    .replace("dropout=0.1)", "dropout=0.1))")
    .replace('name="letters"', 'name="plain"')
)
CAUSAL = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from trueloop import Recipe, Splits
from trueloop.data.dataset import Dataset

ROWS = [{"input_ids": [(s + 3 * p) % 32 for p in range(12)], "labels": [(s + 3 * p) % 32 for p in range(12)]}
        for s in range(32)]

def data(request):
    return Splits(Dataset(ROWS), Dataset(ROWS))

def model():
    config = GPT2Config(vocab_size=32, n_positions=12, n_embd=16, n_layer=2, n_head=2, bos_token_id=31, eos_token_id=31)
    return GPT2LMHeadModel(config)

recipe = Recipe(name="causal", model=model, data=data, steps=20, batch=8, lr=1e-2, trackers=(), device="cpu")
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("sampled")
    (folder / "text.txt").write_text("the cat sat on the mat; the dog sat on the cat. " * 20)
    for name, text in {"letters": BYTES, "plain": PLAIN, "causal": CAUSAL}.items():
        file = folder / f"{name}_of_mine.py"
        file.write_text(text)
        assert in_child(lambda: main(["train", str(file), "--runs", str(folder / "runs"), "--quiet"])) == 0  # noqa: B023
    fields = ("epochs=1", "trackers=none", "device=cpu")
    words = [word for field in fields for word in ("--set", field)]
    assert in_child(lambda: main(["train", "digits", "--runs", str(folder / "runs"), "--quiet", *words])) == 0
    return folder / "runs"


def loaded(runs: Path, name: str) -> Any:
    return trueloop.load(name, runs=runs, device="cpu")


def reference(model: Any, prompt: list[int], tokens: int, context: int, temperature: float, seed: int) -> list[int]:
    """The loop that everybody writes."""
    draws, row = torch.Generator().manual_seed(seed), list(prompt)
    with torch.no_grad():
        for _ in range(tokens):
            output = model(torch.tensor([row[-context:]]))
            scores: Tensor = getattr(output, "logits", output)[0, -1]
            if temperature == 0:
                row.append(int(scores.argmax()))
            else:
                chances = (scores / temperature).softmax(0)
                row.append(int(torch.multinomial(chances, 1, generator=draws)))
    return row[len(prompt) :]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize(("name", "context"), [("letters", 8), ("plain", 8), ("causal", 12)])
def test_it_is_the_plain_loop_token_for_token(
    runs: Path, name: str, context: int, cache: bool, temperature: float
) -> None:
    run = loaded(runs, name)
    model = LanguageModel(run)
    assert (model.context, model.has_cache) == (context, name != "plain")
    prompt = [20, 23, 26]
    randoms = torch.get_rng_state()
    made = model.generate(prompt, 30, Sampling(temperature), seed=3, cache=cache, ends=False)
    assert list(made.tokens[0]) == reference(run.model, prompt, 30, context, temperature, 3)
    assert made.cached == (cache and name != "plain")
    assert len(made.seconds) == 30
    assert torch.equal(torch.get_rng_state(), randoms)


def test_scores_with_the_cache_of_our_model_are_those_without(runs: Path) -> None:
    """Token by token, and in pieces of several tokens; each row by itself."""
    model: Any = loaded(runs, "letters").model
    rows = torch.tensor([list(b"the cat "), list(b"sat on m")])
    with torch.no_grad():
        whole = model(rows)
        for pieces in ([8], [1] * 8, [3, 1, 4]):
            found, cache = list[Tensor](), None
            for piece in torch.split(rows, pieces, 1):
                scores, cache = model.forward_cached(piece, cache)
                found.append(scores)
            torch.testing.assert_close(torch.cat(found, 1), whole, rtol=1e-4, atol=1e-5)


def test_more_samples_do_not_change_the_first_and_an_end_ends(runs: Path) -> None:
    model = LanguageModel(loaded(runs, "causal"))
    one = model.generate([1, 4], 12, Sampling(1.5), seed=1, ends=False).tokens
    three = model.generate([1, 4], 12, Sampling(1.5), seed=1, count=3, ends=False).tokens
    assert three[0] == one[0]
    assert len(set(three)) == 3
    model.ends = frozenset([one[0][5]])
    short = model.generate([1, 4], 12, Sampling(1.5), seed=1).tokens[0]
    assert short == one[0][: one[0].index(one[0][5])]


def test_the_weights_are_those_that_scored(runs: Path) -> None:
    run = loaded(runs, "letters")
    assert run.trained.run["weights"] == "ema"


@pytest.mark.parametrize(
    ("sampling", "allowed"),
    [
        (Sampling(0.0), {2}),
        (Sampling(1.0, top_k=1), {2}),
        (Sampling(1.0, top_k=2), {2, 0}),
        (Sampling(1.0, top_p=0.5), {2}),
        (Sampling(1.0, top_p=0.7), {2, 0}),
        (Sampling(1.0, top_p=1.0), {0, 1, 2, 3}),
        (Sampling(1.0, top_k=3, top_p=0.99), {0, 1, 2}),
    ],
)
def test_only_allowed_tokens_are_drawn_and_all_of_them(sampling: Sampling, allowed: set[int]) -> None:
    scores = torch.tensor([0.2, 0.15, 0.6, 0.05]).log()
    draws = torch.Generator().manual_seed(0)
    assert {choose(scores, sampling, draws) for _ in range(200)} == allowed


def test_the_command_writes_text_with_its_prompt(runs: Path, capsys: Captured, tmp_path: Path) -> None:
    words = ["sample", "letters", "--runs", str(runs), "--device", "cpu", "--prompt", "the ", "--tokens", "12"]
    assert main([*words, "--temperature", "0"]) == 0
    printed = capsys.readouterr()
    model = loaded(runs, "letters").model
    wanted = bytes(reference(model, list(b"the "), 12, 8, 0.0, 0)).decode()
    assert printed.out == f"the {wanted}\n"
    assert "12 tokens in" in printed.err
    assert "with a KV cache" in printed.err
    assert "behind 8 tokens it sees the last 8" in printed.err
    assert main([*words, "--count", "2", "--format", "json", "--top-k", "3", "--top-p", "90%"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert [len(each["tokens"]) for each in page["samples"]] == [12, 12]
    assert (page["top_k"], page["top_p"], page["seed"]) == (3, 0.9, 0)
    files = [tmp_path / name for name in ("text.txt", "text.md", "text.json")]
    assert main([*words, "--count", "2", *(f"--output={file}" for file in files)]) == 0
    assert capsys.readouterr().out == ""
    text, page, data = (file.read_text(encoding="utf-8") for file in files)
    assert text.startswith("--- sample 1 of 2\nthe ")
    assert "## sample 2 of 2\n\n```text\nthe " in page
    assert json.loads(data)["samples"][0]["text"] in text
    assert main(["sample", "causal", "--runs", str(runs), "--device=cpu", "--prompt=1 4 7", "--tokens=5"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("1 4 7 ")
    assert "with a KV cache" in printed.err
    assert main(["sample", "plain", "--runs", str(runs), "--device", "cpu", "--prompt", "the ", "--tokens", "3"]) == 0
    assert "no KV cache" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["digits"], "is not a language model: its model is Sequential, and its task is multiclass"),
        (["letters", "--prompt", ""], "The prompt is empty"),
        (["letters", "--temperature", "-1"], "--temperature cannot be '-1'"),
        (["letters", "--top-p", "0"], "--top-p cannot be '0'"),
        (["letters", "--top-k", "0"], "--top-k cannot be '0'"),
        (["causal", "--prompt", "hello"], "This run names no tokenizer"),
        (["letters", "--tokenizer", "./nowhere"], "--tokenizer ./nowhere cannot be loaded"),
        (["nothing"], "There is no run 'nothing'"),
        ([], "Which run?"),
    ],
)
def test_mistakes_are_one_sentence(runs: Path, capsys: Captured, words: list[str], said: str) -> None:
    assert main(["sample", "--runs", str(runs), "--device", "cpu", *words]) == ExitCode.MISUSE
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert not printed.out


def test_tokenizers() -> None:
    class Own:
        def encode(self, text: str) -> list[int]:
            return [len(word) for word in text.split()]

        def decode(self, tokens: list[int]) -> str:
            return " ".join("x" * token for token in tokens)

    model = torch.nn.Linear(1, 1)
    letters = coding_of({"characters": "abc"}, model)
    assert letters.decode(letters.encode("cab")) == "cab"
    with pytest.raises(Misuse, match="never saw"):
        letters.encode("cat")
    own = coding_of({"tokenizer": Own()}, model)
    assert own.decode(own.encode("ab c")) == "xx x"
    assert coding_of({"encoding": "bytes"}, model).decode([104, 195]) == "h\ufffd"
    assert coding_of(None, model).encode("3, 17") == [3, 17]


def test_a_tokenizer_of_hugging_face_from_a_folder(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"the": 0, "cat": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(tmp_path)
    coding = coding_of({"tokenizer": str(tmp_path)}, torch.nn.Linear(1, 1))
    assert coding.encode("the cat the") == [0, 1, 0]
    assert coding.decode([1, 0]) == "cat the"
