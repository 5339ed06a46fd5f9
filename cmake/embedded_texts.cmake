# Texts that the compiler writes out, kept in files of their own and embedded here.

# codegen/cuda/NAME.cu.h, what every emitted CUDA source begins with, is sc_cuda_NAME_text.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/codegen/cuda)
foreach(name machine team)
    set(header ${PROJECT_SOURCE_DIR}/codegen/cuda/${name}.cu.h)
    set(text ${PROJECT_BINARY_DIR}/codegen/cuda/${name}_text.c)
    add_custom_command(OUTPUT ${text}
        COMMAND ${CMAKE_COMMAND} -DOUT=${text} -DNAME=sc_cuda_${name}_text "-DFILES=${header}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${header} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
    target_sources(sc_codegen PRIVATE ${text})
endforeach()

# The helpers of emitted C, a row of codegen/printer/helpers.c a section.
set(helpers ${PROJECT_SOURCE_DIR}/program/kernel_helpers.h ${PROJECT_SOURCE_DIR}/codegen/printer/array_helpers.h)
set(helper_rows ${PROJECT_BINARY_DIR}/codegen/printer/helper_rows.inc)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/codegen/printer)
add_executable(sc_write_helper_rows cmake/write_helper_rows.c)
target_link_libraries(sc_write_helper_rows PRIVATE sc_options)
add_custom_command(OUTPUT ${helper_rows} COMMAND sc_write_helper_rows ${helper_rows} ${helpers}
    DEPENDS sc_write_helper_rows ${helpers} VERBATIM)
set_source_files_properties(codegen/printer/helpers.c PROPERTIES OBJECT_DEPENDS ${helper_rows} INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR})
