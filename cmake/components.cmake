# sc_add_library(NAME PUBLIC LIBS..): the static library sc_NAME of NAME/*.c. A folder without sources is an interface library, so that
# the layers above it can name it before it has any.
function(sc_add_library name)
    cmake_parse_arguments(ARG "" "" "PUBLIC" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.c)
    if(NOT sources)
        add_library(sc_${name} INTERFACE)
        target_link_libraries(sc_${name} INTERFACE ${ARG_PUBLIC})
        return()
    endif()
    add_library(sc_${name} STATIC ${sources})
    target_link_libraries(sc_${name} PRIVATE sc_options PUBLIC ${ARG_PUBLIC})
endfunction()

# sc_add_parser(NAME): adds NAME/lexer.l and NAME/parser.y to sc_NAME. Generated code is not ours to mend: its warnings are off.
function(sc_add_parser name)
    set(grammar ${PROJECT_SOURCE_DIR}/${name}/parser.y)
    set(rules ${PROJECT_SOURCE_DIR}/${name}/lexer.l)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name})
    get_target_property(type sc_${name} TYPE)
    if(type STREQUAL "INTERFACE_LIBRARY" OR NOT EXISTS ${grammar} OR NOT EXISTS ${rules})
        return()
    endif()
    find_program(BISON bison REQUIRED)
    find_program(FLEX flex REQUIRED)
    set(out ${PROJECT_BINARY_DIR}/${name})
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

# sc_add_tool(NAME SOURCES FILES.. LIBRARIES LIBS..): an executable at the top of the build folder; none while its first source is missing.
function(sc_add_tool name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
    list(GET ARG_SOURCES 0 main)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools)
    if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${main})
        return()
    endif()
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE sc_options ${ARG_LIBRARIES})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()
