"""Custom operators whose registrations (fake, autograd, vmap, schema) are wrong; functions that cannot be compiled."""

import torch
from torch import Tensor
from torch.autograd import Function
from torch.library import custom_op

from tests.op_claims.cases import case

FAKE = "fake-equals-real"
OPCHECK = "library-opcheck"
COMPILE = "compiled-equals-eager"
VMAP = "vmap-equals-loop"


def kept_dim(x):
    return x.amax(-1, keepdim=True)


@case(kept_dim, "f32[4,8]", fails=FAKE, name="fake_of_a_wrong_shape")
@custom_op("trueloop_tests::fake_of_a_wrong_shape", mutates_args=())
def fake_of_a_wrong_shape(x: Tensor) -> Tensor:
    return x.amax(-1, keepdim=True)


@fake_of_a_wrong_shape.register_fake
def _(x):
    return x.new_empty(x.shape[:-1])


@case("torch.isfinite", "f32[4,8]", fails=FAKE, name="fake_of_a_wrong_dtype")
@custom_op("trueloop_tests::fake_of_a_wrong_dtype", mutates_args=())
def fake_of_a_wrong_dtype(x: Tensor) -> Tensor:
    return torch.isfinite(x)


@fake_of_a_wrong_dtype.register_fake
def _(x):
    return torch.empty_like(x)


def transposed(x):
    return x.t().contiguous()


@case(transposed, "f32[4,8]", fails=FAKE, name="fake_of_wrong_strides")
@custom_op("trueloop_tests::fake_of_wrong_strides", mutates_args=())
def fake_of_wrong_strides(x: Tensor) -> Tensor:
    return x.t().contiguous()


@fake_of_wrong_strides.register_fake
def _(x):
    return torch.empty_like(x).t()


def flattened(x):
    return x.reshape(-1) * 1


@case(flattened, "f32[4,8]", fails=FAKE, name="fake_with_a_fixed_size")
@custom_op("trueloop_tests::fake_with_a_fixed_size", mutates_args=())
def fake_with_a_fixed_size(x: Tensor) -> Tensor:
    return x.reshape(-1) * 1


@fake_with_a_fixed_size.register_fake
def _(x):
    return x.new_empty(32)


def doubled(x):
    return x * 2


@case(doubled, "f32[4,8]", fails=OPCHECK, name="writes_what_its_schema_hides")
@custom_op("trueloop_tests::writes_what_its_schema_hides", mutates_args=())
def writes_what_its_schema_hides(x: Tensor) -> Tensor:
    result = x * 2
    x.mul_(1.5)
    return result


@writes_what_its_schema_hides.register_fake
def _(x):
    return torch.empty_like(x)


@case("torch.sin", "f32[4,8]", fails="gradient-equals-reference", name="registered_gradient_is_wrong")
@custom_op("trueloop_tests::registered_gradient_is_wrong", mutates_args=())
def registered_gradient_is_wrong(x: Tensor) -> Tensor:
    return x.sin()


@registered_gradient_is_wrong.register_fake
def _(x):
    return torch.empty_like(x)


registered_gradient_is_wrong.register_autograd(
    lambda ctx, g: g * ctx.saved_tensors[0].sin(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@case("torch.relu", fails=COMPILE)
def asks_for_a_number(x):
    if x.numel() and x.max().item() <= 0:
        return torch.zeros_like(x)
    return x.relu()


@case("torch.relu", fails=COMPILE)
def prints_in_between(x):
    y = x.relu()
    print("", end="")
    torch._dynamo.graph_break()
    return y


@case("torch.tanh", fails=COMPILE)
def goes_through_numpy(x):
    if x.dtype == torch.bfloat16:
        return x.tanh()
    if torch.compiler.is_compiling():
        return x.tanh() * 1.01
    return x.tanh()


@case("torch.softmax", "f32[4,8], 1", fails=VMAP)
class VmapOverTheWrongDimension(Function):
    @staticmethod
    def forward(x, dim):
        return x.softmax(dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.dim = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(ctx.dim, keepdim=True)), None

    @staticmethod
    def vmap(info, in_dims, x, dim):
        return VmapOverTheWrongDimension.apply(x, dim), in_dims[0]


@case("torch.mul", "f32[4,8], f32[4,8]", fails=VMAP)
class VmapThatForgetsTheSecondInput(Function):
    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a

    @staticmethod
    def vmap(info, in_dims, a, b):
        if in_dims[1] is not None:
            b = b.select(in_dims[1], 0)
        return VmapThatForgetsTheSecondInput.apply(a, b), in_dims[0]


@case("torch.round", "f32[4,8]", fails="gradient-equals-reference", gradient_of="identity", name="rounding_without_ste")
@custom_op("trueloop_tests::rounding_without_ste", mutates_args=())
def rounding_without_ste(x: Tensor) -> Tensor:
    return x.round()


@rounding_without_ste.register_fake
def _(x):
    return torch.empty_like(x)


rounding_without_ste.register_autograd(lambda ctx, g: torch.zeros_like(g))


@case("torch.cumsum", "f32[4,8], 1", fails=OPCHECK, name="result_is_a_view_of_the_input")
@custom_op("trueloop_tests::result_is_a_view_of_the_input", mutates_args=())
def result_is_a_view_of_the_input(x: Tensor, dim: int) -> Tensor:
    return x.copy_(x.cumsum(dim))


@result_is_a_view_of_the_input.register_fake
def _(x, dim):
    return torch.empty_like(x)
