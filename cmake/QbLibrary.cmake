# libqbench: the C library, shared (only qbench_* visible, with symbol versions) and static (one
# archive of all that it needs), with pkg-config and CMake packages.
include(GNUInstallDirs)
set(qb_library_map ${CMAKE_SOURCE_DIR}/api/qbench.map)
file(GLOB qb_library_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/api/*.c)
set(qb_library_parts qb_datasets qb_engine qb_graph qb_onnx_proto qb_records_proto
  qb_kernels qb_base)
if(QB_HAVE_CUDA)
  list(APPEND qb_library_parts qb_cuda)
endif()

add_library(libqbench SHARED ${qb_library_sources})
set_target_properties(libqbench PROPERTIES OUTPUT_NAME qbench EXPORT_NAME qbench
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE C
  LINK_DEPENDS ${qb_library_map})
target_include_directories(libqbench PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(libqbench PRIVATE qb_datasets qb_engine)
target_link_options(libqbench PRIVATE -Wl,--version-script=${qb_library_map})

# The inner libraries' objects and the API's in one archive; third-party libraries stay outside.
add_library(libqbench_objects STATIC ${qb_library_sources})
target_link_libraries(libqbench_objects PRIVATE qb_datasets qb_engine)
set(qb_archive ${CMAKE_BINARY_DIR}/libqbench.a)
set(qb_archive_script "create ${qb_archive}\naddlib $<TARGET_FILE:libqbench_objects>\n")
foreach(part IN LISTS qb_library_parts)
  string(APPEND qb_archive_script "addlib $<TARGET_FILE:${part}>\n")
endforeach()
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/libqbench.mri CONTENT "${qb_archive_script}save\nend\n")
add_custom_command(OUTPUT ${qb_archive} DEPENDS libqbench_objects ${qb_library_parts}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${qb_archive}
  COMMAND ${CMAKE_AR} -M < ${CMAKE_BINARY_DIR}/libqbench.mri VERBATIM)
add_custom_target(libqbench_static ALL DEPENDS ${qb_archive})

set(QB_STATIC_CUDA "")
if(QB_HAVE_CUDA)
  set(QB_STATIC_CUDA "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt -lstdc++ ")
endif()
# By their names, not as Requires.private: pkg-config would want the headers of all of them where a
# program is linked with the shared library, which needs none.
pkg_search_module(HDF5_PC hdf5-serial hdf5) # Debian's name of it, everybody else's
execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --libs
  libprotobuf-c libpng libjpeg libarchive lmdb zlib ${HDF5_PC_MODULE_NAME} yaml-0.1 jansson ${CRYPTO_MODULE_NAME}
  OUTPUT_VARIABLE QB_STATIC_LIBRARIES OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(QB_HDF5_LINK "")
if(NOT HDF5_PC_FOUND)
  set(QB_HDF5_LINK "-lhdf5 ")
endif()
set(QB_STATIC_LINK "${QB_STATIC_LIBRARIES} ${QB_HDF5_LINK}${QB_DNNL_LINK}-lgomp ${QB_STATIC_CUDA}-lpthread -ldl -lm")
file(RELATIVE_PATH QB_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" QB_PC_TO_PREFIX "${QB_PC_TO_PREFIX}")
configure_file(${CMAKE_SOURCE_DIR}/cmake/qbench.pc.in ${CMAKE_BINARY_DIR}/qbench.pc @ONLY)
install(TARGETS libqbench EXPORT qbench LIBRARY)
install(FILES ${qb_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/qbench DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_BINARY_DIR}/qbench.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT qbench NAMESPACE qbench:: FILE qbenchTargets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qbench)
include(CMakePackageConfigHelpers)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/qbenchConfig.cmake.in
  ${CMAKE_BINARY_DIR}/qbenchConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qbench
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/qbenchConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/qbenchConfig.cmake ${CMAKE_BINARY_DIR}/qbenchConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qbench)
# cmake --build build/release --target wheel; pip install build/release/qbench-*.whl
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
  add_custom_target(wheel VERBATIM DEPENDS qbench libqbench
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/python/make_wheel.py ${PROJECT_VERSION}
      $<TARGET_FILE:qbench> $<TARGET_FILE:libqbench> ${CMAKE_BINARY_DIR})
endif()
install(FILES ${CMAKE_SOURCE_DIR}/python/qbench.py
  DESTINATION lib/python3/dist-packages)
install(FILES ${CMAKE_SOURCE_DIR}/examples/classify.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/plugins DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
  PATTERN skeleton EXCLUDE)
