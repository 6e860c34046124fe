# Fine-tune a small pretrained trunk on a second catalogue of flower descriptors.
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
DIM, SRC_CLASSES, DST_CLASSES = 24, 12, 6
mixing = torch.randn(8, DIM)


def sample(centres, per_class):
    k = centres.shape[0]
    lab = torch.arange(k).repeat_interleave(per_class)
    z = centres[lab] + 0.45 * torch.randn(len(lab), centres.shape[1])
    x = torch.tanh(z @ mixing * 0.6) + 0.25 * torch.randn(len(lab), DIM)
    order = torch.randperm(len(lab))
    return x[order], lab[order]


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(DIM, 96)
        self.fc2 = nn.Linear(96, 32)

    def forward(self, x):
        return F.relu(self.fc2(F.relu(self.fc1(x))))


class FlowerNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.trunk = Trunk()
        self.head = nn.Linear(32, n_classes)

    def forward(self, x):
        return self.head(self.trunk(x))


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


def fit(net, optimizer, x, y, epochs, tag):
    for ep in range(epochs):
        net.train()
        perm = torch.randperm(len(x))
        running = 0.0
        for i in range(0, len(x), 50):
            idx = perm[i:i + 50]
            loss = F.cross_entropy(net(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item() * len(idx)
        if (ep + 1) % 5 == 0:
            print(f"[{tag}] epoch {ep + 1} loss {running / len(x):.3f}")


src_centres = torch.randn(SRC_CLASSES, 8)
dst_centres = torch.randn(DST_CLASSES, 8)
xs, ys = sample(src_centres, 200)
xt, yt = sample(dst_centres, 40)
xv, yv = sample(dst_centres, 150)

net = FlowerNet(SRC_CLASSES)
fit(net, torch.optim.Adam(net.parameters(), lr=2e-3), xs, ys, 15, "pretrain")
print("source train accuracy", round(accuracy(net, xs, ys), 3))

for p in net.trunk.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=1e-4)
net.head = nn.Linear(32, DST_CLASSES)
fit(net, optimizer, xt, yt, 30, "finetune")
print("target test accuracy", round(accuracy(net, xv, yv), 3))
