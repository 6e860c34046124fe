"""The classic bugs planted in loops that a framework runs: found at the user's line, never at one of the framework's."""

from __future__ import annotations

from pathlib import Path

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
            return F.cross_entropy(self(x), y)
        def validation_step(self, batch, index):
            x, y = batch
            self.log("valid", F.cross_entropy(self(x), y))
        def configure_optimizers(self):
            {optimizer}

    trainer = L.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
    trainer.fit(Lit(), DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=64))
"""

TRAINER = """
    from transformers import Trainer, TrainingArguments

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(data)
        def __getitem__(self, i):
            return {"x": data[i][0], "labels": int(data[i][1])}

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()
        def forward(self, x, labels=None):
            return {"logits": self.net(x)}

    class Scored(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(inputs["x"])
            probabilities = outputs["logits"].softmax(dim=-1)  # error: [softmax-before-cross-entropy]
            loss = F.cross_entropy(probabilities, inputs["labels"])
            return (loss, outputs) if return_outputs else loss

    options = TrainingArguments("made", num_train_epochs=3, per_device_train_batch_size=16, use_cpu=True, report_to=[],
                                save_strategy="no", logging_steps=4, disable_tqdm=True, learning_rate=1e-3)
    Scored(Net(), options, train_dataset=Rows()).train()
"""

ACCELERATE = """
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    train, valid = DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=64)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
    for epoch in range(4):
        model.train()
        for x, y in train:
            {reset}
            {loss}
            {backward}
            optimizer.step()
        {mode}
        with torch.no_grad():
            right = 0
            for x, y in valid:
                {score}
                right += accelerator.gather_for_metrics(hits).sum().item()
        print(epoch, right)
"""

WHOLE = "return torch.optim.AdamW(self.parameters(), lr=1e-2)"
HEALTHY_LOOP = {
    "reset": "optimizer.zero_grad()",
    "loss": "loss = F.cross_entropy(model(x), y)",
    "backward": "accelerator.backward(loss)",
    "mode": "model.eval()",
    "score": "hits = model(x).argmax(1) == y",
}

SCRIPTS = {
    "lightning, softmax in forward": LIGHTNING.format(
        parts="self.net = net()",
        forward="return torch.softmax(self.net(x), dim=1)  # error: [softmax-before-cross-entropy]",
        optimizer=WHOLE,
    ),
    "lightning, layers in a list": LIGHTNING.format(
        parts="self.blocks = [nn.Linear(8, 8) for _ in range(2)]; self.head = nn.Linear(8, 3)  # error: [layers-in-a-plain-list]",
        forward="return self.head(self.blocks[1](self.blocks[0](x).relu()).relu())",
        optimizer=WHOLE,
    ),
    "lightning, an optimizer that misses the body": LIGHTNING.format(
        parts="self.body = nn.Linear(8, 32); self.head = nn.Linear(32, 3)",
        forward="return self.head(self.body(x).relu())",
        optimizer="return torch.optim.AdamW(self.head.parameters(), lr=1e-2)  # error: [parameter-in-no-group]",
    ),
    "transformers, softmax in compute_loss": TRAINER,
    "accelerate, softmax before the loss": ACCELERATE.format_map(
        {**HEALTHY_LOOP, "loss": "loss = F.cross_entropy(model(x).softmax(dim=1), y)  # error: [softmax-before-cross-entropy]"}
    ),
    "accelerate, no reset": ACCELERATE.format_map(
        {**HEALTHY_LOOP, "reset": "pass", "backward": "accelerator.backward(loss)  # error: [gradients-never-cleared]"}
    ),
    "accelerate, validation in train mode": ACCELERATE.format_map(
        {**HEALTHY_LOOP, "mode": "pass", "score": "hits = model(x).argmax(1) == y  # error: [evaluated-in-train-mode]"}
    ),
}


@pytest.mark.long
@pytest.mark.skipif(not PYTHON.exists(), reason="there is no .venv-frameworks: `make frameworks` makes it")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_planted_bug_is_found_at_the_users_line(tmp_path: Path, name: str) -> None:
    text = write(tmp_path, SCRIPTS[name])
    marked = {
        (line.split("# error: [")[1].rstrip("]"), "train.py", number)
        for number, line in enumerate(text.splitlines(), 1)
        if "# error: [" in line
    }
    assert len(marked) == 1
    checked, found = found_in(tmp_path)
    assert found["script"]["reason"] == "finished", checked.stderr
    said = {(f["name"], f["path"], f["line"]) for f in found["findings"] if f["severity"] != "advice"}
    assert said == marked
