# What CONTRIBUTING.md promises, tried: each list of the program with one row more, each row with one
# file below this folder, at the path that it would have in the source tree, and no other change.
# The lists lie in front of the program's on the include path, so only the files that include them
# are compiled again.
set(newcomer_lists ${CMAKE_CURRENT_BINARY_DIR}/newcomer)
set(newcomer_sources "")

# qb_newcomer(LIST AFTER ROW FILE READER): LIST gets ROW behind the line AFTER; READER makes the
# program's table of it.
function(qb_newcomer list after row file reader)
  file(READ ${CMAKE_SOURCE_DIR}/${list} text)
  string(REPLACE "\n${after}\n" "\n${after}\n${row}\n" longer "${text}")
  if(longer STREQUAL text)
    message(FATAL_ERROR "${list}: expected a line ${after}")
  endif()
  file(CONFIGURE OUTPUT ${newcomer_lists}/${list} CONTENT "${longer}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${list})
  list(APPEND newcomer_sources newcomer/${file} ${CMAKE_SOURCE_DIR}/${reader})
  set(newcomer_sources ${newcomer_sources} PARENT_SCOPE)
endfunction()

qb_newcomer(graph/ops.def "QB_OP_ROW(neg)" "QB_OP_ROW(newcomer)"
  graph/ops/newcomer.c graph/ops.c)
qb_newcomer(graph/passes.def "X(prune_dead)" "X(newcomer)"
  graph/passes/newcomer.c graph/passes.c)
qb_newcomer(kernels/tactics.def "QB_TACTIC_ROW(cpu_scale_shift_avx512)" "QB_TACTIC_ROW(newcomer)"
  kernels/cpu/newcomer.c kernels/tactic.c)
qb_newcomer(calib/methods.def "QB_CALIB_METHOD(minmax)" "QB_CALIB_METHOD(newcomer)"
  calib/methods/newcomer.c calib/methods.c)
qb_newcomer(datasets/formats.def "X(numpy)" "X(newcomer)"
  datasets/formats/newcomer.c datasets/dataset.c)
qb_newcomer(eval/metrics.def "QB_METRIC(max_error)" "QB_METRIC(newcomer)"
  eval/metrics/newcomer.c eval/metrics.c)
qb_newcomer(reports/figures.def "QB_FIGURE(latency)" "QB_FIGURE(newcomer)"
  reports/figures/newcomer.c reports/figures.c)
if(QB_HAVE_CUDA) # a tile: its file is a header, and its row the source that includes it
  set(newcomer_tile "QB_CUDA_TILE(PORTABLE, newcomer, s8, 32, 64, 64, 1, COOPERATIVE, PLAIN, EXACT, NONE)")
  file(STRINGS ${qb_cuda_tiles} rows REGEX "^QB_CUDA_TILE")
  list(POP_BACK rows last)
  qb_newcomer(kernels/cuda/conv/tiles.def "${last}" "${newcomer_tile}"
    kernels/cuda/conv/conv_newcomer.cuh kernels/cuda/conv/tactic_conv.c)
  qb_cuda_tile("${newcomer_tile}" architecture source)
  add_library(newcomer_tile OBJECT ${source})
  qb_cuda_target(newcomer_tile)
  target_include_directories(newcomer_tile BEFORE PRIVATE ${newcomer_lists} newcomer)
  set_target_properties(newcomer_tile PROPERTIES CUDA_ARCHITECTURES "${QB_CUDA_ARCHITECTURES}")
  list(APPEND newcomer_sources gpu/conv_case.c $<TARGET_OBJECTS:newcomer_tile>)
endif()

add_executable(test_newcomer newcomer/test_newcomer.c ${newcomer_sources})
target_include_directories(test_newcomer BEFORE PRIVATE ${newcomer_lists})
target_include_directories(test_newcomer PRIVATE gpu)
target_link_libraries(test_newcomer PRIVATE help_unit_graph qb_test qb_cli)
add_test(NAME newcomer COMMAND test_newcomer)
qb_test_properties(newcomer ${CMAKE_CURRENT_SOURCE_DIR}/newcomer/test_newcomer.c unit)
