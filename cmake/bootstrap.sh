#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 or Ubuntu 24.04 machine to a result: installs what is missing, builds, and runs.
set -euo pipefail

usage() {
  cat >&2 << 'END'
usage: cmake/bootstrap.sh demo    build partita-matmul, and multiply the handwritten digits under every partition,
                                  with ranks that are threads and with ranks that are MPI processes
       cmake/bootstrap.sh test    build and run all tests
       cmake/bootstrap.sh bench   measure the products beside OpenBLAS and ScaLAPACK, in about a quarter of an hour;
                                  with --full every policy, which takes hours

Each installs what it misses through apt-get (as root, or with sudo) and builds under build/.
END
  exit 2
}

die() {
  printf 'bootstrap.sh: %s\n' "$*" >&2
  exit 1
}

has_command() { command -v "$1" > /dev/null 2>&1; }
has_package() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }

# need PACKAGE [COMMAND...]: a package is missing unless it is installed or all of its commands are found.
missing=()
need() {
  local package=$1 name
  shift
  has_package "$package" && return
  if [ $# -gt 0 ]; then
    for name in "$@"; do
      has_command "$name" || { missing+=("$package"); return; }
    done
    return
  fi
  missing+=("$package")
}

install_missing() {
  [ ${#missing[@]} -gt 0 ] || return 0
  local list="${missing[*]}" root=()
  has_command apt-get || die "missing: $list (names of Debian and Ubuntu); there is no apt-get to install them with"
  if [ "$(id -u)" -ne 0 ]; then
    has_command sudo || die "missing: $list; run as root, or have an administrator install them"
    root=(sudo)
  fi
  echo "installing: $list"
  local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120)
  # Lists that cannot be refreshed may still do.
  "${apt[@]}" update || echo "bootstrap.sh: apt-get update failed; trying with the lists at hand" >&2
  "${apt[@]}" install --no-install-recommends "${missing[@]}" || die "apt-get could not install: $list"
}

check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/^cmake version \([0-9.]*\).*/\1/p')
  if [ "$(printf '%s\n' 3.25 "$version" | sort -V | head -n 1)" != 3.25 ]; then
    die "$(command -v cmake) is version ${version:-unknown}; 3.25 or later is needed"
  fi
}

case $* in demo | test | bench | 'bench --full') ;; *) usage ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

need g++ g++
need cmake cmake
need ninja-build ninja
need libeigen3-dev
need libopenblas-dev
if [ "$1" = bench ]; then
  need libbenchmark-dev
  need libscalapack-openmpi-dev
else
  need doctest-dev
  need libcli11-dev
fi
need libopenmpi-dev mpicxx.openmpi
need openmpi-bin mpirun.openmpi
if [ "$1" = test ]; then
  need clang-19 clang++-19
  need clang-format-19 clang-format-19
  need libclang-rt-19-dev
  need libmpich-dev mpicxx.mpich
  need mpich mpirun.mpich
  need iproute2 ip
  need pkg-config pkg-config
  need doxygen doxygen
  need libdnnl-dev
fi
install_missing
check_cmake

# demo_of COMMAND...: it makes the table, and all results agree.
demo_of() {
  "$@" | tee build/demo/table.txt
  [ "$(tail -n 1 build/demo/table.txt)" = 'all results agree' ] || die "the demo does not end with 'all results agree'"
}

case $1 in
  demo)
    # The compiler by name: another MPI may be installed too, and be the default.
    cmake -S . -B build/demo -G Ninja -DCMAKE_BUILD_TYPE=Release -DPARTITA_BUILD_TESTS=OFF -DPARTITA_BUILD_EXAMPLES=ON \
      -DPARTITA_MPI=ON -DMPI_CXX_COMPILER=mpicxx.openmpi -DPARTITA_BLAS=ON -DBLA_VENDOR=OpenBLAS
    cmake --build build/demo --target partita-matmul partita-demo train_digits
    program=$(find build/demo -name partita-demo -type f -perm -u+x | head -n 1)
    [ -n "$program" ] || die "the build has left no program partita-demo under build/demo"
    run=(mpirun.openmpi -n 8 --oversubscribe --bind-to none)
    if [ "$(id -u)" -eq 0 ]; then run+=(--allow-run-as-root); fi
    # Copies from process to process need a right that containers withhold.
    export OMPI_MCA_btl_vader_single_copy_mechanism=none
    demo_of "$program" examples/data
    echo
    demo_of "${run[@]}" "$program" examples/data
    echo
    build/demo/train_digits --policy summa25d --ranks 8 --csv build/demo/digits.csv --picture build/demo/digits.svg
    ;;
  test)
    exec cmake/run_tests.sh
    ;;
  bench)
    shift
    cmake -S . -B build/bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DPARTITA_BUILD_TESTS=OFF \
      -DPARTITA_BUILD_EXAMPLES=OFF -DPARTITA_INSTALL=OFF -DPARTITA_BUILD_BENCHMARKS=ON -DPARTITA_MPI=ON \
      -DMPI_CXX_COMPILER=mpicxx.openmpi -DPARTITA_BLAS=ON -DBLA_VENDOR=OpenBLAS
    cmake --build build/bench --target side_by_side
    exec bench/side_by_side/run.sh build/bench "$@"
    ;;
esac
