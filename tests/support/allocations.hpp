// SPDX-License-Identifier: Apache-2.0
// Counts what a thread allocates. Stands in for malloc, its kin and mmap, so that exactly one unit of an executable may
// include it; not under sanitizers, which do the same. On glibc only: elsewhere nothing is counted.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace partita::test {

/// Of one thread. What is asked for while `inside` is above zero is another library's.
struct Allocations {
  long memory = 0;    // malloc, calloc, realloc, aligned_alloc, …, and operator new, which calls them
  long mappings = 0;  // mmap
  long foreign = 0;
  int inside = 0;

  void count(long Allocations::* kind) noexcept { ++(this->*(inside > 0 ? &Allocations::foreign : kind)); }
};
inline thread_local constinit Allocations allocations;

}  // namespace partita::test

#if defined(__GLIBC__) && !defined(PARTITA_TEST_SANITIZED)
namespace partita::test {
inline constexpr bool counts_allocations = true;
}

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) noexcept {
  partita::test::allocations.count(&partita::test::Allocations::memory);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  partita::test::allocations.count(&partita::test::Allocations::memory);
  return __libc_calloc(count, bytes);
}
void* realloc(void* data, std::size_t bytes) noexcept {
  partita::test::allocations.count(&partita::test::Allocations::memory);
  return __libc_realloc(data, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  partita::test::allocations.count(&partita::test::Allocations::memory);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) noexcept {
  *data = memalign(alignment, bytes);
  return *data == nullptr ? ENOMEM : 0;
}
void* mmap(void* address, std::size_t length, int protection, int flags, int file, off_t offset) noexcept {
  partita::test::allocations.count(&partita::test::Allocations::mappings);
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, file, offset));
}
}
#else
namespace partita::test {
inline constexpr bool counts_allocations = false;
}
#endif
