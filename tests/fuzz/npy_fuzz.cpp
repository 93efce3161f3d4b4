// SPDX-License-Identifier: Apache-2.0
// Coverage-guided fuzzing of the .npy reader: any bytes are either read or refused with FileError, within the memory of
// the block that is read.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "partita/tensor/npy_file.hpp"

namespace {

/// The input as a file in memory.
class InputFile {
 public:
  InputFile(const std::uint8_t* data, std::size_t size) : descriptor_(memfd_create("input", 0)) {
    if (write(descriptor_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  ~InputFile() { close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

template <class T>
void read_corners(const partita::NpyFile& file) {
  using namespace partita;
  const Shape shape = file.shape();
  const auto corner = [](index_t n) { return Range{n > 5 ? n - 5 : 0, n}; };
  for (const Block block : {Block{{0, shape.rows < 5 ? shape.rows : 5}, {0, shape.cols < 5 ? shape.cols : 5}},
                            Block{corner(shape.rows), corner(shape.cols)}}) {
    std::vector<T> out(static_cast<std::size_t>(block.size()) + 1);
    try {
      file.read<T>(block, View<T>(out.data(), block.shape()));
    } catch (const FileError&) {  // a conversion that would lose the value's kind
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const InputFile input(data, size);
  try {
    const partita::NpyFile file(input.path());
    read_corners<float>(file);
    read_corners<double>(file);
    read_corners<std::complex<double>>(file);
    read_corners<partita::half>(file);
    read_corners<std::int64_t>(file);
  } catch (const partita::FileError&) {
  }
  return 0;
}
