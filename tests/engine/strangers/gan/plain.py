import torch

import job


def main() -> list[float]:
    torch.manual_seed(0)
    models = job.networks()
    generator, critic = models["generator"], models["critic"]
    opt_g, opt_c = (torch.optim.Adam(m.parameters(), lr=1e-2, betas=(0.5, 0.9)) for m in (generator, critic))
    losses = []
    for step in range(40):
        real = job.points[:320][step % 10 * 32 :][:32]
        fake = generator(job.noise(len(real), step))
        loss_c = job.critic_loss(critic, real, fake)
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
        loss = job.generator_loss(critic, fake)
        opt_g.zero_grad()
        loss.backward()
        opt_g.step()
        losses.append(loss.item())
    return losses
