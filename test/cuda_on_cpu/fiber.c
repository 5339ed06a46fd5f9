/* A context is the stack pointer, below which the registers lie that a call preserves. The modes of
 * floating point are the same everywhere and not kept. */
#include "test/cuda_on_cpu/fiber.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

__asm__(".text\n"
        ".globl sc_fiber_switch\n"
        ".hidden sc_fiber_switch\n"
        ".type sc_fiber_switch, @function\n"
        "sc_fiber_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sc_fiber_switch, .-sc_fiber_switch\n");

/* Six registers, run's address, and a return address of 0 that leaves the stack as a call does. */
sc_fiber sc_fiber_new(void *top, void (*run)(void))
{
    uint64_t *stack = (uint64_t *)top - 8;
    memset(stack, 0, 8 * sizeof *stack);
    stack[6] = (uint64_t)(uintptr_t)run;
    return stack;
}

#elif defined(__aarch64__)

__asm__(".text\n"
        ".globl sc_fiber_switch\n"
        ".hidden sc_fiber_switch\n"
        ".type sc_fiber_switch, %function\n"
        "sc_fiber_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x2, sp\n"
        "    str x2, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size sc_fiber_switch, .-sc_fiber_switch\n");

sc_fiber sc_fiber_new(void *top, void (*run)(void))
{
    uint64_t *stack = (uint64_t *)top - 20;
    memset(stack, 0, 20 * sizeof *stack);
    stack[11] = (uint64_t)(uintptr_t)run;
    return stack;
}

#else
#error "no context switch for this CPU"
#endif
