# What every emitted CUDA source begins with, as texts in the compiler: codegen/cuda/NAME.cu.h is sc_cuda_NAME_text.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/codegen)
foreach(name machine team)
    set(header ${PROJECT_SOURCE_DIR}/codegen/cuda/${name}.cu.h)
    set(text ${PROJECT_BINARY_DIR}/codegen/cuda_${name}_text.c)
    add_custom_command(OUTPUT ${text}
        COMMAND ${CMAKE_COMMAND} -DOUT=${text} -DNAME=sc_cuda_${name}_text "-DFILES=${header}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${header} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
    target_sources(sc_codegen PRIVATE ${text})
endforeach()
