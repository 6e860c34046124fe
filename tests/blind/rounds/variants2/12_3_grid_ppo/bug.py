import copy
import torch
from torch import nn
from torch.distributions import Categorical
import torch.nn.functional as F

torch.manual_seed(131)
SIDE, TIME, RUNS = 6, 14, 48
MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])


class Grid:
    def reset(self, n):
        self.me = torch.randint(0, SIDE, (n, 2))
        self.flag = torch.randint(0, SIDE, (n, 2))
        return self.view()

    def view(self):
        return torch.cat([self.me, self.flag], 1).float() / SIDE - 0.5

    def step(self, move):
        self.me = (self.me + MOVES[move]).clamp(0, SIDE - 1)
        at = (self.me == self.flag).all(1)
        return self.view(), at.float()


def mlp(outputs):
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class PPO:
    def __init__(self, clip=0.2, epochs=6, gamma=0.9):
        self.policy, self.value = mlp(4), mlp(1)
        self.behaviour = self.policy
        self.opt = torch.optim.Adam([*self.policy.parameters(), *self.value.parameters()], lr=3e-3)
        self.clip, self.epochs, self.gamma = clip, epochs, gamma

    @torch.no_grad()
    def collect(self, grid):
        views, moves, rewards, view = [], [], [], grid.reset(RUNS)
        for _ in range(TIME):
            move = Categorical(logits=self.behaviour(view)).sample()
            views.append(view), moves.append(move)
            view, reward = grid.step(move)
            rewards.append(reward)
        running, returns = self.value(view).squeeze(1), []
        for reward in reversed(rewards):
            running = reward + self.gamma * running
            returns.insert(0, running)
        return torch.cat(views), torch.cat(moves), torch.cat(returns), torch.stack(rewards).sum(0).mean().item()

    def update(self, grid):
        self.behaviour.load_state_dict(self.policy.state_dict())
        views, moves, returns, score = self.collect(grid)
        with torch.no_grad():
            edge = returns - self.value(views).squeeze(1)
            edge = (edge - edge.mean()) / (edge.std() + 1e-6)
        for _ in range(self.epochs):
            with torch.no_grad():
                before = Categorical(logits=self.behaviour(views)).log_prob(moves)
            law = Categorical(logits=self.policy(views))
            ratio = (law.log_prob(moves) - before).exp()
            gain = torch.min(ratio * edge, ratio.clamp(1 - self.clip, 1 + self.clip) * edge).mean()
            fit = F.mse_loss(self.value(views).squeeze(1), returns)
            loss = -gain + 0.5 * fit - 0.01 * law.entropy().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return score, ((ratio - 1).abs() > self.clip).float().mean().item()


agent, grid = PPO(), Grid()
for iteration in range(1, 61):
    score, outside = agent.update(grid)
    if iteration % 10 == 0:
        print(f"iteration {iteration} steps on the flag {score:.2f} of {TIME}, clipped {outside:.3f}")
