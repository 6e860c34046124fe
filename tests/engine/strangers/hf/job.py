"""A token classifier with the interface of a model of transformers."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Output:
    loss: torch.Tensor | None
    logits: torch.Tensor


class TokenClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.score = nn.Embedding(20, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, input_ids, attention_mask=None, labels=None):
        embedded = self.embed(input_ids)
        if attention_mask is not None:
            embedded = embedded * attention_mask[..., None]
        logits = self.score(self.inner(embedded)[0])
        return Output(None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits)


def rows(count, seed):
    draws = torch.Generator().manual_seed(seed)
    for _ in range(count):
        tokens, kept = torch.randint(1, 20, (12,), generator=draws), int(torch.randint(2, 13, (1,), generator=draws))
        mask = (torch.arange(12) < kept).long()
        labels = (tokens + tokens.roll(1)) % 3
        yield {"input_ids": tokens * mask, "attention_mask": mask, "labels": labels.where(mask.bool(), -100)}


train, valid = list(rows(200, 1)), list(rows(50, 2))
