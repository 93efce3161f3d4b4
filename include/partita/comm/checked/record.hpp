// SPDX-License-Identifier: Apache-2.0
// One call of one rank as data: what is compared between ranks, and how it reads in a message.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "partita/base/scalar.hpp"
#include "partita/base/shape.hpp"
#include "partita/comm/concepts.hpp"

namespace partita::detail {

enum class CallKind : std::uint32_t {
  none,
  broadcast,
  broadcast_panel,
  reduce,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all_v,
  barrier,
  agree,
  split,
  subset,
  check_value,
  close,
  product,
  send,
  recv,
  drain,
  gather_words
};

[[nodiscard]] inline const char* name_of(CallKind kind) noexcept {
  constexpr std::array<const char*, 19> names{"nothing",     "broadcast",      "broadcast_panel", "reduce",
                                              "all_reduce",  "reduce_scatter", "all_gather",      "all_to_all_v",
                                              "barrier",     "agree",          "split",           "subset",
                                              "check_value", "close",          "product",         "send",
                                              "recv",        "drain",          "gather_words"};
  return names[static_cast<std::size_t>(kind)];
}

/// A hash that grows word by word; the same on every rank.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t word) noexcept {
  h = (h ^ word) * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}
[[nodiscard]] constexpr std::uint64_t hash_text(std::string_view text) noexcept {
  std::uint64_t h = text.size();
  for (const char c : text) h = mix(h, static_cast<unsigned char>(c));
  return h;
}
[[nodiscard]] inline std::uint64_t hash_blocks(std::span<const Block> blocks) noexcept {
  std::uint64_t h = blocks.size();
  for (const Block& b : blocks) {
    for (const index_t i : {b.rows.begin, b.rows.end, b.cols.begin, b.cols.end}) {
      h = mix(h, static_cast<std::uint64_t>(i));
    }
  }
  return h;
}

/// Types that messages name; all others are told apart by a hash of what the compiler calls them.
template <class... Ts>
struct TypeNames {};
using NamedTypes = TypeNames<float, double, std::complex<float>, std::complex<double>, half, bfloat16, std::int32_t,
                             std::int64_t, std::byte>;
inline constexpr std::array<const char*, 9> type_names{
    "float", "double", "complex<float>", "complex<double>", "half", "bfloat16", "int32", "int64", "byte"};

template <class T, class... Ts>
[[nodiscard]] constexpr std::uint64_t named_type(TypeNames<Ts...>) noexcept {
  std::uint64_t found = 0;
  std::uint64_t at = 0;
  ((++at, found = std::is_same_v<T, Ts> ? at : found), ...);
  return found;
}

/// 1 + the place in NamedTypes, or a hash above 255.
template <class T>
[[nodiscard]] constexpr std::uint64_t type_code() noexcept {
  constexpr std::uint64_t named = named_type<T>(NamedTypes{});
  if (named != 0) return named;
  return hash_text(__PRETTY_FUNCTION__) | 256U;
}

/// All words are compared unless said otherwise. Made of 64-bit words without padding, so that it travels as such.
struct CallRecord {
  static constexpr std::size_t name_length = 32;

  CallKind kind = CallKind::none;
  CallKind stray = CallKind::none;  // not compared: what another thread tried before this call
  std::uint64_t sequence = 0;
  std::uint64_t communicator = 0;
  std::uint64_t type = 0;
  std::uint64_t type_bytes = 0;  // follows from the type; for the text
  index_t rows = 0;
  index_t cols = 0;
  std::uint64_t blocks = 0;
  std::int64_t root = -1;  // or the number of ranks of a subset; the peer of a message; k of a product
  std::int64_t tag = -1;   // of a message
  std::int64_t op = -1;
  std::int64_t into = -1;
  std::uint64_t refused = 0;   // the rank's own arguments are wrong
  std::uint64_t repeated = 0;  // not compared: of a sum of what the last sum seems to have left, a hash; else 0
  std::array<std::uint64_t, 2> value{};
  std::array<char, name_length> name{};  // of a value

  [[nodiscard]] bool is_message() const noexcept { return kind == CallKind::send || kind == CallKind::recv; }
  [[nodiscard]] bool is_product() const noexcept { return kind == CallKind::product; }
  [[nodiscard]] Shape shape() const noexcept { return {rows, cols}; }
  [[nodiscard]] std::string_view value_name() const noexcept {
    const auto end = std::find(name.begin(), name.end(), '\0');
    return {name.data(), static_cast<std::size_t>(end - name.begin())};
  }
};
static_assert(std::is_trivially_copyable_v<CallRecord> && sizeof(CallRecord) % 8 == 0);

/// An integer as std::int64_t, all else as double or complex.
template <class S>
void set_value(CallRecord& record, std::string_view name, S value) noexcept {
  const auto bits_of = [](auto x) { return std::bit_cast<std::uint64_t>(static_cast<double>(x)); };
  name.copy(record.name.data(), CallRecord::name_length - 1);
  if constexpr (std::is_integral_v<S>) {
    record.type = type_code<std::int64_t>();
    record.value[0] = static_cast<std::uint64_t>(value);
  } else if constexpr (is_complex_v<S>) {
    record.type = type_code<std::complex<double>>();
    record.value = {bits_of(value.real()), bits_of(value.imag())};
  } else {
    record.type = type_code<double>();
    record.value[0] = bits_of(value);
  }
}

/// A hash of all that is compared, which is what ranks look at as long as all is well. The name is left out where there
/// is none: it costs as much as all the rest.
[[nodiscard]] inline std::uint64_t digest_of(const CallRecord& r) noexcept {
  std::uint64_t h = mix(static_cast<std::uint64_t>(r.kind), r.communicator);
  h = mix(h, r.sequence);
  h = mix(h, r.type);
  h = mix(h, static_cast<std::uint64_t>(r.rows));
  h = mix(h, static_cast<std::uint64_t>(r.cols));
  h = mix(h, r.blocks);
  h = mix(h, static_cast<std::uint64_t>(r.root));
  h = mix(h, static_cast<std::uint64_t>(r.op));
  h = mix(h, static_cast<std::uint64_t>(r.into));
  h = mix(h, r.refused);
  if (r.kind == CallKind::check_value) h = mix(h, hash_text(r.value_name()));
  if (r.kind == CallKind::check_value || r.kind == CallKind::product) h = mix(mix(h, r.value[0]), r.value[1]);
  return h;
}

/// A field that calls are compared by, in the order in which differences are reported.
struct CallField {
  const char* what;
  std::uint64_t (*of)(const CallRecord&) noexcept;
};
inline constexpr std::array<CallField, 17> call_fields{{
    {"the operation", [](const CallRecord& r) noexcept { return static_cast<std::uint64_t>(r.kind); }},
    {"the communicator", [](const CallRecord& r) noexcept { return r.communicator; }},
    {"the number of the call", [](const CallRecord& r) noexcept { return r.sequence; }},
    {"the arguments, which some ranks refuse", [](const CallRecord& r) noexcept { return r.refused; }},
    {"the type of the elements", [](const CallRecord& r) noexcept { return r.type; }},
    {"the shape",
     [](const CallRecord& r) noexcept {
       const std::int64_t k = r.is_product() ? r.root : 0;
       return mix(mix(mix(0, static_cast<std::uint64_t>(r.rows)), static_cast<std::uint64_t>(r.cols)),
                  static_cast<std::uint64_t>(k));
     }},
    {"the blocks", [](const CallRecord& r) noexcept { return r.is_product() ? 0 : r.blocks; }},
    {"the root", [](const CallRecord& r) noexcept { return r.is_product() ? 0 : static_cast<std::uint64_t>(r.root); }},
    {"the reduction", [](const CallRecord& r) noexcept { return static_cast<std::uint64_t>(r.op); }},
    {"what is done with the output", [](const CallRecord& r) noexcept { return static_cast<std::uint64_t>(r.into); }},
    {"the name of the value", [](const CallRecord& r) noexcept { return hash_text(r.value_name()); }},
    {"the value", [](const CallRecord& r) noexcept { return r.is_product() ? 0 : r.value[0]; }},
    {"the imaginary part of the value", [](const CallRecord& r) noexcept { return r.is_product() ? 0 : r.value[1]; }},
    {"alpha", [](const CallRecord& r) noexcept { return r.is_product() ? r.value[0] : 0; }},
    {"beta", [](const CallRecord& r) noexcept { return r.is_product() ? r.value[1] : 0; }},
    {"partitions, units, storage or options",
     [](const CallRecord& r) noexcept { return r.is_product() ? r.blocks : 0; }},
    {"the arguments", digest_of},
}};

[[nodiscard]] inline std::string type_text(const CallRecord& r) {
  if (r.type >= 1 && r.type <= type_names.size()) return type_names[r.type - 1];
  return "elements of " + std::to_string(r.type_bytes) + " bytes (type " + std::to_string(r.type % 9973) + ")";
}

/// With as many digits as tell two values apart.
[[nodiscard]] inline std::string value_text(const CallRecord& r) {
  if (r.type == type_code<std::int64_t>()) return std::to_string(static_cast<std::int64_t>(r.value[0]));
  std::array<char, 64> text{};
  const double real = std::bit_cast<double>(r.value[0]);
  const double imaginary = std::bit_cast<double>(r.value[1]);
  if (r.value[1] == 0) {
    std::snprintf(text.data(), text.size(), "%.17g", real);
  } else {
    std::snprintf(text.data(), text.size(), "(%.17g, %.17g)", real, imaginary);
  }
  return text.data();
}

[[nodiscard]] inline std::string product_text(const CallRecord& r) {
  std::array<char, 96> factors{};
  std::snprintf(factors.data(), factors.size(), ", alpha %.17g, beta %.17g", std::bit_cast<double>(r.value[0]),
                std::bit_cast<double>(r.value[1]));
  return " of " + to_string(Shape{r.rows, r.root}) + " by " + to_string(Shape{r.root, r.cols}) + " " + type_text(r) +
         factors.data() + ", arrangement " + std::to_string(r.blocks % 9973);
}

/// The call in words, as far as it is compared.
[[nodiscard]] inline std::string text_of(const CallRecord& r) {
  std::string text = name_of(r.kind);
  if (r.kind == CallKind::check_value) {
    text += " of " + std::string(r.value_name()) + " = " + value_text(r);
  } else if (r.is_product()) {
    text += product_text(r);
  } else if (r.kind == CallKind::gather_words) {
    text += " of " + std::to_string(r.cols) + " words";
  } else if (r.kind == CallKind::subset) {
    text += " of " + std::to_string(r.root) + " ranks";
  } else if (r.type != 0) {
    text += " of " + to_string(r.shape()) + " " + type_text(r);
    if (r.is_message()) {
      text +=
          (r.kind == CallKind::send ? " to " : " from ") + std::to_string(r.root) + ", tag " + std::to_string(r.tag);
    } else if (r.root >= 0) {
      text += ", root " + std::to_string(r.root);
    }
    if (r.op >= 0) text += r.op == static_cast<int>(ReduceOp::max) ? ", maximum" : ", sum";
    if (r.into == static_cast<int>(Into::accumulate)) text += ", accumulated";
    if (r.blocks != 0) text += ", blocks " + std::to_string(r.blocks % 9973);
  }
  return text;
}

}  // namespace partita::detail
