import torch
import torch.nn.functional as F
from torch import nn


def splits():
    draws = torch.Generator().manual_seed(0)
    images = torch.sigmoid(torch.randn(300, 3, generator=draws) @ torch.randn(3, 16, generator=draws))
    return images[:240], images[240:]


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(16, 8), nn.Linear(4, 16)
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        drawn = mean
        if self.training:
            noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(int(self.calls)))
            drawn = mean + noise * (log_variance / 2).exp()
            self.calls += 1
        return {"image": self.decoder(drawn), "mean": mean, "log_variance": log_variance}


def parts(output, images):
    mean, log_variance = output["mean"], output["log_variance"]
    reconstruction = F.mse_loss(output["image"], images, reduction="none").sum(1)
    return reconstruction, 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).sum(1)


def beta(step, total_steps):
    return min(1.0, 2 * step / total_steps)
