import torch
from torch import nn

SIZE, ENVS, GAMMA, CAPACITY, BATCH = 4, 8, 0.9, 200, 32


def network():
    return nn.Sequential(nn.Embedding(16, 16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def move(places, actions):
    """Up, down, left, right in a grid of 4 x 4; the last cell ends the episode with a reward of 1, each step costs 0.02."""
    rows, columns = places // SIZE, places % SIZE
    rows = (rows + (actions == 1).long() - (actions == 0).long()).clamp(0, SIZE - 1)
    columns = (columns + (actions == 3).long() - (actions == 2).long()).clamp(0, SIZE - 1)
    after = rows * SIZE + columns
    done = after == SIZE * SIZE - 1
    return torch.where(done, 0, after), done.float() - 0.02, done.float()


@torch.no_grad()
def act(model, places, step):
    """One epsilon-greedy move of all environments: rows of (place, action, reward, next place, done)."""
    draws = torch.Generator().manual_seed(step)
    actions = torch.where(torch.rand(ENVS, generator=draws) < 0.8, torch.randint(4, (ENVS,), generator=draws), model(places).argmax(1))
    after, reward, done = move(places, actions)
    return torch.stack([places.float(), actions.float(), reward, after.float(), done], 1), after


def sample(buffer, step):
    return buffer[torch.randint(len(buffer), (BATCH,), generator=torch.Generator().manual_seed(1000 + step))]


def loss(model, target, rows):
    places, actions, reward, after, done = rows[:, 0].long(), rows[:, 1].long(), rows[:, 2], rows[:, 3].long(), rows[:, 4]
    with torch.no_grad():
        goal = reward + GAMMA * (1 - done) * target(after).max(1).values
    return nn.functional.smooth_l1_loss(model(places).gather(1, actions[:, None]).squeeze(1), goal)


@torch.no_grad()
def reward(model):
    """Mean reward of a greedy step from every cell."""
    places, total = torch.arange(15), 0.0
    for _ in range(20):
        places, gained, _ = move(places, model(places).argmax(1))
        total += gained.mean().item() / 20
    return total
