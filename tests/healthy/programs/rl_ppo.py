"""PPO as in the single-file versions: rollout without gradients, several epochs of minibatches over it, rate annealed
by hand."""

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.normal import Normal

seed = 1
np.random.seed(seed)
torch.manual_seed(seed)
num_envs, num_steps, update_epochs, minibatch_size, num_updates = 4, 32, 4, 32, 10
gamma, gae_lambda, clip_coef = 0.95, 0.95, 0.2


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(2, 32)), nn.Tanh(), layer_init(nn.Linear(32, 1), std=1.0))
        self.actor_mean = nn.Sequential(layer_init(nn.Linear(2, 32)), nn.Tanh(), layer_init(nn.Linear(32, 1), std=0.01))
        self.actor_logstd = nn.Parameter(torch.zeros(1, 1))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        action_mean = self.actor_mean(x)
        probs = Normal(action_mean, torch.exp(self.actor_logstd.expand_as(action_mean)))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


def env_step(state, action):
    v = (state[:, 1] + 0.3 * action[:, 0].clip(-1, 1)) * 0.9
    x = state[:, 0] + 0.3 * v
    return np.stack([x, v], 1).astype(np.float32), (-(x**2) - 0.1 * v**2).astype(np.float32)


agent = Agent()
optimizer = optim.Adam(agent.parameters(), lr=3e-3, eps=1e-5)
obs = torch.zeros(num_steps, num_envs, 2)
actions = torch.zeros(num_steps, num_envs, 1)
logprobs = torch.zeros(num_steps, num_envs)
rewards = torch.zeros(num_steps, num_envs)
values = torch.zeros(num_steps, num_envs)

for update in range(1, num_updates + 1):
    optimizer.param_groups[0]["lr"] = (1.0 - (update - 1.0) / num_updates) * 3e-3
    state = np.random.randn(num_envs, 2).astype(np.float32)
    for step in range(num_steps):
        obs[step] = torch.from_numpy(state)
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(obs[step])
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        state, reward = env_step(state, action.numpy())
        rewards[step] = torch.from_numpy(reward)

    with torch.no_grad():
        next_value = agent.get_value(torch.from_numpy(state)).reshape(-1)
        advantages, lastgaelam = torch.zeros_like(rewards), 0
        for t in reversed(range(num_steps)):
            following = next_value if t == num_steps - 1 else values[t + 1]
            delta = rewards[t] + gamma * following - values[t]
            advantages[t] = lastgaelam = delta + gamma * gae_lambda * lastgaelam
        returns = advantages + values

    b_obs, b_actions, b_logprobs = obs.reshape(-1, 2), actions.reshape(-1, 1), logprobs.reshape(-1)
    b_advantages, b_returns, b_values = advantages.reshape(-1), returns.reshape(-1), values.reshape(-1)
    b_inds = np.arange(num_envs * num_steps)
    for _epoch in range(update_epochs):
        np.random.shuffle(b_inds)
        for start in range(0, len(b_inds), minibatch_size):
            mb = b_inds[start : start + minibatch_size]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions[mb])
            ratio = (newlogprob - b_logprobs[mb]).exp()
            adv = (b_advantages[mb] - b_advantages[mb].mean()) / (b_advantages[mb].std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 1 - clip_coef, 1 + clip_coef)).mean()
            newvalue = newvalue.view(-1)
            v_clipped = b_values[mb] + torch.clamp(newvalue - b_values[mb], -clip_coef, clip_coef)
            v_loss = 0.5 * torch.max((newvalue - b_returns[mb]) ** 2, (v_clipped - b_returns[mb]) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    print(update, rewards.mean().item(), loss.item())
