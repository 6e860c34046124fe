"""A model that answers Unprojected: the same losses, metrics, checks and facts as with its scores, without them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import trueloop
from trueloop.claims.batch_result import compute_result
from trueloop.data.source import Batch, Facts, Splits, moved, tensors_in
from trueloop.data.tensors import Tensors
from trueloop.engine.loop import Loop
from trueloop.engine.loss_facts import loss_facts
from trueloop.engine.nonfinite_origin import find_origin
from trueloop.engine.preflight import check_before_training
from trueloop.engine.task import Language, Multiclass, Task
from trueloop.engine.unprojected import Unprojected, shape_only
from trueloop.errors import BadData, BadRecipe
from trueloop.event import Event
from trueloop.hook import Hook, Row
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.shakespeare import GPT

VOCABULARY = 97


def answer(*shape: int, classes: int = 50) -> Unprojected:
    draws = torch.Generator().manual_seed(0)
    hidden = torch.randn(*shape, 16, generator=draws, requires_grad=True)
    return Unprojected(hidden, (torch.randn(classes, 16, generator=draws) * 0.3).requires_grad_())


def tokens(*shape: int, classes: int = 50) -> Tensor:
    return torch.randint(0, classes, shape, generator=torch.Generator().manual_seed(1))


# -- the value --


def test_it_is_a_name_of_the_package() -> None:
    assert trueloop.Unprojected is Unprojected


def test_it_stands_for_its_scores() -> None:
    given = answer(3, 5)
    scores = given.scores()
    assert given.shape == scores.shape == (3, 5, 50)
    assert given.flatten(0, -2).shape == scores.flatten(0, -2).shape
    assert torch.equal(scores, given.hidden @ given.weight.t())


def test_it_is_moved_and_looked_into_as_a_tuple_is() -> None:
    given = answer(3)
    assert [id(each) for each in tensors_in(given)] == [id(given.hidden), id(given.weight)]
    assert isinstance(moved(given, torch.device("cpu")), Unprojected)


def test_scores_of_another_type_than_the_weight_are_of_the_answers_type() -> None:
    given = Unprojected(answer(3).hidden.double(), answer(3).weight)
    assert given.scores().dtype == torch.float64


def test_its_outline_has_the_shape_of_the_scores_and_no_memory() -> None:
    shape = shape_only(answer(3, 5))
    assert isinstance(shape, Tensor)
    assert shape.shape == (3, 5, 50)
    assert shape.untyped_storage().nbytes() == 4
    assert shape_only("anything else") == "anything else"


def test_hits_are_found_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.engine.unprojected.chunk_rows", lambda *_: 7)
    given = answer(40)
    wanted = torch.where(torch.arange(40) % 2 == 0, given.scores().argmax(1), tokens(40))
    assert torch.equal(given.hits(wanted), given.scores().argmax(1) == wanted)
    assert given.hits(wanted)[::2].all()


# -- tasks --


@pytest.mark.parametrize(
    ("task", "shape"), [(Language(), (4, 6)), (Multiclass(), (24,)), (Language(Facts(ignore=3)), (4, 6))]
)
def test_loss_count_and_measures_are_those_of_the_scores(task: Task, shape: tuple[int, ...]) -> None:
    given, targets = answer(*shape), tokens(*shape)
    one, two = task.loss_sum(given, targets), task.loss_sum(given.scores(), targets)
    torch.testing.assert_close(one, two)
    gradients = [torch.autograd.grad(each, tuple(given)) for each in (one, two)]
    for fused, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(fused, plain)
    assert task.measures(given, targets) == task.measures(given.scores(), targets)


@pytest.mark.parametrize(("task", "shape"), [(Language(), (4, 6)), (Multiclass(), (24,))])
def test_targets_that_fit_pass_the_check(task: Task, shape: tuple[int, ...]) -> None:
    task.check(answer(*shape), tokens(*shape), "Here")
    task.check_all(tokens(100), answer(*shape), "Everywhere")


@pytest.mark.parametrize("task", [Language(), Multiclass()])
def test_a_target_that_is_no_class_is_refused_by_the_check(task: Task) -> None:
    shape = (4, 6) if isinstance(task, Language) else (24,)
    targets = tokens(*shape)
    targets.view(-1)[7] = 50
    with pytest.raises(BadData, match="classes go from 0 to 49"):
        task.check(answer(*shape), targets, "Here")
    with pytest.raises(BadData, match="classes go from 0 to 49"):
        task.check_all(targets, answer(*shape), "Here")


def test_other_shapes_are_refused_as_those_of_scores_are() -> None:
    with pytest.raises(BadData, match=r"language needs scores \[batch, time, vocabulary\]"):
        Language().check(answer(24), tokens(4, 6), "Here")
    with pytest.raises(BadData, match="need targets"):
        Multiclass().check(answer(4, 6), tokens(4, 6), "Here")


def test_label_smoothing_is_refused_and_says_what_to_do() -> None:
    task = Multiclass(label_smoothing=0.1)
    with pytest.raises(BadRecipe, match=r"label_smoothing=0\.1 needs the scores of all classes"):
        task.check(answer(24), tokens(24), "Here")
    with pytest.raises(BadRecipe, match="return the scores, or leave label_smoothing out"):
        task.loss_sum(answer(24), tokens(24))


# -- what is looked at --


@pytest.mark.parametrize(("task", "shape"), [(Language(), (40, 30)), (Multiclass(), (1200,)), (Language(), (2, 3))])
def test_the_facts_of_the_loss_are_those_of_the_scores(task: Task, shape: tuple[int, ...]) -> None:
    given, targets = answer(*shape), tokens(*shape)
    fused, plain = loss_facts(task, given, targets, 3, 1), loss_facts(task, given.scores(), targets, 3, 1)
    assert fused is not None
    assert plain is not None
    names = (
        "function",
        "reduction",
        "grad",
        "input_shape",
        "target_shape",
        "input_dtype",
        "rows",
        "target_integral",
        "ignore_index",
        "step",
    )
    assert [getattr(fused, name) for name in names] == [getattr(plain, name) for name in names]
    assert fused.input_range is not None
    assert plain.input_range is not None
    assert plain.input_range[0] <= fused.input_range[0] < 0 < fused.input_range[1] <= plain.input_range[1]


def test_there_are_no_facts_of_no_targets() -> None:
    assert loss_facts(Language(), answer(0, 6), tokens(0, 6), 0, 0) is None


class Told(Hook):
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.events: list[Event] = []

    def logged(self, row: Row) -> None:
        self.rows.append(row)

    def event_emitted(self, event: Event) -> None:
        self.events.append(event)


def network(unprojected: bool) -> nn.Module:
    return GPT(VOCABULARY, block=16, depth=2, heads=2, width=32, dropout=0.0, unprojected=unprojected)


def loop_of(unprojected: bool, told: Told, **options: Any) -> Loop:
    drawn = tokens(64, 17, classes=VOCABULARY)
    splits = Splits(
        Tensors(drawn[:48, :-1], drawn[:48, 1:]),
        Tensors(drawn[48:, :-1], drawn[48:, 1:]),
        facts=Facts(vocabulary=VOCABULARY),
    )
    recipe = Recipe(
        name="small", model=lambda: network(unprojected), data=lambda _: splits, task="language", steps=6, batch=16,
        lr=1e-2, device="cpu", log_every=1, hooks=(told,),
    )  # fmt: skip
    return Loop.of(replace(recipe, **options))


OPTIONS: list[dict[str, Any]] = [
    {},
    {"accumulate": 2, "clip": 1.0},
    {"activation_checkpointing": True, "ema": 0.9},
    {"precision": "bf16"},
]


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # torch warns on CPUs without bf16
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ",".join(options) or "plain")
def test_a_run_learns_and_measures_the_same(options: dict[str, Any]) -> None:
    rows, kinds = [], []
    for unprojected in (False, True):
        told = Told()
        loop = loop_of(unprojected, told, **options)
        check_before_training(loop.parts)
        loop.train()
        rows.append(
            [
                (row.kind, row.step, row.values["loss"], row.values.get("accuracy"))
                for row in told.rows
                if row.kind != "layers"
            ]
        )
        kinds.append([type(event).__name__ for event in told.events])
    scored, fused = rows
    assert [row[:2] for row in fused] == [row[:2] for row in scored]
    assert [row[2] for row in fused] == pytest.approx(
        [row[2] for row in scored], rel=1e-3 if "precision" in options else 1e-5
    )
    assert fused[-1][3] == pytest.approx(scored[-1][3], abs=0.01)
    assert kinds[0] == kinds[1]


def test_names_and_beginning_of_the_model_do_not_depend_on_it() -> None:
    states = []
    for unprojected in (False, True):
        torch.manual_seed(0)
        states.append(network(unprojected).state_dict())
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(one, two) for one, two in zip(states[0].values(), states[1].values(), strict=True))


def test_in_eval_mode_the_model_answers_scores() -> None:
    model = network(True)
    assert isinstance(model(tokens(2, 16)), Unprojected)
    assert model.eval()(tokens(2, 16)).shape == (2, 16, VOCABULARY)


class Both(nn.Module):
    """Answers unmultiplied in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 8)
        self.out = nn.Linear(8, VOCABULARY, bias=False)

    def forward(self, inputs: Tensor) -> Unprojected:
        return Unprojected(self.table(inputs), self.out.weight)


def test_a_model_may_answer_so_in_evaluation_too() -> None:
    told = Told()
    loop = loop_of(True, told, model=Both)
    check_before_training(loop.parts)
    loop.train()
    (valid,) = [row for row in told.rows if row.kind == "valid" and row.step == 6]
    assert 0 < valid.values["loss"] < 6
    assert 0 <= valid.values["accuracy"] <= 1


def test_every_parameter_of_it_is_accounted_for() -> None:
    told = Told()
    loop_of(True, told, model=Both).train()
    (accounted, *_) = [event for event in told.events if type(event).__name__ == "ParametersAccounted"]
    assert accounted.accounts == ()  # type: ignore[attr-defined]
    assert accounted.complete == 2  # type: ignore[attr-defined]


def test_a_batch_that_gives_no_number_is_explained() -> None:
    model = network(True)
    with torch.no_grad():
        model.get_parameter("norm.weight")[3] = torch.nan
    batch = Batch(tokens(2, 16), tokens(2, 16))
    event = find_origin(model.train(), Language(), batch, 0, (0.1,), torch.no_grad)
    assert (event.origin, event.layer) == ("weight", "norm.weight")


def test_claims_compare_its_numbers() -> None:
    batch = Batch(tokens(2, 16), tokens(2, 16))
    torch.manual_seed(0)
    fused = compute_result(network(True), Language(), batch)
    torch.manual_seed(0)
    plain = compute_result(network(False), Language(), batch)
    assert fused.loss == pytest.approx(plain.loss, rel=1e-5)
    assert fused.gradients.keys() == plain.gradients.keys()
    for name, gradient in fused.gradients.items():
        torch.testing.assert_close(gradient, plain.gradients[name], rtol=1e-4, atol=1e-6)


# -- the stream of our GPT --


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # torch warns on CPUs without bf16
@pytest.mark.parametrize("narrow", [False, True])
def test_the_stream_is_narrow_only_under_autocast_and_only_if_asked(narrow: bool) -> None:
    torch.manual_seed(0)
    model = GPT(VOCABULARY, block=16, depth=2, heads=2, width=32, dropout=0.0, narrow=narrow)
    seen: list[torch.dtype] = []
    model.blocks[1].register_forward_hook(lambda *call: seen.append(call[2].dtype))
    plain = model(tokens(2, 16))
    with torch.autocast("cpu", torch.bfloat16):
        mixed = model(tokens(2, 16))
    assert seen == [torch.float32, torch.bfloat16 if narrow else torch.float32]
    torch.testing.assert_close(mixed.float(), plain, rtol=0.1, atol=0.05)
