import lightning as L
import torch
from job import inputs, labels, loader, loss_of, net
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()

    def training_step(self, batch, index):
        loss = loss_of(self.net, *batch, self.global_step)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.net(batch[0])
        self.log("valid_loss", torch.nn.functional.cross_entropy(output, batch[1]), batch_size=len(output))
        self.log("accuracy", (output.argmax(1) == batch[1]).float().mean(), batch_size=len(output))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main() -> None:
    L.seed_everything(0)
    checkpoints = [ModelCheckpoint(every_n_train_steps=5, save_top_k=-1), ModelCheckpoint(filename="best", monitor="accuracy", mode="max")]
    trainer = L.Trainer(
        max_steps=40, val_check_interval=5, accelerator="cpu", logger=CSVLogger("logs", flush_logs_every_n_steps=1),
        callbacks=checkpoints, log_every_n_steps=1,
    )
    trainer.fit(Module(), loader(), DataLoader(TensorDataset(inputs[240:], labels[240:]), batch_size=80))
