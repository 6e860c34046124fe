from job import TokenClassifier, train, valid
from transformers import Trainer, TrainingArguments, set_seed


class Classifier(TokenClassifier):
    def forward(self, input_ids, attention_mask=None, labels=None):
        return vars(super().forward(input_ids, attention_mask, labels))  # Trainer takes a dict or a ModelOutput


def metrics(answers):
    kept = answers.label_ids != -100
    return {"accuracy": float((answers.predictions.argmax(-1) == answers.label_ids)[kept].mean())}


def main() -> list[float]:
    set_seed(0)
    arguments = TrainingArguments(
        "out", num_train_epochs=5, per_device_train_batch_size=32, learning_rate=1e-2, lr_scheduler_type="constant", max_grad_norm=0.0,
        train_sampling_strategy="sequential", logging_steps=1, eval_strategy="steps", eval_steps=5, save_steps=5, save_total_limit=2,
        load_best_model_at_end=True, metric_for_best_model="loss", greater_is_better=False, report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(Classifier(), arguments, train_dataset=train, eval_dataset=valid, compute_metrics=metrics)
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]
