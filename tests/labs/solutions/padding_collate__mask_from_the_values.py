# hint: 0 is a token too
import torch
from torch.nn.utils.rnn import pad_sequence

PADDING = 0


def collate(samples):
    tokens = pad_sequence([tokens for tokens, _ in samples], batch_first=True, padding_value=PADDING)
    mask = tokens != PADDING
    return {"tokens": tokens, "mask": mask, "labels": torch.tensor([label for _, label in samples])}
