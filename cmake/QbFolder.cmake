# qb_folder(NAME USES LIB...): one static library qb_NAME from all C files below NAME/.
# Plug-in rows are found by globbing: adding a file needs no change here.
function(qb_folder name)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.c)
  list(FILTER sources EXCLUDE REGEX "/cli/main\\.c$")
  if(NOT QB_DNNL)
    list(FILTER sources EXCLUDE REGEX "/(kernels|engine)/dnnl/")
  endif()
  if(NOT QB_HAVE_CUDA)
    list(FILTER sources EXCLUDE REGEX "/engine/cuda/")
  endif()
  list(FILTER sources EXCLUDE REGEX "/calib/distribute\\.c$") # a module of its own, see QbMpi
  # kernels/cuda is a library of its own, see QbCuda, but for what checks texts without a device
  list(FILTER sources EXCLUDE REGEX "/kernels/cuda/([^v]|vendor/[^/]*$)")
  add_library(qb_${name} STATIC ${sources})
  set_target_properties(qb_${name} PROPERTIES LINKER_LANGUAGE C POSITION_INDEPENDENT_CODE ON)
  target_include_directories(qb_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(qb_${name} PUBLIC ${ARG_USES} qb_flags)
endfunction()
