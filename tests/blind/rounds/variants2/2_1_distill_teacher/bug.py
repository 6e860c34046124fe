import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(5)
K, D, TEMP = 5, 12, 2.0
centers = torch.randn(K, D) * 1.1


def draw(n):
    y = torch.randint(0, K, (n,))
    return centers[y] + torch.randn(n, D), y


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(*sizes[-2:]))


def soft_terms(student_logits, teacher_logits):
    s = F.log_softmax(student_logits / TEMP, dim=1)
    t = F.softmax(teacher_logits / TEMP, dim=1)
    return s, t


def loop(steps, step_fn, report):
    for i in range(1, steps + 1):
        value = step_fn()
        if i % 50 == 0:
            print(report(i, value))


def supervised(model, x, y):
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step():
        rows = torch.randint(0, len(x), (64,))
        loss = F.cross_entropy(model(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item()
    return step


def distilled(model, teacher, x):
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step():
        rows = torch.randint(0, len(x), (64,))
        with torch.no_grad():
            guide = teacher(x[rows])
        s, t = soft_terms(model(x[rows]), guide)
        loss = F.kl_div(s, t, reduction="batchmean", log_target=True) * TEMP ** 2
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item()
    return step


def scorer(name, model, x, y):
    def report(i, value):
        model.eval()
        with torch.no_grad():
            out = model(x)
        model.train()
        return f"{name} {i} loss {value:.4f} val_acc {(out.argmax(1) == y).float().mean():.3f} val_nll {F.cross_entropy(out, y):.3f}"
    return report


x_tr, y_tr = draw(2000)
x_va, y_va = draw(800)
teacher, student = mlp(D, 64, 64, K), mlp(D, 16, K)
loop(150, supervised(teacher, x_tr, y_tr), scorer("teacher", teacher, x_va, y_va))
teacher.eval()
loop(250, distilled(student, teacher, x_tr), scorer("student", student, x_va, y_va))
