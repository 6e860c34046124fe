"""Which rewards a series of discounted returns adds up: the ones after a step, or the ones before it."""

from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor

__all__ = ["LEAST", "Credit", "credit_of"]

LEAST: Final = 6  # steps
FITS: Final = 0.9  # share of the steps that obey a recursion
CLOSE: Final = 1e-4  # of the largest return
EXACT: Final = 1e-6  # unexplained variance, where the returns were normalized

Direction = Literal["later", "earlier", "mirrored"]


class Credit(NamedTuple):
    """later: G_t = r_t + g G_(t+1); earlier: G_t = r_t + g G_(t-1); mirrored: `later`, in reversed order."""

    direction: Direction
    discount: float
    steps: int


@torch.no_grad()
def credit_of(returns: Tensor, rewards: Tensor) -> Credit | None:
    """The direction of returns, with time along dimension 0, for these rewards in time order; None: neither fits."""
    if returns.shape != rewards.shape or returns.shape[0] < LEAST or not bool(rewards.any()):
        return None
    given, gains = returns.double(), rewards.double()
    if not bool(torch.isfinite(given).all() and torch.isfinite(gains).all()):
        return None
    for fit in (_exact, _normalized):
        if (discount := fit(given.flip(0), gains.flip(0))) is not None:
            return Credit("later", discount, len(given))
        if _is_symmetric(given):
            return None  # the same in both directions: nobody is credited wrongly
        if (discount := fit(given, gains)) is not None:
            return Credit("earlier", discount, len(given))
        if (discount := fit(given, gains.flip(0))) is not None:
            return Credit("mirrored", discount, len(given))
    return None


def _is_symmetric(returns: Tensor) -> bool:
    return float((returns - returns.flip(0)).abs().max()) <= CLOSE * float(returns.abs().max())


def _exact(returns: Tensor, rewards: Tensor) -> float | None:
    """The discount g of G_t = r_t + g G_(t-1), which may start again at any step; None: it does not hold."""
    close = CLOSE * float(returns.abs().max())
    rest, before = (returns - rewards)[1:], returns[:-1]
    again = rest.abs() <= close
    used = ~again & (before.abs() > 10 * close)
    if int(used.sum()) < LEAST - 2 or float(used.double().mean()) < 0.25:
        return None
    discount = float((rest[used] / before[used]).median())
    begins = float(((returns[0] - rewards[0]).abs() <= close).double().mean()) >= FITS
    if not 0.05 <= discount <= 1.0001 or (not begins and float(rewards.std()) <= close):
        return None
    holds = again | ((rest - discount * before).abs() <= close)
    return min(discount, 1.0) if float(holds.double().mean()) >= FITS else None


def _normalized(returns: Tensor, rewards: Tensor) -> float | None:
    """The same, where a mean was subtracted and a deviation divided out: G_t = a r_t + g G_(t-1) + b."""
    if returns.ndim != 1 or len(returns) < 2 * LEAST or float(returns.std()) == 0:
        return None
    columns = [returns[:-1], torch.ones_like(returns[1:])]
    varies = float(rewards.std()) > 1e-6 * float(rewards.abs().max())
    columns += [rewards[1:]] if varies else []
    table, wanted = torch.stack(columns, 1), returns[1:]
    solved = torch.linalg.lstsq(table, wanted[:, None]).solution[:, 0]
    unexplained = float((wanted - table @ solved).pow(2).mean() / wanted.var())
    discount, constant, scale = float(solved[0]), float(solved[1]), float(solved[2]) if varies else 1.0
    if unexplained > EXACT or scale <= 0 or not 0.05 <= discount <= 1.0001:
        return None
    if not varies and (discount > 0.9999 or abs(constant) < 1e-3 * float(returns.std())):
        return None  # a straight line fits both directions; powers of a discount are no returns
    return min(discount, 1.0)
