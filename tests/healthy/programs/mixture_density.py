"""A mixture density network for a many-valued function, trained full batch; then a Gaussian process of the same points
by LBFGS."""

import math

import torch
import torch.nn as nn

torch.manual_seed(15)


class MDN(nn.Module):
    def __init__(self, hidden=32, mixtures=5):
        super().__init__()
        self.z_h = nn.Sequential(nn.Linear(1, hidden), nn.Tanh())
        self.z_pi = nn.Linear(hidden, mixtures)
        self.z_mu = nn.Linear(hidden, mixtures)
        self.z_sigma = nn.Linear(hidden, mixtures)

    def forward(self, x):
        h = self.z_h(x)
        pi = nn.functional.softmax(self.z_pi(h), -1)
        return pi, torch.exp(self.z_sigma(h)), self.z_mu(h)


def mdn_loss(pi, sigma, mu, y):
    m = torch.distributions.Normal(loc=mu, scale=sigma)
    return -torch.log(torch.sum(torch.exp(m.log_prob(y)) * pi, dim=1) + 1e-9).mean()


class ExactGP(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_length = nn.Parameter(torch.tensor(0.0))
        self.log_amp = nn.Parameter(torch.tensor(0.0))
        self.log_noise = nn.Parameter(torch.tensor(-1.0))

    def kernel(self, a, b):
        return torch.exp(2 * self.log_amp - 0.5 * (a[:, None] - b[None]) ** 2 / torch.exp(2 * self.log_length))

    def forward(self, x, y):
        k = self.kernel(x, x) + torch.exp(2 * self.log_noise) * torch.eye(len(x))
        chol = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y[:, None], chol)[:, 0]
        return 0.5 * y @ alpha + chol.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)

    @torch.no_grad()
    def predict(self, x, y, at):
        k = self.kernel(x, x) + torch.exp(2 * self.log_noise) * torch.eye(len(x))
        return self.kernel(at, x) @ torch.linalg.solve(k, y)


n = 400
y_data = torch.linspace(-1, 1, n)
x_data = 7 * torch.sin(0.75 * 10 * y_data) + 5 * y_data + 0.3 * torch.randn(n)
x, y = x_data.unsqueeze(1) / 10, y_data.unsqueeze(1)

model = MDN()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(150):
    pi, sigma, mu = model(x)
    loss = mdn_loss(pi, sigma, mu, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 50 == 0:
        print(epoch, loss.data.tolist())

with torch.no_grad():
    pi, sigma, mu = model(torch.linspace(-1, 1, 20).unsqueeze(1))
    k = torch.multinomial(pi, 1).view(-1)
    points = mu[torch.arange(len(k)), k] + sigma[torch.arange(len(k)), k] * torch.randn(len(k))
    print("sampled", points[:5].tolist())

gp = ExactGP()
lbfgs = torch.optim.LBFGS(gp.parameters(), lr=0.5, max_iter=5)
px = torch.linspace(-3, 3, 40)
py = torch.sin(2 * px) + 0.1 * torch.randn(40)


def closure():
    lbfgs.zero_grad()
    nll = gp(px, py)
    nll.backward()
    return nll


for i in range(6):
    nll = lbfgs.step(closure)
    print("gp", i, nll.item())
print("fit", (gp.predict(px, py, px) - torch.sin(2 * px)).abs().mean().item())
