import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import job


class Maml(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = job.network()

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def training_step(self, batch, index):
        loss = job.loss(self.net, *batch)
        self.log("loss", loss)
        return loss

    @torch.enable_grad()
    def validation_step(self, batch, index):
        self.log("valid_loss", job.loss(self.net, *batch))


def main() -> None:
    L.seed_everything(0)
    saves = [ModelCheckpoint("checkpoints", every_n_train_steps=5, save_top_k=-1), ModelCheckpoint("checkpoints", "best", monitor="valid_loss")]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=saves, logger=CSVLogger("."), log_every_n_steps=1, inference_mode=False)
    train, valid = TensorDataset(job.x[:160], job.y[:160]), TensorDataset(job.x[160:], job.y[160:])
    trainer.fit(Maml(), DataLoader(train, 16), DataLoader(valid, 16))
