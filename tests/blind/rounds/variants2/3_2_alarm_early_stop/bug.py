import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(31)


def sensors(n):
    t = torch.linspace(0, 6.28, 48)
    phase = 6.28 * torch.rand(n, 1)
    wave = torch.sin(3 * t + phase) + 0.6 * torch.randn(n, 48)
    alarm = torch.rand(n) < 0.4
    start = torch.randint(0, 40, (n,))
    for row in torch.nonzero(alarm).flatten().tolist():
        wave[row, start[row]:start[row] + 6] += 1.6
    return wave.unsqueeze(1), alarm.float()


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(1, 16, 7, padding=3), nn.BatchNorm1d(16), nn.ReLU(),
                                      nn.Conv1d(16, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU(),
                                      nn.AdaptiveMaxPool1d(1), nn.Flatten())
        self.score = nn.Linear(16, 1)

    def forward(self, x):
        return self.score(self.features(x))


@torch.no_grad()
def evaluate(model, wave, alarm):
    model.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        score = model(wave)
    decided = (score.float() > 0).float()
    hits = decided.eq(alarm)
    return hits.float().mean().item()


x_train, y_train = sensors(1024)
x_val, y_val = sensors(400)
x_test, y_test = sensors(400)
model = Detector()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
best, best_state, patience = -1.0, None, 0
for epoch in range(10):
    model.train()
    for idx in torch.randperm(len(x_train)).split(64):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            score = model(x_train[idx])
        loss = F.binary_cross_entropy_with_logits(score.float().squeeze(1), y_train[idx])
        loss.backward()
        opt.step()
    acc = evaluate(model, x_val, y_val)
    print(f"epoch {epoch} loss {loss.item():.3f} val accuracy {acc:.3f}")
    if acc > best:
        best, best_state, patience = acc, copy.deepcopy(model.state_dict()), 0
    else:
        patience += 1
        if patience == 3:
            break
model.load_state_dict(best_state)
print(f"chosen checkpoint: val {best:.3f} test {evaluate(model, x_test, y_test):.3f}")
