// The Patchbay SDK for C: write tools as plain functions, list them in a table, and let patchbay.c do the rest.
//
//     #include "patchbay.h"
//
//     static bool hello(patchbay_call *call, patchbay_value input) {
//       patchbay_str name;
//       if (!patchbay_get_string(input, "name", &name)) return false;
//       return patchbay_textf(call, "Hello, %.*s!", PATCHBAY_STR(name));
//     }
//
//     PATCHBAY_TOOLS({.name = "hello", .description = "Greets a person by name.", .schema = …, .run = hello})
//
// Two rules cover most of the API:
//
// - A function that can fail returns false and remembers why. `return false` passes the reason on to the caller of the
//   tool, whether it came from the input, from the host or from `patchbay_fail`.
// - You never have to free anything. Each call runs in its own instance, and its memory goes away with it.
//
// This header needs no generated code. For the parts of the contract without a function here (running tools side by side,
// searching the workspace, listing tools and skill files), include the generated "plugin.h" too and call
// `patchbay_host_tool_calls_start`, `patchbay_host_workspace_search_search` and so on. Pass strings with
// `patchbay_borrow`, and on an error `return patchbay_pass(call, &error)`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PATCHBAY_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define PATCHBAY_CHECK __attribute__((warn_unused_result))

// One call of a tool: what the host passed in, and the result so far.
typedef struct patchbay_call patchbay_call;

// Text or bytes. `ptr` is followed by a NUL byte that `len` does not count, so you can pass it to C functions; the text
// itself may also contain NUL bytes, which is why `len` exists. Text is UTF-8.
typedef struct {
  const char *ptr;
  size_t len;
} patchbay_str;

// Expands to the two arguments of `%.*s`. The high bit tells this SDK's functions to copy all `len` bytes, NUL bytes
// included; plain `printf` still stops at the first NUL.
#define PATCHBAY_STR(str) (int)((str).len | 0x40000000), (str).ptr

// Wraps a C string without copying it.
patchbay_str patchbay_cstr(const char *text);
bool patchbay_equal(patchbay_str text, const char *other);
// Reports whether the text is empty or only Unicode white space.
bool patchbay_is_blank(patchbay_str text);

typedef struct {
  const char *name;
  const char *value;
} patchbay_pair;

// ---- Tools

typedef struct patchbay_value patchbay_value;

// Runs a tool. Returns true once it has added its results, false if the call failed.
typedef bool patchbay_run(patchbay_call *call, patchbay_value input);

typedef struct {
  const char *name;         // a-z, 0-9, '_' and '-', at most 64 characters
  const char *description;  // what it does and when to use it: models choose by this
  const char *schema;       // JSON Schema of the input object, which the host checks; NULL: no input
  patchbay_run *run;
  patchbay_pair extra[12];  // annotations such as {"read-only", "true"}; wit/deps/skill/skill.wit lists the names
} patchbay_tool;

extern const patchbay_tool patchbay_tools[];
extern const size_t patchbay_tool_count;

// Defines the skill's tools. Use it once, at file scope.
#define PATCHBAY_TOOLS(...)                         \
  const patchbay_tool patchbay_tools[] = {__VA_ARGS__}; \
  const size_t patchbay_tool_count = sizeof patchbay_tools / sizeof *patchbay_tools;

// Turns JSON into a string literal, so a schema needs no escaped quotes.
#define PATCHBAY_SCHEMA(...) #__VA_ARGS__

// ---- Results. A call can add several; a model sees them in order.

bool patchbay_text(patchbay_call *call, patchbay_str text);
// Like printf, of any length. Insert a `patchbay_str` with `%.*s` and PATCHBAY_STR.
bool patchbay_textf(patchbay_call *call, const char *format, ...) PATCHBAY_PRINTF(2, 3);
// Adds one JSON value, and fails if it is not valid JSON. `patchbay_quote` makes strings safe to insert.
bool patchbay_json(patchbay_call *call, patchbay_str json);
bool patchbay_jsonf(patchbay_call *call, const char *format, ...) PATCHBAY_PRINTF(2, 3);
bool patchbay_blob(patchbay_call *call, const char *media_type, patchbay_str bytes);
// Links a workspace file by its relative path.
bool patchbay_link(patchbay_call *call, const char *path, const char *media_type);

// ---- Failures

// Records why the call failed and returns false. `kind` is a stable word: "invalid-input", "unavailable", "failed" or one of
// your own. The message says what is wrong and what to do.
bool patchbay_fail(patchbay_call *call, const char *kind, const char *format, ...) PATCHBAY_PRINTF(3, 4) PATCHBAY_CHECK;
// Kind and message of the last failure; both are empty before the first.
patchbay_str patchbay_failure_kind(const patchbay_call *call);
patchbay_str patchbay_failure_message(const patchbay_call *call);

// ---- Memory and text

// Allocates zeroed memory that lives as long as the call. Never returns NULL: running out of memory ends the call.
void *patchbay_alloc(size_t size);
// Frees memory early. Only worth it in a loop over many large files or responses.
void patchbay_release(patchbay_str text);
// Formats into new memory, as `patchbay_textf` does.
patchbay_str patchbay_format(const char *format, ...) PATCHBAY_PRINTF(1, 2);
// Returns the text as a JSON string, quotes included.
patchbay_str patchbay_quote(patchbay_str text);
// Returns the shortest JSON number that reads back as the same double; `null` for NaN and infinities.
patchbay_str patchbay_number(double number);

// A string that grows. Start with `patchbay_buffer out = {0};` and read `out.text`.
typedef struct {
  patchbay_str text;
  size_t capacity;
} patchbay_buffer;

void patchbay_add(patchbay_buffer *to, patchbay_str text);
void patchbay_addf(patchbay_buffer *to, const char *format, ...) PATCHBAY_PRINTF(2, 3);

// ---- JSON input

typedef enum {
  PATCHBAY_ABSENT,
  PATCHBAY_NULL,
  PATCHBAY_BOOL,
  PATCHBAY_NUMBER,
  PATCHBAY_STRING,
  PATCHBAY_ARRAY,
  PATCHBAY_OBJECT,
} patchbay_kind;

// A value inside a JSON document that was checked as a whole: nested at most 128 deep, valid UTF-8, no lone surrogates.
struct patchbay_value {
  patchbay_call *call;
  const char *at;     // NULL if there is no such value
  patchbay_str key;   // its name in the object it came from
  const char *blame;  // the kind of the failure if it has the wrong type
};

// Parses JSON, such as an HTTP body. Fails with the kind "invalid-json" and the position of the mistake.
bool patchbay_parse(patchbay_call *call, patchbay_str json, patchbay_value *value) PATCHBAY_CHECK;
patchbay_kind patchbay_kind_of(patchbay_value value);
// Returns a member of an object, or an absent value. If the name occurs twice, the last one counts.
patchbay_value patchbay_member(patchbay_value object, const char *name);
// Iterates over an array or object; `key` names the members of an object:
//   for (patchbay_value item = patchbay_first(list); item.at; item = patchbay_next(item)) …
patchbay_value patchbay_first(patchbay_value list);
patchbay_value patchbay_next(patchbay_value item);
// Returns the JSON source of a value.
patchbay_str patchbay_raw(patchbay_value value);

// Each reads the member `name` of an object or, if `name` is NULL, the value itself. They fail if it is absent or has another
// type: with "invalid-input" in a tool's input, with "invalid-json" in JSON that you parsed.
bool patchbay_get_string(patchbay_value from, const char *name, patchbay_str *out) PATCHBAY_CHECK;
bool patchbay_get_int(patchbay_value from, const char *name, int64_t *out) PATCHBAY_CHECK;  // also 1.0 and 1e3, exactly
bool patchbay_get_double(patchbay_value from, const char *name, double *out) PATCHBAY_CHECK;
bool patchbay_get_bool(patchbay_value from, const char *name, bool *out) PATCHBAY_CHECK;
bool patchbay_get_array(patchbay_value from, const char *name, patchbay_value *out) PATCHBAY_CHECK;
bool patchbay_get_object(patchbay_value from, const char *name, patchbay_value *out) PATCHBAY_CHECK;

// The same for optional members: if the member is absent or null, `*out` keeps its value.
bool patchbay_opt_string(patchbay_value from, const char *name, patchbay_str *out) PATCHBAY_CHECK;
bool patchbay_opt_int(patchbay_value from, const char *name, int64_t *out) PATCHBAY_CHECK;
bool patchbay_opt_double(patchbay_value from, const char *name, double *out) PATCHBAY_CHECK;
bool patchbay_opt_bool(patchbay_value from, const char *name, bool *out) PATCHBAY_CHECK;

typedef struct {
  patchbay_str media_type;
  patchbay_str data;
} patchbay_attachment;

// The files attached to the call.
const patchbay_attachment *patchbay_attachments(const patchbay_call *call, size_t *count);

// ---- The host. Each of these needs a capability in SKILL.md and its grant, except for the log, progress and the skill's files.

typedef enum { PATCHBAY_DEBUG, PATCHBAY_INFO, PATCHBAY_WARN, PATCHBAY_ERROR } patchbay_level;

// Writes a line to the operator's log; models never see it. `printf` also ends up there, line by line.
void patchbay_log(patchbay_level level, const char *format, ...) PATCHBAY_PRINTF(2, 3);
// Shows partial output while the tool runs.
void patchbay_progress(const char *format, ...) PATCHBAY_PRINTF(1, 2);

// The skill's own store. Capability: kv.
typedef enum { PATCHBAY_SESSION, PATCHBAY_WORKSPACE, PATCHBAY_USER } patchbay_scope;

// Reads a key. A key that does not exist is a success with `value->ptr` NULL and version 0. `version` may be NULL.
bool patchbay_kv_get(patchbay_call *call, patchbay_scope scope, const char *key, patchbay_str *value, uint64_t *version) PATCHBAY_CHECK;
bool patchbay_kv_put(patchbay_call *call, patchbay_scope scope, const char *key, patchbay_str value) PATCHBAY_CHECK;
// Stores only if the key still has the version `expect` (0: does not exist); otherwise fails with the kind "conflict".
bool patchbay_kv_replace(patchbay_call *call, patchbay_scope scope, const char *key, patchbay_str value, uint64_t expect,
                         uint64_t *version) PATCHBAY_CHECK;
// `existed` may be NULL.
bool patchbay_kv_delete(patchbay_call *call, patchbay_scope scope, const char *key, bool *existed) PATCHBAY_CHECK;

typedef struct {
  patchbay_str *ptr;
  size_t len;
} patchbay_strings;

// Lists at most `limit` keys with the prefix, sorted, that follow `after` (NULL: from the start).
bool patchbay_kv_keys(patchbay_call *call, patchbay_scope scope, const char *prefix, const char *after, uint32_t limit,
                      patchbay_strings *keys) PATCHBAY_CHECK;

// An HTTP request. Only `url` is required. Capability: http:HOST, and credential:NAME if it uses one.
typedef struct {
  const char *url;
  const char *method;         // NULL: GET, or POST with a body
  patchbay_pair headers[16];  // up to the first without a name
  patchbay_str body;          // `ptr` NULL: none
  uint32_t timeout_ms;        // 0: the remaining time of the call
  // The host inserts the secret of this name when it sends the request; the skill never sees it. By default it goes into
  // `authorization: Bearer SECRET`. Set `header` (and `prefix`) to use another header, or `query` for a query parameter.
  struct {
    const char *credential;
    const char *header;
    const char *prefix;
    const char *query;
  } auth;
} patchbay_request;

typedef struct {
  patchbay_str name;
  patchbay_str value;
} patchbay_header;

// Any status is a success, including 404 and 500, and redirects are not followed.
typedef struct {
  uint16_t status;
  patchbay_str body;
  patchbay_header *headers;
  size_t header_count;
} patchbay_response;

bool patchbay_http(patchbay_call *call, const patchbay_request *request, patchbay_response *response) PATCHBAY_CHECK;
// Returns a header's value by its name in any case; `ptr` is NULL if the response does not have it.
patchbay_str patchbay_response_header(const patchbay_response *response, const char *name);

typedef struct {
  patchbay_str path;
  bool is_directory;
  uint64_t size;
} patchbay_entry;

typedef struct {
  patchbay_entry *ptr;
  size_t len;
} patchbay_entries;

// Files of the workspace, by relative path. Capabilities: workspace-read, workspace-write, workspace-delete.
bool patchbay_read(patchbay_call *call, const char *path, uint64_t offset, uint32_t max, patchbay_str *contents) PATCHBAY_CHECK;
// Lists at most `limit` entries that match the glob and follow `after` (NULL: from the start). An empty list is the end.
bool patchbay_walk(patchbay_call *call, const char *glob, const char *after, uint32_t limit, patchbay_entries *entries) PATCHBAY_CHECK;
// Replaces the whole file, atomically.
bool patchbay_write(patchbay_call *call, const char *path, patchbay_str contents) PATCHBAY_CHECK;
bool patchbay_delete(patchbay_call *call, const char *path) PATCHBAY_CHECK;
// Reads a file of the skill itself, such as a template beside SKILL.md. Always granted.
bool patchbay_read_skill_file(patchbay_call *call, const char *path, uint64_t offset, uint32_t max, patchbay_str *contents) PATCHBAY_CHECK;

// One completion by the model of the agent that runs the tool. Capability: inference.
bool patchbay_complete(patchbay_call *call, const char *system, const char *prompt, patchbay_str *answer) PATCHBAY_CHECK;
// Calls another tool by its full name, SKILL__TOOL, with a JSON object. Capability: tools.
bool patchbay_call_tool(patchbay_call *call, const char *tool, const char *input, patchbay_str *answer) PATCHBAY_CHECK;

// For the generated functions of "plugin.h": records an error of the host and returns false. Every `…_error_t` of the host is
// this type.
struct patchbay_host_types_error_t;
bool patchbay_pass(patchbay_call *call, const struct patchbay_host_types_error_t *error) PATCHBAY_CHECK;
// Expands to a `plugin_string_t` that borrows a C string.
#define patchbay_borrow(text) ((plugin_string_t){(uint8_t *)(text), __builtin_strlen(text)})

#ifdef __cplusplus
}
#endif
