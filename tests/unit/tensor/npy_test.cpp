// SPDX-License-Identifier: Apache-2.0
// .npy files: every type, order and version, blocks, conversions, hostile headers, and writing by several ranks.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "partita/base/error.hpp"
#include "partita/base/scalar.hpp"
#include "partita/base/shape.hpp"
#include "partita/base/view.hpp"
#include "partita/tensor/npy_convert.hpp"
#include "partita/tensor/npy_file.hpp"
#include "partita/tensor/npy_header.hpp"
#include "partita/tensor/npy_writer.hpp"
#include "support/scratch_directory.hpp"

namespace {

using namespace partita;
using namespace std::string_literals;
using namespace std::string_view_literals;
using C64 = std::complex<float>;
using C128 = std::complex<double>;

class Scratch : public test::ScratchDirectory {
 public:
  [[nodiscard]] std::string file(std::string_view bytes) const {
    std::ofstream(path(), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path();
  }
};

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A header with the given dict, as version `major` lays it out.
std::string header_bytes(std::string_view dict, int major = 1) {
  std::string bytes = "\x93NUMPY"s;
  bytes += static_cast<char>(major);
  bytes += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>((dict.size() >> (8 * i)) & 0xff);
  return bytes += dict;
}

NpyHeader parse(std::string_view bytes) {
  // A copy that ends where the bytes end, so that the address sanitizer sees a look beyond them.
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return parse_npy_header(std::as_bytes(std::span(exact)), "x.npy");
}

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// What an error says, and that it starts with its kind.
void check_says(const std::string& said, std::string_view part) {
  INFO(said);
  CHECK(said.find(part) != std::string::npos);
  CHECK(said.find("Error: ") != std::string::npos);
}

constexpr std::array<NpyType, 14> all_types{NpyType::float16,    NpyType::float32, NpyType::float64, NpyType::complex64,
                                            NpyType::complex128, NpyType::int8,    NpyType::int16,   NpyType::int32,
                                            NpyType::int64,      NpyType::uint8,   NpyType::uint16,  NpyType::uint32,
                                            NpyType::uint64,     NpyType::boolean};

/// A small integer that every type holds exactly, and the same as S.
int number(index_t i, index_t j, bool boolean) {
  const auto v = static_cast<int>((i * 31 + j * 7) % 120);
  return boolean ? v % 2 : v;
}

template <class S>
S stored(index_t i, index_t j) {
  if constexpr (std::same_as<S, detail::NpyBool>) {
    return {static_cast<std::uint8_t>(number(i, j, true))};
  } else if constexpr (is_complex_v<S>) {
    using Real = typename S::value_type;
    return S(static_cast<Real>(number(i, j, false)), static_cast<Real>(-i));
  } else if constexpr (is_storage_only_v<S>) {
    return S(static_cast<float>(number(i, j, false)));
  } else {
    return static_cast<S>(number(i, j, false));
  }
}

std::string make_file(NpyType type, Shape shape, bool fortran, int version) {
  const auto& info = detail::npy_info(type);
  std::string bytes =
      header_bytes("{'descr': '" + std::string(info.itemsize == 1 ? "|" : "<") + std::string(info.code) +
                       "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (" +
                       std::to_string(shape.rows) + ", " + std::to_string(shape.cols) + "), }\n",
                   version);
  detail::visit_npy_type(type, [&]<class S>(std::type_identity<S>) {
    for (index_t at = 0; at < shape.size(); ++at) {
      const index_t i = fortran ? at % shape.rows : at / shape.cols;
      const index_t j = fortran ? at / shape.rows : at % shape.cols;
      const S s = stored<S>(i, j);
      char raw[sizeof(S)];
      std::memcpy(raw, &s, sizeof(S));
      bytes.append(raw, sizeof(S));
    }
  });
  return bytes;
}

template <class T>
T expected(NpyType type, index_t i, index_t j) {
  const int v = number(i, j, type == NpyType::boolean);
  if constexpr (is_complex_v<T>) {
    using Real = typename T::value_type;
    const bool complex = type == NpyType::complex64 || type == NpyType::complex128;
    return T(static_cast<Real>(v), complex ? static_cast<Real>(-i) : Real{0});
  } else if constexpr (is_storage_only_v<T>) {
    return T(static_cast<float>(v));
  } else {
    return static_cast<T>(v);
  }
}

template <class T>
T guard() {
  if constexpr (is_storage_only_v<T>) return T(-77.0F);
  if constexpr (!is_storage_only_v<T>) return T(-77);
}

/// Reads `block` into memory with a gap after each row; neither a wrong element nor a touched gap may remain.
template <class T>
bool block_is_right(const NpyFile& file, Block block) {
  const index_t ld = block.cols.size() + 3;
  std::vector<T> memory(static_cast<std::size_t>(block.rows.size() * ld), guard<T>());
  file.read(block, View<T>(memory.data(), block.rows.size(), block.cols.size(), ld));
  for (index_t i = 0; i < block.rows.size(); ++i) {
    for (index_t j = 0; j < ld; ++j) {
      const T want = j < block.cols.size()
                         ? expected<T>(file.header().dtype, block.rows.begin + i, block.cols.begin + j)
                         : guard<T>();
      if (!(memory[static_cast<std::size_t>(i * ld + j)] == want)) return false;
    }
  }
  return true;
}

template <class T>
bool converts(NpyType type) {
  const bool complex = type == NpyType::complex64 || type == NpyType::complex128;
  const bool real = type == NpyType::float16 || type == NpyType::float32 || type == NpyType::float64;
  return is_complex_v<T> || (!complex && !(real && std::same_as<T, std::int64_t>));
}

template <class T>
void check_whole(const NpyFile& file) {
  const Block whole{{0, file.shape().rows}, {0, file.shape().cols}};
  if (converts<T>(file.header().dtype)) {
    CHECK(block_is_right<T>(file, whole));
    return;
  }
  std::vector<T> memory(static_cast<std::size_t>(whole.size()), guard<T>());
  check_says(message_of<FileError>([&] { file.read(whole, View<T>(memory.data(), whole.shape())); }), "do not convert");
  CHECK(std::ranges::count(memory, guard<T>()) == whole.size());
}

template <class F>
void for_each_scalar(F&& f) {
  f(std::type_identity<float>{});
  f(std::type_identity<double>{});
  f(std::type_identity<C64>{});
  f(std::type_identity<C128>{});
  f(std::type_identity<half>{});
  f(std::type_identity<bfloat16>{});
  f(std::type_identity<std::int64_t>{});
}

template <class T>
std::vector<T> read_all(const std::string& path) {
  const NpyFile file(path);
  std::vector<T> values(static_cast<std::size_t>(file.shape().size()));
  file.read({{0, file.shape().rows}, {0, file.shape().cols}}, View<T>(values.data(), file.shape()));
  return values;
}

TEST_CASE("every type, order, version and shape reads as every scalar it converts to") {
  const Scratch scratch;
  for (const NpyType type : all_types) {
    for (const bool fortran : {false, true}) {
      for (const int version : {1, 2, 3}) {
        for (const Shape shape : {Shape{0, 0}, {0, 5}, {5, 0}, {1, 1}, {1, 7}, {7, 1}, {3, 5}, {19, 17}}) {
          CAPTURE(detail::npy_info(type).name);
          CAPTURE(fortran);
          CAPTURE(version);
          const NpyFile file(scratch.file(make_file(type, shape, fortran, version)));
          CHECK(file.header().dtype == type);
          CHECK(file.header().fortran_order == fortran);
          CHECK(file.shape() == shape);
          for_each_scalar([&]<class T>(std::type_identity<T>) { check_whole<T>(file); });
        }
      }
    }
  }
}

TEST_CASE("every block of a matrix, in both orders") {
  const Scratch scratch;
  const Shape shape{5, 11};
  for (const NpyType type : {NpyType::float64, NpyType::uint8, NpyType::float16}) {
    for (const bool fortran : {false, true}) {
      const NpyFile file(scratch.file(make_file(type, shape, fortran, 1)));
      bool right = true;
      for (index_t top = 0; top <= shape.rows; ++top) {
        for (index_t bottom = top; bottom <= shape.rows; ++bottom) {
          for (index_t left = 0; left <= shape.cols; ++left) {
            for (index_t end = left; end <= shape.cols; ++end) {
              right = right && block_is_right<double>(file, {{top, bottom}, {left, end}});
            }
          }
        }
      }
      CHECK(right);
    }
  }
}

TEST_CASE("a block outside the matrix, or unlike its view, is refused before anything is written") {
  const Scratch scratch;
  const NpyFile file(scratch.file(make_file(NpyType::float64, {3, 4}, false, 1)));
  std::vector<double> memory(64, -1.0);
  const index_t most = std::numeric_limits<index_t>::max();
  for (const Block block : {Block{{0, 4}, {0, 4}},
                            {{0, 3}, {0, 5}},
                            {{-1, 1}, {0, 1}},
                            {{2, 1}, {0, 1}},
                            {{0, 1}, {-3, -1}},
                            {{most - 1, most}, {0, 1}}}) {
    check_says(message_of<ShapeError>([&] { file.read(block, View<double>(memory.data(), block.shape())); }),
               "the file holds 3x4");
  }
  check_says(message_of<ShapeError>([&] { file.read({{0, 2}, {0, 2}}, View<double>(memory.data(), Shape{2, 3})); }),
             "a block of 2x2 meets a view of 2x3");
  CHECK(std::ranges::count(memory, -1.0) == 64);
}

TEST_CASE("files made by NumPy") {
  const Scratch scratch;
  const auto numpy = [](std::string_view dict, std::string_view data) {
    std::string bytes = "\x93NUMPY\x01\x00v\x00"s;
    bytes += dict;
    bytes.resize(127, ' ');
    bytes += '\n';
    return bytes += data;
  };
  SUBCASE("float16 in Fortran order") {
    const NpyFile file(scratch.file(numpy("{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3), }",
                                          "\x00\x3c\x00\x44\x00\x40\xff\x7b\x00\xb8\x01\x00"s)));
    CHECK(file.header().data_offset == 128);
    CHECK(read_all<double>(file.path()) == std::vector<double>{1, 2, -0.5, 4, 65504, 0x1p-24});
  }
  SUBCASE("complex64") {
    const std::string path = scratch.file(numpy("{'descr': '<c8', 'fortran_order': False, 'shape': (1, 2), }",
                                                "\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\xc0"s));
    CHECK(read_all<C128>(path) == std::vector<C128>{{1, 2}, {3, -4}});
  }
  SUBCASE("a vector is a column") {
    const std::string path =
        scratch.file(numpy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "\x01\x00\x01"s));
    CHECK(NpyFile(path).shape() == Shape{3, 1});
    CHECK(read_all<std::int64_t>(path) == std::vector<std::int64_t>{1, 0, 1});
  }
  SUBCASE("a scalar is 1x1") {
    const std::string path =
        scratch.file(numpy("{'descr': '<i4', 'fortran_order': False, 'shape': (), }", "\xf9\xff\xff\xff"s));
    CHECK(NpyFile(path).shape() == Shape{1, 1});
    CHECK(read_all<float>(path) == std::vector<float>{-7});
  }
  SUBCASE("our header is NumPy's") {
    CHECK(format_npy_header(NpyType::uint8, {2, 2}) ==
          numpy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }", ""));
    const index_t most = std::numeric_limits<index_t>::max();
    for (const Shape shape : {Shape{0, 0}, {1797, 64}, {most, 0}, {0, most}, {1, most / 16 - 128}}) {
      const std::string text = format_npy_header(NpyType::complex128, shape, true);
      CHECK(text.size() == 128);
      const NpyHeader header = parse(text);
      CHECK(header.shape == shape);
      CHECK(header.fortran_order);
      CHECK(header.dtype == NpyType::complex128);
      CHECK(header.data_offset == 128);
    }
  }
}

TEST_CASE("a file cut at any byte is refused") {
  const Scratch scratch;
  for (const int version : {1, 2, 3}) {
    const std::string whole = make_file(NpyType::int16, {3, 5}, version == 2, version);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      CAPTURE(length);
      const std::string path = scratch.file(std::string_view(whole).substr(0, length));
      check_says(message_of<FileError>([&] { NpyFile file(path); }), length < 6 ? "not a .npy file" : "cut short");
    }
    CHECK(block_is_right<double>(NpyFile(scratch.file(whole)), {{0, 3}, {0, 5}}));
    CHECK(block_is_right<double>(NpyFile(scratch.file(whole + "more")), {{0, 3}, {0, 5}}));
  }
  const std::string path = scratch.file(make_file(NpyType::float64, {3, 5}, false, 1).substr(0, 100));
  check_says(message_of<FileError>([&] { NpyFile file(path); }), "the file has 100");
}

TEST_CASE("what is no file") {
  const Scratch scratch;
  check_says(message_of<FileError>([&] { NpyFile file(scratch.path("absent.npy")); }), "No such file");
  check_says(message_of<FileError>([&] { NpyFile file(scratch.path(".")); }), "not a regular file");
  REQUIRE(::mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  check_says(message_of<FileError>([&] { NpyFile file(scratch.path("pipe")); }), "not a regular file");
}

TEST_CASE("headers that say the same in other words") {
  for (const std::string_view dict : {
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}",
           "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (3, 4), }",
           "{'shape':(3,4),'fortran_order':False,'descr':'<f4'}",
           " {\t'fortran_order' : False , 'shape' : ( 3 , 4 , ) , 'descr' : '=f4' , } \n\n",
       }) {
    CAPTURE(dict);
    const NpyHeader header = parse(header_bytes(dict));
    CHECK(header.dtype == NpyType::float32);
    CHECK(header.shape == Shape{3, 4});
    CHECK(!header.fortran_order);
    CHECK(header.data_offset == 10 + dict.size());
  }
}

TEST_CASE("headers that lie or are malformed") {
  const auto dict = [](std::string_view descr, std::string_view order, std::string_view shape) {
    std::string text("{'descr': ");
    ((((text += descr) += ", 'fortran_order': ") += order) += ", 'shape': ") += shape;
    return text += ", }";
  };
  const auto check = [](const std::string& text, std::string_view part) {
    const std::string message = message_of<FileError>([&] { static_cast<void>(parse(header_bytes(text))); });
    CAPTURE(text.substr(0, 100));
    check_says(message, part);
    CHECK(message.find("x.npy") != std::string::npos);
    CHECK(message.size() < 400);
  };
  constexpr std::array<std::string_view, 4> values[] = {
      {"'>f8'", "False", "(3, 4)", "big-endian"},
      {"'>u1'", "False", "(3, 4)", "big-endian"},
      {"'|f8'", "False", "(3, 4)", "cannot be read"},
      {"'f8'", "False", "(3, 4)", "cannot be read"},
      {"'<f16'", "False", "(3, 4)", "accepted are little-endian float16"},
      {"'<f'", "False", "(3, 4)", "cannot be read"},
      {"'<f88'", "False", "(3, 4)", "cannot be read"},
      {"''", "False", "(3, 4)", "cannot be read"},
      {"'<'", "False", "(3, 4)", "cannot be read"},
      {"'|O'", "False", "(3, 4)", "Python objects"},
      {"'<U5'", "False", "(3, 4)", "cannot be read"},
      {"'<M8[ns]'", "False", "(3, 4)", "cannot be read"},
      {"'|V2'", "False", "(3, 4)", "cannot be read"},
      {"[('a', '<f8')]", "False", "(3, 4)", "structured"},
      {"f8", "False", "(3, 4)", "expected a type in quotes"},
      {"'<f8", "False", "(3, 4)", "type '<f8, ' cannot be read"},
      {"'<f8'", "false", "(3, 4)", "True or False"},
      {"'<f8'", "0", "(3, 4)", "True or False"},
      {"'<f8'", "Falsehood", "(3, 4)", "expected"},
      {"'<f8'", "False", "(3, 4, 5)", "more than two dimensions"},
      {"'<f8'", "False", "(3, 4, 5, 6)", "more than two dimensions"},
      {"'<f8'", "False", "(-3, 4)", "negative"},
      {"'<f8'", "False", "(3, -4)", "negative"},
      {"'<f8'", "False", "(3L, 4)", "expected"},
      {"'<f8'", "False", "(+3, 4)", "decimal number"},
      {"'<f8'", "False", "(0x3, 4)", "expected"},
      {"'<f8'", "False", "(03, 4)", "starts with 0"},
      {"'<f8'", "False", "(3.0, 4)", "expected"},
      {"'<f8'", "False", "(3)", "expected ','"},
      {"'<f8'", "False", "3", "expected '('"},
      {"'<f8'", "False", "[3, 4]", "expected '('"},
      {"'<f8'", "False", "(,)", "decimal number"},
      {"'<f8'", "False", "(3,,)", "decimal number"},
      {"'<f8'", "False", "(3, 4,,)", "more than two"},
      {"'<f8'", "False", "(9223372036854775808, 0)", "does not fit 63 bits"},
      {"'<f8'", "False", "(99999999999999999999999999999999, 1)", "does not fit 63 bits"},
      {"'<f8'", "False", "(4294967296, 4294967296)", "do not fit 63 bits"},
      {"'<f8'", "False", "(9223372036854775807, 1)", "do not fit 63 bits"},
      {"'|u1'", "False", "(9223372036854775807,)", "do not fit 63 bits"},
  };
  for (const auto& [descr, order, shape, part] : values) check(dict(descr, order, shape), part);
  constexpr std::array<std::string_view, 2> dicts[] = {
      {"{'descr': '<f8', 'fortran_order': False}", "shape is missing"},
      {"{'descr': '<f8', 'shape': (3, 4)}", "fortran_order is missing"},
      {"{'fortran_order': False, 'shape': (3, 4)}", "descr is missing"},
      {"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (3, 4)}", "'descr' occurs twice"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), 'extra': 1}", "unknown key 'extra'"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4)} x", "after the closing brace"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4)\0}"sv, "expected"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4)", "expected '}'"},
      {"{'descr': '<f8' 'fortran_order': False, 'shape': (3, 4)}", "expected '}'"},
      {"{,}", "expected a key"},
      {"{}", "descr is missing"},
      {"", "expected '{'"},
  };
  for (const auto& [text, part] : dicts) check(std::string(text), part);
  check("{'" + std::string(60000, 'a') + "': 1}", "unknown key");

  const std::string good = header_bytes(dict("'<f8'", "False", "(3, 4)"));
  const auto with = [&](std::size_t at, char c) {
    std::string bytes = good;
    bytes[at] = c;
    return message_of<FileError>([&] { static_cast<void>(parse(bytes)); });
  };
  check_says(with(0, 'x'), "not a .npy file");
  check_says(with(6, 0), "version 0.0");
  check_says(with(6, 4), "version 4.0");
  check_says(with(7, 1), "version 1.1");
  check_says(with(9, 1), "cut short");      // the header claims 256 bytes more
  check_says(with(8, 3), "closing quote");  // and far fewer
  check_says(with(6, 2), "header claims");  // as version 2, two characters become a length near 2^30
}

TEST_CASE("any byte of a header changed: a FileError or a header, never a look beyond the bytes") {
  const std::string good = header_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (12, 34), }\n", 2);
  int refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      const NpyHeader header = parse(bytes);
      if (header.shape.rows < 0 || header.shape.cols < 0 || header.data_offset > bytes.size()) FAIL("a wild header");
    } catch (const FileError&) {
      ++refused;
    }
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int c = 0; c < 256; ++c) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(c);
      attempt(bytes);
    }
  }
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same mutations on each run
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int trial = 0; trial < 20000; ++trial) {
    std::string bytes = good;
    for (std::size_t edits = 1 + below(4); edits > 0 && bytes.size() > 13; --edits) {
      const std::size_t at = 12 + below(bytes.size() - 12);
      if (const auto kind = below(3); kind == 0) {
        bytes.erase(at, 1 + below(8));
      } else if (kind == 1) {
        bytes.insert(at, bytes.substr(12 + below(bytes.size() - 12), 1 + below(8)));
      } else {
        bytes[at] = "{}(),:'\"<>=|09-TFf \n"[below(20)];
      }
    }
    const std::size_t length = bytes.size() - 12;
    bytes[8] = static_cast<char>(length & 0xff);
    bytes[9] = static_cast<char>(length >> 8);
    attempt(bytes);
  }
  CHECK(refused > 20000);
}

TEST_CASE("a conversion rounds once") {
  // Through float, both would tie and fall to the even neighbour.
  CHECK(detail::npy_value<half>(1.0 + 0x1p-11 + 0x1p-40) == half(1.0F + 0x1p-10F));
  CHECK(detail::npy_value<bfloat16>(1.0 + 0x1p-8 + 0x1p-40) == bfloat16(1.0F + 0x1p-7F));
  CHECK(detail::npy_value<half>(1.0 + 0x1p-11) == half(1.0F));
  CHECK(detail::npy_value<half>(-0x1p-25 - 0x1p-70) == half(-0x1p-24F));
  CHECK(detail::npy_value<bfloat16>((std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1) ==
        bfloat16(0x1p62F + 0x1p55F));
  CHECK(detail::npy_value<bfloat16>(std::numeric_limits<std::int64_t>::min()) == bfloat16(-0x1p63F));
  CHECK(detail::npy_value<half>(1e300) == half(std::numeric_limits<float>::infinity()));
  CHECK(std::isnan(static_cast<float>(detail::npy_value<bfloat16>(std::numeric_limits<double>::quiet_NaN()))));
  CHECK(std::signbit(static_cast<float>(detail::npy_value<half>(-0.0))));

  std::mt19937_64 random(11);  // NOLINT(cert-msc51-cpp): the same values on each run
  bool nearest = true;
  const auto check = [&]<class T>(std::type_identity<T>, double x) {
    const T rounded = detail::npy_value<T>(x);
    const double error = std::abs(static_cast<double>(static_cast<float>(rounded)) - x);
    for (const int step : {-1, 1}) {
      T other;
      other.bits = static_cast<std::uint16_t>(rounded.bits + step);
      const double there = std::abs(static_cast<double>(static_cast<float>(other)) - x);
      nearest = nearest && (!(there < error) && (there != error || (rounded.bits & 1U) == 0));
    }
  };
  for (int trial = 0; trial < 100000; ++trial) {
    // Few bits beyond those kept, and one far below them, so that ties and near ties are frequent.
    const double tail = std::ldexp(static_cast<double>(random() % 3) - 1.0, -45);
    const double x = 1.0 + std::ldexp(static_cast<double>(random() % 65536), -16) + tail;
    check(std::type_identity<half>{}, std::ldexp(x, static_cast<int>(random() % 28) - 22));
    check(std::type_identity<bfloat16>{}, std::ldexp(x, static_cast<int>(random() % 200) - 120));
  }
  CHECK(nearest);
}

TEST_CASE("integers keep all their bits in int64, and what does not fit is refused") {
  const Scratch scratch;
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const std::string negative(reinterpret_cast<const char*>(&least), 8);
  const std::string head = "', 'fortran_order': False, 'shape': (1,)}";
  CHECK(read_all<std::int64_t>(scratch.file(header_bytes("{'descr': '<i8" + head) + negative)).front() == least);
  CHECK(read_all<double>(scratch.file(header_bytes("{'descr': '<u8" + head) + negative)).front() == 0x1p63);
  check_says(message_of<FileError>([&] { read_all<std::int64_t>(scratch.path()); }), "9223372036854775808");
}

template <class T>
std::vector<T> sample(Shape shape) {
  std::vector<T> values;
  for (index_t at = 0; at < shape.size(); ++at) {
    values.push_back(expected<T>(NpyType::complex128, at / shape.cols, at % shape.cols));
  }
  return values;
}

TEST_CASE("what is written reads back, for every scalar and shape") {
  const Scratch scratch;
  for_each_scalar([&]<class T>(std::type_identity<T>) {
    for (const Shape shape : std::vector<Shape>{{0, 0}, {0, 3}, {3, 0}, {1, 1}, {3, 5}, {2, 3000}}) {
      const std::vector<T> values = sample<T>(shape);
      NpyWriter writer(scratch.path(), npy_type_of<T>(), shape);
      writer.write({{0, shape.rows}, {0, shape.cols}}, View<const T>(values.data(), shape));
      writer.commit();
      CHECK(read_all<T>(scratch.path()) == values);
      CHECK(NpyFile(scratch.path()).header().dtype == npy_type_of<T>());
      CHECK(slurp(scratch.path()).substr(0, 128) == format_npy_header(npy_type_of<T>(), shape));
      CHECK(scratch.names().size() == 1);
    }
    std::filesystem::remove(scratch.path());
  });
}

TEST_CASE("a NaN keeps its bits") {
  const Scratch scratch;
  half odd;
  odd.bits = 0x7d01;  // a signalling one
  NpyWriter writer(scratch.path(), NpyType::float16, {1, 1});
  writer.write({{0, 1}, {0, 1}}, View<half>(&odd, {1, 1}));
  writer.commit();
  CHECK(read_all<half>(scratch.path()).front().bits == odd.bits);
}

TEST_CASE("blocks written by several threads and by joined writers") {
  const Scratch scratch;
  const Shape shape{13, 17};
  const std::vector<double> values = sample<double>(shape);
  const View<const double> all(values.data(), shape);
  for (const bool joined : {false, true}) {
    NpyWriter writer(scratch.path(), NpyType::float64, shape);
    std::vector<std::thread> threads;
    for (index_t r = 0; r < 2; ++r) {
      for (index_t c = 0; c < 3; ++c) {
        threads.emplace_back([&, block = Block{{r * 6, r == 0 ? 6 : 13}, {c * 5, c == 2 ? 17 : c * 5 + 5}}] {
          if (joined) {
            NpyWriter mine = NpyWriter::join(scratch.path(), writer.token());
            mine.write(block, all.sub(block));
            mine.commit();
          } else {
            writer.write(block, all.sub(block));
          }
        });
      }
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(scratch.names().size() == (joined ? 2U : 1U));  // a joined writer's commit names nothing
    writer.commit();
    CHECK(read_all<double>(scratch.path()) == values);
  }
  check_says(message_of<FileError>([&] { static_cast<void>(NpyWriter::join(scratch.path(), 1)); }), "No such file");
}

TEST_CASE("nothing is left of a file that was not committed, and the old one stays") {
  const Scratch scratch;
  const std::string old = make_file(NpyType::uint8, {2, 2}, false, 1);
  static_cast<void>(scratch.file(old));
  const NpyFile before(scratch.path());
  {
    NpyWriter writer(scratch.path(), NpyType::float32, {100, 100});
    NpyWriter moved = std::move(writer);
    moved = NpyWriter(scratch.path(), NpyType::float32, {7, 7});
    CHECK(moved.shape() == Shape{7, 7});
    CHECK(slurp(scratch.path()) == old);
  }
  CHECK(scratch.names().size() == 1);
  CHECK(slurp(scratch.path()) == old);
  NpyWriter writer(scratch.path(), NpyType::float32, {2, 1});
  writer.commit();
  CHECK(read_all<float>(scratch.path()) == std::vector<float>{0, 0});  // nobody wrote them
  CHECK(block_is_right<float>(before, {{0, 2}, {0, 2}}));              // the map is of the file that was replaced
  check_says(message_of<FileError>([&] { writer.commit(); }), "cannot be written");
}

TEST_CASE("a symbolic link is followed") {
  const Scratch scratch;
  static_cast<void>(scratch.file("old"));
  std::filesystem::create_symlink("x.npy", scratch.path("link.npy"));
  NpyWriter writer(scratch.path("link.npy"), NpyType::int64, {1, 1});
  writer.commit();
  CHECK(std::filesystem::is_symlink(scratch.path("link.npy")));
  CHECK(read_all<std::int64_t>(scratch.path()) == std::vector<std::int64_t>{0});
}

TEST_CASE("where no file can be written, and elements that it cannot take") {
  const Scratch scratch;
  const auto make = [&](const std::string& path, Shape shape) {
    return [=] { NpyWriter writer(path, NpyType::float64, shape); };
  };
  check_says(message_of<FileError>(make(scratch.path("absent/x.npy"), {1, 1})), "No such file");
  check_says(message_of<FileError>(make(scratch.path("."), {1, 1})), "not a regular file");
  check_says(message_of<FileError>(make("/dev/full", {1, 1})), "not a regular file");
  check_says(message_of<CapacityError>(make(scratch.path(), {index_t{1} << 31, index_t{1} << 31})), "below 2^63");
  check_says(message_of<CapacityError>(make(scratch.path(), {-1, 1})), "at least 0");

  NpyWriter writer(scratch.path(), NpyType::float64, {2, 2});
  const std::vector<float> narrow(4);
  const std::vector<half> small(4, half(1.5F));
  const Block whole{{0, 2}, {0, 2}};
  check_says(message_of<FileError>([&] { writer.write(whole, View<const float>(narrow.data(), {2, 2})); }),
             "made for float64");
  check_says(message_of<ShapeError>([&] { writer.write(whole, View<const half>(small.data(), {1, 4})); }), "a view of");
  writer.write(whole, View<const half>(small.data(), {2, 2}));
  writer.commit();
  CHECK(read_all<double>(scratch.path()) == std::vector<double>(4, 1.5));
}

TEST_CASE("a disk that takes no more: the error says so, and nothing is left behind") {
  const Scratch scratch;
  struct rlimit old = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = old;
  small.rlim_cur = 4096;
  NpyWriter writer(scratch.path(), NpyType::float64, {100, 100});
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::vector<double> values(10000, 1.0);
  const std::string at_once = message_of<FileError>([&] { NpyWriter other(scratch.path(), NpyType::int64, {99, 99}); });
  const std::string later =
      message_of<FileError>([&] { writer.write({{0, 100}, {0, 100}}, View<const double>(values.data(), {100, 100})); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, handler);
  check_says(at_once, "File too large");
  check_says(later, "File too large");
  writer = NpyWriter(scratch.path("y.npy"), NpyType::float64, {0, 0});
  CHECK(scratch.names().size() == 1);
}

}  // namespace
