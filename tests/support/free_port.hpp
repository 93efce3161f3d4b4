// SPDX-License-Identifier: Apache-2.0
// A port for tests in which ranks meet over TCP.
#pragma once

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "partita/comm/nccl/socket.hpp"

namespace partita::test {

/// A port of this machine that was free a moment ago.
inline int free_port() {
  std::string error;
  const detail::Socket any = detail::listen_on(0, error);
  REQUIRE(any.open());
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  REQUIRE(getsockname(any.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
}

}  // namespace partita::test
