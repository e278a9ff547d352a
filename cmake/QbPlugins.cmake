# The example plugins, built as those of users are: against the public header alone. Kernels are
# compiled where CUDA is.
function(qb_example_plugin name)
  add_library(plugin_${name} MODULE ${ARGN})
  set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins)
  target_include_directories(plugin_${name} PRIVATE ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(plugin_${name} PRIVATE qb_flags)
endfunction()

qb_example_plugin(gate ${CMAKE_SOURCE_DIR}/examples/plugins/gate.c)
qb_example_plugin(skeleton ${CMAKE_SOURCE_DIR}/examples/plugins/skeleton/skeleton.c)
qb_example_plugin(sampler ${CMAKE_SOURCE_DIR}/examples/plugins/sampler.c)
if(QB_HAVE_CUDA)
  foreach(name IN ITEMS sampler skeleton)
    file(GLOB kernel ${CMAKE_SOURCE_DIR}/examples/plugins/${name}.cu
      ${CMAKE_SOURCE_DIR}/examples/plugins/${name}/${name}.cu)
    add_library(plugin_${name}_cuda OBJECT ${kernel})
    set_target_properties(plugin_${name}_cuda PROPERTIES
      CUDA_ARCHITECTURES "${QB_CUDA_ARCHITECTURES}" POSITION_INDEPENDENT_CODE ON)
    target_sources(plugin_${name} PRIVATE $<TARGET_OBJECTS:plugin_${name}_cuda>)
    set_target_properties(plugin_${name} PROPERTIES LINKER_LANGUAGE C)
    target_compile_definitions(plugin_${name} PRIVATE WITH_CUDA)
    target_link_libraries(plugin_${name} PRIVATE CUDA::cudart_static)
  endforeach()
endif()
