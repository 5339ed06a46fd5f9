# sc_add_library(NAME FOLDERS FOLDERS.. PUBLIC LIBS..): the static library sc_NAME of the sources in these folders.
function(sc_add_library name)
    cmake_parse_arguments(ARG "" "" "FOLDERS;PUBLIC" ${ARGN})
    list(TRANSFORM ARG_FOLDERS REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/\\1/*.c")
    file(GLOB sources CONFIGURE_DEPENDS ${ARG_FOLDERS})
    add_library(sc_${name} STATIC ${sources})
    target_link_libraries(sc_${name} PRIVATE sc_options PUBLIC ${ARG_PUBLIC})
endfunction()

# sc_add_parser(NAME FOLDER): adds FOLDER/lexer.l and FOLDER/parser.y to sc_NAME. Generated code is not ours to mend: its warnings are off.
function(sc_add_parser name folder)
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
    target_sources(sc_${name} PRIVATE ${out}/parser.c ${out}/parser.h ${out}/lexer.c ${out}/lexer.h)
    target_include_directories(sc_${name} PRIVATE ${out})
endfunction()

# sc_add_tool(NAME SOURCES FILES.. LIBRARIES LIBS..): an executable at the top of the build folder.
function(sc_add_tool name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE sc_options ${ARG_LIBRARIES})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()
