/* Styles: sugar for seeds and locks on weights and blocks. */
#include "frontend/plan_internal.h"
void sc_plan_check_style(sc_resolved_plan *plan, sc_plan_line *line) { (void)plan,(void)line; }
void sc_seeding_style(sc_seeding *s, const sc_plan_line *source, uint32_t line){(void)s,(void)source,(void)line;}
