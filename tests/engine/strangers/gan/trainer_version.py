import torch
from torch.utils.data import TensorDataset, default_collate
from transformers import Trainer, TrainingArguments, set_seed

import job


class GanTrainer(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        generator, critic = model["generator"], model["critic"]
        real = inputs["x"]
        fake = generator(job.noise(len(real), self.state.global_step))
        loss_c = job.critic_loss(critic, real, fake)
        self.critic_optimizer.zero_grad()
        loss_c.backward()
        self.critic_optimizer.step()  # not in the checkpoints: Trainer saves one optimizer
        loss = job.generator_loss(critic, fake)
        loss.backward()
        return loss.detach()

    def evaluate(self, *words, **others):
        found = {"eval_distance": job.distance(self.model["generator"], job.points[320:]).item()}
        self.log(found)
        return found


def collate(rows):
    return {"x": default_collate(rows)[0]}


def main() -> list[float]:
    set_seed(0)
    models = torch.nn.ModuleDict(job.networks())
    opt_g, opt_c = (torch.optim.Adam(models[name].parameters(), lr=1e-2, betas=(0.5, 0.9)) for name in models)
    arguments = TrainingArguments(
        "out", num_train_epochs=4, per_device_train_batch_size=32, learning_rate=1e-2, lr_scheduler_type="constant", max_grad_norm=0.0,
        train_sampling_strategy="sequential", logging_steps=1, eval_strategy="steps", eval_steps=5, save_steps=5, save_total_limit=2,
        load_best_model_at_end=True, metric_for_best_model="distance", greater_is_better=False, report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = GanTrainer(models, arguments, collate, TensorDataset(job.points[:320]), TensorDataset(job.points[320:]), optimizers=(opt_g, None))
    trainer.critic_optimizer = opt_c
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]
