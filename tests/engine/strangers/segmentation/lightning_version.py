import lightning as L
import torch
import torch.nn.functional as F
from job import CLASSES, net, splits
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy, MulticlassJaccardIndex


class Job(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = net()
        self.accuracy, self.miou = MulticlassAccuracy(CLASSES, average="micro"), MulticlassJaccardIndex(CLASSES)

    def training_step(self, batch, index):
        loss = F.cross_entropy(self.model(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.model(batch[0])
        self.accuracy(output, batch[1])
        self.miou(output, batch[1])
        self.log_dict({"valid_loss": F.cross_entropy(output, batch[1]), "accuracy": self.accuracy, "miou": self.miou}, on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2, weight_decay=0.0)


def main() -> None:
    L.seed_everything(0)
    train, valid = (DataLoader(TensorDataset(*part), batch_size=16) for part in splits())
    saves = [
        ModelCheckpoint(every_n_train_steps=5, monitor="step", mode="max", save_top_k=2),
        ModelCheckpoint(monitor="miou", mode="max", filename="best"),
    ]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=saves, logger=CSVLogger("logs"), log_every_n_steps=1)
    trainer.fit(Job(), train, valid)


if __name__ == "__main__":
    main()
