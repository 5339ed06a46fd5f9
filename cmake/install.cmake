# libshardc has the compiler and the runtime, libshardc_runtime what programs that are compiled already need. Both are made of the static
# libraries above, whole, since nothing in them refers to what applications call.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

function(sc_add_public_library name)
    cmake_parse_arguments(ARG "" "OUTPUT" "OF" ${ARGN})
    file(WRITE ${PROJECT_BINARY_DIR}/${name}.c "/* all of it is in the libraries that it is made of */\ntypedef int ${name}_is_made_of_libraries;\n")
    add_library(${name} SHARED ${PROJECT_BINARY_DIR}/${name}.c)
    foreach(part ${ARG_OF})
        list(APPEND archives $<TARGET_FILE:${part}>)
    endforeach()
    add_dependencies(${name} ${ARG_OF})
    target_link_options(${name} PRIVATE "LINKER:--whole-archive" ${archives} "LINKER:--no-whole-archive")
    target_link_libraries(${name} PRIVATE sc_runtime_drive)
    target_include_directories(${name} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT} EXPORT_NAME ${ARG_OUTPUT} VERSION ${PROJECT_VERSION}
        SOVERSION ${PROJECT_VERSION_MAJOR})
    add_library(shardc::${ARG_OUTPUT} ALIAS ${name})
    install(TARGETS ${name} EXPORT shardc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

sc_add_public_library(shardc_public OUTPUT shardc OF ${SHARDC_COMPILER_LIBRARIES})
sc_add_public_library(shardc_runtime_public OUTPUT shardc_runtime OF ${SHARDC_RUNTIME_LIBRARIES})

install(TARGETS shardc RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# what `shardc build` puts programs behind
install(TARGETS shardc-prog RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/shardc)
install(DIRECTORY include/shardc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET shardc_mpi)
    install(TARGETS shardc_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/shardc)
endif()
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples editors models DESTINATION ${CMAKE_INSTALL_DATADIR}/shardc)
install(EXPORT shardc NAMESPACE shardc:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/shardc FILE shardcConfig.cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/shardcConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/shardcConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/shardc)

# Relative, since `cmake --install --prefix` says only later where.
file(RELATIVE_PATH PREFIX_OF_PKGCONFIG ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
foreach(library shardc shardc_runtime)
    configure_file(cmake/library.pc.in ${library}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
