/* Opens sessions on a given communicator. */
#ifndef SHARDC_RUNTIME_OPEN_SESSION_H
#define SHARDC_RUNTIME_OPEN_SESSION_H

#include "runtime/comm/comm.h"
#include "shardc/runtime.h"

/* Creates a session with one rank in this process, on a given communicator, which stays the
 * caller's and must outlive the session. */
shardc_status sc_session_new_with_comm(const shardc_executable *program,
                                       const shardc_session_options *options, sc_comm *comm,
                                       shardc_session **out, shardc_error *error);

#endif
