"""Wear stage of pumps from raw vibration statistics; the averaged weights are the ones we ship."""
import copy
import torch
from torch import nn

STAGES, FEATS = 5, 12


class AveragedModel:
    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.model = copy.deepcopy(model).eval()
        for p in self.model.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, source):
        for avg, p in zip(self.model.parameters(), source.parameters()):
            avg.mul_(self.decay).add_(p, alpha=1 - self.decay)
        for avg, b in zip(self.model.buffers(), source.buffers()):
            avg.copy_(b)


def measure(n, proto, scale, shift):
    stage = torch.randint(0, STAGES, (n,))
    feats = (proto[stage] + 0.8 * torch.randn(n, FEATS)) * scale + shift
    return feats, stage


def make_net():
    return nn.Sequential(
        nn.BatchNorm1d(FEATS),
        nn.Linear(FEATS, 40), nn.BatchNorm1d(40), nn.ReLU(),
        nn.Linear(40, 40), nn.BatchNorm1d(40), nn.ReLU(),
        nn.Linear(40, STAGES),
    )


def accuracy(net, x, y):
    was_training = net.training
    net.eval()
    with torch.no_grad():
        acc = (net(x).argmax(1) == y).float().mean().item()
    net.train(was_training)
    return acc


def main():
    torch.manual_seed(41)
    proto = torch.randn(STAGES, FEATS)
    scale = torch.rand(FEATS) * 3 + 0.5
    shift = torch.randn(FEATS) * 3
    x, y = measure(1500, proto, scale, shift)
    xt, yt = measure(600, proto, scale, shift)
    net = make_net()
    shipped = AveragedModel(net)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    crit = nn.CrossEntropyLoss()
    for epoch in range(10):
        for rows in torch.randperm(len(x)).split(75):
            opt.zero_grad()
            loss = crit(net(x[rows]), y[rows])
            loss.backward()
            opt.step()
            shipped.update(net)
        if epoch % 3 == 0:
            print(f"epoch {epoch} loss {loss.item():.3f}")
    print(f"shipped model test accuracy {accuracy(shipped.model, xt, yt):.3f}")


if __name__ == "__main__":
    main()
