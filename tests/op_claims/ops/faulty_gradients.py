"""Backwards with a fault, as people write them."""

import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.op_claims.cases import case

VALUE = "gradient-equals-reference"


@case("torch.relu", fails="incoming-gradient-untouched")
class WritesIntoTheIncomingGradient(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        g[x < 0] = 0
        return g


@case("torch.sigmoid", fails=VALUE)
class SavesTheInputAndTakesItForTheOutput(Function):
    @staticmethod
    def forward(ctx, x):
        y = 1 / (1 + torch.exp(-x))
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * (1 - y)


@case("torch.sin", fails=VALUE)
class InvertedSign(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return -g * ctx.saved_tensors[0].cos()


def scaled(x, factor=3.0):
    return x * factor


@case(scaled, fails=VALUE)
class ForgetsTheScale(Function):
    @staticmethod
    def forward(ctx, x, factor=3.0):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g, None


@case("torch.tanh", fails=VALUE)
class ForgetsTheChainRule(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return 1 - y * y


@case("torch.add", ("f32[4,8], f32[8]", "f32[4,8], f32[4,1]"), fails=VALUE)
class SumsTheBroadcastAlongTheWrongDimension(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.shapes = a.shape, b.shape
        return a + b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.shapes
        if b == a:
            return g, g
        if len(b) == len(a):  # keeps the dimension: should sum over the last one
            return g, g.sum(0, keepdim=True)[:, :1].expand(b)
        return g, g.sum(0)


@case("torch.mul", fails=VALUE)
class TakesItsOwnFactor(Function):
    """The gradient of a needs b, and the other way round."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * a, g * b


@case("torch.matmul", "f32[4,8], f32[8,8]", fails=VALUE)
class ForgetsToTranspose(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g @ b, a.T @ g


def mean_square(prediction, target):
    return F.mse_loss(prediction, target)


@case(mean_square, fails=VALUE)
class SumInsteadOfMean(Function):
    @staticmethod
    def forward(ctx, p, t):
        ctx.save_for_backward(p, t)
        return ((p - t) ** 2).mean()

    @staticmethod
    def backward(ctx, g):
        p, t = ctx.saved_tensors
        return g * 2 * (p - t), -g * 2 * (p - t)


@case("torch.exp", fails="second-gradient-equals-reference")
class SecondGradientIsSilentlyZero(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.detach().exp()
        return ctx.y.clone()

    @staticmethod
    def backward(ctx, g):
        return g.detach() * ctx.y


def cube(x):
    return x**3


@case(cube, fails="second-gradient-equals-reference")
class SecondGradientForgetsTheInput(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()
        return x**3

    @staticmethod
    def backward(ctx, g):
        return g * 3 * ctx.x**2


@case("torch.tanh", fails="gradient-independent-of-layout")
class ReadsTheIncomingGradientAsIfContiguous(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        if g.untyped_storage().nbytes() < g.numel() * g.element_size():  # expanded: one element
            return (1 - y * y) * g.as_strided((1,), (1,)).expand(y.shape) * (2 if y.numel() > 1 else 1)
        return (1 - y * y) * g.as_strided(y.shape, y.contiguous().stride())


@case("torch.relu", fails="gradient-independent-of-layout")
class ViewsTheIncomingGradient(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.relu()

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return (g.view(-1) * mask.reshape(-1)).view(mask.shape)


def first_columns(x, n=3):
    return x[:, :n] * 1


@case(first_columns, "f32[4,8]", fails=VALUE)
class GradientForTheWrongColumns(Function):
    @staticmethod
    def forward(ctx, x, n=3):
        ctx.shape, ctx.n = x.shape, n
        return x[:, :n].clone()

    @staticmethod
    def backward(ctx, g):
        out = g.new_zeros(ctx.shape)
        out[:, -ctx.n :] = g
        return out, None


@case("torch.nn.functional.softmax", "f32[4,8], dim=-1", fails=VALUE)
class SoftmaxSumsOverTheWrongAxis(Function):
    @staticmethod
    def forward(ctx, x, dim):
        y = torch.softmax(x, dim)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(0, keepdim=True)), None


@case("torch.nn.functional.embedding", "i64[6]<5, f32[5,4]", fails=VALUE)
class EmbeddingOverwritesRepeatedRows(Function):
    @staticmethod
    def forward(ctx, index, weight):
        ctx.save_for_backward(index)
        ctx.shape = weight.shape
        return weight[index]

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        out = g.new_zeros(ctx.shape)
        out[index] = g  # should add
        return None, out


@case("torch.mul", fails="gradients-for-any-subset")
class NeedsOfTheWrongInput(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        first = g * b if ctx.needs_input_grad[1] else None
        return first, g * a if ctx.needs_input_grad[1] else None


@case("torch.mul", fails="gradients-for-any-subset")
class SavesOnlyWhatBothNeed(Function):
    """Crashes when only one input is trained."""

    @staticmethod
    def forward(ctx, a, b):
        if all(ctx.needs_input_grad):
            ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a


@case("torch.exp", fails="incoming-gradient-untouched")
class WritesIntoWhatItSaved(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y.data.mul_(g)


@case("torch.cumsum", "f32[4,8], 1", fails=VALUE)
class CumulativeSumRunsTheSameWay(Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        return x.cumsum(dim)

    @staticmethod
    def backward(ctx, g):
        return g.cumsum(ctx.dim), None


@case("torch.nn.functional.layer_norm", "f32[4,8], [8], f32[8], f32[8]", fails=VALUE)
def layer_norm_with_detached_statistics(x, shape, weight, bias):
    mean = x.mean(-1, keepdim=True).detach()
    std = (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt().detach()
    return (x - mean) / std * weight + bias


@case("torch.abs", fails=VALUE)
def result_without_a_graph(x):
    return torch.from_numpy(abs(x.detach().numpy())) if x.dtype != torch.bfloat16 else x.detach().abs()


@case("torch.norm", "f32[4,8]", fails="gradient-at-zero-is-finite")
def norm_by_a_square_root(x):
    return (x * x).sum().sqrt()


@case(fails="gradient-equals-differences")
class WrongWithoutAReference(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        s = torch.sigmoid(ctx.saved_tensors[0])
        return g * s


@case("torch.round", gradient_of="identity", fails=VALUE)
class StraightThroughThatClips(Function):
    """The gradient is said to be that of the identity, and is not where |x| > 1."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0].abs() <= 1)


def half_precision_sum(x):
    return x.sum(-1)


@case(half_precision_sum, "f32[4,8]", fails=VALUE)
class GradientInHalfPrecision(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.sum(-1)

    @staticmethod
    def backward(ctx, g):
        return g.half().unsqueeze(-1).expand(ctx.shape).float() * 1


@case("torch.max", "f32[4,8], dim=-1", fails=VALUE)
class GradientOfMaxToEveryElement(Function):
    @staticmethod
    def forward(ctx, x, dim):
        values, index = x.max(dim)
        ctx.mark_non_differentiable(index)
        ctx.shape, ctx.dim = x.shape, dim
        return values, index

    @staticmethod
    def backward(ctx, g, _):
        return g.unsqueeze(ctx.dim).expand(ctx.shape) / ctx.shape[ctx.dim], None


@case("torch.relu", fails="inputs-untouched")
class BackwardWritesIntoTheInput(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()
        return x.relu()

    @staticmethod
    def backward(ctx, g):
        return ctx.x.gt_(0) * g


@case("torch.exp", fails="incoming-gradient-untouched")
class CountsItsBackwards(Function):
    """A second backward through the same graph gives a different gradient."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        ctx.calls = 0
        return y

    @staticmethod
    def backward(ctx, g):
        ctx.calls += 1
        return g * ctx.saved_tensors[0] * ctx.calls
