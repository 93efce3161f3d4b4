// SPDX-License-Identifier: Apache-2.0
// What a call throws, in words.
#pragma once

#include <exception>
#include <string>

namespace partita::test {

/// Text of the error E that f throws; else what was thrown instead, or that nothing was.
template <class E, class F>
std::string text_thrown(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another type: ") + error.what();
  }
  return "nothing was thrown";
}

}  // namespace partita::test
