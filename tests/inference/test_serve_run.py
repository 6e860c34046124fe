"""`trueloop serve RUN` of a language model, as it is typed: its answers are those of greedy generation."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

import trueloop
from tests.conftest import in_child
from tests.inference.test_sample import BYTES
from tests.serve.made import Served, process, until_ready
from trueloop.cli.main import main
from trueloop.inference.generate import LanguageModel, Sampling


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("served")
    (folder / "text.txt").write_text("the cat sat on the mat; the dog sat on the cat. " * 20)
    file = folder / "letters_to_serve.py"
    longer = BYTES.replace("8, stride", "32, stride").replace("inputs=(8,)", "inputs=(32,)")
    file.write_text(longer.replace("block=8", "block=32"))
    assert in_child(lambda: main(["train", str(file), "--runs", str(folder / "runs"), "--quiet"])) == 0
    return folder / "runs" / "letters"


def test_answers_of_many_streams_are_those_of_greedy_generation(run: Path) -> None:
    words = ["serve", str(run), "--device", "cpu", "--port", "0", "--batch", "4"]
    prompts = ["the ", "c", "on the mat", "dog s", "t", "; the"]
    found: dict[str, str] = {}
    with process([sys.executable, "-m", "trueloop", *words]) as started:
        assert started.stdout is not None
        first = started.stdout.readline()
        assert first.startswith("letters at http://127.0.0.1:"), first
        assert started.stdout.readline() == "texts      up to 4 at once, 256 may wait; context of 32 tokens\n"
        server = Served(int(first.partition("127.0.0.1:")[2].split("/")[0]), started)
        until_ready(server)

        def ask(prompt: str) -> None:
            body = {"model": "letters", "prompt": prompt, "max_tokens": 20, "temperature": 0}
            told = server.ask(json.dumps(body).encode(), path="/v1/completions")[1]
            found[prompt] = told["choices"][0]["text"]

        threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.end() == 0
    model = LanguageModel(trueloop.load(run, device="cpu"))
    for prompt in prompts:
        tokens = model.generate(list(prompt.encode()), 20, Sampling(0.0)).tokens[0]
        assert found[prompt] == bytes(tokens).decode("utf-8", "replace")


def test_options_of_artifacts_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(run), "--workers", "2"]) == 4
    said = "is a run of a language model: --workers, --ray, --grpc and --write are for artifacts"
    assert said in capsys.readouterr().err
