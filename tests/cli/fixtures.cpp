// SPDX-License-Identifier: Apache-2.0
// cli_fixtures DIRECTORY: small matrices of integers in many types and orders, and their exact products.
#include <complex>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>

#include "partita/tensor/gather.hpp"
#include "partita/tensor/npy_writer.hpp"

namespace {

using namespace partita;

/// Integers from -3 to 3; the imaginary part of a complex element is one of its own.
template <class T>
Matrix<T> integers(Shape shape, index_t seed) {
  const auto draw = [seed](index_t i, index_t j) {
    return static_cast<int>((seed * 31 + i * 7 + j * 13 + i * j * 5 + (i + seed) * (j + 2) * 3) % 7) - 3;
  };
  Matrix<T> x(shape);
  for (index_t i = 0; i < shape.rows; ++i) {
    for (index_t j = 0; j < shape.cols; ++j) {
      if constexpr (is_complex_v<T>) {
        using R = typename T::value_type;
        x(i, j) = T(static_cast<R>(draw(i, j)), static_cast<R>(draw(j + 1, i)));
      } else if constexpr (is_storage_only_v<T>) {
        x(i, j) = T(static_cast<float>(draw(i, j)));
      } else {
        x(i, j) = static_cast<T>(draw(i, j));
      }
    }
  }
  return x;
}

template <class T>
Matrix<T> transposed_copy(const Matrix<T>& x) {
  Matrix<T> t(x.shape.transposed());
  for (index_t i = 0; i < x.shape.rows; ++i) {
    for (index_t j = 0; j < x.shape.cols; ++j) t(j, i) = x(i, j);
  }
  return t;
}

template <class T>
void write(const std::string& path, const Matrix<T>& x) {
  NpyWriter writer(path, npy_type_of<T>(), x.shape);
  writer.write({{0, x.shape.rows}, {0, x.shape.cols}}, x.view());
  writer.commit();
}

/// The same matrix in Fortran order.
template <class T>
void write_fortran(const std::string& path, const Matrix<T>& x) {
  const Matrix<T> columns = transposed_copy(x);
  std::ofstream file(path, std::ios::binary);
  file << format_npy_header(npy_type_of<T>(), x.shape, true);
  file.write(reinterpret_cast<const char*>(columns.elements.data()),
             static_cast<std::streamsize>(columns.elements.size() * sizeof(T)));
  if (!file.flush()) throw FileError("FileError: " + path + " cannot be written");
}

/// alpha·A·B + beta·C0; exact for small integers.
template <class T>
Matrix<T> product(const Matrix<T>& a, const Matrix<T>& b, T alpha = 1, T beta = 0, const Matrix<T>* c0 = nullptr) {
  Matrix<T> c({a.shape.rows, b.shape.cols});
  for (index_t i = 0; i < c.shape.rows; ++i) {
    for (index_t j = 0; j < c.shape.cols; ++j) {
      T sum = 0;
      for (index_t k = 0; k < a.shape.cols; ++k) sum += a(i, k) * b(k, j);
      c(i, j) = c0 == nullptr ? alpha * sum : alpha * sum + beta * (*c0)(i, j);
    }
  }
  return c;
}

/// NAME-a, -at, -b, -bt, -c0 and the results NAME-ab = A·B and NAME-ab0 = 2·A·B - 3·C0.
template <class T>
void write_set(const std::string& name, Shape left, index_t cols) {
  const auto a = integers<T>(left, 1);
  const auto b = integers<T>({left.cols, cols}, 2);
  const auto c0 = integers<T>({left.rows, cols}, 3);
  write(name + "-a.npy", a);
  write(name + "-at.npy", transposed_copy(a));
  write(name + "-b.npy", b);
  write(name + "-bt.npy", transposed_copy(b));
  write(name + "-c0.npy", c0);
  write(name + "-ab.npy", product(a, b));
  write(name + "-ab0.npy", product<T>(a, b, 2, -3, &c0));
  write_fortran(name + "-fa.npy", a);
  write_fortran(name + "-fbt.npy", transposed_copy(b));
}

void write_all(const std::string& directory) {
  write_set<float>(directory + "/f4", {13, 17}, 11);
  write_set<double>(directory + "/f8", {13, 17}, 11);
  write_set<std::complex<float>>(directory + "/c8", {13, 17}, 11);
  write_set<std::complex<double>>(directory + "/c16", {13, 17}, 11);
  write(directory + "/f2-a.npy", integers<half>({13, 17}, 1));
  write(directory + "/i8-b.npy", integers<std::int64_t>({17, 11}, 2));
  write_set<double>(directory + "/one", {1, 1}, 1);
  write_set<double>(directory + "/tiny", {2, 3}, 1);
  write_set<double>(directory + "/norows", {0, 5}, 4);
  write_set<double>(directory + "/nok", {3, 0}, 4);
  write_set<double>(directory + "/nocols", {3, 4}, 0);

  // The mixed product of complex64 and float32, and a C0 that nobody may read.
  const auto real = integers<float>({17, 11}, 2);
  Matrix<std::complex<float>> widened(real.shape);
  for (std::size_t i = 0; i < real.elements.size(); ++i) widened.elements[i] = real.elements[i];
  write(directory + "/c8f4-ab.npy", product(integers<std::complex<float>>({13, 17}, 1), widened));
  Matrix<double> nan({13, 11});
  for (double& x : nan.elements) x = std::numeric_limits<double>::quiet_NaN();
  write(directory + "/f8-nan.npy", nan);

  // Numbers with rounding, for --verify.
  Matrix<float> rough({90, 70});
  for (std::size_t i = 0; i < rough.elements.size(); ++i) {
    rough.elements[i] = 1.0F / static_cast<float>(i % 97 + 3) - 0.1F;
  }
  write(directory + "/rough.npy", rough);
  std::ofstream(directory + "/broken.npy") << "this is no matrix\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    write_all(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
