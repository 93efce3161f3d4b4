// SPDX-License-Identifier: Apache-2.0
// For tools that see the calls of CUDA, and not how threads of the host wait for each other.
#pragma once

namespace partita::detail {

/// All that a thread did before it tells a key has happened for the thread that later learns the same key.
struct HostOrder {
  void (*tell)(const void* key) = nullptr;
  void (*learn)(const void* key) = nullptr;
};

/// Set before ranks are launched, or never.
inline constinit HostOrder host_order{};

inline void tell_order(const void* key) {
  if (host_order.tell != nullptr) host_order.tell(key);
}
inline void learn_order(const void* key) {
  if (host_order.learn != nullptr) host_order.learn(key);
}

}  // namespace partita::detail
