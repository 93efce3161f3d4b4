// SPDX-License-Identifier: Apache-2.0
// What one rank owns: its communicator, its backend, reusable workspace, and the register of live tensors' memory.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "partita/backend/concepts.hpp"
#include "partita/base/pool.hpp"
#include "partita/comm/concepts.hpp"

namespace partita {

namespace detail {
/// The backend that goes with a communicator: on its timeline, where it has one.
template <class BackendT, class CommT>
BackendT backend_beside(const CommT& comm) {
  if constexpr (requires { BackendT(comm.timeline()); }) {
    return BackendT(comm.timeline());
  } else {
    return BackendT{};
  }
}
}  // namespace detail

/// Context outlives grid outlives tensor. Neither copied nor moved: grids and tensors point to it.
template <class BackendT, class CommT>
class Context {
  static_assert(Communicator<CommT>, "Context<Backend, Comm> needs a communicator (partita/comm/concepts.hpp)");
  static_assert(Backend<BackendT>, "Context<Backend, Comm> needs a backend (partita/backend/concepts.hpp)");

 public:
  using backend_type = BackendT;
  using comm_type = CommT;

  /// The backend of a device shares the communicator's timeline.
  explicit Context(CommT comm) : comm_(std::move(comm)), backend_(detail::backend_beside<BackendT>(comm_)) {}
  Context(CommT comm, BackendT backend) : comm_(std::move(comm)), backend_(std::move(backend)) {
    if constexpr (requires { comm_.timeline() == backend_.timeline(); }) {
      if (comm_.timeline() != backend_.timeline()) {
        throw ArgumentError(
            "ArgumentError: Context: the backend has a timeline of its own; make it with the "
            "communicator's: Backend(comm.timeline(), options)");
      }
    }
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] CommT& comm() noexcept { return comm_; }
  [[nodiscard]] BackendT& backend() noexcept { return backend_; }
  [[nodiscard]] int rank() const noexcept { return comm_.rank(); }
  [[nodiscard]] int size() const noexcept { return comm_.size(); }

  /// Waits for all work on this context. On CPUs calls return complete, and this returns at once.
  void sync() { backend_.sync(); }

  /// For what is noted while an operation runs.
  template <class T>
  [[nodiscard]] detail::Pooled<T> pooled() const noexcept {
    return detail::Pooled<T>(records_);
  }

  /// Scratch memory number `slot`, for `count` elements of T: kept between calls and grown when too small. What stood
  /// in it is lost. Throws CapacityError.
  template <class T>
  [[nodiscard]] T* workspace(int slot, index_t count) {
    const auto s = static_cast<std::size_t>(slot);
    if (s >= workspace_.size()) workspace_.resize(s + 1);
    const std::size_t bytes = byte_count<T>(count);
    Scratch& scratch = workspace_[s];
    if (scratch.bytes < bytes) {
      scratch.memory.reset();
      scratch.bytes = 0;
      scratch.memory = comm_.allocate(bytes);
      scratch.bytes = bytes;
    }
    return reinterpret_cast<T*>(scratch.memory.get());
  }

  /// Memory for a block of `count` elements, from the communicator, so that peers can reach it.
  template <class T>
  [[nodiscard]] Memory allocate(index_t count) {
    return comm_.allocate(byte_count<T>(count));
  }

  /// The largest identity below `bound` of a live allocation that overlaps [data, data + bytes) on this rank, or 0.
  [[nodiscard]] index_t identity_at(const void* data, std::size_t bytes, index_t bound) const {
    if (bytes == 0) return 0;
    const auto* first = static_cast<const std::byte*>(data);
    const std::less<const std::byte*> before;
    index_t found = 0;
    for (const auto& [begin, region] : regions_) {
      const bool overlaps = before(begin, first + bytes) && before(first, region.end);
      if (overlaps && region.identity < bound && region.identity > found) found = region.identity;
    }
    return found;
  }
  /// A fresh identity; every rank draws the same one, since tensors are constructed collectively.
  [[nodiscard]] index_t next_identity() noexcept { return ++last_identity_; }

  /// Enters a tensor's block into the register; the handle that comes back takes it out again.
  [[nodiscard]] auto enter(const void* data, std::size_t bytes, index_t identity) {
    return Registration(this, static_cast<const std::byte*>(data), bytes, identity);
  }

 private:
  struct Scratch {
    Memory memory;
    std::size_t bytes = 0;
  };
  struct Region {
    const std::byte* end;
    index_t identity;
  };
  using Regions = std::multimap<const std::byte*, Region, std::less<>>;

  class Registration {
   public:
    Registration() = default;
    Registration(Context* context, const std::byte* data, std::size_t bytes, index_t identity) : context_(context) {
      if (bytes == 0) {
        context_ = nullptr;
      } else {
        at_ = context->regions_.insert({data, {data + bytes, identity}});
      }
    }
    Registration(Registration&& other) noexcept : context_(std::exchange(other.context_, nullptr)), at_(other.at_) {}
    Registration& operator=(Registration&& other) noexcept {
      std::swap(context_, other.context_);
      std::swap(at_, other.at_);
      return *this;
    }
    ~Registration() {
      if (context_ != nullptr) context_->regions_.erase(at_);
    }

   private:
    Context* context_ = nullptr;
    typename Regions::iterator at_{};
  };

  template <class T>
  static std::size_t byte_count(index_t count) {
    return static_cast<std::size_t>(checked_product(count, static_cast<index_t>(sizeof(T))));
  }

  CommT comm_;
  BackendT backend_;
  std::vector<Scratch> workspace_;
  std::shared_ptr<detail::RecordPool> records_ = std::make_shared<detail::RecordPool>();
  Regions regions_;
  index_t last_identity_ = 0;

 public:
  using registration_type = Registration;
};

}  // namespace partita
