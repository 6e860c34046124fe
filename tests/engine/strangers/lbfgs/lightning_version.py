import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.regression import MeanAbsoluteError, R2Score

import job


class Regression(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.mae, self.r2 = job.network(), MeanAbsoluteError(), R2Score()

    def configure_optimizers(self):
        return torch.optim.LBFGS(self.net.parameters(), lr=0.5, **job.OPTIONS)

    def training_step(self, batch, index):
        loss = job.loss(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.net(batch[0])
        self.mae(output, batch[1]), self.r2(output, batch[1])
        self.log_dict({"valid_loss": job.loss(output, batch[1]), "mae": self.mae, "r2": self.r2})


def main() -> None:
    L.seed_everything(0)
    saves = [ModelCheckpoint("checkpoints", every_n_train_steps=5, save_top_k=-1), ModelCheckpoint("checkpoints", "best", monitor="valid_loss")]
    trainer = L.Trainer(max_epochs=30, accelerator="cpu", callbacks=saves, logger=CSVLogger("."), log_every_n_steps=1)
    train, valid = TensorDataset(job.x[:160], job.y[:160]), TensorDataset(job.x[160:], job.y[160:])
    trainer.fit(Regression(), DataLoader(train, 160), DataLoader(valid, 40))
