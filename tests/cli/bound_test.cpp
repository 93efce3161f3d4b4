// SPDX-License-Identifier: Apache-2.0
// What --verify and the demo judge by: errors within the bound pass, anything beyond it, NaN and a wrong place do not.
#include <doctest/doctest.h>
#include <unistd.h>

#include <complex>
#include <filesystem>
#include <limits>
#include <string>

#include "matmul_files/bound.hpp"

namespace {

using namespace matmul_files;
constexpr float float_nan = std::numeric_limits<float>::quiet_NaN();
constexpr double double_nan = std::numeric_limits<double>::quiet_NaN();
constexpr float float_inf = std::numeric_limits<float>::infinity();
constexpr double double_inf = std::numeric_limits<double>::infinity();

TEST_CASE("gamma adds up roundings") {
  CHECK(gamma<float>(1) == doctest::Approx(0x1p-24).epsilon(1e-6));
  CHECK(gamma<float>(100) == doctest::Approx(100 * 0x1p-24).epsilon(1e-4));
  CHECK(gamma<double>(10) == doctest::Approx(10 * 0x1p-53).epsilon(1e-6));
  CHECK(gamma<std::complex<float>>(10) == gamma<float>(10));
}

TEST_CASE("an error is measured by its bound") {
  CHECK(error_over_bound<float>(1, 1, 1, 10) == 0);
  CHECK(error_over_bound<float>(1 + 0x1p-22F, 1, 1, 10) == doctest::Approx(0.4).epsilon(1e-3));
  CHECK(error_over_bound<float>(1 + 0x1p-19F, 1, 1, 10) > 1);
  CHECK(error_over_bound<float>(1 + 0x1p-19F, 1, 100, 10) < 1);  // much was cancelled
  CHECK(error_over_bound<double>(1 + 0x1p-48, 1, 1, 10) > 1);
  using C = std::complex<double>;
  CHECK(error_over_bound<C>(C(3, 4), {3, 4}, 5, 10) == 0);
  CHECK(error_over_bound<C>(C(3, 4 + 0x1p-44), {3, 4}, 5, 10) > 1);
  CHECK(error_over_bound<float>(1, 0, 0, 10) > 1e6);
}

TEST_CASE("NaN, infinity, overflow and underflow") {
  CHECK(error_over_bound<float>(float_nan, 1, 1, 10) == double_inf);
  CHECK(error_over_bound<float>(float_inf, 1, 1, 10) == double_inf);
  CHECK(error_over_bound<float>(1, double_nan, double_nan, 10) == double_inf);
  CHECK(error_over_bound<float>(float_nan, double_nan, double_nan, 10) == 0);
  CHECK(error_over_bound<float>(float_inf, double_nan, double_nan, 10) == double_inf);
  CHECK(error_over_bound<float>(float_inf, double_inf, double_inf, 10) == 0);
  CHECK(error_over_bound<float>(-float_inf, double_inf, double_inf, 10) == double_inf);
  CHECK(error_over_bound<float>(float_nan, double_inf, double_inf, 10) == double_inf);
  CHECK(error_over_bound<float>(float_inf, 1e39, 1e39, 10) == 0);
  CHECK(error_over_bound<float>(0, 1e-60, 1e-60, 10) < 1);
  using C = std::complex<float>;
  CHECK(error_over_bound<C>(C(float_nan, 0), {double_nan, 0}, double_nan, 10) == 0);
  CHECK(error_over_bound<C>(C(0, 0), {double_nan, 0}, double_nan, 10) == double_inf);
  CHECK(error_over_bound<C>(C(0, float_nan), {0, 0}, 0, 10) == double_inf);
}

template <class T>
void write(const std::string& path, const Matrix<T>& x) {
  NpyWriter writer(path, npy_type_of<T>(), x.shape);
  writer.write({{0, x.shape.rows}, {0, x.shape.cols}}, x.view());
  writer.commit();
}

template <class T>
Matrix<T> filled(Shape shape, int step) {
  Matrix<T> x(shape);
  for (std::size_t i = 0; i < x.elements.size(); ++i) {
    x.elements[i] = static_cast<T>(static_cast<float>((static_cast<int>(i) * step) % 11 - 5));
  }
  return x;
}

/// A product with A stored transposed, larger than a tile; every wrong element in it must be found.
template <class T>
void reference_finds_errors(const std::string& directory) {
  const Shape shape{70, 130};
  const index_t k = 9;
  const auto at = filled<T>({k, shape.rows}, 3);
  const auto b = filled<T>({k, shape.cols}, 5);
  const auto c0 = filled<T>(shape, 7);
  write(directory + "/at.npy", at);
  write(directory + "/b.npy", b);
  write(directory + "/c0.npy", c0);
  const NpyFile at_file(directory + "/at.npy");
  const NpyFile b_file(directory + "/b.npy");
  const NpyFile c0_file(directory + "/c0.npy");
  const Reference<T> reference({&at_file, true}, {&b_file}, {&c0_file}, T(2), T(-3), k + 5);

  Matrix<T> c(shape);
  for (index_t i = 0; i < shape.rows; ++i) {
    for (index_t j = 0; j < shape.cols; ++j) {
      T sum = 0;
      for (index_t l = 0; l < k; ++l) sum += at(l, i) * b(l, j);
      c(i, j) = T(2) * sum - T(3) * c0(i, j);
    }
  }
  const Block all{{0, shape.rows}, {0, shape.cols}};
  const Block part{{3, 69}, {60, 129}};
  const View<const T> view = std::as_const(c).view();
  CHECK(reference.largest_error(all, view) == 0);
  CHECK(reference.largest_error(part, view.sub(part)) == 0);
  CHECK(reference.largest_error({{5, 5}, {0, 4}}, view.sub({{5, 5}, {0, 4}})) == 0);
  CHECK(reference.largest_error({{0, 66}, {0, 69}}, view.sub(part)) > 1);  // another place
  for (const index_t at_element : {index_t{0}, index_t{64 * 130 + 64}, shape.size() - 1}) {
    T& element = c.elements[static_cast<std::size_t>(at_element)];
    const T right = element;
    element += T(1);
    CHECK(reference.largest_error(all, view) > 1);
    element = T(float_nan);
    CHECK(reference.largest_error(all, view) > 1);
    element = right;
  }
}

TEST_CASE("the reference finds every wrong element") {
  const auto directory = std::filesystem::temp_directory_path() / ("partita-bound-" + std::to_string(::getpid()));
  std::filesystem::create_directories(directory);
  reference_finds_errors<float>(directory.string());
  reference_finds_errors<double>(directory.string());
  reference_finds_errors<std::complex<float>>(directory.string());
  reference_finds_errors<std::complex<double>>(directory.string());
  std::filesystem::remove_all(directory);
}

}  // namespace
