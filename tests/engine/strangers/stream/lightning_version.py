import lightning as L
import torch
from job import Waves, held_out, net
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        error = self.net(batch[0]) - batch[1]
        self.log_dict({"valid_loss": error.square().mean(), "mae": error.abs().mean()}, batch_size=len(error))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    L.seed_everything(0)
    checkpoints = [ModelCheckpoint(every_n_train_steps=5, save_top_k=-1), ModelCheckpoint(filename="best", monitor="valid_loss")]
    trainer = L.Trainer(
        max_steps=40, val_check_interval=10, accelerator="cpu", logger=CSVLogger("logs", flush_logs_every_n_steps=1),
        callbacks=checkpoints, log_every_n_steps=1,
    )
    trainer.fit(Module(), DataLoader(Waves(), batch_size=8), DataLoader(TensorDataset(*held_out()), batch_size=100))
