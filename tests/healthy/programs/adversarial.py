"""Adversarial training: PGD examples made in eval mode, learned in train mode; clean and robust accuracy."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

EPS, ALPHA, STEPS = 0.3, 0.1, 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 64)
        self.bn = nn.BatchNorm1d(64)
        self.drop = nn.Dropout(0.2)
        self.fc2 = nn.Linear(64, 4)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.bn(self.fc1(x)))))


def pgd(model, x, y):
    model.eval()
    x_adv = x.detach() + torch.empty_like(x).uniform_(-EPS, EPS)
    for _ in range(STEPS):
        x_adv.requires_grad_()
        with torch.enable_grad():
            loss = F.cross_entropy(model(x_adv), y)
        grad = torch.autograd.grad(loss, [x_adv])[0]
        x_adv = x_adv.detach() + ALPHA * torch.sign(grad.detach())
        x_adv = torch.min(torch.max(x_adv, x - EPS), x + EPS)
    model.train()
    return x_adv.detach()


def fgsm(model, x, y, epsilon):
    x = x.clone().requires_grad_(True)
    output = model(x)
    loss = F.nll_loss(F.log_softmax(output, dim=1), y)
    model.zero_grad()
    loss.backward()
    return (x + epsilon * x.grad.data.sign()).detach()


def train(model, loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        adversarial = pgd(model, data, target)
        optimizer.zero_grad()
        loss = 0.5 * F.cross_entropy(model(data), target) + 0.5 * F.cross_entropy(model(adversarial), target)
        loss.backward()
        optimizer.step()
        if batch_idx % 4 == 0:
            print(f"epoch {epoch} [{batch_idx}/{len(loader)}] {loss.item():.3f}")


def test(model, loader, epsilon):
    model.eval()
    clean = robust = 0
    for data, target in loader:
        with torch.no_grad():
            clean += (model(data).argmax(1) == target).sum().item()
        perturbed = fgsm(model, data, target, epsilon)
        with torch.no_grad():
            robust += (model(perturbed).argmax(1) == target).sum().item()
    n = len(loader.dataset)
    return clean / n, robust / n


def trades_loss(model, x, y, optimizer, beta=2.0):
    model.eval()
    x_adv = x.detach() + 0.001 * torch.randn_like(x)
    with torch.no_grad():
        natural = F.softmax(model(x), dim=1)
    for _ in range(2):
        x_adv.requires_grad_()
        loss_kl = F.kl_div(F.log_softmax(model(x_adv), dim=1), natural, reduction="sum")
        x_adv = (x_adv + ALPHA * torch.autograd.grad(loss_kl, x_adv)[0].sign()).detach()
    model.train()
    optimizer.zero_grad()
    logits = model(x)
    robust = F.kl_div(F.log_softmax(model(x_adv), dim=1), F.softmax(logits, dim=1), reduction="batchmean")
    return F.cross_entropy(logits, y) + beta * robust


torch.manual_seed(19)
centres = torch.randn(4, 20)
y = torch.randint(0, 4, (512,))
x = centres[y] + 0.5 * torch.randn(512, 20)
train_loader = DataLoader(TensorDataset(x[:384], y[:384]), batch_size=48, shuffle=True)
test_loader = DataLoader(TensorDataset(x[384:], y[384:]), batch_size=64)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(2):
    train(model, train_loader, optimizer, epoch)
    print(test(model, test_loader, 0.2))
for data, target in train_loader:
    trades_loss(model, data, target, optimizer).backward()
    optimizer.step()
print(test(model, test_loader, 0.2))
