import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(15)
CONTEXT, ARMS = 6, 8
rule = torch.randn(CONTEXT, ARMS)


class Casino:
    def contexts(self, n):
        return torch.randn(n, CONTEXT)

    def play(self, context, arm):
        mean = torch.sigmoid(1.5 * context @ rule).gather(1, arm[:, None]).squeeze(1)
        return torch.bernoulli(mean)

    def best(self, context):
        return (context @ rule).argmax(1)


class Agent:
    def __init__(self, bonus=0.15):
        self.net = nn.Sequential(nn.Linear(CONTEXT, 64), nn.Tanh(), nn.Linear(64, ARMS))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=5e-3)
        self.bonus, self.level = bonus, 0.5

    def policy(self, context):
        return Categorical(logits=self.net(context))

    def learn(self, context, arm, reward):
        dist = self.policy(context)
        advantage = reward - self.level
        self.level += 0.05 * (reward.mean().item() - self.level)
        gain = (advantage * dist.log_prob(arm)).mean()
        spread = dist.entropy().mean()
        loss = -gain + self.bonus * spread
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return spread.item()


def compare(agent, casino, contexts):
    agent.net.eval()
    with torch.no_grad():
        chosen = agent.net(contexts).argmax(1)
    agent.net.train()
    return (chosen == casino.best(contexts)).float().mean().item()


casino, agent = Casino(), Agent()
held_contexts = casino.contexts(1000)
recent = []
for step in range(1, 401):
    context = casino.contexts(64)
    with torch.no_grad():
        arm = agent.policy(context).sample()
    reward = casino.play(context, arm)
    entropy = agent.learn(context, arm, reward)
    recent.append(reward.mean().item())
    if step % 80 == 0:
        print(f"step {step} reward {sum(recent[-80:]) / 80:.3f} entropy {entropy:.3f} best arm {compare(agent, casino, held_contexts):.3f}")
