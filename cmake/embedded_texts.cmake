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
    c_tiles_pairs.inc c_tiles_product.inc c_tiles_gradient.inc c_tiles.inc c_tiles_turned.inc
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

# sc_embed_models(LIBRARY ENDING TYPE TABLE HEADER): the files models/*.ENDING as a table of {name, text} in the library, for HEADER to declare.
function(sc_embed_models library ending type table header)
    file(GLOB files RELATIVE ${PROJECT_SOURCE_DIR}/models CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/models/*.${ending})
    set(folder ${PROJECT_BINARY_DIR}/models)
    file(MAKE_DIRECTORY ${folder})
    foreach(file IN LISTS files)
        string(REGEX REPLACE "[.]${ending}$" "" name ${file})
        set(from ${PROJECT_SOURCE_DIR}/models/${file})
        set(symbol sc_model_${name}_${ending}_text)
        add_custom_command(OUTPUT ${folder}/${name}_${ending}.c
            COMMAND ${CMAKE_COMMAND} -DOUT=${folder}/${name}_${ending}.c -DNAME=${symbol} "-DFILES=${from}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
            DEPENDS ${from} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
        target_sources(${library} PRIVATE ${folder}/${name}_${ending}.c)
        string(APPEND declared "extern const char ${symbol}[];\n")
        if(ending STREQUAL "shard")
            set(name shardc/${file})
        endif()
        string(APPEND rows "    {\"${name}\", ${symbol}},\n")
    endforeach()
    file(CONFIGURE OUTPUT ${folder}/${ending}_table.c @ONLY
        CONTENT "#include \"${header}\"\n\n${declared}\nconst ${type} ${table}[] = {\n${rows}    {NULL, NULL}};\n")
    target_sources(${library} PRIVATE ${folder}/${ending}_table.c)
endfunction()

# The model library: `import "shardc/NAME.shard"`, and what `shardc import` knows of keys of config.json.
sc_embed_models(sc_frontend_syntax shard sc_library_file sc_library_files frontend/syntax/library.h)
sc_embed_models(sc_tools_import config sc_import_table sc_import_tables tools/import/tables.h)
