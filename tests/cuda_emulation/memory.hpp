// SPDX-License-Identifier: Apache-2.0
// Memory of the devices and page-locked memory of the host: who owns which bytes, and what touched them last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_emulation/clock.hpp"
#include "cuda_emulation/rectangle.hpp"
#include "cuda_emulation/sanitizer.hpp"

namespace partita::cuda_emulation {

enum class Space { device, pinned, pageable };

/// An access that later ones must be ordered after.
struct Footprint {
  Rectangle where;
  bool writes = false;
  Epoch epoch;
  std::shared_ptr<const std::string> who;
};

struct Block {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  Space space = Space::device;
  int device = 0;
  bool live = true;       // for calls
  bool released = false;  // for operations
  std::string label;
  std::string freed_by;
  std::vector<Footprint> footprints;
};

/// Every device address lies in a range that nobody may dereference; the bytes lie a fixed distance away.
///
///   device d   |-------- addresses, no access --------|-------- bytes --------|
///              ^ reserved(d)                          ^ reserved(d) + distance
///
/// Addresses are handed out upwards and reused late, so that stale ones are recognised.
class Memory {
 public:
  static constexpr unsigned char poison = 0xff;  // NaN in all floating-point formats
  static constexpr std::size_t granule = 512;    // what addresses are aligned to
  // What a sanitizer sees of an allocation or a free: of more memory, which is scratch, the first part stands for all.
  static constexpr std::size_t most_shown = std::size_t{1} << 16;

  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { clear(); }

  void clear();
  void open(int devices);
  /// Null when the device has no such room left.
  std::shared_ptr<Block> allocate(int device, std::size_t bytes, std::size_t capacity, std::size_t alignment = granule);
  std::shared_ptr<Block> allocate_pinned(int device, std::size_t bytes);
  /// Marks the block as gone for every call from now on; its bytes stay for what is still under way.
  void retire(Block& block, const std::string& who);
  /// Poisons the bytes of a retired block, and gives them back.
  void release(Block& block);

  /// The block, live or retired, that holds or last held the address.
  [[nodiscard]] std::shared_ptr<Block> find(const void* address) const;
  /// Whether the address lies in a device's range, allocated or not.
  [[nodiscard]] bool is_device_address(const void* address) const;
  [[nodiscard]] std::size_t used(int device) const;
  [[nodiscard]] int live(Space space) const;

  /// Where the bytes of an address are; a host address is its own.
  template <class T>
  [[nodiscard]] T* bytes_of(T* address) const {
    if (!is_device_address(address)) return address;
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(address) + distance);
  }

 private:
  static constexpr std::size_t distance = std::size_t{16} << 30;
  struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t cursor = 0;
    std::uintptr_t touched = 0;
    std::size_t used = 0;
    std::size_t retired = 0;
    sanitizer::Edge freed;  // for whom addresses are used again
  };
  [[nodiscard]] Range& range(int device) { return ranges_[static_cast<std::size_t>(device)]; }
  [[nodiscard]] std::uintptr_t place(Range& range, std::size_t bytes, std::size_t alignment);
  void trim(Range& range);

  std::vector<Range> ranges_;
  std::map<std::uintptr_t, std::shared_ptr<Block>> blocks_;
  std::uint64_t made_ = 0;
};

}  // namespace partita::cuda_emulation
