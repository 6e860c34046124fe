import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import job


class Distill(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.student = job.student()

    def configure_optimizers(self):
        return torch.optim.Adam(self.student.parameters(), lr=1e-2)

    def training_step(self, batch, index):
        loss = job.losses(self.student(batch[0]), *batch).mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.student(batch[0])
        self.log_dict({"valid_loss": job.losses(output, *batch).mean(), "accuracy": job.accuracy(output, batch[1]).mean()})


def main() -> None:
    L.seed_everything(0)
    saves = [ModelCheckpoint("checkpoints", every_n_train_steps=5, save_top_k=-1), ModelCheckpoint("checkpoints", "best", monitor="accuracy", mode="max")]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=saves, logger=CSVLogger("."), log_every_n_steps=1)
    train, valid = TensorDataset(job.inputs[:320], job.labels[:320]), TensorDataset(job.inputs[320:], job.labels[320:])
    trainer.fit(Distill(), DataLoader(train, 32), DataLoader(valid, 80))
