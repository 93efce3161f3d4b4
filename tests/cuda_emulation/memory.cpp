// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "cuda_emulation/machine.hpp"

namespace partita::cuda_emulation {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t trim_after = std::size_t{128} << 20;

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }
std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
void fill(std::uintptr_t at, std::size_t bytes) {
  char* const first = reinterpret_cast<char*>(at);
  const std::size_t seen = std::min(bytes, Memory::most_shown);
  shown([=] { std::memset(first, Memory::poison, seen); });
  std::memset(first + seen, Memory::poison, bytes - seen);
}

}  // namespace

void Memory::clear() {
  for (auto& [base, block] : blocks_) {
    if (block->space == Space::pinned && block->live) std::free(reinterpret_cast<void*>(base));
  }
  blocks_.clear();
  for (Range& r : ranges_) munmap(reinterpret_cast<void*>(r.begin), 2 * distance);
  ranges_.clear();
}

void Memory::open(int devices) {
  for (int d = 0; d < devices; ++d) {
    void* both = mmap(nullptr, 2 * distance, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (both == MAP_FAILED) throw std::bad_alloc();
    mprotect(static_cast<char*>(both) + distance, distance, PROT_READ | PROT_WRITE);
    const std::uintptr_t begin = address(both);
    ranges_.push_back({begin, begin, begin, 0, 0, {}});
  }
}

/// The next free addresses; after the last ones, the first that hold none in use.
std::uintptr_t Memory::place(Range& r, std::size_t bytes, std::size_t alignment) {
  const std::size_t size = rounded(bytes, granule) + granule;  // a gap behind each block
  std::uintptr_t at = rounded(r.cursor, alignment);
  if (at + size > r.begin + distance) at = r.begin;
  for (auto it = blocks_.lower_bound(at); it != blocks_.end() && it->first < at + size;) {
    if (!it->second->released) {
      at = rounded(it->first + rounded(it->second->bytes, granule) + granule, alignment);
      ++it;
    } else {
      it = blocks_.erase(it);
    }
  }
  if (at + size > r.begin + distance) throw std::bad_alloc();
  if (at < r.touched) r.freed.learn();
  r.cursor = at + size;
  r.touched = std::max(r.touched, r.cursor);
  return at;
}

std::shared_ptr<Block> Memory::allocate(int device, std::size_t bytes, std::size_t capacity, std::size_t alignment) {
  Range& r = range(device);
  if (bytes > capacity || r.used + bytes > capacity) return nullptr;
  auto block = std::make_shared<Block>();
  block->base = place(r, bytes, alignment);
  block->bytes = bytes;
  block->device = device;
  block->label = "device memory #" + std::to_string(++made_);
  fill(block->base + distance, bytes);
  r.used += bytes;
  blocks_[block->base] = block;
  return block;
}

std::shared_ptr<Block> Memory::allocate_pinned(int device, std::size_t bytes) {
  void* data = std::aligned_alloc(page, rounded(std::max<std::size_t>(bytes, 1), page));
  if (data == nullptr) return nullptr;
  fill(address(data), bytes);
  auto block = std::make_shared<Block>();
  block->base = address(data);
  block->bytes = bytes;
  block->space = Space::pinned;
  block->device = device;
  block->label = "page-locked memory #" + std::to_string(++made_);
  blocks_[block->base] = block;
  return block;
}

void Memory::retire(Block& block, const std::string& who) {
  block.live = false;
  block.freed_by = who;
}

void Memory::release(Block& block) {
  block.footprints.clear();
  block.released = true;
  if (block.space == Space::pinned) {
    void* data = reinterpret_cast<void*>(block.base);
    fill(block.base, block.bytes);
    blocks_.erase(block.base);
    std::free(data);
    return;
  }
  Range& r = range(block.device);
  fill(block.base + distance, block.bytes);
  r.freed.tell();
  r.used -= block.bytes;
  r.retired += block.bytes + granule;
  if (r.retired > trim_after) trim(r);
}

/// Gives the pages of retired blocks back to the system.
void Memory::trim(Range& r) {
  std::uintptr_t free_from = r.begin;
  const auto give_back = [&](std::uintptr_t until) {
    const std::uintptr_t first = rounded(free_from, page);
    const std::uintptr_t last = until / page * page;
    if (first < last) madvise(reinterpret_cast<void*>(first + distance), last - first, MADV_DONTNEED);
  };
  for (auto it = blocks_.lower_bound(r.begin); it != blocks_.end() && it->first < r.begin + distance;) {
    if (it->second->released) {
      it = blocks_.erase(it);
      continue;
    }
    give_back(it->first);
    free_from = it->first + it->second->bytes;
    ++it;
  }
  give_back(r.touched);
  r.retired = 0;
}

std::shared_ptr<Block> Memory::find(const void* p) const {
  auto it = blocks_.upper_bound(address(p));
  if (it == blocks_.begin()) return nullptr;
  --it;
  const Block& block = *it->second;
  const std::size_t reach = block.space == Space::device ? rounded(block.bytes, granule) + granule : block.bytes;
  return address(p) < block.base + std::max<std::size_t>(reach, 1) ? it->second : nullptr;
}

bool Memory::is_device_address(const void* p) const {
  for (const Range& r : ranges_) {
    if (address(p) >= r.begin && address(p) < r.begin + distance) return true;
  }
  return false;
}

std::size_t Memory::used(int device) const {
  const auto d = static_cast<std::size_t>(device);
  return d < ranges_.size() ? ranges_[d].used : 0;
}

int Memory::live(Space space) const {
  int count = 0;
  for (const auto& [base, block] : blocks_) count += block->live && block->space == space ? 1 : 0;
  return count;
}

}  // namespace partita::cuda_emulation
