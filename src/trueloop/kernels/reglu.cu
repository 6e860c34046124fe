// relu(gate) * value and its gradient on a GPU; `reglu.cpp` has the same for the CPU and the operator's schema.

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

namespace {

constexpr int kThreads = 256;

template <typename scalar_t>
using wide = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;

// 16 bytes of a tensor, which a thread reads and writes at once.
template <typename scalar_t>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(scalar_t);
  scalar_t values[kSize];
};

template <typename scalar_t>
__device__ scalar_t forward_one(scalar_t a, scalar_t b) {
  const wide<scalar_t> x = a;
  // `x < 0`, not `x > 0`: NaN stays NaN, as in torch.
  return static_cast<scalar_t>((x < 0 ? wide<scalar_t>(0) : x) * static_cast<wide<scalar_t>>(b));
}

template <typename scalar_t>
__device__ void backward_one(scalar_t g, scalar_t a, scalar_t b, scalar_t& ga, scalar_t& gb) {
  const wide<scalar_t> x = a, incoming = g;
  ga = static_cast<scalar_t>(x <= 0 ? wide<scalar_t>(0) : incoming * static_cast<wide<scalar_t>>(b));
  gb = static_cast<scalar_t>(incoming * (x < 0 ? wide<scalar_t>(0) : x));
}

template <typename scalar_t>
__global__ void forward_kernel(const scalar_t* a, const scalar_t* b, scalar_t* out, int64_t count) {
  using P = Pack<scalar_t>;
  const int64_t first = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * P::kSize;
  if (first + P::kSize <= count) {
    const P left = *reinterpret_cast<const P*>(a + first), right = *reinterpret_cast<const P*>(b + first);
    P result;
#pragma unroll
    for (int i = 0; i < P::kSize; ++i) result.values[i] = forward_one(left.values[i], right.values[i]);
    *reinterpret_cast<P*>(out + first) = result;
  } else {
    for (int64_t i = first; i < count; ++i) out[i] = forward_one(a[i], b[i]);
  }
}

template <typename scalar_t>
__global__ void backward_kernel(const scalar_t* g, const scalar_t* a, const scalar_t* b, scalar_t* ga, scalar_t* gb,
                                int64_t count) {
  using P = Pack<scalar_t>;
  const int64_t first = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * P::kSize;
  if (first + P::kSize <= count) {
    const P incoming = *reinterpret_cast<const P*>(g + first);
    const P left = *reinterpret_cast<const P*>(a + first), right = *reinterpret_cast<const P*>(b + first);
    P of_left, of_right;
#pragma unroll
    for (int i = 0; i < P::kSize; ++i)
      backward_one(incoming.values[i], left.values[i], right.values[i], of_left.values[i], of_right.values[i]);
    *reinterpret_cast<P*>(ga + first) = of_left;
    *reinterpret_cast<P*>(gb + first) = of_right;
  } else {
    for (int64_t i = first; i < count; ++i) backward_one(g[i], a[i], b[i], ga[i], gb[i]);
  }
}

template <typename scalar_t>
unsigned blocks(int64_t count) {
  const int64_t per_block = int64_t(kThreads) * Pack<scalar_t>::kSize;
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

// Contiguous, and begun at a multiple of 16 bytes: a view into the middle of a tensor is copied.
at::Tensor packed(const at::Tensor& tensor) {
  auto flat = tensor.contiguous();
  return reinterpret_cast<uintptr_t>(flat.const_data_ptr()) % 16 ? flat.clone() : flat;
}

at::Tensor forward_cuda(const at::Tensor& gate, const at::Tensor& value) {
  TORCH_CHECK(gate.sizes() == value.sizes() && gate.scalar_type() == value.scalar_type(),
              "reglu needs two tensors of one shape and dtype. Nothing was computed.");
  const at::cuda::OptionalCUDAGuard guard(gate.device());
  auto a = packed(gate), b = packed(value);
  auto out = at::empty(a.sizes(), a.options());
  if (!a.numel()) return out;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, a.scalar_type(), "reglu", [&] {
    forward_kernel<scalar_t><<<blocks<scalar_t>(a.numel()), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        a.const_data_ptr<scalar_t>(), b.const_data_ptr<scalar_t>(), out.mutable_data_ptr<scalar_t>(), a.numel());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return out;
}

std::tuple<at::Tensor, at::Tensor> backward_cuda(const at::Tensor& arrived, const at::Tensor& gate,
                                                 const at::Tensor& value) {
  const at::cuda::OptionalCUDAGuard guard(gate.device());
  auto g = packed(arrived), a = packed(gate), b = packed(value);
  auto of_gate = at::empty(a.sizes(), a.options()), of_value = at::empty(a.sizes(), a.options());
  if (!a.numel()) return {of_gate, of_value};
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, a.scalar_type(), "reglu_backward", [&] {
    backward_kernel<scalar_t><<<blocks<scalar_t>(a.numel()), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        g.const_data_ptr<scalar_t>(), a.const_data_ptr<scalar_t>(), b.const_data_ptr<scalar_t>(),
        of_gate.mutable_data_ptr<scalar_t>(), of_value.mutable_data_ptr<scalar_t>(), a.numel());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {of_gate, of_value};
}

}  // namespace

TORCH_LIBRARY_IMPL(trueloop_cpp, CUDA, m) {
  m.impl("reglu", &forward_cuda);
  m.impl("reglu_backward", &backward_cuda);
}
