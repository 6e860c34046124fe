import lightning as L
import torch
from job import batches, labels, net, points, recall, triplet
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()

    def train_dataloader(self):  # again at each epoch
        return DataLoader(TensorDataset(points[:240], labels[:240]), batch_sampler=batches(self.trainer.current_epoch))

    def training_step(self, batch, index):
        loss = triplet(self.net(batch[0]), batch[1]).mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.net(batch[0])
        self.log_dict({"valid_loss": triplet(output, batch[1]).mean(), "recall": recall(output, batch[1]).mean()}, batch_size=len(output))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    L.seed_everything(0)
    checkpoints = [ModelCheckpoint(every_n_train_steps=5, save_top_k=-1), ModelCheckpoint(filename="best", monitor="recall", mode="max")]
    trainer = L.Trainer(
        max_epochs=4, accelerator="cpu", logger=CSVLogger("logs", flush_logs_every_n_steps=1), callbacks=checkpoints,
        log_every_n_steps=1, reload_dataloaders_every_n_epochs=1,
    )
    trainer.fit(Module(), val_dataloaders=DataLoader(TensorDataset(points[240:], labels[240:]), batch_size=60))
