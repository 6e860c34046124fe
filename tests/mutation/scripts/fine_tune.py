"""A frozen backbone with a new head, a step schedule, and the best weights kept."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
inputs = torch.randn(400, 16)
classes = (inputs[:, :4].sum(1) > 0).long() + 2 * (inputs[:, 4:8].sum(1) > 0).long()
train_loader = DataLoader(TensorDataset(inputs[:320], classes[:320]), batch_size=32, shuffle=True)
test_loader = DataLoader(TensorDataset(inputs[320:], classes[320:]), batch_size=32)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.dropout(self.body(x)))


model = Backbone()
for parameter in model.body[0].parameters():
    parameter.requires_grad = False
model.head = nn.Linear(64, 4)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
criterion = nn.CrossEntropyLoss()
best, best_state = -1, None
for epoch in range(12):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        optimizer.step()
    scheduler.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in test_loader:
            right += (model(x).argmax(1) == y).sum().item()
    if right > best:
        best, best_state = right, copy.deepcopy(model.state_dict())
model.load_state_dict(best_state)
