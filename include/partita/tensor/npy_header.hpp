// SPDX-License-Identifier: Apache-2.0
// The header of a NumPy .npy file: element type, order of storage and shape, parsed strictly and written as NumPy does.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "partita/base/error.hpp"
#include "partita/base/scalar.hpp"
#include "partita/base/shape.hpp"

namespace partita {

static_assert(std::endian::native == std::endian::little, ".npy files are read and written as little-endian memory");

/// Element types of .npy files that Partita reads.
enum class NpyType : std::uint8_t {
  float16,
  float32,
  float64,
  complex64,
  complex128,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  boolean
};

/// What the header of a .npy file says. A 1-D array of n elements is read as a column n×1, a 0-D one as 1×1.
struct NpyHeader {
  NpyType dtype = NpyType::float64;
  bool fortran_order = false;     // element (i, j) at i + j*rows instead of i*cols + j
  Shape shape;                    // both at least 0; data_offset + rows*cols*itemsize fits 63 bits
  std::uint64_t data_offset = 0;  // bytes from the start of the file to element (0, 0)
};

/// Reads the header at the start of `bytes`, which may be a whole file or only its beginning; looks at nothing after
/// the header and allocates nothing. `path` serves the messages.
/// Throws FileError where the bytes are no header of version 1.0, 2.0 or 3.0, end before it does, or tell of more than
/// two dimensions, an element type that is not in NpyType, big-endian order, or sizes that do not fit 63 bits.
[[nodiscard]] inline NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& path);

/// The bytes that NumPy writes in front of a two-dimensional array: version 1.0, padded to a multiple of 64.
[[nodiscard]] inline std::string format_npy_header(NpyType dtype, Shape shape, bool fortran_order = false);

namespace detail {

struct NpyTypeInfo {
  std::string_view name;  // NumPy's name
  std::string_view code;  // the descr without its mark of byte order
  std::uint64_t itemsize;
};

inline constexpr std::array<NpyTypeInfo, 14> npy_types{{{"float16", "f2", 2},
                                                        {"float32", "f4", 4},
                                                        {"float64", "f8", 8},
                                                        {"complex64", "c8", 8},
                                                        {"complex128", "c16", 16},
                                                        {"int8", "i1", 1},
                                                        {"int16", "i2", 2},
                                                        {"int32", "i4", 4},
                                                        {"int64", "i8", 8},
                                                        {"uint8", "u1", 1},
                                                        {"uint16", "u2", 2},
                                                        {"uint32", "u4", 4},
                                                        {"uint64", "u8", 8},
                                                        {"bool", "b1", 1}}};

constexpr const NpyTypeInfo& npy_info(NpyType type) noexcept { return npy_types[static_cast<std::size_t>(type)]; }

/// No header of a matrix comes near this; a longer one is refused before it is read.
inline constexpr std::uint64_t npy_header_limit = 65536;

[[noreturn]] inline void throw_npy(const std::string& path, const std::string& what) {
  throw FileError("FileError: " + path + ": " + what);
}

/// At most 40 printable characters of a text that somebody else wrote.
inline std::string quoted(std::string_view text) {
  std::string shown = "'";
  for (const char c : text.substr(0, 40)) shown += (c >= ' ' && c <= '~') ? c : '?';
  return shown + (text.size() > 40 ? "…'" : "'");
}

/// Parses the dict of a .npy header: exactly the three keys, in any order, with Python's blanks and quotes.
class NpyDictParser {
 public:
  NpyDictParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader parse() {
    NpyHeader header;
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string_literal("a key");
      bool* seen = key == "descr"           ? &has_descr
                   : key == "fortran_order" ? &has_order
                   : key == "shape"         ? &has_shape
                                            : nullptr;
      if (seen == nullptr) fail("unknown key " + quoted(key) + "; the keys are descr, fortran_order and shape");
      if (*seen) fail("key " + quoted(key) + " occurs twice");
      *seen = true;
      expect(':');
      if (seen == &has_descr) {
        header.dtype = descr();
      } else if (seen == &has_order) {
        header.fortran_order = boolean();
      } else {
        header.shape = shape();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) fail("text after the closing brace");
    if (!has_descr || !has_order || !has_shape) {
      fail(std::string("key ") + (!has_descr ? "descr" : !has_order ? "fortran_order" : "shape") + " is missing");
    }
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw_npy(path_, "malformed .npy header, character " + std::to_string(at_) + ": " + what);
  }

  [[nodiscard]] char peek() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_blanks() noexcept {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }

  bool accept(char c) noexcept {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "', found " + quoted(text_.substr(at_, 1)));
  }

  std::string_view string_literal(const char* what) {
    skip_blanks();
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail(std::string("expected ") + what + " in quotes");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail(std::string(what) + " has no closing quote");
    const std::string_view literal = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return literal;
  }

  NpyType descr() {
    skip_blanks();
    if (peek() == '[' || peek() == '(') fail("structured types cannot be read; " + accepted());
    const std::string_view text = string_literal("a type");
    const char order = text.empty() ? '\0' : text.front();
    if (order == '>') fail("big-endian type " + quoted(text) + " cannot be read; save the array as little-endian");
    for (std::size_t i = 0; i < npy_types.size(); ++i) {
      if (text.empty() || text.substr(1) != npy_types[i].code) continue;
      if (order == '<' || order == '=' || (order == '|' && npy_types[i].itemsize == 1)) return static_cast<NpyType>(i);
    }
    if (text.substr(0, 2) == "|O") fail("Python objects cannot be read; " + accepted());
    fail("type " + quoted(text) + " cannot be read; " + accepted());
  }

  static std::string accepted() {
    std::string list = "accepted are little-endian ";
    for (std::size_t i = 0; i < npy_types.size(); ++i) {
      list += (i == 0 ? "" : i + 1 == npy_types.size() ? " and " : ", ");
      list += npy_types[i].name;
    }
    return list;
  }

  bool boolean() {
    skip_blanks();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail("fortran_order must be True or False");
  }

  Shape shape() {
    expect('(');
    if (accept(')')) return {1, 1};
    const index_t rows = extent();
    expect(',');
    if (accept(')')) return {rows, 1};
    const index_t cols = extent();
    if (accept(',')) {
      skip_blanks();
      if (peek() != ')') fail("the array has more than two dimensions; reshape it to a matrix");
    }
    expect(')');
    return {rows, cols};
  }

  index_t extent() {
    skip_blanks();
    if (peek() == '-') fail("the shape has a negative extent");
    const std::size_t begin = at_;
    index_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, index_t{10}, &value) ||
          __builtin_add_overflow(value, index_t{peek() - '0'}, &value)) {
        fail("an extent of the shape does not fit 63 bits");
      }
    }
    if (at_ == begin) fail("an extent of the shape must be a decimal number");
    if (text_[begin] == '0' && at_ - begin > 1) fail("an extent of the shape starts with 0");
    return value;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

/// Bytes of the whole file that `header` describes. Throws FileError where they do not fit 63 bits.
inline std::uint64_t npy_file_size(const NpyHeader& header, const std::string& path) {
  index_t bytes = 0;
  if (__builtin_mul_overflow(header.shape.rows, header.shape.cols, &bytes) ||
      __builtin_mul_overflow(bytes, static_cast<index_t>(npy_info(header.dtype).itemsize), &bytes) ||
      __builtin_add_overflow(bytes, static_cast<index_t>(header.data_offset), &bytes)) {
    throw_npy(path, to_string(header.shape) + " elements of " + std::string(npy_info(header.dtype).name) +
                        " do not fit 63 bits of bytes");
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace detail

inline NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& path) {
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
  constexpr std::array<unsigned, 6> magic{0x93, 'N', 'U', 'M', 'P', 'Y'};
  for (std::size_t i = 0; i < magic.size(); ++i) {
    if (i >= bytes.size() || byte(i) != magic[i]) detail::throw_npy(path, "not a .npy file (its first bytes differ)");
  }
  const auto truncated = [&](std::uint64_t needed) {
    detail::throw_npy(path, "cut short: its header needs " + std::to_string(needed) + " bytes, the file has " +
                                std::to_string(bytes.size()));
  };
  if (bytes.size() < 10) truncated(10);
  const unsigned major = byte(6);
  if (major < 1 || major > 3 || byte(7) != 0) {
    detail::throw_npy(path, "version " + std::to_string(major) + "." + std::to_string(byte(7)) +
                                " of the .npy format is unknown; 1.0, 2.0 and 3.0 can be read");
  }
  const std::uint64_t start = major == 1 ? 10 : 12;
  if (bytes.size() < start) truncated(start);
  std::uint64_t length = byte(8) | (byte(9) << 8);
  if (major > 1) length |= (std::uint64_t{byte(10)} << 16) | (std::uint64_t{byte(11)} << 24);
  if (length > detail::npy_header_limit) {
    detail::throw_npy(path, "its header claims " + std::to_string(length) + " bytes; at most " +
                                std::to_string(detail::npy_header_limit) + " are read");
  }
  if (bytes.size() < start + length) truncated(start + length);
  // The dict's bytes are read as characters, which may look at any object.
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + start, static_cast<std::size_t>(length));
  NpyHeader header = detail::NpyDictParser(text, path).parse();
  header.data_offset = start + length;
  static_cast<void>(detail::npy_file_size(header, path));
  return header;
}

inline std::string format_npy_header(NpyType dtype, Shape shape, bool fortran_order) {
  const detail::NpyTypeInfo& info = detail::npy_info(dtype);
  std::string text("\x93NUMPY\x01\x00\x00\x00", 10);
  ((text += "{'descr': '") += info.itemsize == 1 ? '|' : '<') += info.code;
  (text += "', 'fortran_order': ") += fortran_order ? "True" : "False";
  text += ", 'shape': (" + std::to_string(shape.rows) + ", " + std::to_string(shape.cols) + "), }";
  // NumPy leaves room for the shape to grow, which makes 128 bytes of any matrix's header.
  text.resize(127, ' ');
  text += '\n';
  text[8] = static_cast<char>(text.size() - 10);
  return text;
}

}  // namespace partita
