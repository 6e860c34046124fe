"""Facts from tensors: pure functions that the engine, the observers and the claims all use.

Each fact is computed in one place: `loss` (the arguments of a loss call), `parameters` (gradients and optimizers),
`units` (equal units of a layer), `norms` (gradient and weight norms), `nonfinite` (NaN and Inf), `randomness` (random
states), `graph` (autograd nodes), `tensors` (which tensors, which elements), `model` (layers of a model).
"""
