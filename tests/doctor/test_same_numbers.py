"""The numbers do not change: every loss, the final weights and all random states, plain and watched by every rule, to
the last bit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import in_child
from trueloop.doctor.examine import examine
from trueloop.doctor.launch import find_script, run
from trueloop.doctor.watch import Watch

BESIDE = """
import copy, hashlib, io, pickle, random
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0); np.random.seed(0); random.seed(0)

def say(*numbers):
    print(*(x.item().hex() if isinstance(x, torch.Tensor) else x for x in numbers))

def digest(value):
    return hashlib.sha256(value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]

def end(*models):
    for model in models:
        for name, value in model.state_dict().items():
            print(name, tuple(value.shape), digest(value.reshape(-1)))
    print(digest(torch.get_rng_state()), random.random(), np.random.rand(), torch.rand(1).item())

def mlp(*middle):
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), *middle, nn.Linear(16, 3))

x, y = torch.randn(64, 8), torch.randint(0, 3, (64,))

def train(model, steps=6, loss_of=lambda model, a, b: F.cross_entropy(model(a), b), optimizer=None):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    for i in range(steps):
        picked = torch.randperm(64)[:16]
        optimizer.zero_grad()
        loss = loss_of(model, x[picked], y[picked])
        loss.backward()
        optimizer.step()
        say(i, loss)
    return optimizer
"""

CASES = {
    "dropout, batch norm and a validation": """
        model = mlp(nn.Dropout(0.3), nn.BatchNorm1d(16))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
        for epoch in range(4):
            model.train()
            train(model, optimizer=optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            schedule.step()
            model.eval()
            with torch.no_grad():
                say("valid", F.cross_entropy(model(x), y), (model(x).argmax(1) == y).float().mean())
        end(model)
    """,
    "forked workers, numpy and python randomness": """
        class Noisy(Dataset):
            def __len__(self):
                return 24
            def __getitem__(self, i):
                return x[i] + random.random() + np.random.rand() + torch.rand(1), y[i]
        model = mlp(nn.Dropout(0.1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            for a, b in DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2):
                optimizer.zero_grad()
                loss = nn.CrossEntropyLoss()(model(a), b)
                loss.backward()
                optimizer.step()
                say(loss, np.random.rand(), random.random())
        end(model)
    """,
    "spawned workers": """
        class Noisy(Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, i):
                return x[i] + torch.rand(1), y[i]
        if __name__ == "__main__":
            model = mlp()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for a, b in DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=1, multiprocessing_context="spawn"):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(a), b)
                loss.backward()
                optimizer.step()
                say(loss)
            end(model)
    """,
    "a GAN with two optimizers": """
        maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
        judge = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        of_maker, of_judge = torch.optim.Adam(maker.parameters(), 1e-3), torch.optim.Adam(judge.parameters(), 1e-3)
        for i in range(8):
            fake = maker(torch.randn(32, 4))
            of_judge.zero_grad()
            real, made = judge(x[:32]), judge(fake.detach())
            loss_of_judge = F.binary_cross_entropy_with_logits(real, torch.ones_like(real))
            loss_of_judge = loss_of_judge + F.binary_cross_entropy_with_logits(made, torch.zeros_like(made))
            loss_of_judge.backward()
            of_judge.step()
            of_maker.zero_grad()
            made = judge(fake)
            loss_of_maker = F.binary_cross_entropy_with_logits(made, torch.ones_like(made))
            loss_of_maker.backward()
            of_maker.step()
            say(loss_of_judge, loss_of_maker)
        end(maker, judge)
    """,
    "LBFGS closures": """
        model = mlp()
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=6)
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss
        for _ in range(4):
            say(optimizer.step(closure))
        end(model)
    """,
    "REINFORCE": """
        policy = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3), nn.Softmax(dim=-1))
        optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
        for episode in range(5):
            said, rewards = [], []
            for t in range(6):
                chances = torch.distributions.Categorical(policy(x[t]))
                action = chances.sample()
                said.append(chances.log_prob(action))
                rewards.append(float(action == y[t]))
            returns = torch.tensor([sum(rewards[t:]) for t in range(6)])
            loss = -(torch.stack(said) * (returns - returns.mean())).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            say(loss)
        end(policy)
    """,
    "torch.func: functional_call, grad, vmap": """
        from torch.func import functional_call, grad, grad_and_value, vmap
        model = mlp(nn.Dropout(0.1)).eval()
        weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        def loss_of(weights, a, b):
            return F.cross_entropy(functional_call(model, weights, (a.unsqueeze(0),)), b.unsqueeze(0))
        for i in range(5):
            each, losses = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0))(weights, x, y)
            weights = {name: w - 0.1 * each[name].mean(0) for name, w in weights.items()}
            say(losses.mean())
        model.load_state_dict(weights)
        end(model)
        train(model)
        end(model)
    """,
    "torch.compile of a module, in place, and of a whole step": """
        from torch._dynamo.utils import counters
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = mlp(nn.Dropout(0.2), nn.BatchNorm1d(16)), nn.Linear(3, 3)
            def forward(self, a):
                return self.head(torch.softmax(F.dropout(self.body(a), 0.1, self.training), dim=-1).clamp(0, 1))
        class Broken(Net):
            def forward(self, a):
                inside = self.body(a)
                torch._dynamo.graph_break()
                return self.head(inside)
        models = [torch.compile(Net(), backend="aot_eager"), Net(), Net(), torch.compile(Broken(), backend="eager")]
        models[1].compile(backend="eager")
        third = torch.compile(lambda model, a, b: F.cross_entropy(model(a), b), backend="eager")
        for model, loss_of in zip(models, (None, None, third, None)):
            train(model, **({} if loss_of is None else {"loss_of": loss_of}))
            model.eval()
            with torch.no_grad():
                say(F.cross_entropy(model(x), y))
        print(dict(counters["graph_break"]), counters["stats"]["unique_graphs"], dict(counters["frames"]), len(counters["recompiles"]))
        end(*models)
    """,  # noqa: E501
    "autocast in bfloat16, and a scaler": """
        model = mlp(nn.Dropout(0.1))
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(6):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            say(loss, scaler.get_scale())
        end(model)
    """,
    "TorchScript: scripted and traced": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = mlp(nn.Dropout(0.2))
            def forward(self, a, b):
                scores = F.dropout(self.body(a), 0.1, self.training).clamp(-5.0, 5.0)
                others = F.mse_loss(torch.softmax(scores, 1), torch.sigmoid(scores)) + F.softmax(scores, 1).log_softmax(1).mean()
                return F.cross_entropy(scores, b) + others
        scripted = torch.jit.script(Net())
        train(scripted, loss_of=lambda model, a, b: model(a, b))
        traced = torch.jit.trace(Net().eval(), (x, y))
        train(traced, loss_of=lambda model, a, b: model(a, b))
        print(scripted.code.count("cross_entropy"), "trueloop" in scripted.code, "trueloop" in traced.code)
        end(scripted, traced)
    """,  # noqa: E501
    "activation checkpointing": """
        from torch.utils.checkpoint import checkpoint
        class Net(nn.Module):
            def __init__(self, reentrant):
                super().__init__()
                self.first, self.body, self.reentrant = nn.Linear(8, 8), mlp(nn.Dropout(0.3), nn.BatchNorm1d(16)), reentrant
            def forward(self, a):
                return checkpoint(self.body, self.first(a), use_reentrant=self.reentrant)
        for model in (Net(False), Net(True)):
            train(model)
            end(model)
    """,  # noqa: E501
    "copies and pickles hold nothing of ours": """
        model = mlp(nn.Dropout(0.1))
        model.activation, model.loss = torch.sigmoid, F.cross_entropy
        optimizer = train(model)
        def plain(value):
            data = io.BytesIO()
            torch.save(value, data)
            assert b"trueloop" not in data.getvalue() and b"trueloop" not in pickle.dumps(value)
            return torch.load(io.BytesIO(data.getvalue()), weights_only=False)
        twin, again = copy.deepcopy(model), plain(model)
        plain(optimizer)
        for one in (model, twin, again):
            assert not [name for module in one.modules() for name in vars(module) if "trueloop" in name]
            torch.manual_seed(1)
            train(one)
        end(model, twin, again)
    """,
    "parametrizations and weight norm": """
        from torch.nn.utils import parametrizations
        model = mlp()
        model[0] = parametrizations.weight_norm(model[0])
        model[2] = parametrizations.spectral_norm(model[2])
        train(model)
        end(model)
    """,
    "second order: a gradient penalty, and anomaly mode": """
        model = mlp()
        def loss_of(model, a, b):
            a = a.clone().requires_grad_()
            loss = F.cross_entropy(model(a), b)
            (slope,) = torch.autograd.grad(loss, a, create_graph=True)
            return loss + slope.pow(2).sum()
        with torch.autograd.set_detect_anomaly(True):
            train(model, loss_of=loss_of)
        end(model)
    """,
    "half precision: scaled steps that are left out, weights in bfloat16, guards against nan": """
        for fused in (False, True):
            model, optimizer = (made := mlp()), torch.optim.AdamW(made.parameters(), 1e-3, fused=fused)
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
            for i in range(40):
                optimizer.zero_grad()
                with torch.autocast("cpu", dtype=torch.float16):
                    loss = F.cross_entropy(model(x[:16]), y[:16])
                scaler.scale(loss).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1e3)
                scaler.step(optimizer)
                scaler.update()
                print(scaler.get_scale())
            end(model)
        model = mlp().to(torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)
        for i in range(20):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[:16].to(torch.bfloat16)).float(), y[:16]) / (i % 5)
            if not torch.isfinite(loss):
                continue
            loss.backward()
            for p in model.parameters():
                p.grad.nan_to_num_()
            optimizer.step()
            say(loss)
        end(model.float())
    """,
    "a recurrent net that keeps its state, two backwards, hooks of its own": """
        cell, head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 3)
        cell.register_forward_hook(lambda module, given, made: print("hook", type(module).__name__))
        optimizer = torch.optim.RMSprop([*cell.parameters(), *head.parameters()], 1e-2)
        state = None
        for i in range(5):
            optimizer.zero_grad()
            made, state = cell(x[:16].view(2, 8, 8), state)
            state = tuple(part.detach() for part in state)
            loss = F.cross_entropy(head(made).flatten(0, 1), y[:16])
            loss.backward(retain_graph=True)
            (loss * 0.1).backward()
            optimizer.step()
            say(loss)
        end(cell, head)
    """,
}


def _printed(folder: Path, *, watched: bool) -> tuple[str, tuple[str, ...]]:
    """What the script prints, and where we failed while watching it."""

    def work() -> tuple[str, tuple[str, ...]]:
        os.chdir(folder)
        target = folder / f"printed-{watched}.txt"
        os.dup2(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 1)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - of the child alone
        program = find_script("train.py", ())
        failures: tuple[str, ...] = ()
        if watched:
            verdict, error = examine(program, Watch(script="train.py"))
            failures = verdict.failures
        else:
            _, error = run(program)
        if error is not None:
            raise error
        sys.stdout.flush()
        return target.read_text(encoding="utf-8"), failures

    answer: tuple[str, tuple[str, ...]] = in_child(work)
    return answer


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_every_loss_weight_and_random_state_is_the_same(tmp_path: Path, name: str) -> None:
    (tmp_path / "beside.py").write_text(BESIDE, encoding="utf-8")
    lines = [line[8:] for line in CASES[name].splitlines()]
    (tmp_path / "train.py").write_text("\n".join(["from beside import *", *lines]), encoding="utf-8")
    plain, _ = _printed(tmp_path, watched=False)
    watched, failures = _printed(tmp_path, watched=True)
    assert plain.count("\n") > 5
    assert watched == plain
    assert not failures, "\n".join(failures)
