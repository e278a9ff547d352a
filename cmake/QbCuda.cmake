# The CUDA backend: kernels/cuda as library qb_cuda, linked into whatever links qb_kernels. Needs
# nvcc and the headers of cuDNN and cuBLASLt; both libraries are opened when they are used. Sets
# QB_HAVE_CUDA.
set(QB_HAVE_CUDA OFF)
include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
check_language(CUDA)
find_path(QB_CUDNN_INCLUDE cudnn_backend.h HINTS ENV CUDNN_PATH /usr/local/cuda/include
  PATH_SUFFIXES include)
find_path(QB_CUBLASLT_INCLUDE cublasLt.h HINTS ENV CUDA_PATH /usr/local/cuda/include
  PATH_SUFFIXES include)
find_path(QB_NVJPEG_INCLUDE nvjpeg.h HINTS ENV CUDA_PATH /usr/local/cuda/include
  PATH_SUFFIXES include)
if(NOT CMAKE_CUDA_COMPILER OR NOT QB_CUDNN_INCLUDE OR NOT QB_CUBLASLT_INCLUDE)
  if(NOT QB_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "QB_CUDA is ${QB_CUDA}: expected nvcc, cudnn_backend.h and cublasLt.h, "
      "got '${CMAKE_CUDA_COMPILER}', '${QB_CUDNN_INCLUDE}' and '${QB_CUBLASLT_INCLUDE}'")
  endif()
  message(STATUS "CUDA backend: left out (no nvcc, cudnn_backend.h or cublasLt.h)")
  return()
endif()

enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(QB_HAVE_CUDA ON)
message(STATUS "CUDA backend: ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}")

# What device code is made for, as CUDA_ARCHITECTURES: N-real is machine code for GPUs N to the end
# of its tens, N-virtual is PTX that the driver compiles for N and everything later, N is both.
set(QB_CUDA_ARCHITECTURES "80;90a-real" CACHE STRING
  "GPUs that the CUDA backend has code for, 80 and later; 90a: the wgmma kernels too")
set(qb_cuda_wgmma_architectures "")
set(qb_cuda_ptx "")
foreach(entry IN LISTS QB_CUDA_ARCHITECTURES)
  if(NOT entry MATCHES "^([0-9]+)([af]?)(-real|-virtual)?$" OR CMAKE_MATCH_1 LESS 80)
    message(FATAL_ERROR "QB_CUDA_ARCHITECTURES: expected numbers from 80, with -real (machine code "
      "alone) or -virtual (PTX alone), such as \"80;90a-real\"; got '${entry}'")
  endif()
  if(entry MATCHES "^90a(-real)?$")
    set(qb_cuda_wgmma_architectures 90a-real)
  endif()
  if(entry MATCHES "^[0-9]+(-virtual)?$")
    list(APPEND qb_cuda_ptx ${entry})
  endif()
endforeach()
if(NOT QB_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "QB_CUDA_ARCHITECTURES: expected at least one, such as 80; got none")
elseif(NOT qb_cuda_ptx)
  message(STATUS "CUDA backend: ${QB_CUDA_ARCHITECTURES} has no PTX; later GPUs have no code")
endif()

# Device code in two object libraries: machine code for 9.0 alone (wgmma), left out where 90a is not
# asked for, and portable code. Each row of tiles.def is a source, for the architecture it names.
file(GLOB_RECURSE qb_cuda_device CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu)
set(qb_cuda_hopper attention/attention_wgmma.cu conv/conv_stem_wgmma.cu
  conv/conv_stem_pool_wgmma.cu)
list(TRANSFORM qb_cuda_hopper PREPEND ${CMAKE_SOURCE_DIR}/kernels/cuda/)
list(REMOVE_ITEM qb_cuda_device ${qb_cuda_hopper})
set(qb_cuda_tiles ${CMAKE_SOURCE_DIR}/kernels/cuda/conv/tiles.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${qb_cuda_tiles})
file(STRINGS ${qb_cuda_tiles} rows REGEX "^QB_CUDA_TILE")
# qb_cuda_tile(ROW ARCHITECTURE SOURCE): the source of a row, written, and what it is compiled for.
function(qb_cuda_tile row architecture source)
  set(n "([0-9]+), ")
  if(NOT row MATCHES "^QB_CUDA_TILE\\((90a|PORTABLE), ([a-z_]+), ([a-z0-9]+), ${n}${n}${n}")
    message(FATAL_ERROR "tiles.def: expected an architecture, a kernel, a type and three sizes "
      "first, got '${row}'")
  endif()
  set(file ${CMAKE_BINARY_DIR}/generated/cuda/conv_${CMAKE_MATCH_3}_${CMAKE_MATCH_2})
  string(APPEND file "_${CMAKE_MATCH_4}x${CMAKE_MATCH_5}x${CMAKE_MATCH_6}.cu")
  file(CONFIGURE OUTPUT ${file}
    CONTENT "#include \"kernels/cuda/conv/conv_${CMAKE_MATCH_2}.cuh\"\n\n${row}\n" @ONLY)
  set(${architecture} ${CMAKE_MATCH_1} PARENT_SCOPE)
  set(${source} ${file} PARENT_SCOPE)
endfunction()
# qb_cuda_target(TARGET): how device code is compiled.
function(qb_cuda_target target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CUDA_STANDARD 17)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
  # -fmad=false: the same rule as -ffp-contract=off on the host. A spill is an error of ours.
  target_compile_options(${target} PRIVATE -fmad=false --expt-relaxed-constexpr
    -Xptxas=-warn-spills,-warn-lmem-usage -Xcompiler=-fno-exceptions,-fno-rtti
    $<$<BOOL:${QB_WERROR}>:-Werror=all-warnings>)
endfunction()
foreach(row IN LISTS rows)
  qb_cuda_tile("${row}" architecture source)
  if(architecture STREQUAL "90a")
    list(APPEND qb_cuda_hopper ${source})
  else()
    list(APPEND qb_cuda_device ${source})
  endif()
endforeach()
set(qb_cuda_parts qb_cuda_portable)
add_library(qb_cuda_portable OBJECT ${qb_cuda_device})
set_target_properties(qb_cuda_portable PROPERTIES CUDA_ARCHITECTURES "${QB_CUDA_ARCHITECTURES}")
if(qb_cuda_wgmma_architectures)
  list(APPEND qb_cuda_parts qb_cuda_hopper)
  add_library(qb_cuda_hopper OBJECT ${qb_cuda_hopper})
  set_target_properties(qb_cuda_hopper PROPERTIES
    CUDA_ARCHITECTURES ${qb_cuda_wgmma_architectures})
endif()
foreach(target IN LISTS qb_cuda_parts)
  qb_cuda_target(${target})
endforeach()

file(GLOB_RECURSE qb_cuda_host CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.c)
list(FILTER qb_cuda_host EXCLUDE REGEX "/cudnn_text/") # in qb_kernels of every build, see QbFolder
add_library(qb_cuda STATIC ${qb_cuda_host})
foreach(part IN LISTS qb_cuda_parts)
  target_sources(qb_cuda PRIVATE $<TARGET_OBJECTS:${part}>)
endforeach()
# kernels/cuda/common/code.h: what the program knows of its own code
list(JOIN QB_CUDA_ARCHITECTURES " " qb_cuda_built)
set_property(SOURCE ${CMAKE_SOURCE_DIR}/kernels/cuda/common/code.c APPEND PROPERTY
  COMPILE_DEFINITIONS "QB_CUDA_ARCHITECTURES=\"${qb_cuda_built}\"")
if(qb_cuda_wgmma_architectures)
  target_compile_definitions(qb_cuda PRIVATE QB_HAVE_WGMMA)
endif()
set_target_properties(qb_cuda PROPERTIES LINKER_LANGUAGE C POSITION_INDEPENDENT_CODE ON)
target_include_directories(qb_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${QB_CUDNN_INCLUDE}
  ${QB_CUBLASLT_INCLUDE})
target_include_directories(qb_cuda PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(qb_cuda PUBLIC qb_flags qb_kernels CUDA::cudart_static ${CMAKE_DL_LIBS})
target_link_libraries(qb_kernels PUBLIC qb_cuda)
target_compile_definitions(qb_kernels PUBLIC QB_HAVE_CUDA)
if(QB_NVJPEG_INCLUDE) # JPEG decoding, left out without
  target_include_directories(qb_cuda SYSTEM PRIVATE ${QB_NVJPEG_INCLUDE})
  target_compile_definitions(qb_cuda PRIVATE QB_HAVE_NVJPEG)
endif()
