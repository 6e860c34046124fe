// relu(gate) * value and its gradient, element by element, on the CPU: what `reglu.py` compiles and calls.
// One pass over memory; torch's two operations (relu, product) take two.

#include <ATen/Parallel.h>
#include <torch/library.h>
#include <ATen/ATen.h>

namespace {

constexpr int64_t kElementsPerTask = 32768;

void refuse_unlike(const at::Tensor& gate, const at::Tensor& value) {
  TORCH_CHECK(gate.sizes() == value.sizes() && gate.scalar_type() == value.scalar_type(),
              "reglu needs two tensors of one shape and dtype, but they are ", gate.sizes(), " ", gate.scalar_type(),
              " and ", value.sizes(), " ", value.scalar_type(), ". Nothing was computed.");
}

at::Tensor forward_cpu(const at::Tensor& gate, const at::Tensor& value) {
  refuse_unlike(gate, value);
  auto a = gate.contiguous(), b = value.contiguous();
  auto out = at::empty(a.sizes(), a.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, a.scalar_type(), "reglu", [&] {
    using wide_t = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
    const auto* pa = a.const_data_ptr<scalar_t>();
    const auto* pb = b.const_data_ptr<scalar_t>();
    auto* po = out.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, a.numel(), kElementsPerTask, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const wide_t x = static_cast<wide_t>(pa[i]);
        // `x < 0`, not `x > 0`: NaN stays NaN, as in torch.
        po[i] = static_cast<scalar_t>((x < 0 ? wide_t(0) : x) * static_cast<wide_t>(pb[i]));
      }
    });
  });
  return out;
}

std::tuple<at::Tensor, at::Tensor> backward_cpu(const at::Tensor& arrived, const at::Tensor& gate,
                                                const at::Tensor& value) {
  auto g = arrived.contiguous(), a = gate.contiguous(), b = value.contiguous();
  auto of_gate = at::empty(a.sizes(), a.options()), of_value = at::empty(a.sizes(), a.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, a.scalar_type(), "reglu_backward", [&] {
    using wide_t = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
    const auto* pg = g.const_data_ptr<scalar_t>();
    const auto* pa = a.const_data_ptr<scalar_t>();
    const auto* pb = b.const_data_ptr<scalar_t>();
    auto* ga = of_gate.mutable_data_ptr<scalar_t>();
    auto* gb = of_value.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, a.numel(), kElementsPerTask, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const wide_t x = static_cast<wide_t>(pa[i]), incoming = static_cast<wide_t>(pg[i]);
        ga[i] = static_cast<scalar_t>(x <= 0 ? wide_t(0) : incoming * static_cast<wide_t>(pb[i]));
        gb[i] = static_cast<scalar_t>(incoming * (x < 0 ? wide_t(0) : x));
      }
    });
  });
  return {of_gate, of_value};
}

}  // namespace

TORCH_LIBRARY(trueloop_cpp, m) {
  m.def("reglu(Tensor gate, Tensor value) -> Tensor");
  m.def("reglu_backward(Tensor arrived, Tensor gate, Tensor value) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(trueloop_cpp, CPU, m) {
  m.impl("reglu", &forward_cpu);
  m.impl("reglu_backward", &backward_cpu);
}
