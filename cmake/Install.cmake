# SPDX-License-Identifier: Apache-2.0
# What is installed: headers, a CMake package with components, a pkg-config file, the licence. Compiled kernels are made
# by the project that uses them, with its own flags: the component `kernels` brings the rule that does so.

include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/partita")

install(TARGETS partita EXPORT partita-targets FILE_SET HEADERS)
install(EXPORT partita-targets NAMESPACE partita:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/partita-config.cmake.in partita-config.cmake INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(partita-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/partita-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/partita-config-version.cmake" cmake/KernelUnits.cmake cmake/ProductLibraries.cmake
              cmake/CudaUnits.cmake cmake/FindCUDALibraries.cmake cmake/FindNCCL.cmake
        DESTINATION "${package_dir}")

configure_file(cmake/partita.pc.in partita.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/partita.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/partita")
