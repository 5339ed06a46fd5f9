/* The index that stands for "none", in every list and table. */
#ifndef SHARDC_SUPPORT_NONE_H
#define SHARDC_SUPPORT_NONE_H

#include <stdint.h>

#define SC_NONE UINT32_MAX

#endif
