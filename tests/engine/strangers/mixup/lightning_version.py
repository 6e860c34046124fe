import lightning as L
import torch
import torch.nn.functional as F
from job import drawn, labels, mix, net, points
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()

    def training_step(self, batch, index):
        inputs, targets = mix(*batch, *drawn(self.global_step, len(batch[0])))
        loss = F.cross_entropy(self.net(inputs), targets)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.net(batch[0])
        self.log("valid_loss", F.cross_entropy(output, batch[1]), batch_size=len(output))
        self.log("accuracy", (output.argmax(1) == batch[1]).float().mean(), batch_size=len(output))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    L.seed_everything(0)
    checkpoints = [ModelCheckpoint(every_n_train_steps=5, save_top_k=-1), ModelCheckpoint(filename="best", monitor="accuracy", mode="max")]
    trainer = L.Trainer(max_epochs=8, accelerator="cpu", logger=CSVLogger("logs", flush_logs_every_n_steps=1), callbacks=checkpoints, log_every_n_steps=1)
    train, valid = TensorDataset(points[:240], labels[:240]), TensorDataset(points[240:], labels[240:])
    trainer.fit(Module(), DataLoader(train, batch_size=48), DataLoader(valid, batch_size=80))
