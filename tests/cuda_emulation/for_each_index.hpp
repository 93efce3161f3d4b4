// SPDX-License-Identifier: Apache-2.0
// Bodies as operations of the stand-ins: what backend/cuda/for_each_index.cuh is for nvcc.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "cuda_emulation/kernel.hpp"
#include "partita/backend/body.hpp"
#include "partita/backend/cuda/kernels.hpp"
#include "partita/cuda/error.hpp"

namespace partita {
namespace cuda_emulation {

template <class T>
Rectangle rectangle(View<T> v) {
  const auto pitch = static_cast<std::size_t>(v.rows == 1 ? v.cols : v.ld) * sizeof(T);
  return {v.data, pitch, static_cast<std::size_t>(v.cols) * sizeof(T), static_cast<std::size_t>(v.rows)};
}
template <class T>
Access access(View<T> v) {
  return v.empty() ? Access{} : Access{rectangle(v), !std::is_const_v<T>, nullptr};
}

template <class Body>
std::string name_of() {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(typeid(Body).name(), nullptr, nullptr, nullptr), &std::free);
  return text == nullptr ? typeid(Body).name() : text.get();
}

}  // namespace cuda_emulation

/// The body runs on the bytes behind the device addresses of the views that it names: one that it forgets to name is
/// memory that the host cannot reach.
template <class Body>
void detail::launch_for_each_index(cudaStream_t stream, index_t count, const Body& body) {
  using namespace cuda_emulation;
  const auto touched = map_views(body, [](const auto& view) { return access(view); });
  Body on_host = body;
  on_host.with_views([](auto&... view) { ((view.data = view.empty() ? nullptr : bytes_of(view.data)), ...); });
  const bool launched = launch(cuda_emulation::name_of<Body>(), stream, {touched.begin(), touched.end()},
                               [count, on_host] { run_body(count, on_host); });
  cuda_check(launched ? cudaSuccess : cudaErrorLaunchFailure, "launch_for_each_index");
}

/// An explicit instantiation defines the kernels of all bodies of the list.
template <class Bodies>
struct CudaKernels;
template <class... Body>
struct CudaKernels<BodyList<Body...>> {
  static void* const launches[];
};
template <class... Body>
void* const CudaKernels<BodyList<Body...>>::launches[] = {
    reinterpret_cast<void*>(&detail::launch_for_each_index<Body>)...};

}  // namespace partita
