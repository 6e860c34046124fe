import lightning as L
import torch
from job import VOCABULARY, Net, splits, token_sum
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy


class Job(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.model, self.mean = Net(), MeanMetric()
        self.accuracy = MulticlassAccuracy(VOCABULARY, average="micro", ignore_index=-100)

    def training_step(self, batch, index):
        optimizer, count, mean = self.optimizers(), (batch[1] != -100).sum(), 0.0
        optimizer.zero_grad()
        for inputs, targets in zip(*(part.chunk(4) for part in batch)):
            loss = token_sum(self.model(inputs), targets)[0] / count
            self.manual_backward(loss)
            mean += loss.detach()
        optimizer.step()
        self.log("loss", mean)

    def validation_step(self, batch, index):
        output = self.model(batch[0])
        total, count = token_sum(output, batch[1])
        self.mean(total / count, count)
        self.accuracy(output.flatten(0, 1), batch[1].flatten())
        self.log_dict({"valid_loss": self.mean, "accuracy": self.accuracy}, on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2, weight_decay=0.0)


def main() -> None:
    L.seed_everything(0)
    train, valid = (DataLoader(TensorDataset(*part), batch_size=32) for part in splits())
    saves = [
        ModelCheckpoint(every_n_train_steps=5, monitor="step", mode="max", save_top_k=2),
        ModelCheckpoint(monitor="accuracy", mode="max", filename="best"),
    ]
    trainer = L.Trainer(max_epochs=6, accelerator="cpu", callbacks=saves, logger=CSVLogger("logs"), log_every_n_steps=1)
    trainer.fit(Job(), train, valid)


if __name__ == "__main__":
    main()
