import copy

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

import job


class Dqn(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.q = job.network()
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.places, self.buffer = torch.zeros(job.ENVS, dtype=torch.long), torch.zeros(0, 5)

    def configure_optimizers(self):
        return torch.optim.Adam(self.q.parameters(), lr=1e-2)

    def training_step(self, batch, index):
        rows, self.places = job.act(self.q, self.places, self.global_step)
        self.buffer = torch.cat([self.buffer, rows])[-job.CAPACITY :]
        if self.global_step % 10 == 0:
            self.target.load_state_dict(self.q.state_dict())
        loss = job.loss(self.q, self.target, job.sample(self.buffer, self.global_step))
        self.log("loss", loss, batch_size=job.BATCH)
        return loss

    def validation_step(self, batch, index):
        self.log("reward", job.reward(self.q), batch_size=1)

    def on_save_checkpoint(self, checkpoint):
        checkpoint["replay"] = self.places, self.buffer

    def on_load_checkpoint(self, checkpoint):
        self.places, self.buffer = checkpoint["replay"]


def main() -> None:
    L.seed_everything(0)
    saves = [ModelCheckpoint("checkpoints", every_n_train_steps=5, save_top_k=-1), ModelCheckpoint("checkpoints", "best", monitor="reward", mode="max")]
    trainer = L.Trainer(max_steps=60, val_check_interval=10, accelerator="cpu", callbacks=saves, logger=CSVLogger("."), log_every_n_steps=1)
    trainer.fit(Dqn(), DataLoader(range(60)), DataLoader(range(1)))
