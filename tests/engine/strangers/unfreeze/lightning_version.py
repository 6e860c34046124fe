import lightning as L
import torch
import torch.nn.functional as F
from job import Net, inputs, labels
from lightning.pytorch.callbacks import BaseFinetuning, Callback, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class Unfreeze(BaseFinetuning):
    def freeze_before_training(self, module):
        self.freeze(module.net.blocks)

    def finetune_function(self, module, epoch, optimizer):
        if 1 <= epoch <= 3:
            self.unfreeze_and_add_param_group(module.net.blocks[3 - epoch], optimizer, lr=0.02)


class StopWhenFlat(Callback):
    """Ends the run when two evaluations in a row (after step 20) gain less than 1 % of the best loss."""

    def __init__(self):
        self.best, self.flat = float("inf"), 0

    def on_validation_epoch_end(self, trainer, module):
        if trainer.sanity_checking:
            return
        loss = trainer.callback_metrics["valid_loss"].item()
        self.flat = 0 if loss < 0.99 * self.best else self.flat + 1
        self.best = min(self.best, loss)
        trainer.should_stop = self.flat >= 2 and trainer.global_step > 20

    def state_dict(self):
        return {"best": self.best, "flat": self.flat}

    def load_state_dict(self, state):
        self.best, self.flat = state["best"], state["flat"]


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def training_step(self, batch, index):
        loss = F.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        output = self.net(batch[0])
        self.log("valid_loss", F.cross_entropy(output, batch[1]), batch_size=len(output))
        self.log("accuracy", (output.argmax(1) == batch[1]).float().mean(), batch_size=len(output))

    def configure_optimizers(self):
        return torch.optim.Adam(filter(lambda p: p.requires_grad, self.parameters()), lr=0.02)


def main() -> None:
    L.seed_everything(0)
    checkpoints = [ModelCheckpoint(every_n_train_steps=5, save_top_k=-1), ModelCheckpoint(filename="best", monitor="accuracy", mode="max")]
    trainer = L.Trainer(
        max_epochs=12, accelerator="cpu", logger=CSVLogger("logs", flush_logs_every_n_steps=1),
        callbacks=[Unfreeze(), StopWhenFlat(), *checkpoints], log_every_n_steps=1,
    )
    train, valid = TensorDataset(inputs[:240], labels[:240]), TensorDataset(inputs[240:], labels[240:])
    trainer.fit(Module(), DataLoader(train, batch_size=48), DataLoader(valid, batch_size=80))
