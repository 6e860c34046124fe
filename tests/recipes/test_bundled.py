"""Every bundled recipe: named after its file, sound, of the size it says, and able to take steps on small made-up
data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.golden.short_runs import short
from tests.golden.stand_ins import TARGET, stand_in_for, write_table
from trueloop.data.source import Facts
from trueloop.engine.build_model import build_model
from trueloop.engine.loop import Loop
from trueloop.engine.train import train
from trueloop.errors import BadData
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipe.validate import validate
from trueloop.recipes import fashion_cnn, fashion_mlp, mnist, sentiment, shakespeare, shakespeare_tiny
from trueloop.recipes.catalogue import bundled, find_recipe

FOUND = ("fashion-mlp", "fashion-cnn", "mnist", "sentiment", "shakespeare", "shakespeare-tiny")
"""Recipes whose data are looked for."""

PARAMETERS = {
    "digits": 29_258,
    "fashion-mlp": 269_322,
    "fashion-cnn": 482_154,
    "mnist": 482_154,
    "shakespeare": 10_844_160,
    "shakespeare-tiny": 834_304,
}


def recipe_of(name: str, folder: Path) -> Recipe:
    return find_recipe(name, {"table": str(write_table(folder)), "target": TARGET} if name == "tabular" else {})


@pytest.mark.parametrize("name", bundled())
def test_it_is_sound_and_called_like_its_file(name: str, tmp_path: Path) -> None:
    recipe = recipe_of(name, tmp_path)
    assert validate(recipe) is recipe
    assert recipe.name == name


@pytest.mark.parametrize("name", PARAMETERS)
def test_it_has_as_many_parameters_as_it_says(name: str) -> None:
    model = build_model(find_recipe(name, {}), Facts(vocabulary=256))
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", bundled())
def test_it_takes_two_steps_and_the_weights_move(name: str, tmp_path: Path) -> None:
    if name == "digits":
        pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    recipe = replace(short(name, tmp_path), steps=2, batch=2, warmup=0)
    loop = Loop.of(recipe, DataRequest(stand_in_for(name, tmp_path)))
    before = {key: value.clone() for key, value in loop.parts.model.state_dict().items()}
    assert train(loop).reason == "finished"
    after = loop.parts.model.state_dict()
    assert any(not torch.equal(before[key], after[key]) for key in before)
    assert all(torch.isfinite(value).all() for value in after.values() if value.is_floating_point())


@pytest.mark.parametrize("name", FOUND)
def test_without_data_it_says_what_to_type(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"was not found: looked for .* add `--data DIR` .* or `--download`"):
        find_recipe(name, {}).data(DataRequest(tmp_path))


@pytest.mark.parametrize("name", FOUND)
def test_the_model_takes_samples_of_every_split(name: str, tmp_path: Path) -> None:
    recipe = find_recipe(name, {})
    splits = recipe.data(DataRequest(stand_in_for(name, tmp_path)))
    model = build_model(recipe, splits.facts).eval()
    for source in (splits.train, splits.valid, splits.test):
        if source is not None:
            batch = source.fetch(torch.arange(2))
            inputs = batch.inputs if splits.prepare is None else splits.prepare(batch.inputs)
            with torch.inference_mode():
                assert len(model(inputs)) == 2


def test_the_two_networks_for_clothes_learn_from_the_same_images(tmp_path: Path) -> None:
    request = DataRequest(stand_in_for("fashion-mlp", tmp_path))
    plain, moving = fashion_mlp.read(request), fashion_cnn.read(request)
    assert torch.equal(plain.train.fetch(torch.arange(9)).inputs, moving.train.fetch(torch.arange(9)).inputs)
    assert plain.augment is None
    assert moving.augment is fashion_cnn.moved


def test_clothes_are_answered_alike_from_either_side_and_digits_are_not() -> None:
    images = torch.rand(3, 1, 28, 28)
    clothes, digits = fashion_cnn.network().eval(), mnist.network().eval()
    with torch.inference_mode():
        assert torch.allclose(clothes(images), clothes(images.flip(-1)), atol=1e-6)
        assert not torch.allclose(digits(images), digits(images.flip(-1)), atol=1e-6)
        clothes.train()
        assert not torch.allclose(clothes(images), clothes(images.flip(-1)), atol=1e-6)


def test_a_bag_of_words_knows_neither_order_nor_padding() -> None:
    model = sentiment.BagOfWords(50).eval()
    with torch.inference_mode():
        scores = model(torch.tensor([[5, 6, 7, 0, 0], [7, 5, 6, 0, 0]]))
        shorter = model(torch.tensor([[5, 6, 7]]))
    assert scores.shape == (2,)
    assert scores[0] == pytest.approx(scores[1].item(), abs=1e-6)
    assert scores[0] == pytest.approx(shorter[0].item(), abs=1e-6)


def test_sentences_are_split_by_the_seed_and_the_vocabulary_is_the_training_sentences(tmp_path: Path) -> None:
    stand_in_for("sentiment", tmp_path)
    first, again, other = (sentiment.read(DataRequest(tmp_path, seed=seed)) for seed in (0, 0, 1))
    assert (len(first.train), len(first.valid or ()), len(first.test or ())) == (96, 12, 12)
    rows = [splits.test.fetch(torch.arange(12)).inputs for splits in (first, again, other) if splits.test]
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])
    # Every sentence has a number of its own in it: those of the test sentences cannot have been learned.
    assert (rows[0] == 1).any()
    assert not (first.train.fetch(torch.arange(96)).inputs == 1).any()


def test_a_gpt_sees_no_letter_that_comes_later() -> None:
    model = shakespeare_tiny.network(Facts(vocabulary=256)).eval()
    tokens = torch.randint(0, 256, (1, 16))
    changed = tokens.clone()
    changed[0, 10:] = (changed[0, 10:] + 1) % 256
    with torch.inference_mode():
        scores, others = model(tokens), model(changed)
    assert scores.shape == (1, 16, 256)
    assert torch.allclose(scores[:, :10], others[:, :10], atol=1e-5)
    assert not torch.allclose(scores[:, 10], others[:, 10], atol=1e-5)


def test_a_gpt_begins_without_a_preference() -> None:
    model = shakespeare.GPT(100, block=8, depth=3, heads=2, width=32, dropout=0.0).eval()
    with torch.inference_mode():
        likely = model(torch.randint(0, 100, (4, 8))).softmax(-1)
    assert likely.max() < 0.03
    assert model.scores.weight is model.tokens.weight


def test_letters_to_validate_come_after_those_to_learn_from(tmp_path: Path) -> None:
    splits = shakespeare.read(DataRequest(stand_in_for("shakespeare", tmp_path)))
    text = torch.tensor(list((tmp_path / "tinyshakespeare" / "input.txt").read_bytes()))
    cut = len(text) * 9 // 10
    assert splits.valid is not None
    assert torch.equal(splits.valid.fetch(torch.tensor([0])).inputs[0], text[cut : cut + 256])
    last = splits.train.fetch(torch.tensor([len(splits.train) - 1]))
    assert torch.equal(last.targets[0], text[cut - 256 : cut])


def test_the_tiny_one_is_the_large_one_but_for_its_size() -> None:
    large, tiny = shakespeare.recipe(), shakespeare_tiny.recipe()
    assert (tiny.optimizer, tiny.betas, tiny.clip, tiny.task) == (large.optimizer, large.betas, large.clip, large.task)
    assert (tiny.precision, tiny.name) == ("fp32", "shakespeare-tiny")
