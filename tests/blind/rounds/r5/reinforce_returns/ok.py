"""REINFORCE: at each tick press the button for the light; the mapping changes at half time."""
import torch
from torch import nn

TICKS, LIGHTS, GAMMA = 10, 4, 0.3


class LightGame:
    def __init__(self, games):
        self.games = games

    def reset(self):
        self.tick = 0
        return self.observe()

    def observe(self):
        self.light = torch.randint(LIGHTS, (self.games,))
        clock = torch.full((self.games, 1), 1.0 if 2 * self.tick >= TICKS else -1.0)
        return torch.cat([nn.functional.one_hot(self.light, LIGHTS).float(), clock], 1)

    def step(self, action):
        shift = 1 if 2 * self.tick >= TICKS else 3
        reward = (action == (self.light + shift) % LIGHTS).float()
        self.tick += 1
        return self.observe(), reward, self.tick >= TICKS


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(LIGHTS + 1, 32), nn.Tanh(), nn.Linear(32, LIGHTS))

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.net(obs))


def discounted(rewards):
    running, returns = torch.zeros_like(rewards[0]), []
    for reward in reversed(rewards):
        running = reward + GAMMA * running
        returns.append(running)
    return torch.stack(returns[::-1])


def play(policy, env):
    obs, done, log_probs, rewards, entropies = env.reset(), False, [], [], []
    while not done:
        dist = policy(obs)
        action = dist.sample()
        log_probs.append(dist.log_prob(action))
        entropies.append(dist.entropy())
        obs, reward, done = env.step(action)
        rewards.append(reward)
    return torch.stack(log_probs), rewards, torch.stack(entropies)


def main():
    torch.manual_seed(6)
    policy, env = Policy(), LightGame(32)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for update in range(150):
        log_probs, rewards, entropies = play(policy, env)
        returns = discounted(rewards)
        advantage = (returns - returns.mean(1, keepdim=True)) / (returns.std() + 1e-6)
        loss = -(log_probs * advantage).mean() - 0.01 * entropies.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 25 == 0:
            print(f"update {update} loss {loss.item():.4f} hits per game {torch.stack(rewards).sum(0).mean():.2f}")
    with torch.no_grad():
        _, rewards, _ = play(policy, LightGame(400))
    print(f"test hits per game {torch.stack(rewards).sum(0).mean():.2f} of {TICKS}")


if __name__ == "__main__":
    main()
