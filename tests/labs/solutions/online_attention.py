import torch


def attention(q, k, v, block):
    result = torch.zeros_like(q)
    total = q.new_zeros(len(q), 1)
    largest = q.new_full((len(q), 1), -torch.inf)
    at = torch.arange(len(q))[:, None]
    for start in range(0, len(k), block):
        keys = k[start : start + block]
        scores = q @ keys.T / q.shape[1] ** 0.5
        scores = scores.masked_fill(torch.arange(start, start + len(keys))[None, :] > at, -torch.inf)
        larger = torch.maximum(largest, scores.amax(1, keepdim=True))
        safe = larger.masked_fill(larger == -torch.inf, 0.0)
        shrink, power = (largest - safe).exp(), (scores - safe).exp()
        result = result * shrink + power @ v[start : start + block]
        total = total * shrink + power.sum(1, keepdim=True)
        largest = larger
    return result / total
