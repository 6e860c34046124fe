import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(6)
ENVS, HORIZON, GAMMA = 64, 10, 0.9


class Field:
    """A point on the plane that should be brought to the middle; five moves; now and then a gust."""

    moves = torch.tensor([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]).float() * 0.4

    def __init__(self, n):
        self.pos = torch.rand(n, 2) * 4 - 2

    def step(self, a):
        gust = 0.05 * torch.randn_like(self.pos)
        self.pos = (self.pos + self.moves[a] + gust).clamp(-3, 3)
        return -10 * self.pos.norm(dim=1)


def net(n_out):
    return nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, n_out))


actor, critic = net(5), net(1)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-2)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.05, momentum=0.8)


def update(opt, params, loss, limit):
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(params, limit)
    opt.step()


def rollout(n, greedy=False):
    env, obs, logp, ent, rew = Field(n), [], [], [], []
    for _ in range(HORIZON):
        dist = Categorical(logits=actor(env.pos))
        a = dist.logits.argmax(-1) if greedy else dist.sample()
        obs.append(env.pos)
        logp.append(dist.log_prob(a))
        ent.append(dist.entropy())
        rew.append(env.step(a))
    return [torch.stack(t) for t in (obs, logp, ent, rew)]


def returns(rew):
    out, g = torch.zeros_like(rew), torch.zeros(rew.size(1))
    for t in reversed(range(HORIZON)):
        g = rew[t] + GAMMA * g
        out[t] = g
    return out


for it in range(1, 101):
    obs, logp, ent, rew = rollout(ENVS)
    ret = returns(rew)
    value = critic(obs).squeeze(-1)
    adv = (ret - value).detach()
    adv = adv / (adv.std() + 1e-6)
    update(actor_opt, actor.parameters(), -(logp * adv).mean() - 0.01 * ent.mean(), limit=0.5)
    update(critic_opt, actor.parameters(), (value - ret).pow(2).mean(), limit=5.0)
    if it % 20 == 0:
        with torch.no_grad():
            test = rollout(400, greedy=True)[3]
        print(f"update {it} critic error {(value - ret).pow(2).mean():.2f} reward {rew.mean():.2f} greedy reward {test.mean():.2f}")
