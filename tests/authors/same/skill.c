// The skill `same` in C. skill.rs says what each tool does.
#include <errno.h>
#include <stdlib.h>

#include "patchbay.h"

static const int64_t SAFE = 9007199254740991;

static bool too_large(patchbay_call *call) { return patchbay_fail(call, "overflow", "the sum is too large"); }

static bool echo(patchbay_call *call, patchbay_value input) {
  patchbay_str text;
  return patchbay_get_string(input, "text", &text) && patchbay_text(call, text);
}

static bool wrap(patchbay_call *call, patchbay_value input) {
  patchbay_str text;
  if (!patchbay_get_string(input, "text", &text)) return false;
  text = patchbay_quote(text);
  return patchbay_jsonf(call, "{\"list\":[null,true,false,[],{},\"\",%.*s],\"text\":{%.*s:\"key\"}}", PATCHBAY_STR(text),
                        PATCHBAY_STR(text));
}

static bool measure(patchbay_call *call, patchbay_value input) {
  patchbay_str text;
  if (!patchbay_get_string(input, "text", &text)) return false;
  uint32_t hash = 2166136261u;
  size_t points = 0;
  for (size_t i = 0; i < text.len; i++) {
    hash = (hash ^ (unsigned char)text.ptr[i]) * 16777619u;
    points += (text.ptr[i] & 0xc0) != 0x80;
  }
  return patchbay_jsonf(call, "{\"bytes\":%zu,\"hash\":%lu,\"points\":%zu}", text.len, (unsigned long)hash, points);
}

static bool add(patchbay_call *call, patchbay_value input) {
  int64_t a, b;
  if (!patchbay_get_int(input, "a", &a) || !patchbay_get_int(input, "b", &b)) return false;
  if (a + b > SAFE || a + b < -SAFE) return too_large(call);
  return patchbay_jsonf(call, "{\"sum\":%lld}", (long long)(a + b));
}

static bool read_digits(patchbay_call *call, patchbay_value input, const char *name, long long *number) {
  patchbay_str text;
  if (!patchbay_get_string(input, name, &text)) return false;
  errno = 0;
  *number = strtoll(text.ptr, NULL, 10);
  return errno != ERANGE || patchbay_fail(call, "overflow", "%.*s has more than 64 bits", PATCHBAY_STR(text));
}

static bool add64(patchbay_call *call, patchbay_value input) {
  long long a, b, sum;
  if (!read_digits(call, input, "a", &a) || !read_digits(call, input, "b", &b)) return false;
  if (__builtin_add_overflow(a, b, &sum)) return too_large(call);
  return patchbay_textf(call, "%lld", sum);
}

static bool pieces(patchbay_call *call, patchbay_value input) {
  patchbay_str text;
  return patchbay_get_string(input, "text", &text) && patchbay_text(call, text) &&
         patchbay_json(call, patchbay_quote(text)) && patchbay_blob(call, "text/x-same", text) &&
         patchbay_link(call, "a/b.txt", "text/plain");
}

static bool fail(patchbay_call *call, patchbay_value input) {
  patchbay_str kind, message;
  if (!patchbay_get_string(input, "kind", &kind) || !patchbay_get_string(input, "message", &message)) return false;
  return patchbay_fail(call, kind.ptr, "%.*s", PATCHBAY_STR(message));
}

#define TEXT                                                                                              \
  PATCHBAY_SCHEMA({                                                                                       \
    "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": false \
  })
#define TWO(...)                                                                                   \
  PATCHBAY_SCHEMA({                                                                                \
    "type": "object", "properties": {"a": __VA_ARGS__, "b": __VA_ARGS__}, "required": ["a", "b"], \
    "additionalProperties": false                                                                  \
  })

PATCHBAY_TOOLS(
    {.name = "echo", .description = "Returns the text.", .schema = TEXT, .run = echo},
    {.name = "wrap", .description = "Returns the text as a key and a value of JSON.", .schema = TEXT, .run = wrap},
    {.name = "measure", .description = "Counts bytes and code points, and hashes the bytes.", .schema = TEXT, .run = measure},
    {
        .name = "add",
        .description = "Adds two integers.",
        .schema = TWO({"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}),
        .run = add,
    },
    {
        .name = "add64",
        .description = "Adds two integers of 64 bits that are written as strings.",
        .schema = TWO({"type": "string", "pattern": "^-?[0-9]{1,19}$"}),
        .run = add64,
    },
    {.name = "pieces", .description = "Returns one content of each kind.", .schema = TEXT, .run = pieces},
    {
        .name = "fail",
        .description = "Fails.",
        .schema = PATCHBAY_SCHEMA({
          "type": "object",
          "properties": {"kind": {"type": "string"}, "message": {"type": "string"}},
          "required": ["kind", "message"],
          "additionalProperties": false
        }),
        .run = fail,
    })
