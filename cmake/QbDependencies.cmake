# Third-party libraries, gathered in one interface target a folder.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(PROTOBUFC REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
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
if(QB_DNNL)
  find_library(DNNL_LIBRARY NAMES dnnl REQUIRED)
  find_path(DNNL_INCLUDE dnnl.h REQUIRED)
  target_link_libraries(qb_dep_kernels INTERFACE ${DNNL_LIBRARY})
  target_include_directories(qb_dep_kernels SYSTEM INTERFACE ${DNNL_INCLUDE})
  target_compile_definitions(qb_dep_kernels INTERFACE QB_HAVE_DNNL)
endif()

# onnx.pb-c.[ch] are made from the schema in graph/onnx at build time.
find_program(PROTOC_C protoc-c REQUIRED)
set(qb_onnx_dir ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${qb_onnx_dir})
add_custom_command(OUTPUT ${qb_onnx_dir}/onnx.pb-c.c ${qb_onnx_dir}/onnx.pb-c.h
  COMMAND ${PROTOC_C} --c_out=${qb_onnx_dir} --proto_path=${CMAKE_SOURCE_DIR}/graph/onnx onnx.proto
  DEPENDS ${CMAKE_SOURCE_DIR}/graph/onnx/onnx.proto VERBATIM)
add_library(qb_onnx_proto STATIC ${qb_onnx_dir}/onnx.pb-c.c)
set_target_properties(qb_onnx_proto PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(qb_onnx_proto SYSTEM PUBLIC ${qb_onnx_dir})
target_link_libraries(qb_onnx_proto PUBLIC PkgConfig::PROTOBUFC)
add_library(qb_dep_graph INTERFACE)
target_link_libraries(qb_dep_graph INTERFACE qb_onnx_proto)

add_library(qb_dep_datasets INTERFACE)
target_link_libraries(qb_dep_datasets INTERFACE PkgConfig::PNG PkgConfig::JPEG ZLIB::ZLIB
  ${HDF5_C_LIBRARIES})
target_include_directories(qb_dep_datasets SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})

add_library(qb_dep_calib INTERFACE)
target_link_libraries(qb_dep_calib INTERFACE ${HDF5_C_LIBRARIES})
target_include_directories(qb_dep_calib SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
