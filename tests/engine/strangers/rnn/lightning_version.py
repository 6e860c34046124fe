import lightning as L
import torch
import torch.nn.functional as F
from job import Recurrent, cut, train, valid
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.state, self.valid_state = Recurrent(), None, None

    def on_train_epoch_start(self):
        self.state = None

    def training_step(self, batch, index):
        output, state = self.net(batch[0], self.state)
        self.state = state.detach()
        loss = F.cross_entropy(output.flatten(0, 1), batch[1].flatten())
        self.log("loss", loss)
        return loss

    def on_validation_epoch_start(self):
        self.valid_state = None

    def validation_step(self, batch, index):
        output, self.valid_state = self.net(batch[0], self.valid_state)
        self.log("valid_loss", F.cross_entropy(output.flatten(0, 1), batch[1].flatten()), batch_size=batch[1].numel())
        self.log("accuracy", (output.argmax(-1) == batch[1]).float().mean(), batch_size=batch[1].numel())

    def on_save_checkpoint(self, checkpoint):
        checkpoint["state"] = self.state

    def on_load_checkpoint(self, checkpoint):
        self.state = checkpoint["state"]

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    L.seed_everything(0)
    checkpoints = [ModelCheckpoint(every_n_train_steps=5, save_top_k=-1), ModelCheckpoint(filename="best", monitor="valid_loss")]
    trainer = L.Trainer(max_epochs=4, accelerator="cpu", logger=CSVLogger("logs", flush_logs_every_n_steps=1), callbacks=checkpoints, log_every_n_steps=1)
    trainer.fit(Module(), DataLoader(cut(train), batch_size=None), DataLoader(cut(valid, 4), batch_size=None))
