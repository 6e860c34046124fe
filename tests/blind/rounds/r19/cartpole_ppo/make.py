import os

TEMPLATE = """[env]
num_envs = 32
max_steps = 500

[ppo]
rollout = 64
updates = 45
epochs = 4
minibatches = 4
gamma = 0.99
gae_lambda = 0.95
clip = 0.2
entropy = 0.005
value = 0.5

[optim]
lr = 0.0025
adam_eps = {eps}
max_grad_norm = {norm}
"""
for side, eps, norm in (("bug", "0.5", "1e-5"), ("ok", "1e-5", "0.5")):
    os.makedirs(side, exist_ok=True)
    with open(f"{side}/config.toml", "w") as f:
        f.write(TEMPLATE.format(eps=eps, norm=norm))
