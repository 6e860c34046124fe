"""The classic bugs planted in loops that a framework runs: found at the user's line, never at one of the framework's.

Each bug has a healthy twin: the same program with correct lines, without findings.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import NamedTuple

import pytest

from tests.frameworks.running import PYTHON, found_in, write

LIGHTNING = """
import lightning as L

class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        {parts}
    def forward(self, x):
        {forward}
    def training_step(self, batch, index):
        x, y = batch
        {training}
    def validation_step(self, batch, index):
        x, y = batch
        {validation}
    def configure_optimizers(self):
        {optimizer}

torch.manual_seed(1)
trainer = L.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False)
trainer.fit(Lit(), DataLoader(train_data, batch_size=16, shuffle=True), DataLoader(valid_data, batch_size=32))
"""  # noqa: E501
LIGHTNING_PARTS = {
    "parts": "self.net = net()",
    "forward": "return self.net(x)",
    "training": "return F.cross_entropy(self(x), y)",
    "validation": 'self.log("valid", F.cross_entropy(self(x), y))',
    "optimizer": "return torch.optim.AdamW(self.parameters(), lr=1e-2)",
}

TRAINER = """
from transformers import Trainer, TrainingArguments

class Rows(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data
    def __len__(self):
        return len(self.data)
    def __getitem__(self, i):
        return {{"x": self.data[i][0], "labels": self.data[i][1]}}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {parts}
    def forward(self, x, labels=None):
        {forward}

class Scored(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(inputs["x"])
        y = inputs["labels"]
        {loss}
        return (loss, outputs) if return_outputs else loss
    {methods}

torch.manual_seed(1)
options = TrainingArguments("made", num_train_epochs=3, per_device_train_batch_size=16, use_cpu=True, report_to=[],
                            save_strategy="no", logging_steps=4, disable_tqdm=True, learning_rate=1e-2, {options})
trainer = Scored(Net(), options, train_dataset=Rows(train_data), eval_dataset=Rows(valid_data))
trainer.train()
"""
TRAINER_PARTS = {
    "parts": "self.net = net()",
    "forward": 'return {"logits": self.net(x)}',
    "loss": 'loss = F.cross_entropy(outputs["logits"], y)',
    "methods": "",
    "options": "",
}

ACCELERATE = """
from accelerate import Accelerator

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {parts}
    def forward(self, x):
        {forward}

torch.manual_seed(1)
accelerator = Accelerator(cpu=True)
model = Net()
{optimizer}
train = DataLoader(train_data, batch_size=16, shuffle=True)
valid = DataLoader(valid_data, batch_size=32)
model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
for epoch in range(4):
    model.train()
    for x, y in train:
        {reset}
        {loss}
        {backward}
        optimizer.step()
    {schedule}
    {mode}
    with torch.no_grad():
        total = 0
        for x, y in valid:
            {score}
            total += accelerator.gather_for_metrics(scores).sum().item()
    print(epoch, total)
"""
ACCELERATE_PARTS = {
    "parts": "self.net = net()",
    "forward": "return self.net(x)",
    "optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)",
    "reset": "optimizer.zero_grad()",
    "loss": "loss = F.cross_entropy(model(x), y)",
    "backward": "accelerator.backward(loss)",
    "schedule": "",
    "mode": "model.eval()",
    "score": "scores = model(x).argmax(1) == y",
}

TEMPLATES = {
    "lightning": (LIGHTNING, LIGHTNING_PARTS),
    "transformers": (TRAINER, TRAINER_PARTS),
    "accelerate": (ACCELERATE, ACCELERATE_PARTS),
}


class Bug(NamedTuple):
    """What is written otherwise in the broken program, and in its twin."""

    broken: dict[str, str]
    healthy: dict[str, str] = {}


BODY_AND_HEAD = "self.body = nn.Linear(8, 32); self.head = nn.Linear(32, 3)"
LISTED = (
    "self.blocks = [nn.Linear(8, 8) for _ in range(2)]; self.head = nn.Linear(8, 3)  # error: [layers-in-a-plain-list]"
)
REGISTERED = "self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(2)); self.head = nn.Linear(8, 3)"
BLOCKS = "self.head(self.blocks[1](self.blocks[0](x).relu()).relu())"
CUT = "h = self.body(x).relu().detach()  # error: [loss-detached-from-parameters]"
WHOLE = "h = self.body(x).relu()"
NUMBER = "self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))"

BUGS = {
    # -- Lightning --
    ("lightning", "softmax"): Bug(
        {"forward": "return torch.softmax(self.net(x), dim=1)  # error: [softmax-before-cross-entropy]"}
    ),
    ("lightning", "plain list"): Bug(
        {"parts": LISTED, "forward": f"return {BLOCKS}"},
        {"parts": REGISTERED, "forward": f"return {BLOCKS}"},
    ),
    ("lightning", "no group"): Bug(
        {
            "parts": BODY_AND_HEAD,
            "forward": "return self.head(self.body(x).relu())",
            "optimizer": "return torch.optim.AdamW(self.head.parameters(), lr=1e-2)  # error: "
            "[parameters-not-in-optimizer]",
        },
        {"parts": BODY_AND_HEAD, "forward": "return self.head(self.body(x).relu())"},
    ),
    ("lightning", "broadcast"): Bug(
        {
            "parts": NUMBER,
            "training": "return F.mse_loss(self(x), x.sum(1))  # error: [shapes-broadcast-in-loss]",
            "validation": 'self.log("valid", F.l1_loss(self(x)[:, 0], x.sum(1)))',
        },
        {
            "parts": NUMBER,
            "training": "return F.mse_loss(self(x)[:, 0], x.sum(1))",
            "validation": 'self.log("valid", F.l1_loss(self(x)[:, 0], x.sum(1)))',
        },
    ),
    ("lightning", "cut"): Bug(
        {"parts": BODY_AND_HEAD, "forward": f"{CUT}\nreturn self.head(h)"},
        {"parts": BODY_AND_HEAD, "forward": f"{WHOLE}\nreturn self.head(h)"},
    ),
    ("lightning", "schedule"): Bug(
        {
            "optimizer": """
                optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
                self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)  # error: [scheduler-never-stepped]
                return optimizer
            """,  # noqa: E501
        },
        {
            "optimizer": """
                optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
                return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)]
            """,
        },
    ),
    ("lightning", "train mode"): Bug(
        {
            "validation": """
                self.train()
                self.log("valid", F.cross_entropy(self.net(x), y))  # error: [evaluated-in-train-mode]
            """,
        },
    ),
    ("lightning", "no reset"): Bug(
        {
            "parts": "self.net = net(); self.automatic_optimization = False",
            "training": """
                loss = F.cross_entropy(self(x), y)
                self.manual_backward(loss)  # error: [gradients-never-cleared]
                self.optimizers().step()
            """,
        },
        {
            "parts": "self.net = net(); self.automatic_optimization = False",
            "training": """
                loss = F.cross_entropy(self(x), y)
                self.optimizers().zero_grad()
                self.manual_backward(loss)
                self.optimizers().step()
            """,
        },
    ),
    # -- Hugging Face Trainer --
    ("transformers", "softmax"): Bug(
        {
            "loss": """
                probabilities = outputs["logits"].softmax(dim=-1)  # error: [softmax-before-cross-entropy]
                loss = F.cross_entropy(probabilities, y)
            """,
        },
    ),
    ("transformers", "plain list"): Bug(
        {"parts": LISTED, "forward": f'return {{"logits": {BLOCKS}}}'},
        {"parts": REGISTERED, "forward": f'return {{"logits": {BLOCKS}}}'},
    ),
    ("transformers", "no group"): Bug(
        {
            "parts": BODY_AND_HEAD,
            "forward": 'return {"logits": self.head(self.body(x).relu())}',
            "methods": """
                def create_optimizer(self, *args):
                    self.optimizer = torch.optim.AdamW(self.model.head.parameters(), lr=1e-2)  # error: [parameters-not-in-optimizer]
                    return self.optimizer
            """,  # noqa: E501
        },
        {
            "parts": BODY_AND_HEAD,
            "forward": 'return {"logits": self.head(self.body(x).relu())}',
            "methods": """
                def create_optimizer(self, *args):
                    self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
                    return self.optimizer
            """,
        },
    ),
    ("transformers", "broadcast"): Bug(
        {
            "parts": NUMBER,
            "loss": 'loss = F.mse_loss(outputs["logits"], inputs["x"].sum(1))  # error: [shapes-broadcast-in-loss]',
        },
        {"parts": NUMBER, "loss": 'loss = F.mse_loss(outputs["logits"][:, 0], inputs["x"].sum(1))'},
    ),
    ("transformers", "cut"): Bug(
        {"parts": BODY_AND_HEAD, "forward": f'{CUT}\nreturn {{"logits": self.head(h)}}'},
        {"parts": BODY_AND_HEAD, "forward": f'{WHOLE}\nreturn {{"logits": self.head(h)}}'},
    ),
    ("transformers", "schedule"): Bug(
        {
            "options": 'lr_scheduler_type="constant"',
            "methods": """
                def create_optimizer(self, *args):
                    made = super().create_optimizer(*args)
                    self.mine = torch.optim.lr_scheduler.CosineAnnealingLR(made, 24)  # error: [scheduler-never-stepped]
                    return made
            """,
        },
        {
            "methods": """
                def create_scheduler(self, num_training_steps, optimizer=None):
                    self.lr_scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer or self.optimizer, num_training_steps)
                    return self.lr_scheduler
            """,  # noqa: E501
        },
    ),
    ("transformers", "train mode"): Bug(
        {
            "options": 'eval_strategy="epoch"',
            "methods": """
                def evaluate(self, *args, **kwargs):
                    with torch.no_grad():
                        for batch in self.get_eval_dataloader():
                            scores = self.model(batch["x"])["logits"]  # error: [evaluated-in-train-mode]
                            print(F.cross_entropy(scores, batch["labels"]).item())
                    return {}
            """,
        },
        {"options": 'eval_strategy="epoch"'},
    ),
    # -- Accelerate --
    ("accelerate", "softmax"): Bug(
        {"loss": "loss = F.cross_entropy(model(x).softmax(dim=1), y)  # error: [softmax-before-cross-entropy]"},
    ),
    ("accelerate", "plain list"): Bug(
        {"parts": LISTED, "forward": f"return {BLOCKS}"},
        {"parts": REGISTERED, "forward": f"return {BLOCKS}"},
    ),
    ("accelerate", "no group"): Bug(
        {
            "parts": BODY_AND_HEAD,
            "forward": "return self.head(self.body(x).relu())",
            "optimizer": "optimizer = torch.optim.SGD(model.head.parameters(), lr=1e-2)  # error: "
            "[parameters-not-in-optimizer]",
        },
        {"parts": BODY_AND_HEAD, "forward": "return self.head(self.body(x).relu())"},
    ),
    ("accelerate", "old parameters"): Bug(
        {
            "parts": BODY_AND_HEAD,
            "forward": "return self.head(self.body(x).relu())",
            "optimizer": """
                optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)  # error: [optimizer-holds-old-parameters]
                model.head = nn.Linear(32, 3)
            """,
        },
        {
            "parts": BODY_AND_HEAD,
            "forward": "return self.head(self.body(x).relu())",
            "optimizer": """
                model.head = nn.Linear(32, 3)
                optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
            """,
        },
    ),
    ("accelerate", "broadcast"): Bug(
        {
            "parts": NUMBER,
            "loss": "loss = F.mse_loss(model(x), x.sum(1))  # error: [shapes-broadcast-in-loss]",
            "score": "scores = (model(x)[:, 0] - x.sum(1)).abs()",
        },
        {
            "parts": NUMBER,
            "loss": "loss = F.mse_loss(model(x)[:, 0], x.sum(1))",
            "score": "scores = (model(x)[:, 0] - x.sum(1)).abs()",
        },
    ),
    ("accelerate", "cut"): Bug(
        {"parts": BODY_AND_HEAD, "forward": f"{CUT}\nreturn self.head(h)"},
        {"parts": BODY_AND_HEAD, "forward": f"{WHOLE}\nreturn self.head(h)"},
    ),
    ("accelerate", "schedule"): Bug(
        {
            "optimizer": """
                optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
                schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)  # error: [scheduler-never-stepped]
                schedule = accelerator.prepare(schedule)
            """,
        },
        {
            "optimizer": """
                optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
                schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
                schedule = accelerator.prepare(schedule)
            """,
            "schedule": "schedule.step()",
        },
    ),
    ("accelerate", "train mode"): Bug(
        {"mode": "", "score": "scores = model(x).argmax(1) == y  # error: [evaluated-in-train-mode]"},
    ),
    ("accelerate", "no reset"): Bug(
        {"reset": "", "backward": "accelerator.backward(loss)  # error: [gradients-never-cleared]"}
    ),
}

needs_frameworks = pytest.mark.skipif(
    not PYTHON.exists(), reason="there is no .venv-frameworks: `make frameworks` makes it"
)


def program(framework: str, parts: dict[str, str]) -> str:
    """The template with its parts, each put in at the indentation of its place."""
    template, usual = TEMPLATES[framework]
    lines: list[str] = []
    for line in template.splitlines():
        name = line.strip().removeprefix("{").removesuffix("}")
        if line.strip() == f"{{{name}}}" and name in usual:
            lines += indent(dedent(parts.get(name, usual[name])).strip(), line[: -len(line.strip())]).splitlines()
        else:
            lines.append(line.format_map({**usual, **parts}))
    return "\n".join(lines) + "\n"


def said_of(folder: Path) -> set[tuple[str, str, int]]:
    checked, found = found_in(folder)
    assert found["script"]["reason"] == "finished", checked.stderr
    assert not found.get("failures"), found["failures"]
    return {(f["name"], f["path"], f["line"]) for f in found["findings"] if f["severity"] != "advice"}


@pytest.mark.long
@needs_frameworks
@pytest.mark.parametrize(("framework", "bug"), BUGS, ids=lambda word: word.replace(" ", "-"))
def test_a_planted_bug_is_found_at_the_users_line(tmp_path: Path, framework: str, bug: str) -> None:
    text = write(tmp_path, program(framework, BUGS[framework, bug].broken))
    marked = {
        (line.split("# error: [")[1].rstrip("]"), "train.py", number)
        for number, line in enumerate(text.splitlines(), 1)
        if "# error: [" in line
    }
    assert len(marked) == 1
    assert said_of(tmp_path) == marked


@pytest.mark.long
@needs_frameworks
@pytest.mark.parametrize(("framework", "bug"), BUGS, ids=lambda word: word.replace(" ", "-"))
def test_of_its_healthy_twin_nothing_is_said(tmp_path: Path, framework: str, bug: str) -> None:
    text = write(tmp_path, program(framework, BUGS[framework, bug].healthy))
    assert "# error:" not in text
    assert said_of(tmp_path) == set()
