import lightning as L
import torch
from job import Net, parts, splits, weight
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader
from torchmetrics.classification import MulticlassAccuracy


class Job(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.accuracy = Net(), MulticlassAccuracy(2, average="micro")

    def losses(self, output, targets, prefix):
        label, value = (part.mean() for part in parts(output, targets))
        loss = label + weight(self.current_epoch) * value
        logged = {"loss": loss, "label": label, "value": value, "weight": weight(self.current_epoch)}
        self.log_dict({prefix + name: part for name, part in logged.items()}, batch_size=len(targets["label"]))
        return loss

    def training_step(self, batch, index):
        return self.losses(self.model(batch[0]), batch[1], "")

    def validation_step(self, batch, index):
        output = self.model(batch[0])
        self.losses(output, batch[1], "valid_")
        self.accuracy(output["label"], batch[1]["label"])
        self.log("accuracy", self.accuracy, batch_size=len(batch[0]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2, weight_decay=0.0)


def main() -> None:
    L.seed_everything(0)
    train, valid = (DataLoader(part, batch_size=32) for part in splits())
    saves = [
        ModelCheckpoint(every_n_train_steps=5, monitor="step", mode="max", save_top_k=2),
        ModelCheckpoint(monitor="accuracy", mode="max", filename="best"),
    ]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=saves, logger=CSVLogger("logs"), log_every_n_steps=1)
    trainer.fit(Job(), train, valid)


if __name__ == "__main__":
    main()
