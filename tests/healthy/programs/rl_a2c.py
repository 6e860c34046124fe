"""A2C over several environments: one network with two heads, n-step returns bootstrapped from the critic, entropy
bonus."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
N_ENVS, N_STEPS, GAMMA = 8, 5, 0.97


class VectorEnv:
    """Points on a line that should be pushed to zero."""

    def __init__(self, n):
        self.x = torch.randn(n) * 2
        self.t = torch.zeros(n)

    def obs(self):
        return torch.stack([self.x, self.x.abs(), self.t / 20], dim=1)

    def step(self, action):
        self.x = self.x + (action.float() - 1) * 0.5 + 0.05 * torch.randn_like(self.x)
        self.t = self.t + 1
        reward = -self.x.abs()
        done = (self.t >= 20) | (self.x.abs() > 5)
        self.x = torch.where(done, torch.randn_like(self.x) * 2, self.x)
        self.t = torch.where(done, torch.zeros_like(self.t), self.t)
        return self.obs(), reward, done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.actor = nn.Linear(64, 3)
        self.critic = nn.Linear(64, 1)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.orthogonal_(m.weight, 2**0.5)
                nn.init.zeros_(m.bias)
        nn.init.orthogonal_(self.actor.weight, 0.01)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


env = VectorEnv(N_ENVS)
model = ActorCritic()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.99, eps=1e-5)
obs = env.obs()
for update in range(80):
    log_probs, values, rewards, masks, entropies = [], [], [], [], []
    for _ in range(N_STEPS):
        dist, value = model(obs)
        action = dist.sample()
        obs, reward, done = env.step(action)
        log_probs.append(dist.log_prob(action))
        entropies.append(dist.entropy())
        values.append(value)
        rewards.append(reward)
        masks.append(1.0 - done.float())

    with torch.no_grad():
        _, R = model(obs)
    returns = []
    for reward, mask in zip(reversed(rewards), reversed(masks), strict=True):
        R = reward + GAMMA * R * mask
        returns.insert(0, R)

    returns = torch.cat(returns)
    values = torch.cat(values)
    advantage = returns - values
    actor_loss = -(torch.cat(log_probs) * advantage.detach()).mean()
    critic_loss = advantage.pow(2).mean()
    loss = actor_loss + 0.5 * critic_loss - 0.01 * torch.cat(entropies).mean()

    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    if update % 20 == 0:
        print(update, loss.item(), torch.stack(rewards).mean().item())
