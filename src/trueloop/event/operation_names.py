"""The names of torch's operations by what they compute, in every spelling that a function mode or a call may show.

`a + b` is named "add", `a += b` "add_", `1 - a` "__rsub__", `1 / a` "__rdiv__". Each set is written here only; a file
that needs more, or less, says so with `|` and `-`.
"""

from typing import Final

__all__ = [
    "ADDITIONS",
    "ANY_ADDITION",
    "ANY_DIFFERENCE",
    "ANY_PRODUCT",
    "ANY_QUOTIENT",
    "ANY_SCALING",
    "ANY_SUBTRACTION",
    "ARITHMETIC",
    "ATTENTION",
    "BINARY_LOSSES",
    "CASTS",
    "CLAMPS",
    "CLAMP_NODES",
    "CLASS_LOSSES",
    "CONVOLUTIONS",
    "DIFFERENCES",
    "DISTANCE_LOSSES",
    "DROPOUTS",
    "ELEMENTWISE",
    "EQUALITIES",
    "FINITE_CHECKS",
    "JOINS",
    "LABEL_LOSSES",
    "LOGARITHMS",
    "LOGICAL",
    "LOG_PROBABILITY_PATH",
    "LOSSES",
    "MAGNITUDES",
    "MATRIX_PRODUCTS",
    "NEGATIONS",
    "NORMAL",
    "NORMS",
    "ORDERINGS",
    "PICKS",
    "POWERS",
    "PRODUCTS",
    "QUOTIENTS",
    "RANDOM",
    "RECURRENT",
    "REPLACERS",
    "RESHAPES",
    "REVERSED_SUBTRACTIONS",
    "SCALINGS",
    "SHAPES",
    "SUBTRACTIONS",
    "TRANSPOSES",
    "UNIFORM",
    "VIEWS",
    "VIEW_NODES",
]  # fmt: skip

# -- arithmetic: out of place; ANY_...: in place as well --
ADDITIONS: Final = frozenset({"add", "__add__", "__radd__"})
ANY_ADDITION: Final = ADDITIONS | {"add_", "__iadd__"}
SUBTRACTIONS: Final = frozenset({"sub", "__sub__", "subtract"})  # the second from the first
REVERSED_SUBTRACTIONS: Final = frozenset({"rsub", "__rsub__"})  # the first from the second
DIFFERENCES: Final = SUBTRACTIONS | REVERSED_SUBTRACTIONS  # in either order
ANY_SUBTRACTION: Final = SUBTRACTIONS | {"sub_", "__isub__", "subtract_"}
ANY_DIFFERENCE: Final = ANY_SUBTRACTION | REVERSED_SUBTRACTIONS
PRODUCTS: Final = frozenset({"mul", "__mul__", "__rmul__", "multiply"})
ANY_PRODUCT: Final = PRODUCTS | {"mul_", "__imul__", "multiply_"}
QUOTIENTS: Final = frozenset({"div", "__truediv__", "true_divide", "divide"})  # the first by the second
ANY_QUOTIENT: Final = QUOTIENTS | {"div_", "__itruediv__", "divide_", "true_divide_"}
SCALINGS: Final = PRODUCTS | QUOTIENTS
ANY_SCALING: Final = ANY_PRODUCT | ANY_QUOTIENT
ARITHMETIC: Final = ANY_ADDITION | ANY_DIFFERENCE | ANY_SCALING | {"__rdiv__", "__rtruediv__"}  # in either order
NEGATIONS: Final = frozenset({"neg", "__neg__", "negative"})
POWERS: Final = frozenset({"pow", "__pow__", "square"})
MAGNITUDES: Final = POWERS | {"abs", "absolute"}  # of a difference: its size, element by element
NORMS: Final = frozenset({"norm", "vector_norm", "linalg_norm", "linalg_vector_norm"})
LOGARITHMS: Final = frozenset({"log_softmax", "logsumexp", "log", "logsigmoid"})  # log-probabilities are made by these
CLAMPS: Final = frozenset({"clamp", "clamp_min", "clamp_max", "clip"})
EQUALITIES: Final = frozenset({"eq", "__eq__", "ne", "__ne__"})
ORDERINGS: Final = frozenset({"gt", "__gt__", "ge", "__ge__", "lt", "__lt__", "le", "__le__"})
LOGICAL: Final = frozenset({"logical_and", "__and__", "logical_or", "__or__"})
FINITE_CHECKS: Final = ("isnan", "isinf", "isfinite")
ELEMENTWISE: Final = ARITHMETIC | EQUALITIES | ORDERINGS | LOGICAL | {
    "minimum", "maximum", "where", "pow", "__pow__", "atan2", "xlogy", "fmod", "remainder",
}  # fmt: skip
"""Operations that combine two tensors element by element, and broadcast."""

# -- shapes and copies --
RESHAPES: Final = frozenset({"view", "reshape", "flatten"})
SHAPES: Final = RESHAPES | {"squeeze", "unsqueeze"}  # the elements keep their order
TRANSPOSES: Final = frozenset({"transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis"})
JOINS: Final = frozenset({"cat", "concat", "concatenate"})  # along a dimension that is there
PICKS: Final = frozenset({"__getitem__", "index_select"})  # rows by an index
CASTS: Final = frozenset({"to", "float", "double", "half", "bfloat16", "long", "int", "type_as", "cpu", "cuda"})
"""Another dtype or device."""
VIEWS: Final = SHAPES | CASTS | {
    "contiguous", "clone", "expand", "expand_as", "view_as", "reshape_as", "detach", "data", "alias", "dropout",
    "Dropout", "requires_grad_", "_unsafe_view", "identity",
}  # fmt: skip
"""Operations that pass on the values of their first input."""
LOG_PROBABILITY_PATH: Final = VIEWS | JOINS | NEGATIONS | ADDITIONS | SUBTRACTIONS | {
    "stack", "gather", "__getitem__", "broadcast_tensors", "clamp", "sum", "mean",
}  # fmt: skip
"""From log-probabilities to a term of a loss: picked, clamped and added up."""

# -- layers --
MATRIX_PRODUCTS: Final = frozenset({"matmul", "__matmul__", "mm", "bmm"})
CONVOLUTIONS: Final = frozenset(
    {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
)
RECURRENT: Final = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
ATTENTION: Final = frozenset(
    {"multi_head_attention_forward", "scaled_dot_product_attention", "native_multi_head_attention"}
)
DROPOUTS: Final = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
"""Functions of torch.nn.functional."""

# -- losses --
CLASS_LOSSES: Final = frozenset({"cross_entropy", "nll_loss"})  # negative log-likelihood of a class
LABEL_LOSSES: Final = CLASS_LOSSES | {"multi_margin_loss"}  # the target holds class indices
BINARY_LOSSES: Final = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
DISTANCE_LOSSES: Final = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})  # zero where both are equal
LOSSES: Final = LABEL_LOSSES | BINARY_LOSSES | DISTANCE_LOSSES | {
    "kl_div", "ctc_loss", "soft_margin_loss", "multilabel_soft_margin_loss", "hinge_embedding_loss",
    "poisson_nll_loss", "gaussian_nll_loss",
}  # fmt: skip

# -- random draws --
REPLACERS: Final = frozenset({"where", "masked_fill", "nan_to_num", "nan_to_num_"})  # of values that are not finite
NORMAL: Final = frozenset({"randn", "randn_like", "normal", "normal_"})
UNIFORM: Final = frozenset({"rand", "rand_like", "uniform_"})
RANDOM: Final = NORMAL | UNIFORM | {
    "randint", "randperm", "randint_like", "bernoulli", "bernoulli_", "multinomial", "exponential_", "random_",
}  # fmt: skip

# -- nodes of autograd, as `operation_name` of measure/graph.py returns them --
VIEW_NODES: Final = frozenset({
    "View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "T", "Transpose", "Permute", "Select",
    "Slice", "Alias", "ToCopy", "Clone", "Expand", "Index", "AsStrided", "Unbind", "Split",
})  # fmt: skip
"""Nodes that pass values on unchanged."""
CLAMP_NODES: Final = ("ClampBackward", "HardtanhBackward")  # how their names begin
