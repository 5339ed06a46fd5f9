# What every target of this project is compiled with. `sc_options` is linked PRIVATE, so nothing leaks to a user of the libraries.
add_library(sc_options INTERFACE)

target_include_directories(sc_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
# mmap, open_memstream, clock_gettime, strdup: C11 alone hides them.
target_compile_definitions(sc_options INTERFACE _POSIX_C_SOURCE=200809L SHARDC_VERSION="${PROJECT_VERSION}")
# Asserts and dumps name files relative to the tree, so that two checkouts build the same bytes.
target_compile_options(sc_options INTERFACE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_compile_options(sc_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wmissing-prototypes)

if(SHARDC_WERROR)
    target_compile_options(sc_options INTERFACE -Werror)
endif()

if(SHARDC_SANITIZE)
    target_compile_options(sc_options INTERFACE
        -fsanitize=${SHARDC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${SHARDC_SANITIZE})
    add_library(sc_sanitizer_options OBJECT cmake/sanitizer_options.c)
    link_libraries($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<TARGET_OBJECTS:sc_sanitizer_options>>)
endif()

if(SHARDC_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "SHARDC_FUZZ needs clang (libFuzzer); use the preset: cmake --preset fuzz")
    endif()
    target_compile_options(sc_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

if(SHARDC_COVERAGE)
    target_compile_options(sc_options INTERFACE --coverage)
    add_link_options(--coverage)
endif()
