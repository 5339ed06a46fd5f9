/* The text of items, given the text of their values. */
#include "codegen/printer/printer.h"
#include "program/failure.h"

void sc_printer_failure(sc_kernel_printer *e, uint32_t item)
{
    sc_knode shown = e->k->items.data[item].shown;
    sc_strbuf_printf(e->out->text, "0x%llx",
                     (unsigned long long)sc_image_failure(e->items[item].check, 0));
    if (shown == SC_NONE)
        return;
    sc_strbuf_add(e->out->text, " | (");
    sc_printer_value(e, shown, false);
    sc_strbuf_printf(e->out->text, " & 0x%llx)",
                     (unsigned long long)sc_image_failure(0, -1) ^
                         (unsigned long long)sc_image_failure(0, 0));
}

static void check(sc_kernel_printer *e, uint32_t item)
{
    sc_write_indent(e->out);
    sc_strbuf_add(e->out->text, "if (!(");
    sc_printer_value(e, e->k->items.data[item].value, true);
    sc_strbuf_add(e->out->text, "))");
    sc_write_end_open(e->out);
    e->target->leave_iteration(e, item);
    sc_write_close(e->out);
}

/* An element of a transposed tile that is stored unchanged. */
static bool is_moved(const sc_kernel_printer *e, sc_dtype stored, sc_knode value)
{
    const sc_printer_node *info = &e->nodes[value];
    return info->transposed && !info->visible && e->k->args.data[info->access.arg].dtype == stored;
}

/* Emits the value converted to the stored dtype. */
static void stored_text(sc_kernel_printer *e, sc_dtype stored, sc_dtype dtype, sc_knode value)
{
    if (is_moved(e, stored, value)) {
        e->target->loaded(e, &e->nodes[value].access, e->nodes[value].depth, value);
        return;
    }
    bool narrow = stored == SC_DTYPE_bf16 || stored == SC_DTYPE_f16,
         same = stored == dtype || (stored == SC_DTYPE_u8 && dtype == SC_DTYPE_i32);
    if (stored == SC_DTYPE_u8 && dtype == SC_DTYPE_i32)
        sc_strbuf_add(e->out->text, "(uint8_t)");
    else if (narrow && sc_dtype_is_float(dtype))
        sc_strbuf_printf(e->out->text, "sc_%s_to_%s(", sc_dtypes[dtype].name,
                         sc_dtypes[stored].name);
    else if (!same && sc_dtype_is_float(stored) && !narrow)
        sc_strbuf_printf(e->out->text, "(%s)", sc_printer_type(stored));
    sc_printer_value(e, value, same && stored != SC_DTYPE_u8);
    sc_strbuf_add(e->out->text, narrow && sc_dtype_is_float(dtype) ? ")" : "");
}

static void store(sc_kernel_printer *e, uint32_t id)
{
    const sc_kernel_item *item = &e->k->items.data[id];
    const sc_kernel_arg *arg = &e->k->args.data[item->arg];
    sc_dtype dtype = sc_printer_dtype_of(e, id);
    sc_write_indent(e->out);
    if (item->guard != SC_NONE) {
        sc_strbuf_add(e->out->text, "if (");
        sc_printer_value(e, item->guard, true);
        sc_strbuf_add(e->out->text, ")\n");
        sc_write_indent(e->out);
        sc_strbuf_add(e->out->text, "    ");
    }
    e->target->stored(e, &e->items[id].access, e->items[id].depth, id);
    sc_strbuf_add(e->out->text, " = ");
    if (item->kind == SC_ITEM_STORE) {
        stored_text(e, arg->dtype, dtype, item->value);
        sc_strbuf_add(e->out->text, ";\n");
        return;
    }
    if (e->target->whole_sum != NULL && !sc_dtype_is_float(arg->dtype)) {
        sc_strbuf_printf(e->out->text, "(%s)%s(", sc_printer_stored(arg->dtype),
                         e->target->whole_sum);
        e->target->stored(e, &e->items[id].access, e->items[id].depth, id);
        sc_strbuf_add(e->out->text, ", ");
        sc_printer_value(e, item->value, true);
        sc_strbuf_add(e->out->text, ");\n");
        return;
    }
    bool narrow = arg->dtype == SC_DTYPE_bf16 || arg->dtype == SC_DTYPE_f16;
    const char *name = sc_dtypes[arg->dtype].name;
    if (narrow)
        sc_strbuf_printf(e->out->text, "sc_f32_to_%s(sc_%s_to_f32(", name, name);
    else if (arg->dtype == SC_DTYPE_u8)
        sc_strbuf_add(e->out->text, "(uint8_t)(");
    e->target->stored(e, &e->items[id].access, e->items[id].depth, id);
    sc_strbuf_add(e->out->text, narrow ? ") + " : " + ");
    sc_printer_value(e, item->value, false);
    sc_strbuf_add(e->out->text, narrow || arg->dtype == SC_DTYPE_u8 ? ");\n" : ";\n");
}

static void reduce(sc_kernel_printer *e, uint32_t id)
{
    const sc_kernel_item *item = &e->k->items.data[id];
    const sc_printer_item *info = &e->items[id];
    sc_dtype dtype = sc_printer_dtype_of(e, id);
    sc_write_indent(e->out);
    e->target->accumulator(e, id);
    if (item->kind == SC_ITEM_SUM && e->target->whole_sum != NULL && !sc_dtype_is_float(dtype)) {
        sc_strbuf_printf(e->out->text, " = %s(", e->target->whole_sum);
        e->target->accumulator(e, id);
        sc_strbuf_add(e->out->text, ", ");
        sc_printer_value(e, item->value, true);
        sc_strbuf_add(e->out->text, ");\n");
        return;
    }
    if (item->kind == SC_ITEM_SUM) {
        bool converts = info->wide && !info->parts;
        sc_strbuf_add(e->out->text, converts ? " += (double)" : " += ");
        sc_printer_value(e, item->value, !converts);
        sc_strbuf_add(e->out->text, ";\n");
        return;
    }
    sc_strbuf_add(e->out->text, " = ");
    if (sc_dtype_is_float(dtype)) {
        sc_strbuf_printf(e->out->text, "sc_%s_%s(", item->kind == SC_ITEM_MAX ? "max" : "min",
                         sc_dtypes[dtype].name);
        sc_printer_value(e, item->value, true);
        sc_strbuf_add(e->out->text, ", ");
        e->target->accumulator(e, id);
        sc_strbuf_add(e->out->text, ");\n");
        return;
    }
    sc_printer_value(e, item->value, false);
    sc_strbuf_add(e->out->text, item->kind == SC_ITEM_MAX ? " > " : " < ");
    e->target->accumulator(e, id);
    sc_strbuf_add(e->out->text, " ? ");
    sc_printer_value(e, item->value, false);
    sc_strbuf_add(e->out->text, " : ");
    e->target->accumulator(e, id);
    sc_strbuf_add(e->out->text, ";\n");
}

void sc_printer_do_item(sc_kernel_printer *e, uint32_t item)
{
    sc_item_kind kind = e->k->items.data[item].kind;
    if (e->target->item != NULL && e->target->item(e, item))
        return;
    if (kind == SC_ITEM_CHECK)
        check(e, item);
    else if (sc_item_reduces(kind))
        reduce(e, item);
    else
        store(e, item);
}
