#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes every .npy file of this directory from scikit-learn's copy of the UCI handwritten digits.

usage: make_digits.py [SOURCE [DIRECTORY]]

SOURCE is digits.csv.gz, or a wheel of scikit-learn that holds it; without SOURCE the installed scikit-learn is used.
The files are written to DIRECTORY (without it: where this script lies), the same bits on every machine: all sums are
of integers, and every floating-point number is one correctly rounded quotient of integers.
"""

import gzip
import hashlib
import importlib.util
import pathlib
import sys
import zipfile

import numpy as np

MEMBER = "sklearn/datasets/data/digits.csv.gz"
SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"


def read_csv(source):
    """The decompressed table: 1797 lines of 64 pixels and a label."""
    if source is None:
        found = importlib.util.find_spec("sklearn")
        if found is None:
            sys.exit("make_digits.py: scikit-learn is not installed; give its wheel or its digits.csv.gz")
        source = pathlib.Path(found.origin).parents[1] / MEMBER
    if zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as wheel:
            packed = wheel.read(MEMBER)
    else:
        packed = pathlib.Path(source).read_bytes()
    text = gzip.decompress(packed)
    if hashlib.sha256(text).hexdigest() != SHA256:
        sys.exit(f"make_digits.py: {source} is not the table that these files were made from")
    return text.decode("ascii")


def exact_product(a, b):
    """a·b for integers `a` and doubles `b`, each element the exact sum rounded once."""
    scale = 2**60  # the means are multiples of 2**-60
    scaled = np.array([[int(x * scale) for x in row] for row in b], dtype=object)
    assert all(int(x * scale) / scale == x and (x == 0 or x >= 2.0**-8) for x in b.flat)
    sums = a.astype(object) @ scaled
    return np.array([[s / scale for s in row] for row in sums])  # Python divides integers with one rounding


def main():
    if len(sys.argv) > 3 or "-h" in sys.argv or "--help" in sys.argv:
        sys.exit(__doc__)
    table = np.array(
        [[int(float(v)) for v in line.split(",")] for line in read_csv(next(iter(sys.argv[1:]), None)).split()]
    )
    x = table[:, :64]
    labels = table[:, 64]
    assert table.shape == (1797, 65) and x.min() == 0 and x.max() == 16 and set(labels) == set(range(10))

    means = np.empty((64, 10))
    for c in range(10):
        means[:, c] = x[labels == c].sum(axis=0) / np.count_nonzero(labels == c)
    gram = x @ x.T
    assert gram.max() < 2**16

    files = {
        "digits": x.astype(np.uint8),
        "digits_labels": labels.astype(np.uint8),
        "digits_class_means": means,
        "reference_xtx": (x.T @ x).astype(np.int64),
        "reference_xxt": gram.astype(np.uint16),
        "reference_xmeans": exact_product(x, means),
    }
    directory = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent
    for name, array in files.items():
        np.save(directory / f"{name}.npy", np.ascontiguousarray(array))
        print(f"{name}.npy  {array.shape}  {array.dtype}")


if __name__ == "__main__":
    main()
