// Calls a tool of another skill. It runs with its own skill's grants and within the remaining limits of this call.
#include "patchbay.h"

static bool count_words(patchbay_call *call, patchbay_str text, int64_t *words) {
  patchbay_str answer;
  patchbay_value result;
  // `patchbay_quote` makes any text safe inside JSON.
  patchbay_str input = patchbay_format("{\"text\":%s}", patchbay_quote(text).ptr);
  if (!patchbay_call_tool(call, "wordcount__count", input.ptr, &answer)) return false;
  return patchbay_parse(call, answer, &result) && patchbay_get_int(result, "words", words);
}

static bool compare(patchbay_call *call, patchbay_value input) {
  patchbay_str left, right;
  int64_t left_words, right_words;
  if (!patchbay_get_string(input, "left", &left) || !patchbay_get_string(input, "right", &right)) return false;
  if (!count_words(call, left, &left_words) || !count_words(call, right, &right_words)) return false;
  return patchbay_textf(call, "%lld words against %lld", (long long)left_words, (long long)right_words);
}

PATCHBAY_TOOLS({
    .name = "compare",
    .description = "Compares how many words two texts have.",
    .schema = PATCHBAY_SCHEMA({
      "type": "object",
      "properties": {
        "left": {"type": "string", "description": "The first text."},
        "right": {"type": "string", "description": "The second text."}
      },
      "required": ["left", "right"],
      "additionalProperties": false
    }),
    .run = compare,
})
