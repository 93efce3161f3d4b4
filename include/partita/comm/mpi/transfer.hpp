// SPDX-License-Identifier: Apache-2.0
// Rectangles as MPI messages: packed where they have gaps, cut where they are longer than MPI's int or the chunk limit.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partita/comm/mpi/group.hpp"
#include "partita/comm/thread/sum.hpp"

namespace partita::detail {

/// Elements on their way to or from MPI, whose values are not set; memory that the world uses again.
template <class T>
class MpiBuffer {
 public:
  MpiBuffer() = default;
  MpiBuffer(MpiWorld& world, index_t count) : world_(&world), bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
    if (bytes_ <= small) {
      record_ = world.pool().take(bytes_);
    } else {
      scratch_ = world.scratch.take(bytes_);
    }
  }
  MpiBuffer(MpiBuffer&& other) noexcept { swap(other); }
  MpiBuffer& operator=(MpiBuffer&& other) noexcept {
    MpiBuffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~MpiBuffer() {
    if (record_ != nullptr) {
      world_->pool().give(record_, bytes_);
    } else if (world_ != nullptr) {
      world_->scratch.give(std::move(scratch_));
    }
  }
  [[nodiscard]] T* data() const noexcept {
    return record_ != nullptr ? static_cast<T*>(record_) : reinterpret_cast<T*>(scratch_.memory.get());
  }

 private:
  static constexpr std::size_t small = 8192;

  void swap(MpiBuffer& other) noexcept {
    std::swap(world_, other.world_);
    std::swap(bytes_, other.bytes_);
    std::swap(record_, other.record_);
    std::swap(scratch_, other.scratch_);
  }

  MpiWorld* world_ = nullptr;
  std::size_t bytes_ = 0;
  void* record_ = nullptr;  // small ones
  MpiScratch::Piece scratch_;
};

template <class T>
using MpiBuffers = std::vector<MpiBuffer<T>, Pooled<MpiBuffer<T>>>;

/// Elements [begin, begin + count) of a rectangle, in row-major order, to or from consecutive memory.
template <class T>
void pack_range(View<const T> from, index_t begin, index_t count, T* to) noexcept {
  if (count <= 0) return;
  for_each_run(from, begin, count, [to](const T* run, index_t at, index_t n) { std::copy_n(run, n, to + at); });
}
template <class T>
void unpack_range(const T* from, View<T> to, index_t begin, index_t count) noexcept {
  if (count <= 0) return;
  for_each_run(to, begin, count, [from](T* run, index_t at, index_t n) { std::copy_n(from + at, n, run); });
}

/// The messages of one phase of an operation. Counts them, and finds those of another length than was expected.
class MpiTransfers {
 public:
  explicit MpiTransfers(MpiGroup& group)
      : group_(&group), requests_(group.world->pooled<MPI_Request>()), expected_(group.world->pooled<Expected>()) {}
  /// Whether some are under way.
  [[nodiscard]] bool any() const noexcept { return !requests_.empty(); }

  template <class T>
  void send(const T* data, index_t count, int peer, int tag, index_t chunk) {
    for_each_chunk(data, count, chunk, [&](const T* at, int bytes) {
      mpi_check(MPI_Isend(at, bytes, MPI_BYTE, peer, tag, group_->comm, &next(peer, -1)), "MPI_Isend");
      ++group_->world->statistics.sends;
    });
  }
  template <class T>
  void receive(T* data, index_t count, int peer, int tag, index_t chunk) {
    for_each_chunk(data, count, chunk, [&](T* at, int bytes) {
      mpi_check(MPI_Irecv(at, bytes, MPI_BYTE, peer, tag, group_->comm, &next(peer, bytes)), "MPI_Irecv");
      ++group_->world->statistics.receives;
    });
  }
  template <class T>
  void broadcast(T* data, index_t count, int root, index_t chunk) {
    for_each_chunk(data, count, chunk, [&](T* at, int bytes) {
      mpi_check(MPI_Ibcast(at, bytes, MPI_BYTE, root, group_->comm, &next(root, -1)), "MPI_Ibcast");
      ++group_->world->statistics.broadcasts;
    });
  }

  /// True once all are complete. Throws ShapeError where a message had another length. One call of MPI where nothing
  /// has come, and errors come back as codes only from tests of single requests.
  [[nodiscard]] bool test(const char* name) {
    for (; tested_ < requests_.size(); ++tested_) {
      int done = 0;
      MPI_Status status;
      const int code = MPI_Test(&requests_[tested_], &done, &status);
      const Expected& expected = expected_[tested_];
      if (code != MPI_SUCCESS) throw_failed(name, expected, code);
      if (done == 0) return false;
      if (expected.bytes < 0) continue;
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      if (bytes != expected.bytes) throw_length(name, expected, std::to_string(bytes) + " bytes, not");
    }
    requests_.clear();
    expected_.clear();
    tested_ = 0;
    return true;
  }

 private:
  struct Expected {
    int peer;
    int bytes;  // -1: nothing to check
  };

  template <class T, class F>
  static void for_each_chunk(T* data, index_t count, index_t chunk, F f) {
    for (index_t begin = 0; begin < count; begin += chunk) {
      f(data + begin, static_cast<int>(std::min(chunk, count - begin) * static_cast<index_t>(sizeof(T))));
    }
  }

  MPI_Request& next(int peer, int bytes) {
    requests_.push_back(MPI_REQUEST_NULL);
    expected_.push_back({peer, bytes});
    return requests_.back();
  }

  [[noreturn]] void throw_length(const char* name, const Expected& expected, const std::string& found) const {
    throw ShapeError(std::string("ShapeError: ") + name + ": rank " + std::to_string(expected.peer) + " sent " + found +
                     " the " + std::to_string(expected.bytes) + " bytes that rank " + std::to_string(group_->rank) +
                     " expects");
  }
  [[noreturn]] void throw_failed(const char* name, const Expected& expected, int code) const {
    int kind = code;
    MPI_Error_class(code, &kind);
    if (kind == MPI_ERR_TRUNCATE && expected.bytes >= 0) throw_length(name, expected, "more than");
    throw MpiError(std::string("MpiError: ") + name + ": " + mpi_text(code));
  }

  MpiGroup* group_;
  std::vector<MPI_Request, Pooled<MPI_Request>> requests_;
  std::vector<Expected, Pooled<Expected>> expected_;
  std::size_t tested_ = 0;  // the ones before are complete
};

}  // namespace partita::detail
