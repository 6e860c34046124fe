import lightning as L
import torch
import torch.nn.functional as F
from job import Net, decays, depth, splits
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy


class Job(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.accuracy = Net(), MulticlassAccuracy(2, average="micro")

    def training_step(self, batch, index):
        loss = F.cross_entropy(self.model(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.model(batch[0])
        self.accuracy(output, batch[1])
        self.log_dict({"valid_loss": F.cross_entropy(output, batch[1]), "accuracy": self.accuracy}, on_epoch=True)

    def configure_optimizers(self):
        keys = sorted({(depth(name), decays(name)) for name, _ in self.model.named_parameters()})
        return torch.optim.AdamW(
            {"params": [p for name, p in self.model.named_parameters() if (depth(name), decays(name)) == key], "lr": 1e-2 * 0.7 ** key[0],
             "weight_decay": 0.1 if key[1] else 0.0, "name": f"depth{key[0]}" + ("" if key[1] else "-no-decay")}
            for key in keys
        )  # fmt: skip


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
