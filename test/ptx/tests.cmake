# What GPUs execute, on a CPU: suites with NVRTC itself, whose PTX the interpreter runs (on_ptx.py). A selection, or with
# -DSHARDC_TEST_CUDA_ALL=ON all of it; skipped where there is no NVRTC. The text engine's tests of the same kernels are the stubs'.
set(on_ptx ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/on_ptx.py ${PROJECT_BINARY_DIR})
set(ptx_target --target cuda:compute_80)

function(sc_add_ptx_test name label)
    add_test(NAME ptx.${name} COMMAND ${on_ptx} ${ARGN})
    set_tests_properties(ptx.${name} PROPERTIES LABELS "${label};ptx" TIMEOUT 3600 SKIP_RETURN_CODE 77
        ENVIRONMENT "${compiled_environment};SHARDC_TEST_TARGET=cuda:compute_80")
endfunction()

sc_add_ptx_test(ops unit $<TARGET_FILE:test_compiled_ops>)
add_dependencies(test_compiled_ops sc_cuda_stub sc_cublaslt_stub sc_nccl_stub)

set(property ${CMAKE_CURRENT_LIST_DIR}/../property)
set(ptx_shardc --shardc $<TARGET_FILE:shardc> --compiled ${ptx_target})
# of the selection's cases and those whose lanes read what others wrote a moment ago
set(ptx_cases ${cuda_cases})
if(cuda_cases)
    list(APPEND ptx_cases n30 t20)
endif()
sc_add_ptx_test(acceptance acceptance ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/../acceptance/run.py $<TARGET_FILE:shardc> -v ${ptx_target} ${ptx_cases})
sc_add_ptx_test(mesh_equivalence property ${Python3_EXECUTABLE} ${property}/mesh_equivalence.py ${ptx_shardc} --seed 1 --cases ${meshes})
sc_add_ptx_test(graphs property ${Python3_EXECUTABLE} ${property}/random_graphs.py ${ptx_shardc} --seed 1 --cases ${graphs})
sc_add_ptx_test(steps property ${Python3_EXECUTABLE} ${property}/random_graphs.py ${ptx_shardc} --train --seed 5 --cases ${steps})
sc_add_ptx_test(training property ${Python3_EXECUTABLE} ${property}/train_equivalence.py ${ptx_shardc} --seed 1 ${cuda_training})
sc_add_ptx_test(train train ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/../train/bytes.py $<TARGET_FILE:shardc> ${ptx_target} ${cuda_steps})
if(SHARDC_TEST_CUDA_ALL)
    sc_add_ptx_test(attention property ${Python3_EXECUTABLE} ${property}/attention_forms.py ${ptx_shardc})
    sc_add_ptx_test(routed_experts property ${Python3_EXECUTABLE} ${property}/routed_experts.py --shardc $<TARGET_FILE:shardc> ${ptx_target})
    sc_add_ptx_test(stages property ${Python3_EXECUTABLE} ${property}/train_equivalence.py --stages ${ptx_shardc} --seed 3 --cases ${steps})
endif()

# lit's tests of programs on GPUs that say nothing of the architecture.
sc_add_ptx_test(lit lit ${CMAKE_COMMAND} -E env SHARDC_TEST_PTX=1 ${Python3_EXECUTABLE} ${LIT} -v ${CMAKE_CURRENT_BINARY_DIR}
    --filter "tools/cuda/(attention_of|derivatives_of|emitted_code|entries_in_stages|many_phases|steps_of_one)")
# Broken on purpose, it is noticed.
add_test(NAME ptx.mutations COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/mutations.py $<TARGET_FILE:shardc> ${PROJECT_BINARY_DIR})
set_tests_properties(ptx.mutations PROPERTIES LABELS "unit;ptx" TIMEOUT 1200 SKIP_RETURN_CODE 77 PROCESSORS 2)
# What no kernel of ours has yet: mbarriers, TMA, wgmma, on a kernel written for the test, and broken on purpose.
foreach(what "" _variants)
    string(REPLACE "_" "--" option "${what}")
    add_test(NAME ptx.hopper${what} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/hopper/check.py ${PROJECT_BINARY_DIR} ${option})
    set_tests_properties(ptx.hopper${what} PROPERTIES LABELS "unit;ptx" TIMEOUT 1200 SKIP_RETURN_CODE 77 PROCESSORS 2)
endforeach()
