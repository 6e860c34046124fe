import torch
from torch.nn.utils.rnn import pad_sequence

PADDING = 0


def collate(samples):
    lengths = torch.tensor([len(tokens) for tokens, _ in samples])
    tokens = pad_sequence([tokens for tokens, _ in samples], batch_first=True, padding_value=PADDING)
    mask = torch.arange(tokens.shape[1]) < lengths[:, None]
    return {"tokens": tokens, "mask": mask, "labels": torch.tensor([label for _, label in samples])}
