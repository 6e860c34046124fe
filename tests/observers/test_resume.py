"""Files and what goes on from them, in scripts that really run."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from tests.conftest import Checked

Check = Callable[..., Checked]

HEAD = """
import os, tempfile
import torch
from torch import nn

torch.manual_seed(0)
path = os.path.join(tempfile.mkdtemp(), "last.pt")

def train(model, optimizer, steps=4):
    for _ in range(steps):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x[:, :2]).backward()
        optimizer.step()

def digest(model):
    return [p.detach().double().sum().item().hex() for p in model.parameters()] + torch.get_rng_state().tolist()
"""


def script(text: str) -> str:
    return HEAD + dedent(text)


def test_of_two_networks_the_one_whose_optimizer_was_left_out_is_named(check: Check) -> None:
    found = check(
        script(
            """
            def parts():
                one, two = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
                return one, two, torch.optim.Adam(one.parameters(), 1e-2), torch.optim.Adam(two.parameters(), 1e-2)

            one, two, of_one, of_two = parts()
            train(one, of_one), train(two, of_two)
            torch.save({"a": one.state_dict(), "b": two.state_dict(), "oa": of_one.state_dict(), "ob": of_two.state_dict()}, path)
            one, two, of_one, of_two = parts()
            kept = torch.load(path)
            one.load_state_dict(kept["a"])
            two.load_state_dict(kept["b"])
            of_one.load_state_dict(kept["oa"])
            train(one, of_one), train(two, of_two)
            """  # noqa: E501
        ),
        select=["CKP"],
    )
    assert [(f.name, f.evidence["saved_under"]) for f in found.findings] == [("optimizer-state-not-restored", "['ob']")]


@pytest.mark.parametrize(
    "optimizer",
    ["Adam(p, 1e-2)", "Adagrad(p, 1e-2)", "RMSprop(p, 1e-2)", "SGD(p, 1e-2, momentum=0.9)", "NAdam(p, 1e-2)"],
)
@pytest.mark.parametrize("loads", [True, False])
def test_optimizers_that_keep_state_are_told_from_fresh_ones(check: Check, optimizer: str, loads: bool) -> None:
    found = check(
        script(
            f"""
            def parts():
                model = nn.Linear(4, 2)
                p = model.parameters()
                return model, torch.optim.{optimizer}
            model, optimizer = parts()
            train(model, optimizer)
            torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, path)
            model, optimizer = parts()
            kept = torch.load(path)
            model.load_state_dict(kept["model"])
            if {loads}:
                optimizer.load_state_dict(kept["optimizer"])
            train(model, optimizer)
            """
        ),
        select=["CKP"],
    )
    assert found.names() == (set() if loads else {"optimizer-state-not-restored"})


def test_what_a_library_saves_and_loads_is_not_the_users_doing(
    check: Check, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = tmp_path_factory.mktemp("elsewhere") / "site-packages" / "keeper.py"
    library.parent.mkdir()
    library.write_text(
        dedent(
            """
            import torch

            def save(model, path):
                torch.save(model, path)

            def load(path):
                return torch.load(path, weights_only=False)

            def put_back(model, path):
                model.load_state_dict(torch.load(path, weights_only=False)["model"])
            """
        ),
        encoding="utf-8",
    )
    found = check(
        script(
            """
            import shutil, sys
            sys.path.insert(0, sys.argv[1])
            import keeper

            model = nn.Linear(4, 2)
            optimizer = torch.optim.Adam(model.parameters(), 1e-2)
            train(model, optimizer)
            keeper.save(model, path)
            shutil.copy(path, path + ".copy")
            keeper.load(path + ".copy")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
            model = nn.Linear(4, 2)
            keeper.put_back(model, path)
            train(model, torch.optim.Adam(model.parameters(), 1e-2))
            """
        ),
        str(library.parent),
        select=["CKP"],
    )
    assert not found.findings
    assert not found.verdict.failures


def test_watching_changes_neither_weights_nor_random_numbers(check: Check) -> None:
    text = script(
        """
        model = nn.Linear(4, 2)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        train(model, optimizer)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}, path)
        torch.rand(3)
        model = nn.Linear(4, 2)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        kept = torch.load(path, weights_only=False)
        model.load_state_dict(kept["model"])
        torch.set_rng_state(kept["random"])
        for p in model.parameters():
            train(model, torch.optim.Adam(model.parameters(), 1e-2), 1)
            p.data -= 0.1 * p.grad
        model[0] if False else model.bias.requires_grad_(False)
        train(model, optimizer, 10)
        print(digest(model))
        """  # noqa: E501
    )
    watched = check(text, select=["CKP", "GRD112", "OPT103", "OPT110"])
    plain = check(text, select=["DAT111"])
    assert watched.output == plain.output
    assert watched.output.startswith("[")
    assert not watched.verdict.failures


def test_a_load_while_the_taps_sleep_is_not_judged(check: Check) -> None:
    found = check(
        script(
            """
            model = nn.Linear(4, 2)
            optimizer = torch.optim.Adam(model.parameters(), 1e-2)
            train(model, optimizer, 30)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
            other = nn.Linear(4, 2)
            adam = torch.optim.Adam(other.parameters(), 1e-2)
            kept = torch.load(path)
            other.load_state_dict(kept["model"])
            adam.load_state_dict(kept["optimizer"])
            train(other, adam, 200)
            """
        ),
        select=["CKP"],
        budget=0.01,
    )
    assert not found.findings
    assert not found.verdict.failures
