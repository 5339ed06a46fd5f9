# Contractions of the runtime: their inner loops are compiled once an instruction set, and chosen at run time.

# Tiles want to be unrolled whole, and products and sums to be contracted, whatever the rest is compiled with. Activations become vectors
# with the flags that emitted kernels have (codegen/toolchain/objects.c says why). Sanitizers make so much of what is unrolled that compiling takes
# minutes.
file(GLOB gemm_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/cpu/gemm_[fi]*_*.c)
foreach(source ${gemm_kernels})
    set(options -ffp-contract=fast -fno-math-errno -fno-trapping-math)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        list(APPEND options -fno-thread-jumps)
    endif()
    if(NOT SHARDC_SANITIZE)
        list(APPEND options -O3)
    endif()
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        if(source MATCHES "_avx2.c$")
            list(APPEND options -mavx2 -mfma)
        elseif(source MATCHES "_avx512.c$")
            list(APPEND options -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mprefer-vector-width=512)
        endif()
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${options}" OBJECT_DEPENDS "${PROJECT_SOURCE_DIR}/program/kernel_helpers.h;${PROJECT_SOURCE_DIR}/runtime/cpu/gemm_kernels.inc")
endforeach()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_definitions(sc_runtime PRIVATE SHARDC_X86_KERNELS)
endif()

# Without OpenMP a team has one thread; the pragmas are then unknown on purpose.
find_package(OpenMP COMPONENTS C)
if(OpenMP_C_FOUND)
    target_link_libraries(sc_runtime PUBLIC OpenMP::OpenMP_C)
else()
    message(STATUS "no OpenMP for ${CMAKE_C_COMPILER_ID}: contractions run on one thread")
    target_compile_options(sc_runtime PRIVATE -Wno-unknown-pragmas)
endif()

# oneDNN is opened at run time; its headers (version 2) say how it is called.
find_path(ONEDNN_INCLUDE_DIR dnnl.h)
if(ONEDNN_INCLUDE_DIR AND EXISTS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
    file(STRINGS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h onednn_major REGEX "define DNNL_VERSION_MAJOR 2$")
endif()
if(onednn_major)
    target_compile_definitions(sc_runtime PUBLIC SHARDC_ONEDNN)
    target_include_directories(sc_runtime SYSTEM PUBLIC ${ONEDNN_INCLUDE_DIR})
else()
    message(STATUS "no headers of oneDNN 2: contractions run on the plain kernels alone")
endif()
