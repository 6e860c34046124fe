import torch
from torch import nn

draws = torch.Generator().manual_seed(1)
lengths = torch.randint(3, 30, (200,), generator=draws).tolist()
texts = [torch.randint(1, 20, (length,), generator=draws) for length in lengths]
samples = [(text, int((text < 8).float().mean() > 0.37)) for text in texts]
train, valid = samples[:160], samples[160:]


def batches(epoch):
    """Samples of similar length share a batch; the batches come in an order of the epoch."""
    by_length = torch.tensor(lengths[:160]).argsort(stable=True).split(16)
    return [by_length[i].tolist() for i in torch.randperm(10, generator=torch.Generator().manual_seed(epoch))]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.score = nn.Embedding(20, 16, padding_idx=0), nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, tokens):
        inner = self.inner(self.embed(tokens)).tanh() * (tokens > 0)[..., None]
        return self.score(inner.sum(1) / (tokens > 0).sum(1, keepdim=True))
