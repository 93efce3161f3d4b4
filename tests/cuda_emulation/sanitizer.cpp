// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/sanitizer.hpp"

#if defined(__SANITIZE_THREAD__)
#define PARTITA_EMULATION_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PARTITA_EMULATION_TSAN 1
#endif
#endif

#ifdef PARTITA_EMULATION_TSAN

#include <sanitizer/tsan_interface.h>

// The sanitizer defines these, and no header declares them.
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}

namespace partita::cuda_emulation::sanitizer {
namespace {

void hide_accesses() noexcept {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
void show_accesses() noexcept {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

}  // namespace

void hide() noexcept {
  hide_accesses();
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}
void show() noexcept {
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  show_accesses();
}

HiddenAccesses::HiddenAccesses(bool hidden) noexcept : hidden_(hidden) {
  if (hidden_) hide_accesses();
}
HiddenAccesses::~HiddenAccesses() {
  if (hidden_) show_accesses();
}

void Edge::tell() noexcept {
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  __tsan_release(&at_);
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}
void Edge::learn() noexcept {
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  __tsan_acquire(&at_);
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

}  // namespace partita::cuda_emulation::sanitizer

#else

namespace partita::cuda_emulation::sanitizer {

void hide() noexcept {}
void show() noexcept {}
HiddenAccesses::HiddenAccesses(bool hidden) noexcept : hidden_(hidden) {}
HiddenAccesses::~HiddenAccesses() = default;
void Edge::tell() noexcept {}
void Edge::learn() noexcept {}

}  // namespace partita::cuda_emulation::sanitizer

#endif
