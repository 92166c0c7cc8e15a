// State between calls: each call has a fresh instance, so anything worth keeping goes into the key-value store.
#include <stdlib.h>

#include "patchbay.h"

static bool add(patchbay_call *call, patchbay_value input) {
  patchbay_str name, stored;
  int64_t by = 1;
  if (!patchbay_get_string(input, "name", &name)) return false;
  if (!patchbay_opt_int(input, "by", &by)) return false;

  // Another session may change the counter between our read and our write. `replace` then fails, and we try again.
  for (int attempt = 0; attempt < 10; attempt++) {
    uint64_t version;
    if (!patchbay_kv_get(call, PATCHBAY_USER, name.ptr, &stored, &version)) return false;
    long long count = (stored.ptr ? strtoll(stored.ptr, NULL, 10) : 0) + by;
    patchbay_str text = patchbay_format("%lld", count);
    if (patchbay_kv_replace(call, PATCHBAY_USER, name.ptr, text, version, NULL)) return patchbay_text(call, text);
    if (!patchbay_equal(patchbay_failure_kind(call), "conflict")) return false;
  }
  return patchbay_fail(call, "conflict", "'%s' keeps changing; try again", name.ptr);
}

static bool list(patchbay_call *call, patchbay_value input) {
  (void)input;
  patchbay_buffer out = {0};
  patchbay_strings keys = {0};
  do {
    // A page of keys at a time, each after the last key of the page before.
    const char *after = keys.len ? keys.ptr[keys.len - 1].ptr : NULL;
    if (!patchbay_kv_keys(call, PATCHBAY_USER, "", after, 100, &keys)) return false;
    for (size_t i = 0; i < keys.len; i++) {
      patchbay_str count;
      if (!patchbay_kv_get(call, PATCHBAY_USER, keys.ptr[i].ptr, &count, NULL)) return false;
      patchbay_addf(&out, "%s: %s\n", keys.ptr[i].ptr, count.ptr ? count.ptr : "0");
    }
  } while (keys.len);
  return patchbay_text(call, out.text.len ? out.text : patchbay_cstr("no counters yet"));
}

PATCHBAY_TOOLS(
    {
        .name = "add",
        .description = "Adds to a counter and returns the new count.",
        .schema = PATCHBAY_SCHEMA({
          "type": "object",
          "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 64, "description": "Name of the counter."},
            "by": {"type": "integer", "minimum": -1000000, "maximum": 1000000, "description": "How much to add. Default: 1."}
          },
          "required": ["name"],
          "additionalProperties": false
        }),
        .run = add,
    },
    {.name = "list", .description = "Lists all counters, one per line.", .run = list})
