import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import job


class Gan(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.models = torch.nn.ModuleDict(job.networks())

    def configure_optimizers(self):
        return [torch.optim.Adam(self.models[name].parameters(), lr=1e-2, betas=(0.5, 0.9)) for name in self.models]

    def training_step(self, batch, index):
        (real,), (opt_g, opt_c) = batch, self.optimizers()
        generator, critic = self.models["generator"], self.models["critic"]
        fake = generator(job.noise(len(real), self.global_step // 2))
        loss_c = job.critic_loss(critic, real, fake)
        opt_c.zero_grad()
        self.manual_backward(loss_c)
        opt_c.step()
        self.toggle_optimizer(opt_g)
        loss = job.generator_loss(critic, fake)
        opt_g.zero_grad()
        self.manual_backward(loss)
        opt_g.step()
        self.untoggle_optimizer(opt_g)
        self.log_dict({"loss": loss, "critic": loss_c})

    def validation_step(self, batch, index):
        self.log("distance", job.distance(self.models["generator"], batch[0]))


def main() -> None:
    L.seed_everything(0)
    saves = [ModelCheckpoint("checkpoints", every_n_train_steps=10, save_top_k=-1), ModelCheckpoint("checkpoints", "best", monitor="distance")]
    trainer = L.Trainer(max_epochs=4, accelerator="cpu", callbacks=saves, logger=CSVLogger("."), log_every_n_steps=1)
    trainer.fit(Gan(), DataLoader(TensorDataset(job.points[:320]), 32), DataLoader(TensorDataset(job.points[320:]), 80))
