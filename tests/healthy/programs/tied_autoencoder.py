"""A denoising autoencoder whose decoder uses the encoder's weights, transposed; layers pretrained greedily, then all
together."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(12)
basis = torch.randn(6, 30)
data = torch.tanh(torch.randn(600, 6) @ basis)
train_x, test_x = data[:512], data[512:]


class TiedLayer(nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_hidden, n_in))
        nn.init.xavier_uniform_(self.weight)
        self.hidden_bias = nn.Parameter(torch.zeros(n_hidden))
        self.visible_bias = nn.Parameter(torch.zeros(n_in))

    def encode(self, x):
        return torch.tanh(F.linear(x, self.weight, self.hidden_bias))

    def decode(self, h):
        return torch.tanh(F.linear(h, self.weight.t(), self.visible_bias))

    def forward(self, x):
        return self.decode(self.encode(x))


class Stack(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(TiedLayer(a, b) for a, b in zip(sizes[:-1], sizes[1:], strict=True))

    def encode(self, x):
        for layer in self.layers:
            x = layer.encode(x)
        return x

    def forward(self, x):
        h = self.encode(x)
        for layer in reversed(self.layers):
            h = layer.decode(h)
        return h


def corrupt(x, p=0.2):
    return x * torch.bernoulli(torch.full_like(x, 1 - p))


def batches(x, size=64):
    for index in torch.randperm(len(x)).split(size):
        yield x[index]


def pretrain(layer, inputs, epochs=2):
    opt = torch.optim.Adam(layer.parameters(), lr=5e-3)
    for _ in range(epochs):
        for x in batches(inputs):
            opt.zero_grad()
            loss = F.mse_loss(layer(corrupt(x)), x)
            loss.backward()
            opt.step()
    return loss.item()


stack = Stack([30, 20, 8])
inputs = train_x
for i, layer in enumerate(stack.layers):
    print("layer", i, pretrain(layer, inputs))
    with torch.no_grad():
        inputs = layer.encode(inputs)

optimizer = torch.optim.Adam(stack.parameters(), lr=2e-3)
history = []
for epoch in range(6):
    stack.train()
    epoch_loss = 0
    for x in batches(train_x):
        loss = F.mse_loss(stack(corrupt(x)), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch_loss += loss.detach() * len(x)
    history.append(epoch_loss / len(train_x))
    stack.eval()
    with torch.inference_mode():
        test_loss = F.mse_loss(stack(test_x), test_x)
    print(epoch, float(history[-1]), test_loss.item())
