import lightning as L
import torch
from job import Vae, beta, parts, splits
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class Job(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Vae()

    def losses(self, batch, prefix):
        reconstruction, kl = (part.mean() for part in parts(self.model(batch[0]), batch[0]))
        weight = beta(self.global_step, self.trainer.estimated_stepping_batches)
        loss = reconstruction + weight * kl
        self.log_dict({f"{prefix}loss": loss, f"{prefix}reconstruction": reconstruction, f"{prefix}kl": kl, f"{prefix}beta": weight})
        return loss

    def training_step(self, batch, index):
        return self.losses(batch, "")

    def validation_step(self, batch, index):
        self.losses(batch, "valid_")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2, weight_decay=0.0)


def main() -> None:
    L.seed_everything(0)
    train, valid = (DataLoader(TensorDataset(part), batch_size=32) for part in splits())
    saves = [
        ModelCheckpoint(every_n_train_steps=5, monitor="step", mode="max", save_top_k=2),
        ModelCheckpoint(monitor="valid_loss", filename="best"),
    ]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", callbacks=saves, logger=CSVLogger("logs"), log_every_n_steps=1)
    trainer.fit(Job(), train, valid)


if __name__ == "__main__":
    main()
