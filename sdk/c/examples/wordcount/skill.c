// A pure tool: the result depends only on the input, and SKILL.md requests no capabilities.
#include "patchbay.h"

static bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

static int64_t words_in(patchbay_str text, int64_t shortest) {
  int64_t words = 0;
  size_t length = 0;
  for (size_t i = 0; i <= text.len; i++) {
    bool inside = i < text.len && !is_space(text.ptr[i]);
    if (!inside && length) words += (int64_t)length >= shortest;
    length = inside ? length + 1 : 0;
  }
  return words;
}

static bool count(patchbay_call *call, patchbay_value input) {
  patchbay_str text;
  int64_t shortest = 1;  // the default, if the caller leaves out this optional member
  if (!patchbay_get_string(input, "text", &text)) return false;
  if (!patchbay_opt_int(input, "min_bytes", &shortest)) return false;
  return patchbay_jsonf(call, "{\"bytes\":%zu,\"words\":%lld}", text.len, (long long)words_in(text, shortest));
}

static bool longest(patchbay_call *call, patchbay_value input) {
  patchbay_value texts;
  patchbay_str best = {0};
  if (!patchbay_get_array(input, "texts", &texts)) return false;
  for (patchbay_value item = patchbay_first(texts); item.at; item = patchbay_next(item)) {
    patchbay_str text;
    if (!patchbay_get_string(item, NULL, &text)) return false;
    if (!best.ptr || text.len > best.len) best = text;
  }
  if (!best.ptr) return patchbay_fail(call, "invalid-input", "there are no texts");
  return patchbay_text(call, best);
}

PATCHBAY_TOOLS(
    {
        .name = "count",
        .description = "Counts the bytes and words of a text.",
        .schema = PATCHBAY_SCHEMA({
          "type": "object",
          "properties": {
            "text": {"type": "string", "description": "The text to measure."},
            "min_bytes": {"type": "integer", "minimum": 1, "description": "Ignore words shorter than this. Default: 1."}
          },
          "required": ["text"],
          "additionalProperties": false
        }),
        .run = count,
        .extra = {{"read-only", "true"}},
    },
    {
        .name = "longest",
        .description = "Returns the longest of several texts, the first one if several are equally long.",
        .schema = PATCHBAY_SCHEMA({
          "type": "object",
          "properties": {"texts": {"type": "array", "items": {"type": "string"}, "description": "The texts to compare."}},
          "required": ["texts"],
          "additionalProperties": false
        }),
        .run = longest,
        .extra = {{"read-only", "true"}},
    })
