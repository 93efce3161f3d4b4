// SPDX-License-Identifier: Apache-2.0
// Version of the library and the integer that counts elements.
#pragma once

#include <cstdint>

#define PARTITA_VERSION_MAJOR 0
#define PARTITA_VERSION_MINOR 1
#define PARTITA_VERSION_PATCH 0

namespace partita {

/// Extents, offsets and element counts: 64 bit everywhere, so that no local block or message can overflow it.
using index_t = std::int64_t;

}  // namespace partita
