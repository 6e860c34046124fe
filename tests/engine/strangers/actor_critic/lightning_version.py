import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

import job


class ActorCritic(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.policy = job.Policy()
        self.register_buffer("places", torch.zeros(job.ENVS, dtype=torch.long))

    def configure_optimizers(self):
        return torch.optim.Adam(self.policy.parameters(), lr=1e-2)

    def training_step(self, batch, index):
        rollout, self.places = job.rollout(self.policy, self.places, self.global_step)
        loss = job.loss(self.policy, rollout)
        self.log("loss", loss, batch_size=job.ENVS * job.LENGTH)
        return loss

    def validation_step(self, batch, index):
        self.log("reward", job.reward(self.policy), batch_size=1)


def main() -> None:
    L.seed_everything(0)
    saves = [ModelCheckpoint("checkpoints", every_n_train_steps=5, save_top_k=-1), ModelCheckpoint("checkpoints", "best", monitor="reward", mode="max")]
    trainer = L.Trainer(max_steps=50, val_check_interval=10, accelerator="cpu", callbacks=saves, logger=CSVLogger("."), log_every_n_steps=1)
    trainer.fit(ActorCritic(), DataLoader(range(50)), DataLoader(range(1)))
