# What every emitted CUDA source begins with, as a text in the compiler: codegen/cuda/*.cu.h in this order.
set(headers ${PROJECT_SOURCE_DIR}/codegen/cuda/machine.cu.h)
set(text ${PROJECT_BINARY_DIR}/codegen/cuda_machine_text.c)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/codegen)
add_custom_command(OUTPUT ${text}
    COMMAND ${CMAKE_COMMAND} -DOUT=${text} -DNAME=sc_cuda_machine_text "-DFILES=${headers}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${headers} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
target_sources(sc_codegen PRIVATE ${text})
