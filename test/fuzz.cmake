# One libFuzzer executable a file of fuzz/, e.g. `build/fuzz/test/fuzz_safetensors -max_total_time=60`.
file(GLOB fuzz_targets CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/*.c)
foreach(source ${fuzz_targets})
    cmake_path(GET source STEM target)
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE sc_options ${SHARDC_LIBRARIES})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
endforeach()
