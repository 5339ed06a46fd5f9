# One libFuzzer executable a file of fuzz/, e.g. `build/fuzz/test/fuzz_safetensors -max_total_time=600`. As a test it runs for this long from
# its corpus, with a fixed seed; what it finds worth keeping stays in the build folder, so that a later run goes on from there.
set(SHARDC_FUZZ_SECONDS 50 CACHE STRING "how long each fuzz target runs as a test")
add_custom_target(fuzzers)
file(GLOB fuzz_targets CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/*.c)
foreach(source ${fuzz_targets})
    cmake_path(GET source STEM target)
    string(REPLACE "fuzz_" "" name ${target})
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE sc_options sc_tools)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${target})
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/corpus/${name})
    add_test(NAME fuzz.${name} COMMAND ${target} -max_total_time=${SHARDC_FUZZ_SECONDS} -seed=1 -max_len=8192 -timeout=30 -rss_limit_mb=2048
        -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/${name}- ${CMAKE_CURRENT_BINARY_DIR}/corpus/${name}
        ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 600)
endforeach()
