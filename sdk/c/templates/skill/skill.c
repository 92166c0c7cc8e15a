// The tools of {{name}}. Each is a function and an entry in the table at the end.
#include "patchbay.h"

// `input` is the JSON object that the caller passed; the host has already checked it against the schema below.
static bool hello(patchbay_call *call, patchbay_value input) {
  patchbay_str name;
  // A function of the SDK that returns false has recorded why, so passing `false` on is all the error handling you need.
  if (!patchbay_get_string(input, "name", &name)) return false;
  // For errors of your own: a word for programs, then a message for people and models.
  if (patchbay_is_blank(name)) return patchbay_fail(call, "invalid-input", "the name is empty");
  return patchbay_textf(call, "Hello, %.*s!", PATCHBAY_STR(name));
}

PATCHBAY_TOOLS({
    .name = "hello",
    // Models read the description to decide when to call the tool.
    .description = "Greets a person by name.",
    .schema = PATCHBAY_SCHEMA({
      "type": "object",
      "properties": {"name": {"type": "string", "description": "Name of the person to greet."}},
      "required": ["name"],
      "additionalProperties": false
    }),
    .run = hello,
})
