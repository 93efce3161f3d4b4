// SPDX-License-Identifier: Apache-2.0
// Reads rectangles of .npy files through a memory map, each rank the pages of its own block.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "partita/base/error.hpp"
#include "partita/base/shape.hpp"
#include "partita/base/view.hpp"
#include "partita/tensor/npy_convert.hpp"
#include "partita/tensor/npy_header.hpp"

namespace partita {

namespace detail {

[[noreturn]] inline void throw_errno(const std::string& path, const std::string& what) {
  const int code = errno;
  throw_npy(path, what + ": " + std::generic_category().message(code));
}

/// An open file.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { static_cast<void>(close()); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Whether the system took all that was written.
  [[nodiscard]] bool close() noexcept { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_ = -1;
};

/// A whole file in memory, read-only.
class FileMap {
 public:
  FileMap() = default;
  FileMap(void* data, std::size_t size) noexcept : data_(data), size_(size) {}
  FileMap(FileMap&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  FileMap& operator=(FileMap&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~FileMap() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(data_), size_};
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Throws ShapeError unless `block` lies in a matrix of `shape` and `view`'s shape is the block's.
inline void check_npy_block(const std::string& path, Shape shape, Block block, Shape view) {
  const auto inside = [](Range r, index_t n) { return 0 <= r.begin && r.begin <= r.end && r.end <= n; };
  if (!inside(block.rows, shape.rows) || !inside(block.cols, shape.cols)) {
    const auto text = [](Range r) { return "[" + std::to_string(r.begin) + ", " + std::to_string(r.end) + ")"; };
    throw ShapeError("ShapeError: " + path + ": rows " + text(block.rows) + ", columns " + text(block.cols) +
                     " asked for, the file holds " + to_string(shape));
  }
  if (view != block.shape()) {
    throw ShapeError("ShapeError: " + path + ": a block of " + to_string(block.shape()) + " meets a view of " +
                     to_string(view));
  }
}

}  // namespace detail

/// A .npy file that is mapped into memory: `read` touches only the pages of its block, from any number of threads.
/// Bytes behind the last element are ignored, as NumPy does. Nobody may shorten the file while it is open: the system
/// answers a read beyond its end with SIGBUS.
class NpyFile {
 public:
  /// Throws FileError where the file cannot be opened, is no regular file, has a header that `parse_npy_header`
  /// refuses, or is shorter than the header says.
  explicit NpyFile(std::string path) : path_(std::move(path)) {
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    const detail::FileDescriptor fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status = {};
    if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0) detail::throw_errno(path_, "cannot be read");
    if (!S_ISREG(status.st_mode)) detail::throw_npy(path_, "is not a regular file");
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size > 0) {
      void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
      if (data == MAP_FAILED) detail::throw_errno(path_, "cannot be mapped into memory");
      map_ = detail::FileMap(data, size);
    }
    header_ = parse_npy_header(map_.bytes(), path_);
    const std::uint64_t needed = detail::npy_file_size(header_, path_);
    if (size < needed) {
      detail::throw_npy(path_, "cut short: " + to_string(header_.shape) + " elements of " + type_name() + " need " +
                                   std::to_string(needed) + " bytes, the file has " + std::to_string(size));
    }
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const NpyHeader& header() const noexcept { return header_; }
  [[nodiscard]] Shape shape() const noexcept { return header_.shape; }

  /// Copies the rectangle `block` of the matrix to `out`, converting each element to T with one rounding; a value
  /// beyond T's range becomes infinite. Pre: out does not overlap the map.
  /// Throws ShapeError unless the block lies in the matrix and has out's shape; FileError where the stored type does
  /// not convert (complex to real, floating point to int64), both before anything is written; FileError at a uint64
  /// that does not fit int64, with part of `out` written.
  template <NpyScalar T>
  void read(Block block, View<T> out) const {
    detail::check_npy_block(path_, header_.shape, block, out.shape());
    detail::visit_npy_type(header_.dtype, [&]<class S>(std::type_identity<S>) {
      if constexpr (!detail::npy_converts_v<S, T>) {
        refuse_conversion();
      } else if (!out.empty()) {
        copy<S>(block, out);
      }
    });
  }

 private:
  [[nodiscard]] std::string type_name() const { return std::string(detail::npy_info(header_.dtype).name); }

  [[noreturn]] void refuse_conversion() const {
    const bool complex = header_.dtype == NpyType::complex64 || header_.dtype == NpyType::complex128;
    detail::throw_npy(
        path_, "its " + type_name() + " values do not convert to " +
                   (complex ? "a real type; read them as complex numbers" : "integers; read them as floating point"));
  }

  [[nodiscard]] const std::byte* address(index_t element, std::size_t itemsize) const noexcept {
    return map_.bytes().data() + header_.data_offset + static_cast<std::size_t>(element) * itemsize;
  }

  template <class T, class S>
  [[nodiscard]] T value(S s) const {
    if constexpr (std::same_as<S, std::uint64_t> && std::same_as<T, std::int64_t>) {
      if (s > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        detail::throw_npy(path_, "its uint64 value " + std::to_string(s) + " does not fit int64");
      }
    }
    return detail::npy_value<T>(s);
  }

  /// Reads memory in order: in C order whole rows, in Fortran order eight stored columns side by side, so that `out` is
  /// written in runs too. Pre: neither the block nor the matrix is empty.
  template <class S, class T>
  void copy(Block block, View<T> out) const {
    const bool fortran = header_.fortran_order;
    const index_t down = fortran ? 1 : header_.shape.cols;  // elements from one row to the next
    const index_t right = fortran ? header_.shape.rows : 1;
    const index_t width = fortran ? 8 : out.cols;
    for (index_t first = 0; first < out.cols; first += width) {
      const index_t last = std::min(first + width, out.cols);
      for (index_t i = 0; i < out.rows; ++i) {
        const index_t row = (block.rows.begin + i) * down + block.cols.begin * right;
        if constexpr (std::same_as<S, T>) {
          if (!fortran) {
            const auto bytes = static_cast<std::size_t>(out.cols) * sizeof(T);
            std::memcpy(static_cast<void*>(out.row(i)), address(row, sizeof(S)), bytes);
            continue;
          }
        }
        for (index_t j = first; j < last; ++j) {
          out(i, j) = value<T>(detail::load_npy_element<S>(address(row + j * right, sizeof(S))));
        }
      }
    }
  }

  std::string path_;
  detail::FileMap map_;
  NpyHeader header_;
};

}  // namespace partita
