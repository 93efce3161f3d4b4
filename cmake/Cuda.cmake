# SPDX-License-Identifier: Apache-2.0
# PARTITA_CUDA=EMULATE: tests of the CUDA backend run against host stand-ins (tests/cuda_emulation), which need the
# headers of CUDA and NCCL and no device.

set(PARTITA_CUDA "OFF" CACHE STRING "CUDA: OFF, or EMULATE for tests against host stand-ins")
set_property(CACHE PARTITA_CUDA PROPERTY STRINGS OFF EMULATE)
if(NOT PARTITA_CUDA MATCHES "^(OFF|EMULATE)$")
  message(FATAL_ERROR "PARTITA_CUDA is '${PARTITA_CUDA}'; it can be OFF or EMULATE")
endif()
