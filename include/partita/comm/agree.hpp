// SPDX-License-Identifier: Apache-2.0
// One verdict for all ranks: where one objects, all throw the same error with the same text.
#pragma once

#include <string>

#include "partita/comm/concepts.hpp"

namespace partita::detail {

/// The objection of the highest rank that has one, the same text on all ranks; empty where nobody objects. Texts
/// travel in agreements, seven bytes each, so that an error reads alike on all ranks of every communicator.
/// Communicates: one agreement; where a rank objects, a further one for each seven bytes of its text.
template <class Comm>
[[nodiscard]] std::string agree_on_objection(Comm& comm, const std::string& mine) {
  const index_t objector = comm.agree(mine.empty() ? -1 : comm.rank());
  if (objector < 0) return {};
  const bool speaks = objector == comm.rank();
  const index_t length = comm.agree(speaks ? static_cast<index_t>(mine.size()) : -1);
  std::string text;
  for (index_t at = 0; at < length; at += 7) {
    index_t word = -1;
    if (speaks) {
      word = 0;
      for (index_t i = at; i < at + 7; ++i) {
        const char c = i < length ? mine[static_cast<std::size_t>(i)] : '\0';
        word = word * 256 + static_cast<unsigned char>(c);
      }
    }
    word = comm.agree(word);
    for (int shift = 48; shift >= 0; shift -= 8) text += static_cast<char>(static_cast<unsigned char>(word >> shift));
  }
  text.resize(static_cast<std::size_t>(length));
  return text;
}

/// Throws E on all ranks, with the same text, where any rank's objection `mine` is not empty.
/// Communicates: see agree_on_objection.
template <class E, class Comm>
void agree_or_throw(Comm& comm, const std::string& mine) {
  const std::string objection = agree_on_objection(comm, mine);
  if (!objection.empty()) throw E(objection);
}

}  // namespace partita::detail
