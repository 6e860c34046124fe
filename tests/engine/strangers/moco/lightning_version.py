import copy

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import job


class Moco(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.query = job.encoder()
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", job.first_queue())

    def configure_optimizers(self):
        return torch.optim.Adam(self.query.parameters(), lr=1e-2)

    def training_step(self, batch, index):
        job.follow(self.key, self.query)
        loss, keys = job.info_nce(self.query, self.key, batch[0], self.queue, self.global_step)
        self.queue = torch.cat([self.queue, keys])[-job.QUEUE :]
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("retrieval", job.retrieval(self.query, batch[0]).mean())


def main() -> None:
    L.seed_everything(0)
    saves = [ModelCheckpoint("checkpoints", every_n_train_steps=5, save_top_k=-1), ModelCheckpoint("checkpoints", "best", monitor="retrieval", mode="max")]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=saves, logger=CSVLogger("."), log_every_n_steps=1)
    trainer.fit(Moco(), DataLoader(TensorDataset(job.inputs[:320]), 32), DataLoader(TensorDataset(job.inputs[320:]), 80))
