// The guest in C: no runtime, no WASI. Whatever it gives away is freed by the bindings.
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "skill_plugin.h"

typedef skill_plugin_string_t text;
typedef exports_patchbay_skill_skill_list_content_t answer;
typedef exports_patchbay_skill_skill_failure_t failure;

static void *memory(size_t size) {
  void *at = malloc(size);
  if (!at) abort();
  return at;
}

static bool member(const text *input, const char *name, text *value, failure *why) {
  if (json_member(input->ptr, input->len, name, &value->ptr, &value->len)) return true;
  skill_plugin_string_dup(&why->kind, "invalid-input");
  skill_plugin_string_dup(&why->message, "the input is not an object with the strings that the tool takes");
  return false;
}

static void reply(answer *to, uint8_t tag, text value) {
  to->len = 1;
  to->ptr = memory(sizeof *to->ptr);
  to->ptr->tag = tag;
  // `text` and `json` are both strings, and lie in the same place.
  to->ptr->val.text = value;
}

static bool echo(const text *input, answer *to, failure *why) {
  text value;
  if (!member(input, "text", &value, why)) return false;
  reply(to, PATCHBAY_SKILL_TYPES_CONTENT_TEXT, value);
  return true;
}

static char *put(char *to, const char *from) {
  while (*from) *to++ = *from++;
  return to;
}

static char *put_number(char *to, size_t number) {
  char digits[20];
  size_t count = 0;
  do digits[count++] = (char)('0' + number % 10);
  while (number /= 10);
  while (count) *to++ = digits[--count];
  return to;
}

static bool is_space(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

static bool stats(const text *input, answer *to, failure *why) {
  text value;
  if (!member(input, "text", &value, why)) return false;
  size_t lines = 0, words = 0;
  bool in_word = false;
  for (size_t at = 0; at < value.len; at++) {
    lines += value.ptr[at] == '\n';
    bool word = !is_space(value.ptr[at]);
    words += word && !in_word;
    in_word = word;
  }
  if (value.len && value.ptr[value.len - 1] != '\n') lines++;

  char json[96], *end = json;
  end = put_number(put(end, "{\"bytes\":"), value.len);
  end = put_number(put(end, ",\"lines\":"), lines);
  end = put(put_number(put(end, ",\"words\":"), words), "}");
  skill_plugin_string_free(&value);
  skill_plugin_string_dup_n(&value, json, (size_t)(end - json));
  reply(to, PATCHBAY_SKILL_TYPES_CONTENT_JSON, value);
  return true;
}

static bool fail(const text *input, answer *to, failure *why) {
  (void)to;
  if (!member(input, "message", &why->message, why)) return false;
  skill_plugin_string_dup(&why->kind, "failed");
  return false;
}

// An error of the host is passed on as it is; what it holds is the caller's from now on.
static bool pass_on(const patchbay_host_kv_error_t *error, failure *why) {
  why->kind = error->kind;
  why->message = error->message;
  return false;
}

static bool store(const text *input, answer *to, failure *why) {
  text key, value;
  if (!member(input, "key", &key, why) || !member(input, "value", &value, why)) return false;
  skill_plugin_list_u8_t bytes = {value.ptr, value.len};
  uint64_t version;
  patchbay_host_kv_error_t error;
  if (!patchbay_host_kv_put(PATCHBAY_HOST_KV_SCOPE_USER, &key, &bytes, NULL, &version, &error)) {
    return pass_on(&error, why);
  }
  patchbay_host_kv_option_entry_t entry;
  if (!patchbay_host_kv_get(PATCHBAY_HOST_KV_SCOPE_USER, &key, &entry, &error)) return pass_on(&error, why);
  if (!entry.is_some) {
    skill_plugin_string_dup(&why->kind, "failed");
    skill_plugin_string_dup(&why->message, "what was put is not there");
    return false;
  }
  reply(to, PATCHBAY_SKILL_TYPES_CONTENT_TEXT, (text){entry.val.value.ptr, entry.val.value.len});
  return true;
}

#define STRING(name, what) "\"" name "\":{\"type\":\"string\",\"description\":\"" what "\"}"
#define SCHEMA(properties, required) \
  "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "],\"additionalProperties\":false}"

static const struct {
  const char *name;
  const char *description;
  const char *schema;
  bool (*run)(const text *input, answer *to, failure *why);
} TOOLS[] = {
    {"echo", "Gives back the text.", SCHEMA(STRING("text", "What comes back."), "\"text\""), echo},
    {"stats", "Counts bytes, lines and words.", SCHEMA(STRING("text", "What is counted."), "\"text\""), stats},
    {"fail", "Fails.", SCHEMA(STRING("message", "Why."), "\"message\""), fail},
    {"store", "Puts a value into the store of the user, and reads it back.",
     SCHEMA(STRING("key", "Where.") "," STRING("value", "What."), "\"key\",\"value\""), store},
};
enum { COUNT = sizeof TOOLS / sizeof *TOOLS };

void exports_patchbay_skill_skill_tools(exports_patchbay_skill_skill_list_tool_t *ret) {
  ret->len = COUNT;
  ret->ptr = memory(COUNT * sizeof *ret->ptr);
  for (size_t at = 0; at < COUNT; at++) {
    skill_plugin_string_dup(&ret->ptr[at].name, TOOLS[at].name);
    skill_plugin_string_dup(&ret->ptr[at].description, TOOLS[at].description);
    skill_plugin_string_dup(&ret->ptr[at].input_schema, TOOLS[at].schema);
    ret->ptr[at].extra.ptr = NULL;
    ret->ptr[at].extra.len = 0;
  }
}

bool exports_patchbay_skill_skill_call(text *tool, text *input, exports_patchbay_skill_skill_list_blob_t *attachments,
                                       answer *ret, failure *err) {
  (void)attachments;
  for (size_t at = 0; at < COUNT; at++) {
    if (tool->len == strlen(TOOLS[at].name) && memcmp(tool->ptr, TOOLS[at].name, tool->len) == 0) {
      return TOOLS[at].run(input, ret, err);
    }
  }
  skill_plugin_string_dup(&err->kind, "unknown-tool");
  skill_plugin_string_dup(&err->message, "this skill has no such tool");
  return false;
}
