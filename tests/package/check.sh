#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs Partita and builds a stranger's project on it: check.sh SOURCE BUILD SCRATCH CXX WAY, where WAY is install,
# cuda, subdirectory, fetch or pkgconfig.
set -eu
source=$1 build=$2 scratch=$3 cxx=$4 way=$5

rm -rf "$scratch"
mkdir -p "$scratch"
cmake --install "$build" --prefix "$scratch/prefix" > "$scratch/install.log"

if [ "$way" = pkgconfig ]; then
  command -v pkg-config > /dev/null || { echo "SKIPPED: no pkg-config"; exit 77; }
  export PKG_CONFIG_PATH="$scratch/prefix/share/pkgconfig"
  # shellcheck disable=SC2046
  "$cxx" -std=c++20 "$source/tests/package/main.cpp" "$source/tests/package/other.cpp" -o "$scratch/stranger" \
    $(pkg-config --cflags --libs partita)
  "$scratch/stranger"
  pkg-config --modversion partita
  exit 0
fi

cmake -S "$source/tests/package" -B "$scratch/build" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Debug \
  -DWAY="$way" -DPARTITA_SOURCE="$source" -DCMAKE_PREFIX_PATH="$scratch/prefix" -DPARTITA_CUDA_ARCHITECTURES=80
case $way in  # the install is tried whole, the other ways with one program each
  install) programs=(header_only compiled)
    for component in blas mpi; do
      if cmake --build "$scratch/build" --target help | grep -Eq "^(\.\.\. )?$component(:|\$)"; then
        programs+=("$component")
      fi
    done ;;
  subdirectory) programs=(compiled) ;;
  cuda) programs=(cuda) ;;
  *) programs=(header_only) ;;
esac
cmake --build "$scratch/build" --parallel 2 --target "${programs[@]}"
ctest --test-dir "$scratch/build" --output-on-failure --no-tests=error -R "^($(IFS='|'; echo "${programs[*]}"))\$"
