import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(27)
STEPS, AXES = 48, 3


def gestures(n):
    """Two short strokes on different axes; the class tells the axis and the sign of the FIRST one."""
    x = 0.3 * torch.randn(n, AXES, STEPS)
    first = torch.randint(0, AXES, (n,))
    second = (first + torch.randint(1, AXES, (n,))) % AXES
    sign = torch.randint(0, 2, (n,))
    for r in range(n):
        a = int(torch.randint(0, 28, (1,)))
        b = a + int(torch.randint(7, 14, (1,)))
        x[r, first[r], a:a + 6] += 2.0 * (2 * sign[r] - 1)
        x[r, second[r], b:b + 6] += 2.0 * (2 * torch.randint(0, 2, (1,)) - 1)
    return x, first * 2 + sign


class Front(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Conv1d(AXES, width, 5, padding=2)
        self.b = nn.Conv1d(width, width, 5, stride=2, padding=2)

    def forward(self, x):
        return F.relu(self.b(F.relu(self.a(x))))


class Summary(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, classes)

    def forward(self, maps):
        n, c, t = maps.shape
        sequence = maps.transpose(1, 2).reshape(n, t, c)
        _, last = self.rnn(sequence)
        return self.out(last[-1])


x_train, y_train = gestures(1024)
x_val, y_val = gestures(240)
front, summary = Front(24), Summary(24, 2 * AXES)
optimizers = [torch.optim.Adam(front.parameters(), lr=2e-3), torch.optim.Adam(summary.parameters(), lr=4e-3)]
for epoch in range(9):
    front.train(), summary.train()
    for idx in torch.randperm(len(x_train)).split(32):
        loss = F.cross_entropy(summary(front(x_train[idx])), y_train[idx])
        for o in optimizers:
            o.zero_grad()
        loss.backward()
        for o in optimizers:
            o.step()
    front.eval(), summary.eval()
    with torch.no_grad():
        accuracy = (summary(front(x_val)).argmax(1) == y_val).float().mean().item()
    print(f"epoch {epoch} loss {loss.item():.3f} val accuracy {accuracy:.3f}")
