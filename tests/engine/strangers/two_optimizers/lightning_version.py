import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import job


class Two(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = job.Net()

    def configure_optimizers(self):
        optimizers = job.optimizers(self.net)
        return list(optimizers.values()), list(job.schedules(optimizers).values())

    def training_step(self, batch, index):
        loss = job.loss(self.net(batch[0]), batch[1])
        self.zero_grad()
        self.manual_backward(loss)
        for part in (*self.optimizers(), *self.lr_schedulers()):
            part.step()
        self.log("loss", loss)

    def validation_step(self, batch, index):
        output = self.net(batch[0])
        self.log_dict({"valid_loss": job.loss(output, batch[1]), "accuracy": (output.argmax(1) == batch[1]).float().mean()})


def main() -> None:
    L.seed_everything(0)
    saves = [ModelCheckpoint("checkpoints", every_n_train_steps=10, save_top_k=-1), ModelCheckpoint("checkpoints", "best", monitor="accuracy", mode="max")]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=saves, logger=CSVLogger("."), log_every_n_steps=1)
    train, valid = TensorDataset(job.tokens[:320], job.labels[:320]), TensorDataset(job.tokens[320:], job.labels[320:])
    trainer.fit(Two(), DataLoader(train, 32), DataLoader(valid, 80))
