// SPDX-License-Identifier: Apache-2.0
// What the tests of the stand-ins have in common: a fresh machine, checked results, and ranks as threads.
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "cuda_emulation/control.hpp"

namespace partita::cuda_emulation {

/// Every call of a correct program succeeds.
inline void ok(cudaError_t result) { REQUIRE(result == cudaSuccess); }

/// A fresh machine; at the end nothing was found and nothing is left, unless the test took the reports.
struct Fresh {
  explicit Fresh(const Options& options = {}) { reset(options); }
  Fresh(const Fresh&) = delete;
  Fresh& operator=(const Fresh&) = delete;
  ~Fresh() {
    for (const Report& r : take_reports()) FAIL_CHECK(r.text);
    CHECK(live().total() == 0);
  }
};

inline Options with(Progress progress, int devices = 8) {
  Options options;
  options.progress = progress;
  options.devices = devices;
  return options;
}
/// For a test that makes races on purpose, which a sanitizer would report too.
inline Options racing(Options options = {}) {
  options.shown = false;
  return options;
}
inline constexpr Progress all_progress[] = {Progress::normal, Progress::earliest, Progress::latest};

/// The one report that there is, of this kind and with these words.
inline void found(Finding kind, const std::vector<std::string>& words) {
  const std::vector<Report> reports = take_reports();
  for (const Report& r : reports) INFO(r.text);
  REQUIRE(!reports.empty());
  CHECK(reports.front().kind == kind);
  for (const std::string& word : words) {
    CAPTURE(reports.front().text);
    CAPTURE(word);
    CHECK(reports.front().text.find(word) != std::string::npos);
  }
}
inline void found_nothing() {
  for (const Report& r : take_reports()) FAIL_CHECK(r.text);
}

struct Stream {
  cudaStream_t handle = nullptr;
  explicit Stream(const std::string& text = "") {
    ok(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking));
    if (!text.empty()) name(handle, text);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    cudaStreamSynchronize(handle);
    cudaStreamDestroy(handle);
  }
  operator cudaStream_t() const { return handle; }  // NOLINT
  void sync() const { ok(cudaStreamSynchronize(handle)); }
};

struct Event {
  cudaEvent_t handle = nullptr;
  Event() { ok(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(handle); }
  operator cudaEvent_t() const { return handle; }  // NOLINT
};

template <class T>
struct Array {
  T* data = nullptr;
  std::size_t count = 0;
  explicit Array(std::size_t n, const std::string& text = "") : count(n) {
    ok(cudaMalloc(reinterpret_cast<void**>(&data), n * sizeof(T)));
    if (!text.empty() && data != nullptr) name(data, text);
  }
  explicit Array(const std::vector<T>& values, const std::string& text = "") : Array(values.size(), text) {
    if (data != nullptr) ok(cudaMemcpy(data, values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() {
    cudaDeviceSynchronize();
    cudaFree(data);
  }
  [[nodiscard]] std::size_t bytes() const { return count * sizeof(T); }
  /// After all work of the device.
  [[nodiscard]] std::vector<T> host() const {
    std::vector<T> values(count);
    ok(cudaDeviceSynchronize());
    if (count > 0) ok(cudaMemcpy(values.data(), data, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }
};

/// `f(rank)` on a thread each, with its own device current, ordered after what came before and before what comes after.
template <class F>
void on_ranks(int ranks, F f) {
  static char begun;
  static char ended;
  publish(&begun);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      observe(&begun);
      try {
        ok(cudaSetDevice(rank));
        f(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
      publish(&ended);
    });
  }
  for (std::thread& t : threads) t.join();
  observe(&ended);
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

}  // namespace partita::cuda_emulation
