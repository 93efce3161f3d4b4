// SPDX-License-Identifier: Apache-2.0
// Writes .npy files block by block, each rank its own, under a name that is given only once all is written.
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "partita/base/scalar.hpp"
#include "partita/base/shape.hpp"
#include "partita/base/view.hpp"
#include "partita/tensor/npy_convert.hpp"
#include "partita/tensor/npy_file.hpp"
#include "partita/tensor/npy_header.hpp"

namespace partita {

namespace detail {

/// The name of a file that is removed unless it is kept.
class PartialFile {
 public:
  PartialFile() = default;
  explicit PartialFile(std::string name) noexcept : name_(std::move(name)) {}
  PartialFile(PartialFile&& other) noexcept : name_(std::exchange(other.name_, {})) {}
  PartialFile& operator=(PartialFile&& other) noexcept {
    name_.swap(other.name_);
    return *this;
  }
  ~PartialFile() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  void keep() noexcept { name_.clear(); }

 private:
  std::string name_;
};

}  // namespace detail

/// Writes a .npy file in C order, block by block. The bytes go to a file beside `path` and take its name at `commit`;
/// a writer that is destroyed before leaves `path` as it was and nothing beside it.
/// Threads share one writer; processes share a file through `join`. Elements that nobody wrote are 0.
class NpyWriter {
 public:
  /// Makes the file beside `path`, of its full size. Follows `path` where that is a symbolic link.
  /// Throws FileError where it cannot be made, CapacityError where the size does not fit 63 bits.
  NpyWriter(std::string path, NpyType dtype, Shape shape)
      : path_(std::move(path)), target_(resolve(path_)), header_{dtype, false, shape, 0} {
    const std::string text = format_npy_header(dtype, shape);
    header_.data_offset = text.size();
    static_cast<void>(checked_product(checked_product(shape.rows, shape.cols), item_size()));
    struct stat status = {};
    if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      detail::throw_npy(path_, "cannot be written: exists and is not a regular file");
    }
    struct timespec now = {};
    ::clock_gettime(CLOCK_REALTIME, &now);
    token_ = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
    token_ += static_cast<std::uint64_t>(::getpid()) << 32;
    for (int attempts = 100;; ++token_) {
      const std::string name = partial_name(target_, token_);
      fd_ = detail::FileDescriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (fd_.get() >= 0) {
        partial_ = detail::PartialFile(name);
        break;
      }
      if (errno != EEXIST || --attempts == 0) fail();
    }
    write_bytes(std::as_bytes(std::span(text)), 0);
    if (::ftruncate(fd_.get(), static_cast<off_t>(detail::npy_file_size(header_, path_))) != 0) fail();
  }

  /// A further writer, of this or another process, to the file that the writer of `token` has made for `path`.
  /// Throws FileError where there is none.
  [[nodiscard]] static NpyWriter join(std::string path, std::uint64_t token) {
    return NpyWriter(std::move(path), token);
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const NpyHeader& header() const noexcept { return header_; }
  [[nodiscard]] Shape shape() const noexcept { return header_.shape; }
  [[nodiscard]] std::uint64_t token() const noexcept { return token_; }

  /// Writes `values` to the rectangle `block`. Blocks may be written from several threads at once if they are disjoint.
  /// Throws ShapeError unless the block lies in the matrix and has the shape of `values`; FileError where the file is
  /// not of npy_type_of<T>() (half and bfloat16 also widen to float32 and float64), or the system refuses (disk full).
  template <class T>
    requires NpyScalar<std::remove_const_t<T>>
  void write(Block block, View<T> values) const {
    using Value = std::remove_const_t<T>;
    detail::check_npy_block(path_, header_.shape, block, values.shape());
    if constexpr (is_storage_only_v<Value>) {
      if (header_.dtype == NpyType::float32) return write_rows<float>(block, values);
      if (header_.dtype == NpyType::float64) return write_rows<double>(block, values);
    }
    if constexpr (!std::same_as<Value, bfloat16>) {
      if (header_.dtype == npy_type_of<Value>()) return write_rows<Value>(block, values);
    }
    detail::throw_npy(path_, "is made for " + std::string(detail::npy_info(header_.dtype).name) +
                                 " and cannot take elements of another type");
  }

  /// Brings what was written to the disk and closes the file; the writer that made it also gives it its name, which
  /// replaces any older file. Joined writers commit first. Call it once, last. Throws FileError.
  void commit() {
    if (::fsync(fd_.get()) != 0 && errno != EINVAL) fail();  // EINVAL: a file system that has no fsync
    if (!fd_.close()) fail();
    if (partial_.name().empty()) return;
    if (::rename(partial_.name().c_str(), target_.c_str()) != 0) fail();
    partial_.keep();
  }

 private:
  NpyWriter(std::string path, std::uint64_t token) : path_(std::move(path)), target_(resolve(path_)), token_(token) {
    const std::string name = partial_name(target_, token_);
    header_ = NpyFile(name).header();
    fd_ = detail::FileDescriptor(::open(name.c_str(), O_WRONLY | O_CLOEXEC));
    if (fd_.get() < 0) fail();
  }

  /// Where a symbolic link leads; any other path unchanged or in full.
  static std::string resolve(const std::string& path) {
    char* resolved = ::realpath(path.c_str(), nullptr);
    std::string target(resolved != nullptr ? resolved : path.c_str());
    ::free(resolved);
    return target;
  }

  static std::string partial_name(const std::string& target, std::uint64_t token) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string name = target + ".partial-";
    for (int shift = 60; shift >= 0; shift -= 4) name += digits[(token >> shift) & 0xf];
    return name;
  }

  [[nodiscard]] index_t item_size() const noexcept {
    return static_cast<index_t>(detail::npy_info(header_.dtype).itemsize);
  }

  void write_bytes(std::span<const std::byte> bytes, std::uint64_t at) const {
    while (!bytes.empty()) {
      const ::ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail();
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      at += static_cast<std::uint64_t>(written);
    }
  }

  template <class S, class T>
  void write_rows(Block block, View<T> values) const {
    if (values.empty()) return;
    const auto offset = [&](index_t i, index_t j) {
      const index_t element = (block.rows.begin + i) * header_.shape.cols + block.cols.begin + j;
      return header_.data_offset + static_cast<std::uint64_t>(element) * sizeof(S);
    };
    const auto bytes = [](const auto* first, index_t n) {
      return std::as_bytes(std::span(first, static_cast<std::size_t>(n)));
    };
    if constexpr (std::same_as<S, std::remove_const_t<T>>) {
      if (values.contiguous() && values.cols == header_.shape.cols) {
        write_bytes(bytes(values.data, values.size()), offset(0, 0));
        return;
      }
      for (index_t i = 0; i < values.rows; ++i) write_bytes(bytes(values.row(i), values.cols), offset(i, 0));
    } else {
      std::array<S, 1024> widened;
      for (index_t i = 0; i < values.rows; ++i) {
        for (index_t first = 0; first < values.cols; first += std::ssize(widened)) {
          const index_t n = std::min<index_t>(std::ssize(widened), values.cols - first);
          const T* from = values.row(i) + first;
          std::transform(from, from + n, widened.begin(), [](T v) { return detail::npy_value<S>(v); });
          write_bytes(bytes(widened.data(), n), offset(i, first));
        }
      }
    }
  }

  [[noreturn]] void fail() const { detail::throw_errno(path_, "cannot be written"); }

  std::string path_;
  std::string target_;
  std::uint64_t token_ = 0;
  NpyHeader header_;
  detail::FileDescriptor fd_;
  detail::PartialFile partial_;
};

}  // namespace partita
