/* A train step of two micro-batches as IR text, whole and cut by hand into two stages of two ranks:
 * a linear model's squared error, and a step of gradient descent. */
#ifndef SHARDC_TEST_STAGE_CASE_H
#define SHARDC_TEST_STAGE_CASE_H

static const char stage_case_global[] = "shardc.ir 1\n"
                                        "states shapes\n"
                                        "dim B\n"
                                        "dim D\n"
                                        "state param \"w\": f32[D=4] = normal(1.0)\n"
                                        "state grad \"w.grad\": f32[D=4] = zeros\n"
                                        "state sum \"total\": f32[] = zeros\n"
                                        "func @micro {\n"
                                        "  %x = input {name = \"x\"} : f32[B=2, D=4]\n"
                                        "  %y = input {name = \"y\"} : f32[B=2]\n"
                                        "  %w = param {name = \"w\"} : f32[D=4]\n"
                                        "  %p \"m.p\" = dot[D] %x, %w : f32[B=2]\n"
                                        "  %e \"m.e\" = sub %p, %y : f32[B=2]\n"
                                        "  %q = mul %e, %e : f32[B=2]\n"
                                        "  %l = sum[B] %q : f32[]\n"
                                        "  %t = state_read {name = \"total\"} : f32[]\n"
                                        "  %n = add %t, %l : f32[]\n"
                                        "  %g \"m.dw\" = dot[B] %x, %e : f32[D=4]\n"
                                        "  %a = state_read {name = \"w.grad\"} : f32[D=4]\n"
                                        "  %s = add %a, %g : f32[D=4]\n"
                                        "  state_write %n {name = \"total\"}\n"
                                        "  state_write %s {name = \"w.grad\"}\n"
                                        "  return\n"
                                        "}\n"
                                        "func @update {\n"
                                        "  %w = param {name = \"w\"} : f32[D=4]\n"
                                        "  %g = state_read {name = \"w.grad\"} : f32[D=4]\n"
                                        "  %n = sub %w, %g : f32[D=4]\n"
                                        "  %t = state_read {name = \"total\"} : f32[]\n"
                                        "  state_write %n {name = \"w\"}\n"
                                        "  return %t\n"
                                        "}\n"
                                        "schedule {\n"
                                        "  call @micro\n"
                                        "  call @micro microbatch 1\n"
                                        "  call @update microbatch -1\n"
                                        "}\n";

#define STAGE_CASE_HEAD                                                                            \
    "shardc.ir 1\n"                                                                                \
    "states shapes placed reshards_explicit local\n"                                               \
    "mesh tp = 2, pp = 2 stage\n"                                                                  \
    "dim B\n"                                                                                      \
    "dim D\n"                                                                                      \
    "state param \"w\": f32[D=2/4@tp] = normal(1.0)\n"                                             \
    "state grad \"w.grad\": f32[D=2/4@tp] = zeros\n"                                               \
    "state sum \"total\": f32[] = zeros\n"                                                         \
    "state slot \"x.slot\": f32[B=2, D=2/4@tp] = zeros\n"                                          \
    "state slot \"e.slot\": f32[B=2] = zeros\n"

/* The first stage has the parameter; it sends what is a partial sum there. */
#define STAGE_CASE_F0                                                                              \
    "func @F0 stage 0 {\n"                                                                         \
    "  chunk 0\n"                                                                                  \
    "  %x = input {name = \"x\"} : f32[B=2, D=4]\n"                                                \
    "  %l = all_slice %x {over = [tp], gather = [D]} : f32[B=2, D=2/4@tp]\n"                       \
    "  %w = param {name = \"w\"} : f32[D=2/4@tp]\n"                                                \
    "  %p = dot[D] %l, %w : f32[B=2]{sum:tp}\n"                                                    \
    "  send %p {name = \"p\", phase = forward, stage = 1}\n"                                       \
    "  state_write %l {name = \"x.slot\"}\n"                                                       \
    "  return\n"                                                                                   \
    "}\n"
#define STAGE_CASE_F1                                                                              \
    "func @F1 stage 1 {\n"                                                                         \
    "  chunk 1\n"                                                                                  \
    "  %y = input {name = \"y\"} : f32[B=2]\n"                                                     \
    "  %r = recv {name = \"p\", phase = forward, stage = 0} : f32[B=2]{sum:tp}\n"                  \
    "  %p \"m.p\" = all_reduce %r {over = [tp], reduce = sum, phase = forward} : f32[B=2]\n"       \
    "  %e \"m.e\" = sub %p, %y : f32[B=2]\n"                                                       \
    "  %q = mul %e, %e : f32[B=2]\n"                                                               \
    "  %s = sum[B] %q : f32[]\n"                                                                   \
    "  %t = state_read {name = \"total\"} : f32[]\n"                                               \
    "  %n = add %t, %s : f32[]\n"                                                                  \
    "  state_write %n {name = \"total\"}\n"                                                        \
    "  state_write %e {name = \"e.slot\"}\n"                                                       \
    "  return\n"                                                                                   \
    "}\n"
#define STAGE_CASE_B1                                                                              \
    "func @B1 stage 1 {\n"                                                                         \
    "  chunk 1\n"                                                                                  \
    "  %e = state_read {name = \"e.slot\"} : f32[B=2]\n"                                           \
    "  send %e {name = \"e\", phase = backward, stage = 0}\n"                                      \
    "  return\n"                                                                                   \
    "}\n"
#define STAGE_CASE_B0                                                                              \
    "func @B0 stage 0 {\n"                                                                         \
    "  chunk 0\n"                                                                                  \
    "  %e = recv {name = \"e\", phase = backward, stage = 1} : f32[B=2]\n"                         \
    "  %x = state_read {name = \"x.slot\"} : f32[B=2, D=2/4@tp]\n"                                 \
    "  %g \"m.dw\" = dot[B] %x, %e : f32[D=2/4@tp]\n"                                              \
    "  %a = state_read {name = \"w.grad\"} : f32[D=2/4@tp]\n"                                      \
    "  %s = add %a, %g : f32[D=2/4@tp]\n"                                                          \
    "  state_write %s {name = \"w.grad\"}\n"                                                       \
    "  return\n"                                                                                   \
    "}\n"
#define STAGE_CASE_U                                                                               \
    "func @U0_0 stage 0 {\n"                                                                       \
    "  %w = param {name = \"w\"} : f32[D=2/4@tp]\n"                                                \
    "  %g = state_read {name = \"w.grad\"} : f32[D=2/4@tp]\n"                                      \
    "  %n = sub %w, %g : f32[D=2/4@tp]\n"                                                          \
    "  state_write %n {name = \"w\"}\n"                                                            \
    "  return\n"                                                                                   \
    "}\n"                                                                                          \
    "func @U0_1 stage 1 {\n"                                                                       \
    "  %t = state_read {name = \"total\"} : f32[]\n"                                               \
    "  return %t\n"                                                                                \
    "}\n"
/* one_f_one_b */
#define STAGE_CASE_SCHEDULE                                                                        \
    "schedule {\n"                                                                                 \
    "  call @F0\n"                                                                                 \
    "  call @F0 microbatch 1\n"                                                                    \
    "  call @F1\n"                                                                                 \
    "  call @B1\n"                                                                                 \
    "  call @B0\n"                                                                                 \
    "  call @F1 microbatch 1\n"                                                                    \
    "  call @B1 microbatch 1\n"                                                                    \
    "  call @B0 microbatch 1\n"                                                                    \
    "  call @U0_0 microbatch -1\n"                                                                 \
    "  call @U0_1 microbatch -1\n"                                                                 \
    "}\n"

static const char stage_case_local[] = STAGE_CASE_HEAD STAGE_CASE_F0 STAGE_CASE_F1 STAGE_CASE_B1
    STAGE_CASE_B0 STAGE_CASE_U STAGE_CASE_SCHEDULE;

#endif
