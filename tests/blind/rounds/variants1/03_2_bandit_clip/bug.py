import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(2)
ARMS, CTX = 6, 8
truth = torch.randn(CTX, ARMS)


def rewards(ctx, arm):
    best = (ctx @ truth).argmax(1)
    return (arm == best).float() + 0.1 * torch.randn(len(arm))


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(CTX, 64), nn.Tanh())
        self.pi = nn.Linear(64, ARMS)
        self.v = nn.Linear(64, 1)

    def forward(self, ctx):
        h = self.trunk(ctx)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


policy = Policy()
opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
test_ctx = torch.randn(1000, CTX)


def surrogate(ctx, arm, old_logp, ret, adv):
    dist, value = policy(ctx)
    ratio = (dist.log_prob(arm) - old_logp).exp()
    gain = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    return -gain + 0.5 * ((value - ret) ** 2).mean() - 0.003 * dist.entropy().mean()


for it in range(60):
    ctx = torch.randn(512, CTX)
    with torch.no_grad():
        dist, value = policy(ctx)
        arm = dist.sample()
        old_logp = dist.log_prob(arm)
        ret = rewards(ctx, arm)
        adv = ret - value
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    loss = surrogate(ctx, arm, old_logp, ret, adv)
    opt.zero_grad()
    loss.backward()
    for _ in range(6):
        opt.step()
    if it % 10 == 9:
        with torch.no_grad():
            greedy = policy(test_ctx)[0].probs.argmax(1)
        hit = (greedy == (test_ctx @ truth).argmax(1)).float().mean().item()
        print(f"iteration {it + 1} loss {loss.item():.3f} reward {ret.mean():.3f} greedy hit rate {hit:.3f}")
