import lightning as L
import torch
import torch.nn.functional as F
from job import net, splits
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import BinaryAccuracy, BinaryF1Score


class Job(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.accuracy, self.f1 = net(), BinaryAccuracy(), BinaryF1Score()

    def training_step(self, batch, index):
        loss = F.binary_cross_entropy_with_logits(self.model(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.model(batch[0])
        self.accuracy(output, batch[1])
        self.f1(output, batch[1])
        self.log_dict({"valid_loss": F.binary_cross_entropy_with_logits(output, batch[1]), "accuracy": self.accuracy, "f1": self.f1}, on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2, weight_decay=0.0)


def main() -> None:
    L.seed_everything(0)
    train, valid = (DataLoader(TensorDataset(*part), batch_size=32) for part in splits())
    saves = [
        ModelCheckpoint(every_n_train_steps=5, monitor="step", mode="max", save_top_k=2),
        ModelCheckpoint(monitor="f1", mode="max", filename="best"),
    ]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=saves, logger=CSVLogger("logs"), log_every_n_steps=1)
    trainer.fit(Job(), train, valid)


if __name__ == "__main__":
    main()
