// An HTTP request with a secret that the skill never sees: it names a credential, and the host inserts it.
#include "patchbay.h"

// Escapes a string for use in a URL.
static patchbay_str url_encode(patchbay_str text) {
  patchbay_buffer out = {0};
  for (size_t i = 0; i < text.len; i++) {
    unsigned char byte = (unsigned char)text.ptr[i], lower = byte | 0x20;
    bool plain = (lower >= 'a' && lower <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_';
    if (plain) patchbay_add(&out, (patchbay_str){text.ptr + i, 1});
    else patchbay_addf(&out, "%%%02X", byte);
  }
  return out.text;
}

static bool now(patchbay_call *call, patchbay_value input) {
  patchbay_str city, sky;
  double celsius;
  if (!patchbay_get_string(input, "city", &city)) return false;
  if (patchbay_is_blank(city)) return patchbay_fail(call, "invalid-input", "the city is empty");

  patchbay_response response;
  patchbay_request request = {
      .url = patchbay_format("https://api.example.com/v1/now?city=%s", url_encode(city).ptr).ptr,
      .headers = {{"accept", "application/json"}},
      .timeout_ms = 10000,
      .auth = {.credential = "weather"},  // sent as "authorization: Bearer …"
  };
  if (!patchbay_http(call, &request, &response)) return false;
  if (response.status == 404) return patchbay_fail(call, "not-found", "no city is called '%s'", city.ptr);
  if (response.status != 200) return patchbay_fail(call, "unavailable", "the weather service answered %u", response.status);

  patchbay_value report;
  if (!patchbay_parse(call, response.body, &report)) return false;
  if (!patchbay_get_double(report, "celsius", &celsius)) return false;
  if (!patchbay_get_string(report, "sky", &sky)) return false;
  return patchbay_textf(call, "%s, %.1f °C", sky.ptr, celsius);
}

PATCHBAY_TOOLS({
    .name = "now",
    .description = "Returns the current weather in a city.",
    .schema = PATCHBAY_SCHEMA({
      "type": "object",
      "properties": {"city": {"type": "string", "maxLength": 100, "description": "Name of the city, in English."}},
      "required": ["city"],
      "additionalProperties": false
    }),
    .run = now,
    .extra = {{"read-only", "false"}, {"kind", "fetch"}},
})
