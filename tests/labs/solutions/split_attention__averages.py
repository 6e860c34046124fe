# hint: which share of all exponentials does each have?


def part(q, k, v):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def merge(out0, log0, out1, log1):
    return (out0 + out1) / 2
