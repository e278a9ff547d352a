# Third-party libraries, gathered in one interface target a folder.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(PROTOBUFC REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules(LMDB REQUIRED IMPORTED_TARGET lmdb)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(ZLIB REQUIRED)
pkg_check_modules(CRYPTO IMPORTED_TARGET libcrypto>=3) # signed engine files, where it is there

add_library(qb_flags INTERFACE)
target_compile_options(qb_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -Wpointer-arith -Wvla -Wno-maybe-uninitialized -fno-math-errno
  -fno-trapping-math -ffp-contract=off)
# -fno-math-errno, -fno-trapping-math: nobody reads errno or the flags of exceptions; conditions in loops
# become vectors without AVX-512's masks, too.
# -ffp-contract=off: the compiler must not fuse a*b+c on its own, results would depend on its mood.
# -Wno-maybe-uninitialized: outputs are set only on success, which gcc cannot follow through a status;
# what it guesses differs from version to version. The sanitizers watch instead.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64 AND CMAKE_C_COMPILER_ID STREQUAL GNU
    AND CMAKE_C_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 breaks off (vect_transform_reduction) where a loop reduces by fmax of doubles.
  target_compile_options(qb_flags INTERFACE -fno-builtin-fmax -fno-builtin-fmin)
endif()
target_compile_definitions(qb_flags INTERFACE _GNU_SOURCE QB_VERSION="${PROJECT_VERSION}")
target_link_libraries(qb_flags INTERFACE m)
if(QB_WERROR)
  target_compile_options(qb_flags INTERFACE -Werror)
endif()
if(QB_SANITIZE)
  target_compile_options(qb_flags INTERFACE -fsanitize=${QB_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(qb_flags INTERFACE -fsanitize=${QB_SANITIZE})
endif()

add_library(qb_dep_base INTERFACE)
target_link_libraries(qb_dep_base INTERFACE PkgConfig::YAML PkgConfig::JANSSON Threads::Threads)
if(CRYPTO_FOUND)
  target_link_libraries(qb_dep_base INTERFACE PkgConfig::CRYPTO)
  target_compile_definitions(qb_dep_base INTERFACE QB_HAVE_CRYPTO)
endif()

add_library(qb_dep_kernels INTERFACE)
target_link_libraries(qb_dep_kernels INTERFACE OpenMP::OpenMP_C)
# Version 3 has no operation descriptors, which the backend makes its primitives from.
set(QB_DNNL_LINK "")
if(QB_DNNL)
  set(DNNL_VERSION none)
  find_library(DNNL_LIBRARY NAMES dnnl)
  find_path(DNNL_INCLUDE dnnl.h)
  foreach(header oneapi/dnnl/dnnl_version.h dnnl_version.h)
    if(DNNL_LIBRARY AND EXISTS ${DNNL_INCLUDE}/${header})
      file(STRINGS ${DNNL_INCLUDE}/${header} lines REGEX "define DNNL_VERSION_MAJOR +[0-9]+")
      if(lines MATCHES "([0-9]+)")
        set(DNNL_VERSION ${CMAKE_MATCH_1})
      endif()
    endif()
  endforeach()
  if(NOT DNNL_VERSION EQUAL 2)
    if(QB_DNNL STREQUAL AUTO)
      message(STATUS "oneDNN: version 2 is wanted, ${DNNL_VERSION} was found: left out (QB_DNNL)")
      set(QB_DNNL OFF)
    else()
      message(FATAL_ERROR "oneDNN: version 2 is wanted, ${DNNL_VERSION} was found; -DQB_DNNL=OFF builds without")
    endif()
  endif()
endif()
if(QB_DNNL)
  set(QB_DNNL_LINK "-ldnnl ")
  target_link_libraries(qb_dep_kernels INTERFACE ${DNNL_LIBRARY})
  target_include_directories(qb_dep_kernels SYSTEM INTERFACE ${DNNL_INCLUDE})
  target_compile_definitions(qb_dep_kernels INTERFACE QB_HAVE_DNNL)
endif()

# qb_proto(TARGET SCHEMA): a library of NAME.pb-c.[ch], made from NAME.proto at build time.
find_program(PROTOC_C protoc-c REQUIRED)
function(qb_proto target schema)
  set(out ${CMAKE_BINARY_DIR}/generated)
  get_filename_component(name ${schema} NAME_WE)
  get_filename_component(folder ${CMAKE_SOURCE_DIR}/${schema} DIRECTORY)
  file(MAKE_DIRECTORY ${out})
  add_custom_command(OUTPUT ${out}/${name}.pb-c.c ${out}/${name}.pb-c.h
    COMMAND ${PROTOC_C} --c_out=${out} --proto_path=${folder} ${name}.proto
    DEPENDS ${CMAKE_SOURCE_DIR}/${schema} VERBATIM)
  add_library(${target} STATIC ${out}/${name}.pb-c.c)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} SYSTEM PUBLIC ${out})
  target_link_libraries(${target} PUBLIC PkgConfig::PROTOBUFC)
endfunction()

qb_proto(qb_onnx_proto graph/onnx/onnx.proto)
add_library(qb_dep_graph INTERFACE)
target_link_libraries(qb_dep_graph INTERFACE qb_onnx_proto)

qb_proto(qb_records_proto datasets/records.proto)
add_library(qb_dep_datasets INTERFACE)
target_link_libraries(qb_dep_datasets INTERFACE qb_records_proto PkgConfig::PNG PkgConfig::JPEG
  PkgConfig::ARCHIVE PkgConfig::LMDB ZLIB::ZLIB ${HDF5_C_LIBRARIES})
target_include_directories(qb_dep_datasets SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})

add_library(qb_dep_calib INTERFACE)
target_link_libraries(qb_dep_calib INTERFACE ${HDF5_C_LIBRARIES})
target_include_directories(qb_dep_calib SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
