import lightning as L
import torch
from job import TokenClassifier, train, valid
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = TokenClassifier()

    def training_step(self, batch, index):
        loss = self.net(**batch).loss
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output, kept = self.net(**batch), batch["labels"] != -100
        hits = (output.logits.argmax(-1) == batch["labels"])[kept].float()
        self.log_dict({"valid_loss": output.loss, "accuracy": hits.mean()}, batch_size=int(kept.sum()))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    L.seed_everything(0)
    checkpoints = [ModelCheckpoint(every_n_train_steps=5, save_top_k=-1), ModelCheckpoint(filename="best", monitor="valid_loss")]
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", logger=CSVLogger("logs", flush_logs_every_n_steps=1), callbacks=checkpoints, log_every_n_steps=1)
    trainer.fit(Module(), DataLoader(train, batch_size=32), DataLoader(valid, batch_size=32))
