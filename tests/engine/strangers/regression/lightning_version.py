import lightning as L
import torch
import torch.nn.functional as F
from job import net, splits
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.regression import MeanAbsoluteError, R2Score


class Job(L.LightningModule):
    def __init__(self, hidden: int = 16):
        super().__init__()
        self.save_hyperparameters()
        self.model, self.mae, self.r2 = net(hidden), MeanAbsoluteError(), R2Score()

    def training_step(self, batch, index):
        loss = F.mse_loss(self.model(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.model(batch[0])
        self.mae(output, batch[1])
        self.r2(output, batch[1])
        self.log_dict({"valid_loss": F.mse_loss(output, batch[1]), "mae": self.mae, "r2": self.r2}, on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2, weight_decay=0.0)


def main(hidden: int = 48) -> None:
    L.seed_everything(0)
    train, valid = (DataLoader(TensorDataset(*part), batch_size=32) for part in splits())
    saves = [
        ModelCheckpoint(every_n_train_steps=5, monitor="step", mode="max", save_top_k=2),
        ModelCheckpoint(monitor="valid_loss", filename="best"),
    ]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=saves, logger=CSVLogger("logs"), log_every_n_steps=1)
    trainer.fit(Job(hidden), train, valid)


if __name__ == "__main__":
    main()
