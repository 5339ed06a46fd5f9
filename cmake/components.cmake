# sc_add_library(FOLDER [SOURCES FILES..] USES FOLDERS.. LINKS LIBS..): the static library of a folder's sources, sc_ and the folder's path with
# `_` for `/`. It may call the libraries of the folders that it uses, and what these use; nothing else is on its link line. The same is
# written down for test/lint/layers.py, which looks at what its objects call.
function(sc_add_library folder)
    cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINKS" ${ARGN})
    if(NOT ARG_SOURCES)
        file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c)
    endif()
    set(used ${ARG_USES})
    list(TRANSFORM used REPLACE "/" "_")
    list(TRANSFORM used PREPEND sc_)
    string(REPLACE "/" "_" name sc_${folder})
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE sc_options PUBLIC ${used} ${ARG_LINKS})
    set_property(GLOBAL APPEND PROPERTY SHARDC_FOLDERS ${name})
    list(JOIN ARG_USES " " uses)
    set_property(GLOBAL APPEND_STRING PROPERTY SHARDC_LAYERS "${folder} ${uses}\n")
endfunction()

# sc_add_parser(FOLDER): adds FOLDER/lexer.l and FOLDER/parser.y to its library. Generated code is not ours to mend: its warnings are off.
function(sc_add_parser folder)
    string(REPLACE "/" "_" name sc_${folder})
    set(grammar ${PROJECT_SOURCE_DIR}/${folder}/parser.y)
    set(rules ${PROJECT_SOURCE_DIR}/${folder}/lexer.l)
    find_program(BISON bison REQUIRED)
    find_program(FLEX flex REQUIRED)
    set(out ${PROJECT_BINARY_DIR}/${folder})
    file(MAKE_DIRECTORY ${out})
    add_custom_command(OUTPUT ${out}/parser.c ${out}/parser.h
        COMMAND ${BISON} -Wall -Werror --header=${out}/parser.h --output=${out}/parser.c ${grammar}
        DEPENDS ${grammar} VERBATIM)
    add_custom_command(OUTPUT ${out}/lexer.c ${out}/lexer.h
        COMMAND ${FLEX} --header-file=${out}/lexer.h --outfile=${out}/lexer.c ${rules}
        DEPENDS ${rules} VERBATIM)
    set_source_files_properties(${out}/parser.c ${out}/lexer.c PROPERTIES
        COMPILE_OPTIONS "-w;-Wno-error")
    target_sources(${name} PRIVATE ${out}/parser.c ${out}/parser.h ${out}/lexer.c ${out}/lexer.h)
    target_include_directories(${name} PRIVATE ${out})
endfunction()

# sc_add_tool(NAME SOURCES FILES.. LIBRARIES LIBS..): an executable at the top of the build folder.
function(sc_add_tool name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE sc_options ${ARG_LIBRARIES})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()
