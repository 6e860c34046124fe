import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class KernelNet(nn.Module):
    """Ten Gaussian bumps in four dimensions with learned places and widths, then a linear layer."""

    def __init__(self, d=4, kernels=10, classes=4):
        super().__init__()
        self.centres = nn.Parameter(torch.rand(kernels, d) * 2 - 1)
        self.log_width = nn.Parameter(torch.full((kernels,), -0.5))
        self.readout = nn.Linear(kernels, classes)

    def forward(self, x):
        d2 = (x[:, None, :] - self.centres).pow(2).sum(-1)
        return self.readout(torch.exp(-d2 * torch.exp(-2 * self.log_width)))


def sample(n, spots):
    which = torch.randint(0, len(spots), (n,))
    return TensorDataset(spots[which] + 0.25 * torch.randn(n, spots.size(1)), which % 4)


def loop(model, loader, optimizer=None):
    training = optimizer is not None
    model.train(training)
    loss_sum, right, seen = 0.0, 0, 0
    with torch.set_grad_enabled(training):
        for x, y in loader:
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            if training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss_sum += float(loss.detach()) * len(y)
            right += int((out.argmax(-1) == y).sum())
            seen += len(y)
    return loss_sum / seen, right / seen


if __name__ == "__main__":
    torch.manual_seed(77)
    spots = torch.randn(10, 4) * 1.2
    train = DataLoader(sample(2000, spots), batch_size=64, shuffle=True)
    valid = DataLoader(sample(500, spots), batch_size=250)
    model = KernelNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for epoch in range(10):
        tr = loop(model, train, optimizer)
        va = loop(model, valid)
        print("epoch %d train loss %.3f acc %.3f valid loss %.3f acc %.3f" % (epoch, *tr, *va))
