"""Number formats in loops that a framework runs: the log that hides nan, and mixed precision that is as it should
be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.running import PYTHON, found_in, write

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PYTHON.exists(), reason="there is no .venv-frameworks: `make frameworks` makes it"),
]

TRAINER = """
    from transformers import Trainer, TrainingArguments

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(data)
        def __getitem__(self, i):
            return {{"x": data[i][0], "labels": int(data[i][1])}}

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 3)
        def forward(self, x, labels=None):
            chances = self.net(x).softmax(-1)
            return {{"loss": -torch.log(chances[torch.arange(len(x)), labels] - {offset}).mean(), "chances": chances}}

    options = TrainingArguments("made", max_steps=8, per_device_train_batch_size=16, use_cpu=True, report_to=[],
                                save_strategy="no", logging_steps=2, disable_tqdm=True, learning_rate=1e-3{option})
    trainer = Trainer(Net(), options, train_dataset=Rows())
    trainer.train()
"""

LIGHTNING = """
    import lightning as L

    class Lit(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 3)
        def training_step(self, batch, index):
            x, y = batch
            return F.cross_entropy(self.net(x), y)
        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    trainer = L.Trainer(max_epochs=3, accelerator="cpu", precision="bf16-mixed", gradient_clip_val=1.0, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Lit(), DataLoader(data, batch_size=16, shuffle=True))
"""


def names(folder: Path, script: str) -> tuple[str, set[tuple[str, int]]]:
    text = write(folder, script)
    checked, found = found_in(folder)
    assert found["script"]["reason"] == "finished", checked.stderr
    assert not found["watched"]["failures"], found["watched"]["failures"]
    return text, {(f["name"], f["line"]) for f in found["findings"]}


def test_the_trainer_that_filters_its_log_is_named_at_the_line_that_starts_it(tmp_path: Path) -> None:
    text, said = names(tmp_path, TRAINER.format(offset="0.9", option=""))
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "trainer.train()" in line)
    assert ("nan-or-inf-hidden", line) in said
    assert "nan-or-inf" in {name for name, _ in said}


def test_a_trainer_that_shows_nan_hides_nothing(tmp_path: Path) -> None:
    _, said = names(tmp_path, TRAINER.format(offset="0.9", option=", logging_nan_inf_filter=False"))
    assert "nan-or-inf-hidden" not in {name for name, _ in said}


def test_a_filter_that_had_nothing_to_filter_is_left_in_peace(tmp_path: Path) -> None:
    _, said = names(tmp_path, TRAINER.format(offset="0.0", option=""))
    assert not {name for name, _ in said} & {"nan-or-inf-hidden", "nan-or-inf"}


def test_mixed_precision_of_lightning_is_left_in_peace(tmp_path: Path) -> None:
    _, said = names(tmp_path, LIGHTNING)
    assert not said
