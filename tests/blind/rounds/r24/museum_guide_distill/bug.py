# Museum audio guide: predict which of 8 tours a visitor should be offered next, from 24 listening features.
# A wide teacher is trained on the surveyed visitors; a small student for the handheld
# device is distilled on the (much larger) log of visitors without a survey answer.
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

N_SURVEY, N_LOG, N_VAL, N_FEAT, N_TOUR = 1500, 3000, 1200, 24, 8
TEMP, ALPHA = 3.0, 0.85


def make_visitors(seed=21):
    rng = np.random.default_rng(seed)
    n = N_SURVEY + N_LOG + N_VAL
    taste = rng.normal(size=(n, 6))
    dwell = np.exp(0.4 * taste[:, :4] + rng.normal(0, 0.2, (n, 4)))
    mix = rng.normal(size=(6, 20))
    skips = np.tanh(taste @ mix / 2) + rng.normal(0, 0.3, (n, 20))
    x = np.concatenate([dwell, skips], 1)
    w1, w2 = rng.normal(size=(6, 20)), rng.normal(size=(20, N_TOUR))
    score = np.tanh(taste @ w1 / 1.5) @ w2 + rng.gumbel(0, 0.6, (n, N_TOUR))
    y = score.argmax(1)
    mu, sd = x[:N_SURVEY].mean(0), x[:N_SURVEY].std(0)
    x = torch.tensor((x - mu) / sd, dtype=torch.float32)
    return x, torch.tensor(y)


class Visitors(Dataset):
    def __init__(self, x, y):
        self.x, self.y, self.soft = x, y, None

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        if self.soft is None:
            return self.x[i], self.y[i]
        return self.x[i], self.y[i], self.soft[i]


def mlp(width, depth, p):
    layers, d = [], N_FEAT
    for _ in range(depth):
        layers += [nn.Linear(d, width), nn.ReLU(), nn.Dropout(p)]
        d = width
    return nn.Sequential(*layers, nn.Linear(d, N_TOUR))


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    return (model(data.x).argmax(1) == data.y).float().mean().item()


@torch.no_grad()
def cache_soft_labels(teacher, loader):
    teacher.eval()
    out = [teacher(xb) for xb, _ in loader]
    return torch.cat(out)


def train_teacher(train, epochs=30):
    model = mlp(256, 2, 0.3)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    for _ in range(epochs):
        model.train()
        for xb, yb in DataLoader(train, batch_size=64, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(xb), yb).backward()
            opt.step()
    return model


def distill(student, data, loader, epochs=25):
    opt = torch.optim.Adam(student.parameters(), lr=2e-3)
    for epoch in range(epochs):
        student.train()
        tot = 0.0
        for xb, yb, tb in loader:
            s = student(xb)
            soft = F.kl_div(F.log_softmax(s / TEMP, 1), F.softmax(tb / TEMP, 1), reduction="batchmean") * TEMP ** 2
            has_label = yb >= 0
            hard = F.cross_entropy(s[has_label], yb[has_label]) if has_label.any() else s.sum() * 0
            loss = ALPHA * soft + (1 - ALPHA) * hard
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(xb)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:2d}  distill loss {tot / len(data):.4f}  val acc {accuracy(student, VAL):.3f}")
    return student


torch.manual_seed(0)
X, Y = make_visitors()
a, b = N_SURVEY, N_SURVEY + N_LOG
SURVEY, VAL = Visitors(X[:a], Y[:a]), Visitors(X[b:], Y[b:])
TRANSFER = Visitors(X[:b], torch.cat([Y[:a], torch.full((N_LOG,), -1)]))

teacher = train_teacher(SURVEY)
print(f"teacher val acc {accuracy(teacher, VAL):.3f}")

train_loader = DataLoader(TRANSFER, batch_size=64, shuffle=True)
TRANSFER.soft = cache_soft_labels(teacher, train_loader)
student = distill(mlp(32, 1, 0.0), TRANSFER, train_loader)
print(f"student val acc {accuracy(student, VAL):.3f}")
