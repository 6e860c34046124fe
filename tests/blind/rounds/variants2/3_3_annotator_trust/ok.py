import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(17)
CLASSES, DIM = 4, 8
prototypes = 1.3 * torch.randn(CLASSES, DIM)


def collect(n, careless):
    """Rows with labels by annotators; the last column of the table is the trust in the annotator."""
    truth = torch.randint(0, CLASSES, (n,))
    x = prototypes[truth] + torch.randn(n, DIM)
    sloppy = torch.rand(n) < careless
    label = torch.where(sloppy, (truth + 1) % CLASSES, truth)
    trust = torch.where(sloppy, 0.05, 1.0) * (0.8 + 0.4 * torch.rand(n))
    return torch.cat([x, trust.unsqueeze(1)], dim=1), label


def unpack(table):
    return table[:, :DIM], table[:, DIM:]


def weighted_objective(logits, label, trust):
    per_sample = F.cross_entropy(logits, label, reduction="none", label_smoothing=0.02)
    weighted = per_sample * trust.squeeze(1)
    return weighted.mean()


train_table, train_label = collect(1600, careless=0.6)
val_table, val_label = collect(500, careless=0.0)
model = nn.Sequential(nn.Linear(DIM, 48), nn.GELU(), nn.Linear(48, CLASSES))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
MICRO, ACCUMULATE = 16, 4

for epoch in range(6):
    model.train()
    chunks = torch.randperm(len(train_table)).split(MICRO)
    running = 0.0
    optimizer.zero_grad()
    for k, idx in enumerate(chunks, 1):
        x, trust = unpack(train_table[idx])
        loss = weighted_objective(model(x), train_label[idx], trust)
        (loss / ACCUMULATE).backward()
        running += loss.item()
        if k % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        x, _ = unpack(val_table)
        accuracy = (model(x).argmax(1) == val_label).float().mean().item()
    print(f"epoch {epoch} objective {running / len(chunks):.4f} val accuracy {accuracy:.3f}")
