"""Card fraud detector with a weighted logistic loss; alarms are raised above p = 0.5."""
import numpy as np
import torch
from torch import nn

torch.manual_seed(31)
gen = np.random.default_rng(31)
EPOCHS, BATCH = 12, 256


def transactions(n):
    amount = gen.lognormal(3, 1, n)
    hour = gen.integers(0, 24, n)
    foreign = gen.random(n) < 0.1
    velocity = gen.poisson(1.5, n)
    age_days = gen.exponential(400, n)
    night = (hour < 6).astype(float)
    z = -7.6 + 0.9 * (np.log(amount) - 3) + 1.6 * night + 2.0 * foreign + 0.55 * velocity - 0.002 * age_days + night * foreign
    label = gen.random(n) < 1 / (1 + np.exp(-z))
    x = np.column_stack([np.log(amount), np.sin(hour / 24 * 2 * np.pi), np.cos(hour / 24 * 2 * np.pi),
                         foreign, velocity, np.log1p(age_days)])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(label, dtype=torch.float32)


x_train, y_train = transactions(12000)
x_val, y_val = transactions(6000)
mu, sigma = x_train.mean(0), x_train.std(0)
x_train, x_val = (x_train - mu) / sigma, (x_val - mu) / sigma

n_fraud = y_train.sum()
n_legit = len(y_train) - n_fraud
pos_weight = n_fraud / n_legit
print(f"fraud rate {n_fraud / len(y_train):.4f}")

detector = nn.Sequential(nn.Linear(x_train.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))
criterion = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
optimizer = torch.optim.Adam(detector.parameters(), lr=3e-3)


@torch.no_grad()
def evaluate(cost_missed=200.0, cost_alarm=4.0):
    detector.eval()
    alarm = detector(x_val).squeeze(1) > 0
    fraud = y_val == 1
    recall = (alarm & fraud).sum() / fraud.sum()
    alarms = alarm.float().mean()
    cost = cost_missed * (fraud & ~alarm).sum() + cost_alarm * (alarm & ~fraud).sum()
    return recall.item(), alarms.item(), cost.item()


for epoch in range(EPOCHS):
    detector.train()
    loss_sum = 0.0
    order = torch.randperm(len(x_train))
    for batch in order.split(BATCH):
        logit = detector(x_train[batch]).squeeze(1)
        loss = criterion(logit, y_train[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss_sum += loss.item() * len(batch)
    recall, alarms, cost = evaluate()
    if epoch % 3 == 2:
        print(f"epoch {epoch:2d} loss {loss_sum / len(order):.4f} fraud recall {recall:.3f} alarm rate {alarms:.3f} cost {cost:.0f}")
print(f"cost of raising no alarm at all: {200 * y_val.sum():.0f}")
