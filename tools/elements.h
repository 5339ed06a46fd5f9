/* dtypes of the language as element types of stored tensors. */
#ifndef SHARDC_TOOLS_ELEMENTS_H
#define SHARDC_TOOLS_ELEMENTS_H

#include "ir/type.h"
#include "runtime/element.h"

sc_element sc_dtype_element(sc_dtype dtype);

#endif
