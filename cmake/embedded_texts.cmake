# Texts that the compiler writes out, kept in files of their own and embedded here.

# sc_embed(FOLDER FILE..): FOLDER/NAME.cu.h or FOLDER/NAME.inc is sc_FOLDER_NAME_text, in the folder's library.
function(sc_embed folder)
    string(REPLACE "/" "_" library sc_${folder})
    get_filename_component(last ${folder} NAME)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
    foreach(file IN LISTS ARGN)
        string(REGEX REPLACE "[.].*" "" name ${file})
        set(from ${PROJECT_SOURCE_DIR}/${folder}/${file})
        set(text ${PROJECT_BINARY_DIR}/${folder}/${name}_text.c)
        add_custom_command(OUTPUT ${text}
            COMMAND ${CMAKE_COMMAND} -DOUT=${text} -DNAME=sc_${last}_${name}_text "-DFILES=${from}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
            DEPENDS ${from} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
        target_sources(${library} PRIVATE ${text})
    endforeach()
endfunction()

# What every emitted CUDA source begins with; functions of attention.
sc_embed(codegen/cuda machine.cu.h team.cu.h)
sc_embed(codegen/attention c_matmul.inc c_transpose.inc cuda_tiles.cu.h cuda_next_tile.cu.h)
sc_embed(codegen/routed c_row_vectors.inc c_row_elements.inc c_copied.inc c_turned.inc c_turned_f32.inc c_square.inc c_product.inc c_gradient.inc c_stored.inc c_streamed.inc c_block.inc
    c_tiles_pairs.inc c_tiles_product.inc c_tiles_gradient.inc c_tiles.inc
    c_product_main.inc c_gradient_main.inc cuda_sort.cu.h cuda_tile.cu.h cuda_product.cu.h cuda_gradient.cu.h cuda_product_main.cu.h
    cuda_gradient_main.cu.h)

# The helpers of emitted C, a row of codegen/printer/helpers.c a section.
set(helpers ${PROJECT_SOURCE_DIR}/program/kernel_helpers.h ${PROJECT_SOURCE_DIR}/codegen/printer/array_helpers.h)
set(helper_rows ${PROJECT_BINARY_DIR}/codegen/printer/helper_rows.inc)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/codegen/printer)
add_executable(sc_write_helper_rows cmake/write_helper_rows.c)
target_link_libraries(sc_write_helper_rows PRIVATE sc_options)
add_custom_command(OUTPUT ${helper_rows} COMMAND sc_write_helper_rows ${helper_rows} ${helpers}
    DEPENDS sc_write_helper_rows ${helpers} VERBATIM)
set_source_files_properties(codegen/printer/helpers.c PROPERTIES OBJECT_DEPENDS ${helper_rows} INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR})

# The model library: models/NAME.shard is `import "shardc/NAME.shard"`.
file(GLOB models RELATIVE ${PROJECT_SOURCE_DIR}/models CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/models/*.shard)
set(library ${PROJECT_BINARY_DIR}/frontend/syntax/library.c)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/frontend/syntax)
set(declared "")
set(rows "")
foreach(model IN LISTS models)
    string(REGEX REPLACE "[.]shard$" "" name ${model})
    set(from ${PROJECT_SOURCE_DIR}/models/${model})
    set(text ${PROJECT_BINARY_DIR}/frontend/syntax/model_${name}.c)
    add_custom_command(OUTPUT ${text}
        COMMAND ${CMAKE_COMMAND} -DOUT=${text} -DNAME=sc_model_${name}_text "-DFILES=${from}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${from} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
    target_sources(sc_frontend_syntax PRIVATE ${text})
    string(APPEND declared "extern const char sc_model_${name}_text[];\n")
    string(APPEND rows "    {\"shardc/${model}\", sc_model_${name}_text},\n")
endforeach()
file(CONFIGURE OUTPUT ${library} CONTENT "#include \"frontend/syntax/library.h\"\n\n${declared}\nconst sc_library_file sc_library_files[] = {\n${rows}    {NULL, NULL}};\n" @ONLY)
target_sources(sc_frontend_syntax PRIVATE ${library})
