// SPDX-License-Identifier: Apache-2.0
// What layers check of their arguments; all of it is agreed, so the verdict is the same on all ranks.
#pragma once

#include <string>

#include "partita/base/error.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/steps.hpp"

namespace partita::detail {

inline std::string units_text(const Units& units) { return to_string(Shape{units.rows, units.cols}); }

/// Pre of backward(): forward() was called, and its result had this shape and these units.
inline void check_backward(const std::string& layer, bool forwarded, const Extent2D& dy, const Extent2D& y) {
  if (!forwarded) throw ArgumentError("ArgumentError: backward() of " + layer + " without forward()");
  if (dy.shape != y.shape) {
    throw ShapeError("ShapeError: backward() of " + layer + " of a gradient of " + to_string(dy.shape) +
                     ", forward() gave " + to_string(y.shape));
  }
  if (dy.units != y.units) {
    throw UnitError("UnitError: backward() of " + layer + " of a gradient with units " + units_text(dy.units) +
                    ", forward() gave units " + units_text(y.units));
  }
}

/// x + f(x) needs the same elements on every rank.
inline void check_residual(const Extent2D& x, const Extent2D& fx) {
  if (x.shape != fx.shape) {
    throw ShapeError("ShapeError: Residual adds f(x) of " + to_string(fx.shape) + " to x of " + to_string(x.shape));
  }
  if (x.units != fx.units) {
    throw UnitError("UnitError: Residual adds f(x) with units " + units_text(fx.units) + " to x with units " +
                    units_text(x.units));
  }
}

/// An activation whose columns go with a row of parameters.
inline void check_features(const std::string& layer, const Extent2D& x, const Extent2D& row) {
  if (x.shape.cols != row.shape.cols) {
    throw ShapeError("ShapeError: " + layer + " has " + std::to_string(row.shape.cols) + " features, its input is " +
                     to_string(x.shape));
  }
  if (x.units.cols != row.units.cols) {
    throw UnitError("UnitError: " + layer + " cuts its features at multiples of " + std::to_string(row.units.cols) +
                    ", its input at multiples of " + std::to_string(x.units.cols));
  }
}

}  // namespace partita::detail
