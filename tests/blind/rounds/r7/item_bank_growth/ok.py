"""Adaptive-testing IRT model: calibrate the spring item bank, then add the autumn items and continue."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(17)
N_STUDENTS, OLD_ITEMS, NEW_ITEMS, DIM = 400, 60, 60, 4


def simulate():
    n_items = OLD_ITEMS + NEW_ITEMS
    theta = torch.randn(N_STUDENTS, DIM)
    disc = torch.randn(n_items, DIM).abs() * 0.8
    easy = 1.5 * torch.randn(n_items)

    def answers(n, low, high):
        s = torch.randint(N_STUDENTS, (n,))
        i = torch.randint(low, high, (n,))
        p = torch.sigmoid((theta[s] * disc[i]).sum(1) + easy[i])
        return s, i, torch.bernoulli(p)

    return answers(14000, 0, OLD_ITEMS), answers(20000, 0, n_items), answers(4000, OLD_ITEMS, n_items)


class ItemResponse(nn.Module):
    def __init__(self, n_students, n_items, dim):
        super().__init__()
        self.student = nn.Embedding(n_students, dim)
        self.item = nn.Embedding(n_items, dim + 1)
        nn.init.normal_(self.student.weight, std=0.3)
        nn.init.normal_(self.item.weight, std=0.3)

    def forward(self, s, i):
        it = self.item(i)
        return (self.student(s) * it[:, :-1]).sum(1) + it[:, -1]

    def add_items(self, count):
        old = self.item.weight.data
        grown = nn.Embedding(len(old) + count, old.size(1))
        nn.init.normal_(grown.weight, std=0.3)
        grown.weight.data[: len(old)] = old
        self.item = grown


def make_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2)


def run_phase(name, model, optimizer, rows, epochs, batch=256):
    students, items, correct = rows
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(correct)).split(batch):
            logit = model(students[idx], items[idx])
            penalty = 0.02 * (model.student(students[idx]).pow(2).mean() + model.item(items[idx]).pow(2).mean())
            nll = F.binary_cross_entropy_with_logits(logit, correct[idx])
            optimizer.zero_grad()
            (nll + penalty).backward()
            optimizer.step()
            total += nll.item() * len(idx)
        print(f"{name} epoch {epoch}  nll {total / len(correct):.4f}")


@torch.no_grad()
def holdout(model, rows):
    model.eval()
    s, i, y = rows
    logit = model(s, i)
    return F.binary_cross_entropy_with_logits(logit, y).item(), ((logit > 0) == (y > 0)).float().mean().item()


spring, autumn, autumn_test = simulate()
model = ItemResponse(N_STUDENTS, OLD_ITEMS, DIM)
optimizer = make_optimizer(model)
run_phase("spring", model, optimizer, spring, epochs=6)

model.add_items(NEW_ITEMS)
optimizer = make_optimizer(model)
run_phase("autumn", model, optimizer, autumn, epochs=6)

nll, acc = holdout(model, autumn_test)
base = max(autumn_test[2].mean().item(), 1 - autumn_test[2].mean().item())
print(f"new items, held-out answers: nll {nll:.4f}  accuracy {acc:.3f}  (majority {base:.3f})")
