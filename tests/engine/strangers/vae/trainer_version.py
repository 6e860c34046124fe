import torch
from job import Vae, beta, parts, splits
from torch.utils.data import TensorDataset, default_collate
from transformers import Trainer, TrainingArguments, set_seed


class VaeTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        output = model(inputs["x"])
        reconstruction, kl = (part.mean() for part in parts(output, inputs["x"]))
        loss = reconstruction + beta(self.state.global_step, self.state.max_steps) * kl
        return (loss, {"loss": loss, "parts": torch.stack([reconstruction, kl])[None]}) if return_outputs else loss


def collate(rows):
    return dict(zip(("x", "labels"), default_collate(rows)))


def metrics(answers):
    reconstruction, kl = answers.predictions.mean(0)
    return {"reconstruction": float(reconstruction), "kl": float(kl)}


def main() -> list[float]:
    set_seed(0)
    train, valid = (TensorDataset(part, part) for part in splits())
    arguments = TrainingArguments(
        "out", num_train_epochs=5, per_device_train_batch_size=32, learning_rate=1e-2, lr_scheduler_type="constant", max_grad_norm=0.0,
        train_sampling_strategy="sequential", logging_steps=1, eval_strategy="steps", eval_steps=5, save_steps=5, save_total_limit=2,
        load_best_model_at_end=True, metric_for_best_model="loss", greater_is_better=False, report_to=[], use_cpu=True, disable_tqdm=True,
        per_device_eval_batch_size=64, label_names=["labels"],
    )  # fmt: skip
    trainer = VaeTrainer(Vae(), arguments, collate, train, valid, compute_metrics=metrics)
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]
