"""The small jobs that every wrapper is given, what each must come to, and the notes taken while it runs.

Notes are taken by the network (which samples came, how deep the call was) and by hooks of torch's optimizer (each
step's rate and weights), so they are the same for everybody and no wrapper is asked about itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

HERE = str(Path(__file__).parent)
IGNORED = -100
BATCH, SAMPLES, DROPOUT = 4, 40, 0.3
SAVE_AT, KILL_AT, SIGNAL_AT = 5, 7, 7


@dataclass
class Notes:
    """Of one training."""

    seen: list[list[int]] = field(default_factory=list)
    """The numbers of the samples, a list for each forward in training mode."""
    frames: int | None = None
    weights: list[Tensor] = field(default_factory=list)
    """Before the first step, then after each."""
    forwards: list[int] = field(default_factory=list)
    """How many forwards had been run at each step."""
    rates: list[float] = field(default_factory=list)

    def watch(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, then: Callable[[int], object] = lambda _: None
    ) -> Any:
        """`then` is called after each step with its number."""
        self.weights.append(flat(model))

        def before(it: torch.optim.Optimizer, *_: Any) -> None:
            self.rates.append(float(it.param_groups[0]["lr"]))

        def after(*_: Any) -> None:
            self.weights.append(flat(model))
            self.forwards.append(len(self.seen))
            then(len(self.forwards))

        optimizer.register_step_pre_hook(before)
        optimizer.register_step_post_hook(after)
        return optimizer


notes = Notes()


def anew() -> None:
    """For a second training in the same process."""
    notes.__init__()  # type: ignore[misc]


def flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]).clone()


class Net(nn.Module):
    """Takes the number of the sample and eight values; writes the numbers down."""

    def __init__(self, dropout: float = DROPOUT) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            notes.seen.append(x[:, 0].long().tolist())
            notes.frames = depth()  # of the last one: the first may be a check of the model before the training
        return self.net(x[:, 1:])


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


class Echo(nn.Module):
    """Answers with what it is given: its loss is the mean of the inputs. One weight, so that there is something to
    train."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return x + 0 * self.weight


def net(dropout: float = DROPOUT) -> Net:
    torch.manual_seed(0)
    return Net(dropout)


def samples(count: int = SAMPLES, *, nan_at: int | None = None) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(1)
    inputs = torch.cat([torch.arange(count).float()[:, None], torch.randn(count, 8, generator=draws)], 1)
    if nan_at is not None:
        inputs[nan_at, 1] = torch.nan
    return inputs, torch.randint(0, 3, (count,), generator=draws)


def dataset(count: int = SAMPLES, *, nan_at: int | None = None) -> torch.utils.data.TensorDataset:
    return torch.utils.data.TensorDataset(*samples(count, nan_at=nan_at))


def sequences() -> tuple[Tensor, Tensor]:
    """Four sequences of 32 tokens, of which 1, 2, 4 and 32 count."""
    draws = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(4, 32, 8, generator=draws), torch.randint(0, 5, (4, 32), generator=draws)
    for row, valid in enumerate((1, 2, 4, 32)):
        targets[row, valid:] = IGNORED
    return inputs, targets


UNEVEN = torch.tensor([0.0, 0.0, 0.0, 0.0, 5.0])
"""In batches of four their mean is 1; the mean of the batches' means is 2.5."""
SPREAD = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
"""Their mean is 3, over however many processes."""


def token_loss(output: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    return F.cross_entropy(output.flatten(0, -2), targets.flatten(), ignore_index=IGNORED, reduction=reduction)


def depth() -> int:
    """Frames of libraries between the user's first call and the network's forward; the two of Module.__call__ are
    everybody's."""
    frame, files = sys._getframe(2), []
    while frame is not None:
        files.append(frame.f_code.co_filename)
        frame = frame.f_back  # type: ignore[assignment]
    outermost = max(number for number, file in enumerate(files) if file.startswith(HERE))
    return sum(not file.startswith(HERE) for file in files[:outermost]) - 2


# -- what comes out --


def judge_tokens() -> dict[str, Any]:
    """The update beside the right one: the gradient of the mean over all 39 tokens, learning rate 1."""
    model = Tokens()
    token_loss(model(sequences()[0]), sequences()[1]).backward()
    right = -torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters() if parameter.grad is not None])
    if len(notes.weights) != 2:
        return {"steps": len(notes.weights) - 1}
    update = notes.weights[1] - notes.weights[0]
    return {"ratio": float(update.norm() / right.norm()), "error": float((update - right).norm() / right.norm())}


def judge_partial(left: nn.Module) -> dict[str, Any]:
    """Five batches, four to a step: the second update of the first epoch beside the gradient of the fifth batch; SGD,
    learning rate 0.1."""
    answer: dict[str, Any] = {"steps": len(notes.forwards), "at": notes.forwards[:2]}
    answer["left over"] = any(
        parameter.grad is not None and bool(parameter.grad.any()) for parameter in left.parameters()
    )
    if notes.forwards[1:2] == [5]:
        model, (inputs, labels) = net(0.0), samples(20)
        torch.nn.utils.vector_to_parameters(notes.weights[1], model.parameters())
        fifth = notes.seen[4]
        F.cross_entropy(model(inputs[fifth]), labels[fifth]).backward()
        right = (
            torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters() if parameter.grad is not None])
            * 0.1
        )
        answer["ratio"] = float((notes.weights[2] - notes.weights[1]).norm() / right.norm())
    return answer


def written() -> dict[str, Any]:
    return {"seen": notes.seen, "weights": notes.weights[-1].tolist(), "steps": len(notes.forwards)}


def killed(folder: Path) -> Callable[[int], None]:
    """A crash, two steps after the checkpoint; what was seen until then is kept for the judge."""

    def then(step: int) -> None:
        if step == KILL_AT:
            time.sleep(1)  # whoever saves in the background has had the time
            (folder / "killed.json").write_text(json.dumps(written()), encoding="utf-8")
            os._exit(9)

    return then


def signalled(step: int) -> None:
    if step == SIGNAL_AT:
        os.kill(os.getpid(), signal.SIGTERM)


def cut(file: Path) -> None:
    """Half of it is there: as a kill, a full disk or a failed copy leaves it."""
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def main(jobs: dict[str, Callable[..., Any]]) -> None:
    """`python -m benchmarks.wrapped.NAME FOLDER JOB JOB ...`: each in a fork of this process, which has imported what
    is slow to import.

    FOLDER/JOB.json has the answer of a job; FOLDER/JOB.code the code it left with; FOLDER/JOB.txt what it printed.
    """
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    if "RANK" in os.environ:
        _run(jobs[sys.argv[2]], folder, sys.argv[2])
        return
    for name in sys.argv[2:]:
        child = os.fork()
        if child == 0:
            printed = os.open(folder / f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(printed, 1)
            os.dup2(printed, 2)
            signal.alarm(PATIENCE)
            _run(jobs[name], folder, name)
            sys.exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        (folder / f"{name}.code").write_text(str(code), encoding="utf-8")


def _run(job: Callable[[Path], Any], folder: Path, name: str) -> None:
    place = folder / FOLDER_OF.get(name.split("_")[0], name)
    place = (
        place.with_name(place.name + name.removeprefix(name.split("_")[0]))
        if name.startswith(("killed_", "again_"))
        else place
    )
    place.mkdir(parents=True, exist_ok=True)
    try:
        answer = job(place)
    except Exception as error:  # noqa: BLE001 - an exception is an answer too
        traceback.print_exc()
        said = str(error).strip().splitlines()
        answer = {"raised": f"{type(error).__name__}: {said[0] if said else ''}"[:200]}
    if int(os.environ.get("RANK", "0")) == 0:
        (folder / f"{name}.json").write_text(json.dumps({**answer, "frames": notes.frames}), encoding="utf-8")


PATIENCE = 120
"""Seconds before a job that hangs is ended."""
FOLDER_OF = {"killed": "resume", "again": "resume", "damage": "damaged"}
"""A job that goes on where another stopped finds what it left."""
