"""`Observer` on scripts that really run: phases, verdicts, lines, memory; and the script's own numbers, which stay as
they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profile.running import MLP, line_of, plain, profiled
from trueloop.results.profile import PHASES

SLEEPY = (
    MLP
    + """
class Slow(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.003)  # slow
        return torch.randn(20), index % 3
loader = DataLoader(Slow(), batch_size=8, shuffle=True)  # built
for x, y in loader:
    step(x, y)
"""
)

IDLE = (
    MLP
    + """
for _ in range(60):
    step(inputs, targets)
    time.sleep(0.02)  # idle
"""
)

VALIDATING = (
    MLP
    + """
for number in range(60):
    step(inputs, targets)
    if number % 10 == 9:
        model.eval()
        with torch.no_grad():
            model(inputs)
        model.train()
        torch.save(model.state_dict(), "weights.pt")
"""
)


def test_every_nanosecond_of_a_step_belongs_to_one_phase(tmp_path: Path) -> None:
    ran = profiled(tmp_path, VALIDATING, steps=45)
    assert len(ran.steps) >= 20
    assert all(sum(step.phases.values()) == step.ns for step in ran.steps)
    steps = ran.profile.steps
    assert steps is not None
    assert sum(steps.phases.values()) == pytest.approx(steps.seconds)
    assert {phase for phase in PHASES if steps.phases[phase]} == {"forward", "backward", "optimizer", "python"}
    assert steps.evaluations >= 1
    assert steps.saves == steps.evaluations
    assert steps.evaluating > 0
    assert steps.saving > 0


def test_a_sleepy_loader_is_data_bound_and_its_line_is_named(tmp_path: Path) -> None:
    profile = profiled(tmp_path, SLEEPY).profile
    assert profile.bound is not None
    assert profile.bound.kind == "data"
    places = {advice.key: advice.place.line if advice.place else 0 for advice in profile.advice}
    assert places["workers"] == places["resident"] == line_of(SLEEPY, "# built")
    assert profile.lines[0].place.line == line_of(SLEEPY, "# slow")
    assert profile.lines[0].phase == "data"
    assert profile.loading is not None
    assert (profile.loading.workers, profile.loading.samples, profile.loading.batch_size) == (0, 400, 8)
    assert profile.loading.computed < 0.5  # it waits, it does not compute


def test_a_sleep_in_the_loop_is_python_bound_and_its_line_is_named(tmp_path: Path) -> None:
    profile = profiled(tmp_path, IDLE).profile
    assert profile.bound is not None
    assert profile.bound.kind == "python"
    assert profile.advice[0].key == "lift"
    assert profile.advice[0].place is not None
    assert profile.advice[0].place.line == line_of(IDLE, "# idle")
    assert profile.advice[0].gain > 2


def test_the_work_of_a_step_is_counted(tmp_path: Path) -> None:
    profile = profiled(tmp_path, IDLE).profile
    work, memory = profile.work, profile.memory
    assert work is not None
    assert memory is not None
    forward = 2 * 64 * (20 * 32 + 32 * 3)
    backward = forward + 2 * 64 * (32 * 3)  # of the weights everywhere, of the inputs in the second layer only
    assert work.flops == forward + backward
    assert memory.parameters == memory.gradients == 4 * (20 * 32 + 32 + 32 * 3 + 3)
    assert memory.optimizer == 2 * memory.parameters + 4 * 4  # two moments, and a count for each of four tensors
    assert memory.measured is not None
    assert memory.measured >= memory.parameters + memory.optimizer
    assert {module.name for module in profile.modules} >= {"0", "1", "3"}
    addmm = next(each for each in profile.operations if each.name == "addmm")
    assert addmm.calls == 2
    assert addmm.flops == forward
    assert profile.timeline
    assert {span.name for span in profile.timeline} >= {"forward", "backward", "optimizer"}


MODELS = {
    "a perceptron": "nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), "
    "nn.Linear(32, 3))",
    "convolutions": "nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), "
    "nn.Linear(144, 3))",
    "attention": "nn.Sequential(nn.Flatten(1, 2), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), "
    "nn.Flatten(), nn.Linear(64, 3))",
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_the_numbers_of_the_script_do_not_change(model: str, tmp_path: Path) -> None:
    text = f"""
import torch
from torch import nn
torch.manual_seed(0)
model = {model}
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(60):
    x, y = torch.randn(16, 1, 8, 8), torch.randint(0, 3, (16,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(repr(loss.item()))
print(repr(sum(p.double().sum().item() for p in model.parameters())), torch.rand(1).item())
"""
    ran = profiled(tmp_path, text, to_end=True)
    assert ran.over
    assert ran.outcome == "finished"
    assert ran.printed == plain(tmp_path, text)


def test_the_run_ends_when_everything_was_seen_and_goes_on_if_asked(tmp_path: Path) -> None:
    text = MLP + "for number in range(4000):\n    step(inputs, targets)\nprint('end')\n"
    assert profiled(tmp_path, text).printed == ""
    own = "print(torch.nn.Module.__call__.__code__.co_filename.endswith('module.py'), time.sleep is not None)\n"
    ran = profiled(tmp_path, text + own, to_end=True)
    assert ran.printed == "end\nTrue True\n"  # and torch is as it was


def test_a_run_that_ends_early_is_told_as_far_as_it_went(tmp_path: Path) -> None:
    ran = profiled(tmp_path, MLP + "for _ in range(12):\n    step(inputs, targets)\n")
    assert not ran.over
    assert ran.profile.steps is not None
    assert ran.profile.host is None
    assert ran.profile.bound is not None


def test_without_a_training_there_is_nothing_to_tell(tmp_path: Path) -> None:
    profile = profiled(tmp_path, "import torch\nprint(torch.ones(3).sum().item())\n").profile
    assert (profile.steps, profile.bound, profile.advice) == (None, None, ())


def test_two_optimizers_in_turns_are_one_step(tmp_path: Path) -> None:
    text = (
        MLP
        + """
other = nn.Linear(20, 3)
second = torch.optim.SGD(other.parameters(), lr=0.1)
for number in range(60):
    step(inputs, targets)
    second.zero_grad()
    nn.functional.cross_entropy(other(inputs), targets).backward()
    second.step()
    time.sleep(0.005)
"""
    )
    ran = profiled(tmp_path, text)
    assert all(step.ns > 5e6 for step in ran.steps)  # each holds a whole round
    assert ran.profile.memory is not None
    assert ran.profile.memory.parameters == 4 * (20 * 32 + 32 + 32 * 3 + 3 + 20 * 3 + 3)


def test_a_closure_that_calls_the_model_is_not_the_optimizers_time(tmp_path: Path) -> None:
    text = (
        MLP
        + """
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
def closure():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    return loss
for _ in range(40):
    optimizer.step(closure)
"""
    )
    ran = profiled(tmp_path, text)
    assert ran.profile.steps is not None
    assert ran.profile.steps.phases["forward"] > 0
    assert ran.profile.steps.phases["backward"] > 0


def test_a_compiled_model_is_left_alone_and_its_breaks_are_told(tmp_path: Path) -> None:
    text = (
        "import warnings\nwarnings.simplefilter('ignore')\n"  # torch warns itself, and here warnings are errors
        + MLP
        + """
class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(20, 3)
    def forward(self, x):
        y = self.inner(x)
        torch._dynamo.graph_break()  # break
        return y * 2
net = Broken()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
model = torch.compile(net, backend="eager")
for _ in range(60):
    step(inputs, targets)
"""
    )
    profile = profiled(tmp_path, text).profile
    assert profile.compiled is not None
    assert profile.compiled.graphs >= 2
    assert line_of(text, "# break") in {note.place.line for note in profile.compiled.breaks if note.place}
    assert profile.work is None or profile.work.source == "estimated"
    assert not any(advice.key == "compile" for advice in profile.advice)


@pytest.mark.long
def test_a_loader_with_workers_in_the_counted_step_does_no_harm(tmp_path: Path) -> None:
    text = (
        MLP
        + """
for _ in range(60):
    for x, y in DataLoader(TensorDataset(inputs, targets), batch_size=64, num_workers=1):
        step(x, y)
print("end")
"""
    )
    ran = profiled(tmp_path, text, to_end=True)
    assert ran.printed == "end\n"
    assert ran.profile.loading is not None
    assert ran.profile.loading.workers == 1


TWO_MODELS = (
    MLP
    + """
other = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1))
criterion = nn.MSELoss()
both = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=1e-3)
for _ in range(60):
    both.zero_grad()
    criterion(other(model(inputs)), torch.ones(64, 1)).backward()
    both.step()
"""
)


def test_the_layers_of_two_models_are_not_added_up(tmp_path: Path) -> None:
    modules = {each.name: each for each in profiled(tmp_path, TWO_MODELS, steps=45).profile.modules}
    assert modules["model 1.0"].flops == 2 * 64 * 20 * 32
    assert modules["model 2.0"].flops == 2 * 64 * 3 * 5
    assert modules["model 1.0"].parameters == 4 * (20 * 32 + 32)
    assert modules["model 1.2"].kind == "Dropout"
    assert modules["model 2.2"].kind == "Linear"


def test_one_model_and_a_loss_keep_their_names(tmp_path: Path) -> None:
    text = TWO_MODELS.replace("other(model(inputs))", "model(inputs)").replace("torch.ones(64, 1)", "torch.ones(64, 3)")
    names = {each.name for each in profiled(tmp_path, text, steps=45).profile.modules}
    assert {"0", "1", "2", "3"} <= names
