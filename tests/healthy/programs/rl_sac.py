"""Soft actor-critic: twin critics, a squashed Gaussian actor, a learnt temperature, three optimizers, soft target
updates."""

import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)


def mlp(*sizes):
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(3, 64, 64)
        self.mu_layer = nn.Linear(64, 1)
        self.log_std_layer = nn.Linear(64, 1)

    def forward(self, obs, deterministic=False):
        h = F.relu(self.net(obs))
        mu, log_std = self.mu_layer(h), torch.clamp(self.log_std_layer(h), -20, 2)
        dist = torch.distributions.Normal(mu, log_std.exp())
        pi = mu if deterministic else dist.rsample()
        logp = dist.log_prob(pi).sum(-1) - (2 * (torch.log(torch.tensor(2.0)) - pi - F.softplus(-2 * pi))).sum(1)
        return torch.tanh(pi), logp


class QFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = mlp(4, 64, 64, 1)

    def forward(self, obs, act):
        return self.q(torch.cat([obs, act], dim=-1)).squeeze(-1)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi, self.q1, self.q2 = Actor(), QFunction(), QFunction()


ac = ActorCritic()
ac_targ = copy.deepcopy(ac)
for p in ac_targ.parameters():
    p.requires_grad = False
q_params = list(itertools.chain(ac.q1.parameters(), ac.q2.parameters()))
pi_optimizer = torch.optim.Adam(ac.pi.parameters(), lr=1e-3)
q_optimizer = torch.optim.Adam(q_params, lr=1e-3)
log_alpha = torch.zeros(1, requires_grad=True)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
target_entropy, gamma, polyak = -1.0, 0.9, 0.99


def environment(o, a):
    o2 = torch.cat([0.9 * o[:, :1] + 0.5 * a, o[:, 1:2] * 0.8, o[:, 2:]], dim=1)
    return o2, -(o2[:, 0] ** 2)


replay = torch.randn(512, 3)
for step in range(60):
    o = replay[torch.randint(len(replay), (64,))]
    with torch.no_grad():
        a, _ = ac.pi(o)
    o2, r = environment(o, a)

    q_optimizer.zero_grad()
    q1, q2 = ac.q1(o, a), ac.q2(o, a)
    with torch.no_grad():
        a2, logp_a2 = ac.pi(o2)
        q_targ = torch.min(ac_targ.q1(o2, a2), ac_targ.q2(o2, a2))
        backup = r + gamma * (q_targ - log_alpha.exp() * logp_a2)
    loss_q = ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()
    loss_q.backward()
    q_optimizer.step()

    # the critics stand still while the actor learns from them
    for p in q_params:
        p.requires_grad = False
    pi_optimizer.zero_grad()
    pi, logp_pi = ac.pi(o)
    q_pi = torch.min(ac.q1(o, pi), ac.q2(o, pi))
    loss_pi = (log_alpha.exp().detach() * logp_pi - q_pi).mean()
    loss_pi.backward()
    pi_optimizer.step()
    for p in q_params:
        p.requires_grad = True

    alpha_optimizer.zero_grad()
    alpha_loss = -(log_alpha * (logp_pi + target_entropy).detach()).mean()
    alpha_loss.backward()
    alpha_optimizer.step()

    with torch.no_grad():
        for p, p_targ in zip(ac.parameters(), ac_targ.parameters(), strict=True):
            p_targ.data.mul_(polyak)
            p_targ.data.add_((1 - polyak) * p.data)
    if step % 20 == 0:
        print(step, loss_q.item(), loss_pi.item(), log_alpha.exp().item())

with torch.no_grad():
    act, _ = ac.pi(torch.randn(16, 3), deterministic=True)
    print("greedy action", act.mean().item())
