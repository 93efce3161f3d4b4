// SPDX-License-Identifier: Apache-2.0
// What the thread sanitizer sees of the stand-ins: what operations touch, and the order that CUDA promises. How the
// stand-ins keep their own books orders more than a device does, and is hidden. Without it nothing here does anything.
#pragma once

namespace partita::cuda_emulation::sanitizer {

/// From now on the calling thread's accesses and synchronisation are hidden, until show().
void hide() noexcept;
void show() noexcept;

/// The calling thread's accesses are hidden, its synchronisation as it was.
class HiddenAccesses {
 public:
  explicit HiddenAccesses(bool hidden = true) noexcept;
  HiddenAccesses(const HiddenAccesses&) = delete;
  HiddenAccesses& operator=(const HiddenAccesses&) = delete;
  ~HiddenAccesses();

 private:
  bool hidden_;
};

/// Order from one thread's past to another's future: all that a thread did before it tells has happened for the thread
/// that learns later. Pre: the calling thread is hidden, once.
class Edge {
 public:
  void tell() noexcept;
  void learn() noexcept;

 private:
  char at_ = 0;  // its address is what the sanitizer knows
};

}  // namespace partita::cuda_emulation::sanitizer
