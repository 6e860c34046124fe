"""Seven-segment digit reader with an averaged copy of the weights for evaluation."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

SEGMENTS = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
LINES = {"a": (1, slice(2, 6)), "g": (5, slice(2, 6)), "d": (9, slice(2, 6)),
         "f": (slice(1, 6), 1), "b": (slice(1, 6), 6), "e": (slice(5, 10), 1), "c": (slice(5, 10), 6)}


def render(n, gen):
    y = torch.randint(0, 10, (n,), generator=gen)
    glyph = torch.zeros(10, 12, 10)
    for d, segs in enumerate(SEGMENTS):
        for s in segs:
            glyph[d][LINES[s]] = 1.0
    x = glyph[y] * (60 + 40 * torch.rand(n, 1, 1, generator=gen))
    x = x + 90 + 38 * torch.randn(x.shape, generator=gen)
    return x.unsqueeze(1), y


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn0 = nn.BatchNorm2d(1)
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(12)
        self.conv2 = nn.Conv2d(12, 24, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(24)
        self.fc = nn.Linear(24 * 6 * 5, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(self.bn0(x))))
        x = F.max_pool2d(x, 2)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.flatten(1))


class WeightAverage:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).eval()
        for p in self.model.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for avg, cur in zip(self.model.parameters(), model.parameters()):
            avg.mul_(self.decay).add_(cur, alpha=1 - self.decay)
        for avg, cur in zip(self.model.buffers(), model.buffers()):
            avg.copy_(cur)


@torch.no_grad()
def error_rate(model, x, y):
    wrong = sum((model(xb).argmax(1) != yb).sum().item() for xb, yb in zip(x.split(200), y.split(200)))
    return wrong / len(y)


def main():
    torch.manual_seed(14)
    gen = torch.Generator().manual_seed(14)
    x, y = render(2000, gen)
    x_test, y_test = render(800, gen)
    model = ConvNet()
    average = WeightAverage(model, decay=0.98)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(6):
        model.train()
        losses = []
        for idx in torch.randperm(len(x)).split(32):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            average.update(model)
            losses.append(loss.item())
        print(f"epoch {epoch + 1} loss {sum(losses) / len(losses):.3f}")
    print(f"test error of the averaged model {error_rate(average.model, x_test, y_test):.3f}")


if __name__ == "__main__":
    main()
