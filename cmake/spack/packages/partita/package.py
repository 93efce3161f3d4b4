# SPDX-License-Identifier: Apache-2.0
"""Spack recipe: `spack repo add cmake/spack`, then `spack install partita`."""

from spack.package import *


class Partita(CMakePackage):
    """Parallel linear algebra whose partitions are types: a header-only C++20 library."""

    license("Apache-2.0")

    version("main", branch="main")

    variant("mpi", default=False, description="Bring an MPI for ranks that are processes")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("eigen@3.4:")
    depends_on("mpi", when="+mpi")

    conflicts("%gcc@:11", msg="Partita needs GCC 12 or later")
    conflicts("%clang@:18", msg="Partita needs Clang 19 or later")

    def cmake_args(self):
        return [
            self.define("PARTITA_BUILD_TESTS", False),
            self.define("PARTITA_BUILD_EXAMPLES", False),
            self.define_from_variant("PARTITA_MPI", "mpi"),
        ]
