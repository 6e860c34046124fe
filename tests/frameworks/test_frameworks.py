"""Healthy training by the popular frameworks: under check the weights are the same to the last bit, and nothing is
found.

They live in an environment of their own, `.venv-frameworks` (torch, lightning, accelerate, transformers,
pytorch-ignite).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.frameworks.running import PYTHON, found_in, run_in, write

SCRIPTS = {
    "lightning": """
        import lightning as L

        class Lit(L.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = net()
            def training_step(self, batch, index):
                x, y = batch
                loss = F.cross_entropy(self.net(x), y)
                self.log("loss", loss)
                return loss
            def validation_step(self, batch, index):
                x, y = batch
                self.log("valid", F.cross_entropy(self.net(x), y))
            def configure_optimizers(self):
                optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
                return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)]

        model = Lit()
        trainer = L.Trainer(max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False, gradient_clip_val=1.0, accumulate_grad_batches=2)
        trainer.fit(model, DataLoader(train_data, batch_size=16, shuffle=True), DataLoader(valid_data, batch_size=64))
        end(model)
    """,  # noqa: E501
    "transformers": """
        from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

        class Texts(torch.utils.data.Dataset):
            def __init__(self):
                self.ids = torch.randint(0, 50, (48, 12))
            def __len__(self):
                return 48
            def __getitem__(self, i):
                return {"input_ids": self.ids[i], "attention_mask": torch.ones(12, dtype=torch.long), "labels": int(self.ids[i, 0] % 2)}

        config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                            max_position_embeddings=16, num_labels=2)
        model = BertForSequenceClassification(config)
        options = TrainingArguments("made", num_train_epochs=3, per_device_train_batch_size=8, use_cpu=True, report_to=[],
                                    save_strategy="no", eval_strategy="epoch", logging_steps=4, disable_tqdm=True, learning_rate=1e-3)
        Trainer(model, options, train_dataset=Texts(), eval_dataset=Texts()).train()
        end(model)
    """,  # noqa: E501
    "accelerate": """
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        model = net()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=16)
        train, valid = DataLoader(train_data, batch_size=16, shuffle=True), DataLoader(valid_data, batch_size=64)
        model, optimizer, train, valid, schedule = accelerator.prepare(model, optimizer, train, valid, schedule)
        for epoch in range(4):
            model.train()
            for x, y in train:
                with accelerator.accumulate(model):
                    loss = F.cross_entropy(model(x), y)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
            model.eval()
            with torch.no_grad():
                right = sum(accelerator.gather_for_metrics(model(x).argmax(1) == y).sum().item() for x, y in valid)
            print(epoch, right)
        end(accelerator.unwrap_model(model))
    """,
    "ignite": """
        from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
        from ignite.metrics import Accuracy, Loss

        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        criterion = nn.CrossEntropyLoss()
        trainer = create_supervised_trainer(model, optimizer, criterion)
        evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy(), "loss": Loss(criterion)})
        train, valid = DataLoader(train_data, batch_size=16, shuffle=True), DataLoader(valid_data, batch_size=64)

        @trainer.on(Events.EPOCH_COMPLETED)
        def validate(engine):
            evaluator.run(valid)
            print(engine.state.epoch, evaluator.state.metrics)

        trainer.run(train, max_epochs=4)
        end(model)
    """,
}


def _numbers(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What was printed, but for times: HF Trainer prints its speed."""
    return [line for line in done.stdout.splitlines() if "runtime" not in line and "per_second" not in line]


@pytest.mark.long
@pytest.mark.skipif(not PYTHON.exists(), reason="there is no .venv-frameworks: `make frameworks` makes it")
@pytest.mark.parametrize("framework", SCRIPTS)
def test_a_healthy_run_has_the_same_weights_and_no_findings(tmp_path: Path, framework: str) -> None:
    write(tmp_path, SCRIPTS[framework])
    plain = run_in(tmp_path, "train.py")
    assert plain.returncode == 0, plain.stderr
    assert "weights" in plain.stdout
    checked, found = found_in(tmp_path)
    assert _numbers(checked) == _numbers(plain), checked.stderr
    said = [(f["code"], f["path"], f["line"], f["message"]) for f in found["findings"] if f["severity"] != "advice"]
    assert said == []
    assert checked.returncode == 0, checked.stderr
    assert found["watched"]["steps"] >= 16
