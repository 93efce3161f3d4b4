// SPDX-License-Identifier: Apache-2.0
// The few things that a rendezvous does with TCP sockets (POSIX). Nothing blocks beyond its deadline.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace partita::detail {

using SocketClock = std::chrono::steady_clock;

/// Owns a descriptor that does not block.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) noexcept : descriptor_(descriptor) {
    if (open()) (void)fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
    if (open()) (void)fcntl(descriptor_, F_SETFD, FD_CLOEXEC);
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() { close(); }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool open() const noexcept { return descriptor_ >= 0; }
  void close() noexcept {
    if (open()) (void)::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_ = -1;
};

/// Returns when one of them is ready, or at the time.
inline void poll_until(std::vector<pollfd>& polled, SocketClock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - SocketClock::now()).count();
  const auto ms = static_cast<int>(std::clamp<long long>(left + 1, 0, 1000));
  (void)::poll(polled.data(), static_cast<nfds_t>(polled.size()), ms);
}
inline void poll_one(const Socket& socket, short events, SocketClock::time_point until) {
  std::vector<pollfd> polled{{socket.get(), events, 0}};
  poll_until(polled, until);
}
[[nodiscard]] inline bool would_block() noexcept { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/// Listens on all addresses of this machine; else not open, and why.
[[nodiscard]] inline Socket listen_on(int port, std::string& error) {
  for (const int family : {AF_INET6, AF_INET}) {  // the first takes both, where it is there
    Socket socket(::socket(family, SOCK_STREAM, 0));
    if (!socket.open()) {
      error = std::strerror(errno);
      continue;
    }
    const int on = 1;
    const int off = 0;
    (void)setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_storage address{};
    socklen_t length = 0;
    if (family == AF_INET6) {
      (void)setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      sockaddr_in6 six{};
      six.sin6_family = AF_INET6;
      six.sin6_port = htons(static_cast<std::uint16_t>(port));
      std::memcpy(&address, &six, length = sizeof six);
    } else {
      sockaddr_in four{};
      four.sin_family = AF_INET;
      four.sin_port = htons(static_cast<std::uint16_t>(port));
      std::memcpy(&address, &four, length = sizeof four);
    }
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0) {
      return socket;
    }
    error = std::strerror(errno);
  }
  return {};
}

/// Not open where nobody waits.
[[nodiscard]] inline Socket accept_from(const Socket& listener) {
  return Socket(::accept(listener.get(), nullptr, nullptr));
}

/// Tries each address of the host once; not open where none answers, and why.
[[nodiscard]] inline Socket connect_to(const std::string& host, int port, SocketClock::time_point until,
                                       std::string& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); failed != 0) {
    error = gai_strerror(failed);
    return {};
  }
  Socket connected;
  for (const addrinfo* a = found; a != nullptr && !connected.open(); a = a->ai_next) {
    Socket socket(::socket(a->ai_family, a->ai_socktype, a->ai_protocol));
    if (!socket.open()) continue;
    const auto patience = std::min(until, SocketClock::now() + std::chrono::seconds(5));
    int failure = ::connect(socket.get(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    for (bool over = false; failure == EINPROGRESS && !over;) {
      over = SocketClock::now() >= patience;  // still looks once more: what the system knows by then is told
      poll_one(socket, POLLOUT, patience);
      sockaddr_storage peer{};
      socklen_t length = sizeof peer;
      if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &length) == 0) {
        failure = 0;
      } else {
        int pending = 0;
        length = sizeof pending;
        (void)getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &pending, &length);
        if (pending != 0) failure = pending;
      }
    }
    if (failure == 0) {
      connected = std::move(socket);
    } else {
      error = std::strerror(failure);
    }
  }
  freeaddrinfo(found);
  return connected;
}

[[nodiscard]] inline bool send_all(const Socket& socket, std::string_view bytes, SocketClock::time_point until) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (sent == 0 || !would_block() || SocketClock::now() >= until) {
      return false;
    } else {
      poll_one(socket, POLLOUT, until);
    }
  }
  return true;
}

/// Adds what is there, up to `total` bytes in all. False where the other side has ended.
[[nodiscard]] inline bool receive_some(const Socket& socket, std::string& text, std::size_t total) {
  while (text.size() < total) {
    char buffer[512];
    const ssize_t got = ::recv(socket.get(), buffer, std::min(sizeof buffer, total - text.size()), 0);
    if (got <= 0) return got < 0 && would_block();
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return true;
}
[[nodiscard]] inline bool receive_all(const Socket& socket, std::string& text, std::size_t total,
                                      SocketClock::time_point until) {
  while (receive_some(socket, text, total)) {
    if (text.size() == total) return true;
    if (SocketClock::now() >= until) return false;
    poll_one(socket, POLLIN, until);
  }
  return false;
}

}  // namespace partita::detail
