"""A small GAN on two-dimensional points: two models, two optimizers, labels real and fake."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
points = torch.randn(512, 2) * 0.5 + torch.tensor([2.0, -1.0])
loader = DataLoader(TensorDataset(points), batch_size=64, shuffle=True)
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for epoch in range(14):
    for (real,) in loader:
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = generator(torch.randn(len(real), 4))
        discriminator_optimizer.zero_grad()
        loss_real = criterion(discriminator(real), ones)
        loss_fake = criterion(discriminator(fake.detach()), zeros)
        (loss_real + loss_fake).backward()
        discriminator_optimizer.step()
        generator_optimizer.zero_grad()
        loss_generator = criterion(discriminator(fake), ones)
        loss_generator.backward()
        generator_optimizer.step()
