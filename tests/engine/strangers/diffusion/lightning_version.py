import lightning as L
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import job


class Diffusion(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = job.Denoiser()

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def training_step(self, batch, index):
        loss = job.loss(self.net, batch[0], self.global_step)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("valid_loss", job.loss(self.net, batch[0], 10_000))


def main() -> None:
    L.seed_everything(0)
    saves = [ModelCheckpoint("checkpoints", every_n_train_steps=5, save_top_k=-1), ModelCheckpoint("checkpoints", "best", monitor="valid_loss")]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=[EMAWeightAveraging(decay=0.9), *saves], logger=CSVLogger("."), log_every_n_steps=1)
    trainer.fit(Diffusion(), DataLoader(TensorDataset(job.points[:320]), 32), DataLoader(TensorDataset(job.points[320:]), 80))
