// SPDX-License-Identifier: Apache-2.0
// Rectangles as MPI messages: packed where they have gaps, cut where they are longer than MPI's int or the chunk limit.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "partita/comm/mpi/group.hpp"
#include "partita/comm/thread/sum.hpp"

namespace partita::detail {

/// Elements on their way to or from MPI, whose values are not set.
template <class T>
class MpiBuffer {
 public:
  MpiBuffer() = default;
  explicit MpiBuffer(index_t count)
      : bytes_(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(count) * sizeof(T))) {}
  [[nodiscard]] T* data() const noexcept { return reinterpret_cast<T*>(bytes_.get()); }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

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
  explicit MpiTransfers(MpiGroup& group) : group_(&group) {}

  template <class T>
  void send(const T* data, index_t count, int peer, int tag, index_t chunk) {
    for_each_chunk<T>(data, count, chunk, [&](const T* at, int bytes) {
      mpi_check(MPI_Isend(at, bytes, MPI_BYTE, peer, tag, group_->comm, &next(peer, -1)), "MPI_Isend");
      ++group_->world->statistics.sends;
    });
  }
  template <class T>
  void receive(T* data, index_t count, int peer, int tag, index_t chunk) {
    for_each_chunk<T>(data, count, chunk, [&](T* at, int bytes) {
      mpi_check(MPI_Irecv(at, bytes, MPI_BYTE, peer, tag, group_->comm, &next(peer, bytes)), "MPI_Irecv");
      ++group_->world->statistics.receives;
    });
  }
  template <class T>
  void broadcast(T* data, index_t count, int root, index_t chunk) {
    for_each_chunk<T>(data, count, chunk, [&](T* at, int bytes) {
      mpi_check(MPI_Ibcast(at, bytes, MPI_BYTE, root, group_->comm, &next(root, -1)), "MPI_Ibcast");
      ++group_->world->statistics.broadcasts;
    });
  }

  [[nodiscard]] bool empty() const noexcept { return requests_.empty(); }

  /// True once all are complete. Throws ShapeError where a message had another length.
  [[nodiscard]] bool test(const char* name) {
    if (requests_.empty()) return true;
    int done = 0;
    statuses_.resize(requests_.size());
    const int code =
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
    if (code != MPI_SUCCESS) throw_failed(name, code);
    if (done == 0) return false;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (expected_[i].bytes < 0) continue;
      int bytes = 0;
      MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes);
      if (bytes != expected_[i].bytes) throw_length(name, expected_[i], bytes);
    }
    requests_.clear();
    expected_.clear();
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

  [[noreturn]] void throw_length(const char* name, const Expected& expected, int bytes) const {
    throw ShapeError(std::string("ShapeError: ") + name + ": rank " + std::to_string(expected.peer) + " sent " +
                     (bytes < 0 ? "more than" : std::to_string(bytes) + " bytes, not") + " the " +
                     std::to_string(expected.bytes) + " bytes that rank " + std::to_string(group_->rank) + " expects");
  }
  [[noreturn]] void throw_failed(const char* name, int code) const {
    int kind = code;
    MPI_Error_class(code, &kind);
    for (std::size_t i = 0; i < statuses_.size() && kind == MPI_ERR_IN_STATUS; ++i) {
      int one = MPI_SUCCESS;
      MPI_Error_class(statuses_[i].MPI_ERROR, &one);
      if (one == MPI_ERR_TRUNCATE) throw_length(name, expected_[i], -1);
      if (one != MPI_SUCCESS && one != MPI_ERR_PENDING) mpi_check(statuses_[i].MPI_ERROR, name);
    }
    if (kind == MPI_ERR_TRUNCATE) {
      throw ShapeError(std::string("ShapeError: ") + name + ": a peer sent more than rank " +
                       std::to_string(group_->rank) + " expects");
    }
    throw MpiError(std::string("MpiError: ") + name + ": " + mpi_text(code));
  }

  MpiGroup* group_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<Expected> expected_;
};

}  // namespace partita::detail
