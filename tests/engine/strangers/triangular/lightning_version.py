import lightning as L
import torch
import torch.nn.functional as F
from job import net, splits, triangular
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy


class Job(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.accuracy = net(), MulticlassAccuracy(2, average="micro")

    def training_step(self, batch, index):
        loss = F.cross_entropy(self.model(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.model(batch[0])
        self.accuracy(output, batch[1])
        self.log_dict({"valid_loss": F.cross_entropy(output, batch[1]), "accuracy": self.accuracy}, on_epoch=True)

    def configure_optimizers(self):
        optimizer, total = torch.optim.SGD(self.parameters(), lr=0.2, momentum=0.9), self.trainer.estimated_stepping_batches
        share = lambda step: triangular(0, 32) * (step + 1) / 8 if step < 8 else triangular(step - 8, total - 8)  # noqa: E731
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, share), "interval": "step"}]


def main() -> None:
    L.seed_everything(0)
    train, valid = (DataLoader(TensorDataset(*part), batch_size=32) for part in splits())
    saves = [
        ModelCheckpoint(every_n_train_steps=5, monitor="step", mode="max", save_top_k=2),
        ModelCheckpoint(monitor="accuracy", mode="max", filename="best"),
        LearningRateMonitor("step"),
    ]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=saves, logger=CSVLogger("logs"), log_every_n_steps=1)
    trainer.fit(Job(), train, valid)


if __name__ == "__main__":
    main()
