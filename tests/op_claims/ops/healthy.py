"""Healthy operations: no claim may fail on them."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.library import custom_op

from tests.op_claims.cases import case


@case("torch.relu")
class Relu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0] > 0)


@case("torch.sigmoid")
class Sigmoid(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * (1 - y)


@case("torch.exp")
class ExpOnce(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


@case("torch.mul")
class Multiply(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        first = (g * b).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
        return first, (g * a).sum_to_size(b.shape) if ctx.needs_input_grad[1] else None


@case("torch.matmul", "f32[4,8], f32[8,5]")
class MatMul(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g @ b.T.to(g.dtype), a.T.to(g.dtype) @ g


@case("torch.nn.functional.linear", "f32[4,8], f32[6,8], f32[6]")
class Linear(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return F.linear(x, w, b)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.T @ x, g.sum(0)


@case("torch.relu_")
class ReluInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.clamp_(min=0)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0] > 0)


@case("torch.round", gradient_of="identity")
class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


@case("torch.nn.functional.softmax", "f32[4,8], dim=-1")
class SafeSoftmax(Function):
    @staticmethod
    def forward(ctx, x, dim):
        y = torch.softmax(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(ctx.dim, keepdim=True)), None


@case("torch.nn.functional.embedding", "i64[6]<5, f32[5,4]")
class Embedding(Function):
    @staticmethod
    def forward(ctx, index, weight):
        ctx.save_for_backward(index)
        ctx.shape = weight.shape
        return weight[index]

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        out = g.new_zeros(ctx.shape)
        return None, out.index_add(0, index.reshape(-1), g.reshape(-1, ctx.shape[1]))


@case("torch.max", "f32[4,8], dim=-1")
class Max(Function):
    @staticmethod
    def forward(ctx, x, dim):
        values, index = x.max(dim)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.shape, ctx.dim = x.shape, dim
        return values, index

    @staticmethod
    def backward(ctx, g, _):
        (index,) = ctx.saved_tensors
        out = g.new_zeros(ctx.shape)
        return out.scatter(ctx.dim, index.unsqueeze(ctx.dim), g.unsqueeze(ctx.dim)), None


@case("torch.sin", name="custom_sine")
@custom_op("trueloop_tests::custom_sine", mutates_args=())
def custom_sine(x: Tensor) -> Tensor:
    return x.sin()


@custom_sine.register_fake
def _(x):
    return torch.empty_like(x)


custom_sine.register_autograd(
    lambda ctx, g: g * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@custom_sine.register_vmap
def _(info, in_dims, x):
    return custom_sine(x), in_dims[0]


@case("torch.sum", "f32[4,8], 1", name="custom_sum")
@custom_op("trueloop_tests::custom_sum", mutates_args=())
def custom_sum(x: Tensor, dim: int) -> Tensor:
    return x.sum(dim)


@custom_sum.register_fake
def _(x, dim):
    return x.new_empty([n for i, n in enumerate(x.shape) if i != dim % x.dim()])


custom_sum.register_autograd(
    lambda ctx, g: (g.unsqueeze(ctx.dim).expand(ctx.shape), None),
    setup_context=lambda ctx, inputs, output: (setattr(ctx, "dim", inputs[1]), setattr(ctx, "shape", inputs[0].shape)),
)


@case("torch.sin", "f32[4,8]", name="no_gradient_registered")
@custom_op("trueloop_tests::no_gradient_registered", mutates_args=())
def no_gradient_registered(x: Tensor) -> Tensor:
    return x.sin()


@no_gradient_registered.register_fake
def _(x):
    return torch.empty_like(x)


@case()
def without_a_reference(x):
    return x * torch.sigmoid(x)


@case("torch.relu", "f32[4,8]")
def refuses_what_it_cannot(x):
    """It says what it does not take."""
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError("float32 or float64")
    return x.relu()


@case("torch.nn.functional.gelu", "f32[4,8]")
def gelu_computed_in_float32(x):
    """What an honest low-precision kernel does: float32 inside, rounded once."""
    inner = x if x.dtype == torch.float64 else x.float()
    return (0.5 * inner * (1 + torch.erf(inner * 0.5**0.5))).to(x.dtype)


@case("torch.nn.functional.layer_norm", "f32[4,8], [8], f32[8], f32[8]")
def layer_norm(x, shape, weight, bias):
    inner = x if x.dtype == torch.float64 else x.float()
    mean = inner.mean(-1, keepdim=True)
    var = inner.var(-1, keepdim=True, unbiased=False)
    return ((inner - mean) * torch.rsqrt(var + 1e-5) * weight + bias).to(x.dtype)


@case("torch.nn.functional.cross_entropy", "f32[4,8], i64[4]<8")
def cross_entropy(x, t):
    return -x.log_softmax(-1).gather(-1, t.unsqueeze(-1)).mean()


@case("torch.nn.functional.softmax", "f32[4,8], dim=-1")
def softmax(x, dim):
    return (x.float() if x.element_size() == 2 else x).log_softmax(dim).exp().to(x.dtype)


@case("torch.nn.functional.dropout", "f32[16,16], 0.5")
def dropout(x, p):
    return F.dropout(x, p)


@case("torch.nn.functional.mse_loss", ("f32[4,8], f32[4,8]",))
def mean_square(p, t):
    return ((p - t) ** 2).mean()


@case("torch.flatten", "f32[4,8]")
def view_like_the_reference(x):
    return x.reshape(-1)


THEMSELVES = {
    "torch.nn.functional.softmax": "f32[4,8], dim=-1",
    "torch.nn.functional.log_softmax": "f32[4,8], dim=-1",
    "torch.nn.functional.gelu": "",
    "torch.nn.functional.silu": "",
    "torch.nn.functional.softplus": "",
    "torch.nn.functional.leaky_relu": "",
    "torch.nn.functional.layer_norm": "f32[4,8], [8], f32[8], f32[8]",
    "torch.nn.functional.rms_norm": "f32[4,8], [8], f32[8]",
    "torch.nn.functional.group_norm": "f32[2,4,6], 2, f32[4], f32[4]",
    "torch.nn.functional.cross_entropy": "f32[4,8], i64[4]<8",
    "torch.nn.functional.nll_loss": "f32[4,8], i64[4]<8",
    "torch.nn.functional.huber_loss": "f32[4,8], f32[4,8]",
    "torch.nn.functional.binary_cross_entropy_with_logits": "f32[4,8], f32[4,8]",
    "torch.matmul": "f32[4,8], f32[8,5]",
    "torch.bmm": "f32[2,4,8], f32[2,8,5]",
    "torch.nn.functional.linear": "f32[4,8], f32[6,8], f32[6]",
    "torch.nn.functional.conv1d": "f32[2,3,9], f32[4,3,3]",
    "torch.nn.functional.conv2d": "f32[2,3,6,6], f32[4,3,3,3], f32[4]",
    "torch.nn.functional.max_pool2d": "f32[2,3,6,6], 2",
    "torch.nn.functional.avg_pool2d": "f32[2,3,6,6], 2",
    "torch.nn.functional.interpolate": "f32[2,3,4,4], scale_factor=2.0",
    "torch.nn.functional.embedding": "i64[6]<5, f32[5,4]",
    "torch.nn.functional.scaled_dot_product_attention": "f32[2,2,5,4], f32[2,2,5,4], f32[2,2,5,4]",
    "torch.nn.functional.normalize": "f32[4,8]",
    "torch.cumsum": "f32[4,8], 1",
    "torch.cumprod": "f32[4,8], 1",
    "torch.sort": "f32[4,8]",
    "torch.topk": "f32[4,8], 3",
    "torch.logsumexp": "f32[4,8], 1",
    "torch.sum": "f32[4,8]",
    "torch.mean": "f32[4,8]",
    "torch.var": "f32[4,8]",
    "torch.amax": "f32[4,8], 1",
    "torch.prod": "f32[4,8], 1",
    "torch.gather": "f32[4,8], 1, i64[4,3]<8",
    "torch.index_select": "f32[4,8], 1, i64[3]<8",
    "torch.where": "bool[4,8], f32[4,8], f32[4,8]",
    "torch.clamp": "f32[4,8], -0.5, 0.5",
    "torch.atan2": "",
    "torch.lerp": "f32[4,8], f32[4,8], 0.3",
    "torch.log": "",
    "torch.sqrt": "",
    "torch.logit": "",
    "torch.abs": "",
    "torch.sign": "",
    "torch.floor": "",
    "torch.argmax": "f32[4,8]",
    "torch.bitwise_and": "i64[4,8]<9, i64[4,8]<9",
    "torch.linalg.norm": "f32[4,8]",
    "torch.linalg.solve": "f32[4,4], f32[4,2]",
    "torch.outer": "f32[4], f32[8]",
    "torch.roll": "f32[4,8], 1, 1",
    "torch.tril": "f32[4,8]",
    "torch.nonzero": "f32[4,8]",
}
"""Torch's own functions, held against themselves."""
