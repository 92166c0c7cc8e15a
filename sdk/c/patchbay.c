// The implementation of patchbay.h. The first part is plain C and also compiles natively, for tests; the second part connects
// it to the bindings that wit-bindgen generates for the world `plugin`.
#include "patchbay.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  enum { TEXT, JSON, BLOB, LINK } tag;
  patchbay_str first;   // the text, or the media type, or the path
  patchbay_str second;  // the bytes, or the link's media type
} content;

struct patchbay_call {
  patchbay_str failure_kind;
  patchbay_str failure_message;
  content *contents;
  size_t count;
  patchbay_attachment *attachments;
  size_t attachment_count;
};

enum { MAX_DEPTH = 128, EXACT = 0x40000000 };

static void out_of_memory(void);

// ---- Memory and text

static void *resize(void *memory, size_t size) {
  void *at = realloc(memory, size);
  if (!at) {
    out_of_memory();
    __builtin_trap();
  }
  return at;
}

void *patchbay_alloc(size_t size) { return memset(resize(NULL, size ? size : 1), 0, size); }

void patchbay_release(patchbay_str text) { free((char *)text.ptr); }

static patchbay_str copy(patchbay_str text) {
  char *to = patchbay_alloc(text.len + 1);
  if (text.len) memcpy(to, text.ptr, text.len);
  return (patchbay_str){to, text.len};
}

patchbay_str patchbay_cstr(const char *text) { return (patchbay_str){text, text ? strlen(text) : 0}; }

bool patchbay_equal(patchbay_str text, const char *other) {
  return text.len == strlen(other) && memcmp(text.ptr, other, text.len) == 0;
}

// Returns the length of the UTF-8 sequence at `at`, or 0 if it is not valid.
static size_t sequence(const char *at, const char *end) {
  const unsigned char *byte = (const unsigned char *)at;
  size_t length = byte[0] < 0x80 ? 1 : byte[0] < 0xC2 ? 0 : byte[0] < 0xE0 ? 2 : byte[0] < 0xF0 ? 3 : byte[0] < 0xF5 ? 4 : 0;
  if (length > (size_t)(end - at)) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((byte[i] & 0xC0) != 0x80) return 0;
  }
  if (byte[0] == 0xE0 && byte[1] < 0xA0) return 0;   // longer than needed
  if (byte[0] == 0xED && byte[1] >= 0xA0) return 0;  // surrogates
  if (byte[0] == 0xF0 && byte[1] < 0x90) return 0;   // longer than needed
  if (byte[0] == 0xF4 && byte[1] >= 0x90) return 0;  // above U+10FFFF
  return length;
}

// Returns the position of the first byte that is not UTF-8, or the length of the text.
static size_t utf8_end(patchbay_str text) {
  size_t at = 0;
  while (at < text.len) {
    size_t length = sequence(text.ptr + at, text.ptr + text.len);
    if (!length) break;
    at += length;
  }
  return at;
}

bool patchbay_is_blank(patchbay_str text) {
  for (size_t at = 0; at < text.len;) {
    const unsigned char *byte = (const unsigned char *)text.ptr + at;
    size_t length = sequence(text.ptr + at, text.ptr + text.len);
    uint32_t code = byte[0];
    if (length == 2) code = (byte[0] & 0x1Fu) << 6 | (byte[1] & 0x3Fu);
    if (length == 3) code = (byte[0] & 0x0Fu) << 12 | (byte[1] & 0x3Fu) << 6 | (byte[2] & 0x3Fu);
    bool space = code == ' ' || (code >= '\t' && code <= '\r') || code == 0x85 || code == 0xA0 || code == 0x1680 ||
                 (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
                 code == 0x205F || code == 0x3000;
    if (!space || !length || length == 4) return false;
    at += length;
  }
  return true;
}

static char *reserve(patchbay_buffer *to, size_t more) {
  size_t needed = to->text.len + more + 1;
  if (needed > to->capacity) {
    to->capacity = needed < 64 ? 64 : needed + needed / 2;
    to->text.ptr = resize((char *)to->text.ptr, to->capacity);
  }
  return (char *)to->text.ptr + to->text.len;
}

void patchbay_add(patchbay_buffer *to, patchbay_str text) {
  char *at = reserve(to, text.len);
  if (text.len) memcpy(at, text.ptr, text.len);
  at[text.len] = 0;
  to->text.len += text.len;
}

// One conversion such as `%-8.3f`, with the widths of `*` filled in.
typedef struct {
  char flags[8];
  int width;
  int precision;  // negative: none
  char length[3];
  char conversion;
} directive;

static const char *parse_number(const char *format, int *number, va_list *arguments) {
  if (*format == '*') {
    *number = va_arg(*arguments, int);
    return format + 1;
  }
  *number = 0;
  while (*format >= '0' && *format <= '9' && *number < 100000) *number = *number * 10 + (*format++ - '0');
  return format;
}

static const char *parse_directive(const char *format, directive *out, va_list *arguments) {
  *out = (directive){.precision = -1};
  for (size_t n = 0; *format && strchr("-+ #0", *format); format++) {
    if (n + 2 < sizeof out->flags) out->flags[n++] = *format;
  }
  format = parse_number(format, &out->width, arguments);
  if (*format == '.') format = parse_number(format + 1, &out->precision, arguments);
  for (size_t n = 0; *format && strchr("hljztL", *format); format++) {
    if (n + 1 < sizeof out->length) out->length[n++] = *format;
  }
  out->conversion = *format;
  return *format ? format + 1 : format;
}

static void add_string(patchbay_buffer *to, const directive *how, const char *text) {
  if (!text) text = "(null)";
  size_t length;
  if (how->precision < 0) length = strlen(text);
  else if (how->precision >= EXACT) length = (size_t)(how->precision - EXACT);
  else {
    const char *end = memchr(text, 0, (size_t)how->precision);
    length = end ? (size_t)(end - text) : (size_t)how->precision;
  }
  bool left = how->width < 0 || strchr(how->flags, '-');
  size_t width = (size_t)(how->width < 0 ? -how->width : how->width);
  size_t padding = width > length ? width - length : 0;
  for (size_t n = left ? 0 : padding; n; n--) patchbay_add(to, patchbay_cstr(" "));
  patchbay_add(to, (patchbay_str){text, length});
  for (size_t n = left ? padding : 0; n; n--) patchbay_add(to, patchbay_cstr(" "));
}

static void add_formatted(patchbay_buffer *to, const char *format, va_list list) {
  va_list arguments;
  va_copy(arguments, list);
  while (*format) {
    size_t plain = strcspn(format, "%");
    patchbay_add(to, (patchbay_str){format, plain});
    format += plain;
    if (!*format) break;
    directive how;
    format = parse_directive(format + 1, &how, &arguments);
    if (how.conversion == '%') {
      patchbay_add(to, patchbay_cstr("%"));
      continue;
    }
    if (how.conversion == 's') {
      add_string(to, &how, va_arg(arguments, const char *));
      continue;
    }
    // snprintf does everything else, one conversion at a time.
    char one[32];
    snprintf(one, sizeof one, how.precision < 0 ? "%%%s*%s%c" : "%%%s*.*%s%c", how.flags, how.length, how.conversion);
#define EMIT(type)                                                                             \
  do {                                                                                         \
    type value = va_arg(arguments, type);                                                      \
    int size = how.precision < 0 ? snprintf(NULL, 0, one, how.width, value)                    \
                                 : snprintf(NULL, 0, one, how.width, how.precision, value);    \
    if (size < 0) break;                                                                       \
    char *at = reserve(to, (size_t)size);                                                      \
    if (how.precision < 0) snprintf(at, (size_t)size + 1, one, how.width, value);              \
    else snprintf(at, (size_t)size + 1, one, how.width, how.precision, value);                 \
    to->text.len += (size_t)size;                                                              \
  } while (0)
    if (how.conversion && strchr("diouxXc", how.conversion)) {
      char first = how.length[0], second = how.length[1];
      if ((first == 'l' && second == 'l') || first == 'j') EMIT(long long);
      else if (first == 'l' || first == 'z' || first == 't') EMIT(long);
      else EMIT(int);
    } else if (how.conversion && strchr("aAeEfFgG", how.conversion)) {
      if (how.length[0] == 'L') EMIT(long double);
      else EMIT(double);
    } else if (how.conversion == 'p') {
      EMIT(void *);
    }
#undef EMIT
  }
  va_end(arguments);
}

void patchbay_addf(patchbay_buffer *to, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  add_formatted(to, format, arguments);
  va_end(arguments);
}

static patchbay_str formatted(const char *format, va_list arguments) {
  patchbay_buffer out = {0};
  reserve(&out, 0)[0] = 0;
  add_formatted(&out, format, arguments);
  return out.text;
}

patchbay_str patchbay_format(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  patchbay_str text = formatted(format, arguments);
  va_end(arguments);
  return text;
}

// Returns the text with every byte that is not UTF-8 replaced by U+FFFD.
static patchbay_str readable(patchbay_str text) {
  if (utf8_end(text) == text.len) return text;
  patchbay_buffer out = {0};
  for (;;) {
    size_t valid = utf8_end(text);
    patchbay_add(&out, (patchbay_str){text.ptr, valid});
    if (valid == text.len) return out.text;
    patchbay_add(&out, patchbay_cstr("\xEF\xBF\xBD"));
    text = (patchbay_str){text.ptr + valid + 1, text.len - valid - 1};
  }
}

patchbay_str patchbay_quote(patchbay_str text) {
  patchbay_buffer out = {0};
  text = readable(text);
  patchbay_add(&out, patchbay_cstr("\""));
  for (size_t at = 0; at < text.len;) {
    size_t plain = at;
    while (plain < text.len && (unsigned char)text.ptr[plain] >= 0x20 && text.ptr[plain] != '"' && text.ptr[plain] != '\\') plain++;
    patchbay_add(&out, (patchbay_str){text.ptr + at, plain - at});
    if (plain == text.len) break;
    static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char byte = text.ptr[plain], escaped[7] = {'\\', 0};
    for (const char *escape = escapes; *escape; escape += 2) {
      if (*escape == byte) escaped[1] = escape[1];
    }
    if (!escaped[1]) snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)(unsigned char)byte);
    patchbay_add(&out, patchbay_cstr(escaped));
    at = plain + 1;
  }
  patchbay_add(&out, patchbay_cstr("\""));
  return out.text;
}

patchbay_str patchbay_number(double number) {
  if (number != number || number - number != 0) return copy(patchbay_cstr("null"));
  char text[32];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, number);
    if (strtod(text, NULL) == number) break;
  }
  return copy(patchbay_cstr(text));
}

// ---- Failures and results

static bool fail(patchbay_call *call, const char *kind, patchbay_str message) {
  call->failure_kind = readable(patchbay_cstr(kind));
  call->failure_message = readable(message);
  return false;
}

bool patchbay_fail(patchbay_call *call, const char *kind, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  patchbay_str message = formatted(format, arguments);
  va_end(arguments);
  return fail(call, kind, message);
}

patchbay_str patchbay_failure_kind(const patchbay_call *call) { return call->failure_kind; }
patchbay_str patchbay_failure_message(const patchbay_call *call) { return call->failure_message; }

const patchbay_attachment *patchbay_attachments(const patchbay_call *call, size_t *count) {
  *count = call->attachment_count;
  return call->attachments;
}

// Fails if `text` cannot be passed to the host as a string.
static bool check_text(patchbay_call *call, const char *what, patchbay_str text) {
  if (!text.ptr && text.len == 0) return patchbay_fail(call, "failed", "%s is NULL", what);
  size_t end = utf8_end(text);
  if (end == text.len) return true;
  return patchbay_fail(call, "failed", "%s is not UTF-8: byte 0x%02X at %zu", what, (unsigned)(unsigned char)text.ptr[end], end);
}

static bool add_content(patchbay_call *call, content added) {
  // Doubles at each power of two.
  if ((call->count & (call->count - 1)) == 0) {
    call->contents = resize(call->contents, (call->count ? call->count * 2 : 1) * sizeof *call->contents);
  }
  call->contents[call->count++] = added;
  return true;
}

static bool add_text(patchbay_call *call, patchbay_str owned) {
  return check_text(call, "the text of the result", owned) && add_content(call, (content){.tag = TEXT, .first = owned});
}

bool patchbay_text(patchbay_call *call, patchbay_str text) { return add_text(call, text.ptr ? copy(text) : text); }

bool patchbay_textf(patchbay_call *call, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  patchbay_str text = formatted(format, arguments);
  va_end(arguments);
  return add_text(call, text);
}

bool patchbay_blob(patchbay_call *call, const char *media_type, patchbay_str bytes) {
  if (!check_text(call, "the media type", patchbay_cstr(media_type))) return false;
  return add_content(call, (content){.tag = BLOB, .first = copy(patchbay_cstr(media_type)), .second = copy(bytes)});
}

bool patchbay_link(patchbay_call *call, const char *path, const char *media_type) {
  if (!check_text(call, "the path", patchbay_cstr(path)) || !check_text(call, "the media type", patchbay_cstr(media_type))) return false;
  return add_content(call, (content){.tag = LINK, .first = copy(patchbay_cstr(path)), .second = copy(patchbay_cstr(media_type))});
}

// ---- JSON: the input is checked once, from start to end; all later code can trust it.

typedef struct {
  const char *start;
  const char *at;
  const char *end;
  const char *wrong;
} checker;

static bool wrong(checker *in, const char *why) {
  in->wrong = why;
  return false;
}

static bool is_space(char byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }
static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

static const char *skip_space(const char *at) {
  while (is_space(*at)) at++;
  return at;
}

// The input ends in a NUL byte, which no rule accepts, so reading `*in->at` is always allowed.
static void check_space(checker *in) { in->at = skip_space(in->at); }

static int hex_digit(char byte) {
  if (is_digit(byte)) return byte - '0';
  char lower = byte | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Reads four hex digits; returns -1 if there is anything else.
static int32_t code_unit(const char *at) {
  int32_t unit = 0;
  for (int i = 0; i < 4; i++) {
    int digit = hex_digit(at[i]);
    if (digit < 0) return -1;
    unit = unit << 4 | digit;
  }
  return unit;
}

static bool check_escape(checker *in) {
  char byte = in->at[1];
  if (byte != 'u') {
    if (!byte || !strchr("\"\\/bfnrt", byte)) return wrong(in, "unknown escape");
    in->at += 2;
    return true;
  }
  int32_t unit = code_unit(in->at + 2);
  if (unit < 0) return wrong(in, "expected four hex digits after '\\u'");
  if (unit >= 0xD800 && unit <= 0xDFFF) {
    if (unit >= 0xDC00 || in->at[6] != '\\' || in->at[7] != 'u') return wrong(in, "lone surrogate");
    int32_t low = code_unit(in->at + 8);
    if (low < 0xDC00 || low > 0xDFFF) return wrong(in, "lone surrogate");
    in->at += 6;
  }
  in->at += 6;
  return true;
}

static bool check_string(checker *in) {
  if (*in->at != '"') return wrong(in, "expected a string");
  in->at++;
  while (*in->at != '"') {
    if (in->at == in->end) return wrong(in, "the string does not end");
    if ((unsigned char)*in->at < 0x20) return wrong(in, "control character in a string");
    if (*in->at == '\\') {
      if (!check_escape(in)) return false;
      continue;
    }
    size_t length = sequence(in->at, in->end);
    if (!length) return wrong(in, "not UTF-8");
    in->at += length;
  }
  in->at++;
  return true;
}

static bool check_digits(checker *in) {
  if (!is_digit(*in->at)) return wrong(in, "expected a digit");
  while (is_digit(*in->at)) in->at++;
  return true;
}

static bool check_number(checker *in) {
  if (*in->at == '-') in->at++;
  if (*in->at == '0') in->at++;
  else if (!check_digits(in)) return false;
  if (*in->at == '.') {
    in->at++;
    if (!check_digits(in)) return false;
  }
  if ((*in->at | 0x20) == 'e') {
    in->at++;
    if (*in->at == '+' || *in->at == '-') in->at++;
    if (!check_digits(in)) return false;
  }
  return true;
}

static bool check_word(checker *in, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(in->end - in->at) < length || memcmp(in->at, word, length) != 0) return wrong(in, "expected a value");
  in->at += length;
  return true;
}

static bool check_scalar(checker *in) {
  switch (*in->at) {
    case '"': return check_string(in);
    case 't': return check_word(in, "true");
    case 'f': return check_word(in, "false");
    case 'n': return check_word(in, "null");
    default: return *in->at == '-' || is_digit(*in->at) ? check_number(in) : wrong(in, "expected a value");
  }
}

static bool check_key(checker *in) {
  check_space(in);
  if (!check_string(in)) return false;
  check_space(in);
  if (*in->at != ':') return wrong(in, "expected ':'");
  in->at++;
  return true;
}

// Not recursive, because the stack usage must not depend on how deeply the input is nested.
static bool check_json(checker *in) {
  char closing[MAX_DEPTH];
  size_t depth = 0;
  for (;;) {
    check_space(in);
    if (*in->at == '{' || *in->at == '[') {
      if (depth == MAX_DEPTH) return wrong(in, "nested too deep");
      closing[depth++] = *in->at == '{' ? '}' : ']';
      in->at++;
      check_space(in);
      if (*in->at != closing[depth - 1]) {
        if (closing[depth - 1] == '}' && !check_key(in)) return false;
        continue;
      }
    } else if (!check_scalar(in)) {
      return false;
    }
    // A value has ended, or an empty container is about to.
    for (;;) {
      check_space(in);
      if (!depth) return in->at == in->end || wrong(in, "expected the end of the text");
      if (*in->at != closing[depth - 1]) break;
      depth--;
      in->at++;
    }
    if (*in->at != ',') return wrong(in, closing[depth - 1] == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    in->at++;
    if (closing[depth - 1] == '}' && !check_key(in)) return false;
  }
}

// Checks JSON that ends in a NUL byte. Fails with the position of the mistake.
static bool check(patchbay_call *call, const char *kind, const char *what, patchbay_str json, const char *advice) {
  checker in = {json.ptr, json.ptr, json.ptr + json.len, NULL};
  if (check_json(&in)) return true;
  return patchbay_fail(call, kind, "%s is not JSON: %s at byte %zu%s", what, in.wrong, (size_t)(in.at - in.start), advice);
}

bool patchbay_parse(patchbay_call *call, patchbay_str json, patchbay_value *value) {
  json = copy(json);
  if (!check(call, "invalid-json", "the text", json, "")) return false;
  *value = (patchbay_value){.call = call, .at = skip_space(json.ptr), .blame = "invalid-json"};
  return true;
}

static bool add_json(patchbay_call *call, patchbay_str owned) {
  const char *advice = "; insert texts with patchbay_quote and numbers with patchbay_number";
  return check(call, "failed", "the result", owned, advice) && add_content(call, (content){.tag = JSON, .first = owned});
}

bool patchbay_json(patchbay_call *call, patchbay_str json) { return add_json(call, copy(json)); }

bool patchbay_jsonf(patchbay_call *call, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  patchbay_str json = formatted(format, arguments);
  va_end(arguments);
  return add_json(call, json);
}

patchbay_kind patchbay_kind_of(patchbay_value value) {
  if (!value.at) return PATCHBAY_ABSENT;
  switch (*value.at) {
    case 'n': return PATCHBAY_NULL;
    case 't':
    case 'f': return PATCHBAY_BOOL;
    case '"': return PATCHBAY_STRING;
    case '[': return PATCHBAY_ARRAY;
    case '{': return PATCHBAY_OBJECT;
    default: return PATCHBAY_NUMBER;
  }
}

static const char *skip_string(const char *at) {
  for (at++; *at != '"'; at++) {
    if (*at == '\\') at++;
  }
  return at + 1;
}

static const char *skip_value(const char *at) {
  size_t depth = 0;
  do {
    if (*at == '"') {
      at = skip_string(at);
    } else if (*at == '{' || *at == '[') {
      depth++;
      at++;
    } else if (*at == '}' || *at == ']') {
      depth--;
      at++;
    } else if (*at == ',' || *at == ':' || is_space(*at)) {
      at++;
    } else {
      while (*at && !is_space(*at) && *at != ',' && *at != ']' && *at != '}') at++;
    }
  } while (depth);
  return at;
}

static char *encode(char *to, uint32_t code) {
  if (code < 0x80) {
    *to++ = (char)code;
    return to;
  }
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const unsigned lead[] = {0, 0xC0, 0xE0, 0xF0};
  *to++ = (char)(lead[more] | code >> (6 * more));
  while (more-- > 0) *to++ = (char)(0x80 | (code >> (6 * more) & 0x3F));
  return to;
}

// Decodes the string that begins with the quote at `at`.
static patchbay_str decode(const char *at) {
  const char *end = skip_string(at++) - 1;
  // A string is never longer than its JSON.
  char *start = patchbay_alloc((size_t)(end - at) + 1), *to = start;
  while (at < end) {
    if (*at != '\\') {
      *to++ = *at++;
      continue;
    }
    char escape = at[1];
    at += 2;
    switch (escape) {
      case 'b': *to++ = '\b'; break;
      case 'f': *to++ = '\f'; break;
      case 'n': *to++ = '\n'; break;
      case 'r': *to++ = '\r'; break;
      case 't': *to++ = '\t'; break;
      case 'u': {
        uint32_t code = (uint32_t)code_unit(at);
        at += 4;
        if (code >= 0xD800 && code <= 0xDFFF) {
          code = 0x10000 + ((code - 0xD800) << 10) + ((uint32_t)code_unit(at + 2) - 0xDC00);
          at += 6;
        }
        to = encode(to, code);
        break;
      }
      default: *to++ = escape;
    }
  }
  return (patchbay_str){start, (size_t)(to - start)};
}

// Returns the value that begins at `at`. In an object, `at` is the position of its key.
static patchbay_value element(patchbay_value from, const char *at, bool keyed) {
  patchbay_value item = {.call = from.call, .blame = from.blame};
  at = skip_space(at);
  if (*at == ']' || *at == '}') return item;
  if (keyed) {
    item.key = decode(at);
    at = skip_space(skip_space(skip_string(at)) + 1);
  }
  item.at = at;
  return item;
}

patchbay_value patchbay_first(patchbay_value list) {
  patchbay_kind kind = patchbay_kind_of(list);
  if (kind != PATCHBAY_ARRAY && kind != PATCHBAY_OBJECT) return (patchbay_value){.call = list.call, .blame = list.blame};
  return element(list, list.at + 1, kind == PATCHBAY_OBJECT);
}

patchbay_value patchbay_next(patchbay_value item) {
  patchbay_value none = {.call = item.call, .blame = item.blame};
  if (!item.at) return none;
  const char *at = skip_space(skip_value(item.at));
  return *at == ',' ? element(item, at + 1, item.key.ptr != NULL) : none;
}

static bool key_is(const char *at, patchbay_str name) {
  size_t length = (size_t)(skip_string(at) - at) - 2;
  if (memchr(at + 1, '\\', length)) {
    patchbay_str key = decode(at);
    bool same = key.len == name.len && memcmp(key.ptr, name.ptr, name.len) == 0;
    patchbay_release(key);
    return same;
  }
  return length == name.len && memcmp(at + 1, name.ptr, length) == 0;
}

patchbay_value patchbay_member(patchbay_value object, const char *name) {
  patchbay_value found = {.call = object.call, .key = patchbay_cstr(name), .blame = object.blame};
  if (patchbay_kind_of(object) != PATCHBAY_OBJECT) return found;
  const char *at = skip_space(object.at + 1);
  while (*at == '"') {
    bool same = key_is(at, found.key);
    at = skip_space(skip_space(skip_string(at)) + 1);
    if (same) found.at = at;
    at = skip_space(skip_value(at));
    if (*at == ',') at = skip_space(at + 1);
  }
  return found;
}

patchbay_str patchbay_raw(patchbay_value value) {
  if (!value.at) return (patchbay_str){"", 0};
  return copy((patchbay_str){value.at, (size_t)(skip_value(value.at) - value.at)});
}

static bool mismatch(patchbay_value value, const char *expected) {
  static const char *const kinds[] = {"missing", "null", "a boolean", "a number", "a string", "an array", "an object"};
  patchbay_kind kind = patchbay_kind_of(value);
  patchbay_str name = value.key.ptr ? patchbay_format("'%.*s'", PATCHBAY_STR(value.key)) : patchbay_cstr("the value");
  if (kind != PATCHBAY_NUMBER) return patchbay_fail(value.call, value.blame, "%.*s is %s; expected %s", PATCHBAY_STR(name), kinds[kind], expected);
  patchbay_str raw = patchbay_raw(value);
  return patchbay_fail(value.call, value.blame, "%.*s is %.40s; expected %s", PATCHBAY_STR(name), raw.ptr, expected);
}

static bool read_string(patchbay_value value, patchbay_str *out) {
  if (patchbay_kind_of(value) != PATCHBAY_STRING) return mismatch(value, "a string");
  *out = decode(value.at);
  return true;
}

static bool read_bool(patchbay_value value, bool *out) {
  if (patchbay_kind_of(value) != PATCHBAY_BOOL) return mismatch(value, "true or false");
  *out = *value.at == 't';
  return true;
}

static bool shift(uint64_t *mantissa, int digits) {
  while (digits-- > 0) {
    if (__builtin_mul_overflow(*mantissa, 10, mantissa)) return false;
  }
  return true;
}

// Reads a number without rounding. False if it is not an integer of 64 bits.
static bool exact_int(const char *at, int64_t *out) {
  bool negative = *at == '-', fraction = false;
  uint64_t mantissa = 0;
  int exponent = 0, zeros = 0, written = 0;
  for (at += negative; is_digit(*at) || *at == '.'; at++) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    exponent -= fraction;
    if (*at == '0') {
      zeros += mantissa != 0;
      continue;
    }
    if (!shift(&mantissa, zeros + 1) || __builtin_add_overflow(mantissa, (uint64_t)(*at - '0'), &mantissa)) return false;
    zeros = 0;
  }
  if ((*at | 0x20) == 'e') {
    bool below = at[1] == '-';
    at += 1 + (at[1] == '-' || at[1] == '+');
    for (; is_digit(*at); at++) written = written > 99999999 ? written : written * 10 + (*at - '0');
    if (below) written = -written;
  }
  exponent += zeros + written;
  if (mantissa && (exponent < 0 || !shift(&mantissa, exponent))) return false;
  if (mantissa > (uint64_t)INT64_MAX + negative) return false;
  *out = negative ? (int64_t)(0 - mantissa) : (int64_t)mantissa;
  return true;
}

static bool read_int(patchbay_value value, int64_t *out) {
  int64_t number;
  if (patchbay_kind_of(value) != PATCHBAY_NUMBER) return mismatch(value, "an integer");
  if (!exact_int(value.at, &number)) return mismatch(value, "an integer of 64 bits");
  *out = number;
  return true;
}

static bool read_double(patchbay_value value, double *out) {
  if (patchbay_kind_of(value) != PATCHBAY_NUMBER) return mismatch(value, "a number");
  double number = strtod(value.at, NULL);
  if (number - number != 0) return mismatch(value, "a number in the range of a double");
  *out = number;
  return true;
}

static patchbay_value select_value(patchbay_value from, const char *name) { return name ? patchbay_member(from, name) : from; }

static bool is_given(patchbay_value value) { return patchbay_kind_of(value) > PATCHBAY_NULL; }

#define READERS(type, kind)                                                                  \
  bool patchbay_get_##kind(patchbay_value from, const char *name, type *out) {               \
    return read_##kind(select_value(from, name), out);                                       \
  }                                                                                          \
  bool patchbay_opt_##kind(patchbay_value from, const char *name, type *out) {               \
    patchbay_value value = select_value(from, name);                                         \
    return !is_given(value) || read_##kind(value, out);                                      \
  }

READERS(patchbay_str, string)
READERS(int64_t, int)
READERS(double, double)
READERS(bool, bool)

bool patchbay_get_array(patchbay_value from, const char *name, patchbay_value *out) {
  *out = select_value(from, name);
  return patchbay_kind_of(*out) == PATCHBAY_ARRAY || mismatch(*out, "an array");
}

bool patchbay_get_object(patchbay_value from, const char *name, patchbay_value *out) {
  *out = select_value(from, name);
  return patchbay_kind_of(*out) == PATCHBAY_OBJECT || mismatch(*out, "an object");
}

#ifndef __wasm__

static void out_of_memory(void) { fputs("out of memory\n", stderr); }

#else

// ---- The host

#include "plugin.h"

// Memory for the host's arguments is allocated here, not by the generated function, to add a NUL byte at the end.
__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *memory, size_t old_size, size_t align, size_t new_size) {
  (void)old_size;
  (void)align;
  char *at = resize(memory, new_size + 1);
  at[new_size] = 0;
  return at;
}

static patchbay_str from_host(plugin_string_t text) { return text.len ? (patchbay_str){(char *)text.ptr, text.len} : (patchbay_str){"", 0}; }
static patchbay_str bytes_from_host(plugin_list_u8_t bytes) { return from_host((plugin_string_t){bytes.ptr, bytes.len}); }
static plugin_string_t to_host(patchbay_str text) { return (plugin_string_t){(uint8_t *)text.ptr, text.len}; }
static plugin_list_u8_t bytes_to_host(patchbay_str bytes) { return (plugin_list_u8_t){(uint8_t *)bytes.ptr, bytes.len}; }

static void log_text(patchbay_level level, patchbay_str text) {
  plugin_string_t line = to_host(text);
  patchbay_host_log_write((patchbay_host_log_level_t)level, &line);
}

static void out_of_memory(void) { log_text(PATCHBAY_ERROR, patchbay_cstr("out of memory")); }

void patchbay_log(patchbay_level level, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  patchbay_str text = formatted(format, arguments);
  va_end(arguments);
  log_text(level, readable(text));
  patchbay_release(text);
}

void patchbay_progress(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  patchbay_str text = formatted(format, arguments);
  va_end(arguments);
  plugin_string_t report = to_host(readable(text));
  patchbay_host_progress_report(&report);
  patchbay_release(text);
}

bool patchbay_pass(patchbay_call *call, const struct patchbay_host_types_error_t *error) {
  call->failure_kind = from_host(error->kind);
  call->failure_message = from_host(error->message);
  return false;
}

// Converts a C string to an argument, or fails.
static bool argument(patchbay_call *call, const char *what, const char *text, plugin_string_t *out) {
  patchbay_str checked = patchbay_cstr(text);
  *out = to_host(checked);
  return check_text(call, what, checked);
}

static bool optional_argument(patchbay_call *call, const char *what, const char *text, plugin_string_t *memory, plugin_string_t **out) {
  *out = text ? memory : NULL;
  return !text || argument(call, what, text, memory);
}

bool patchbay_kv_get(patchbay_call *call, patchbay_scope scope, const char *key, patchbay_str *value, uint64_t *version) {
  plugin_string_t name;
  patchbay_host_kv_option_entry_t entry;
  patchbay_host_kv_error_t error;
  if (!argument(call, "the key", key, &name)) return false;
  if (!patchbay_host_kv_get((patchbay_host_kv_scope_t)scope, &name, &entry, &error)) return patchbay_pass(call, &error);
  *value = entry.is_some ? bytes_from_host(entry.val.value) : (patchbay_str){NULL, 0};
  if (version) *version = entry.is_some ? entry.val.version : 0;
  return true;
}

static bool put(patchbay_call *call, patchbay_scope scope, const char *key, patchbay_str value, uint64_t *expect, uint64_t *version) {
  plugin_string_t name;
  plugin_list_u8_t bytes = bytes_to_host(value);
  uint64_t stored;
  patchbay_host_kv_error_t error;
  if (!argument(call, "the key", key, &name)) return false;
  if (!patchbay_host_kv_put((patchbay_host_kv_scope_t)scope, &name, &bytes, expect, &stored, &error)) return patchbay_pass(call, &error);
  if (version) *version = stored;
  return true;
}

bool patchbay_kv_put(patchbay_call *call, patchbay_scope scope, const char *key, patchbay_str value) {
  return put(call, scope, key, value, NULL, NULL);
}

bool patchbay_kv_replace(patchbay_call *call, patchbay_scope scope, const char *key, patchbay_str value, uint64_t expect,
                         uint64_t *version) {
  return put(call, scope, key, value, &expect, version);
}

bool patchbay_kv_delete(patchbay_call *call, patchbay_scope scope, const char *key, bool *existed) {
  plugin_string_t name;
  bool deleted;
  patchbay_host_kv_error_t error;
  if (!argument(call, "the key", key, &name)) return false;
  if (!patchbay_host_kv_delete((patchbay_host_kv_scope_t)scope, &name, &deleted, &error)) return patchbay_pass(call, &error);
  if (existed) *existed = deleted;
  return true;
}

bool patchbay_kv_keys(patchbay_call *call, patchbay_scope scope, const char *prefix, const char *after, uint32_t limit,
                      patchbay_strings *keys) {
  plugin_string_t start, memory, *position;
  plugin_list_string_t list;
  patchbay_host_kv_error_t error;
  if (!argument(call, "the prefix", prefix, &start)) return false;
  if (!optional_argument(call, "the key", after, &memory, &position)) return false;
  if (!patchbay_host_kv_keys((patchbay_host_kv_scope_t)scope, &start, position, limit, &list, &error)) return patchbay_pass(call, &error);
  *keys = (patchbay_strings){patchbay_alloc(list.len * sizeof *keys->ptr), list.len};
  for (size_t i = 0; i < list.len; i++) keys->ptr[i] = from_host(list.ptr[i]);
  return true;
}

static bool add_authentication(patchbay_call *call, const patchbay_request *from, patchbay_host_http_request_t *to) {
  if (!from->auth.credential) return true;
  patchbay_host_http_auth_t *auth = patchbay_alloc(sizeof *auth);
  to->auth.ptr = auth;
  to->auth.len = 1;
  if (!argument(call, "the credential's name", from->auth.credential, &auth->credential)) return false;
  if (from->auth.query) {
    auth->placement.tag = PATCHBAY_HOST_HTTP_PLACEMENT_QUERY;
    return argument(call, "the query parameter", from->auth.query, &auth->placement.val.query);
  }
  const char *header = from->auth.header ? from->auth.header : "authorization";
  const char *prefix = from->auth.prefix ? from->auth.prefix : from->auth.header ? "" : "Bearer ";
  auth->placement.tag = PATCHBAY_HOST_HTTP_PLACEMENT_HEADER;
  return argument(call, "the credential's header", header, &auth->placement.val.header.name) &&
         argument(call, "the credential's prefix", prefix, &auth->placement.val.header.value);
}

static bool add_headers(patchbay_call *call, const patchbay_request *from, patchbay_host_http_request_t *to) {
  enum { MOST = sizeof from->headers / sizeof *from->headers };
  to->headers.ptr = patchbay_alloc(MOST * sizeof *to->headers.ptr);
  for (size_t i = 0; i < MOST && from->headers[i].name; i++) {
    if (!argument(call, "a header's name", from->headers[i].name, &to->headers.ptr[i].name)) return false;
    if (!argument(call, "a header's value", from->headers[i].value, &to->headers.ptr[i].value)) return false;
    to->headers.len++;
  }
  return true;
}

bool patchbay_http(patchbay_call *call, const patchbay_request *request, patchbay_response *response) {
  patchbay_host_http_request_t to = {0};
  patchbay_host_http_response_t from;
  patchbay_host_http_error_t error;
  const char *method = request->method ? request->method : request->body.ptr ? "POST" : "GET";
  if (!argument(call, "the method", method, &to.method) || !argument(call, "the URL", request->url, &to.url)) return false;
  if (!add_headers(call, request, &to) || !add_authentication(call, request, &to)) return false;
  to.body = (plugin_option_list_u8_t){request->body.ptr != NULL, bytes_to_host(request->body)};
  to.timeout_ms = (plugin_option_u32_t){request->timeout_ms != 0, request->timeout_ms};
  if (!patchbay_host_http_send(&to, &from, &error)) return patchbay_pass(call, &error);
  *response = (patchbay_response){
      .status = from.status,
      .body = bytes_from_host(from.body),
      .headers = patchbay_alloc(from.headers.len * sizeof *response->headers),
      .header_count = from.headers.len,
  };
  for (size_t i = 0; i < from.headers.len; i++) {
    response->headers[i] = (patchbay_header){from_host(from.headers.ptr[i].name), from_host(from.headers.ptr[i].value)};
  }
  return true;
}

static bool same_header(patchbay_str name, const char *other) {
  if (name.len != strlen(other)) return false;
  for (size_t i = 0; i < name.len; i++) {
    char a = name.ptr[i], b = other[i];
    if (a >= 'A' && a <= 'Z') a |= 0x20;
    if (b >= 'A' && b <= 'Z') b |= 0x20;
    if (a != b) return false;
  }
  return true;
}

patchbay_str patchbay_response_header(const patchbay_response *response, const char *name) {
  for (size_t i = 0; i < response->header_count; i++) {
    if (same_header(response->headers[i].name, name)) return response->headers[i].value;
  }
  return (patchbay_str){NULL, 0};
}

bool patchbay_read(patchbay_call *call, const char *path, uint64_t offset, uint32_t max, patchbay_str *contents) {
  plugin_string_t name;
  plugin_list_u8_t bytes;
  patchbay_host_workspace_read_error_t error;
  if (!argument(call, "the path", path, &name)) return false;
  if (!patchbay_host_workspace_read_read(&name, offset, max, &bytes, &error)) return patchbay_pass(call, &error);
  *contents = bytes_from_host(bytes);
  return true;
}

bool patchbay_walk(patchbay_call *call, const char *glob, const char *after, uint32_t limit, patchbay_entries *entries) {
  plugin_string_t pattern, memory, *position;
  patchbay_host_workspace_read_list_entry_t list;
  patchbay_host_workspace_read_error_t error;
  if (!argument(call, "the glob", glob, &pattern)) return false;
  if (!optional_argument(call, "the path", after, &memory, &position)) return false;
  if (!patchbay_host_workspace_read_walk(&pattern, position, limit, &list, &error)) return patchbay_pass(call, &error);
  *entries = (patchbay_entries){patchbay_alloc(list.len * sizeof *entries->ptr), list.len};
  for (size_t i = 0; i < list.len; i++) {
    entries->ptr[i] = (patchbay_entry){from_host(list.ptr[i].path), list.ptr[i].is_directory, list.ptr[i].size};
  }
  return true;
}

bool patchbay_write(patchbay_call *call, const char *path, patchbay_str contents) {
  plugin_string_t name;
  plugin_list_u8_t bytes = bytes_to_host(contents);
  patchbay_host_workspace_write_error_t error;
  if (!argument(call, "the path", path, &name)) return false;
  return patchbay_host_workspace_write_write(&name, &bytes, &error) || patchbay_pass(call, &error);
}

bool patchbay_delete(patchbay_call *call, const char *path) {
  plugin_string_t name;
  patchbay_host_workspace_write_error_t error;
  if (!argument(call, "the path", path, &name)) return false;
  return patchbay_host_workspace_write_delete(&name, &error) || patchbay_pass(call, &error);
}

bool patchbay_read_skill_file(patchbay_call *call, const char *path, uint64_t offset, uint32_t max, patchbay_str *contents) {
  plugin_string_t name;
  plugin_list_u8_t bytes;
  patchbay_host_skill_files_error_t error;
  if (!argument(call, "the path", path, &name)) return false;
  if (!patchbay_host_skill_files_read(&name, offset, max, &bytes, &error)) return patchbay_pass(call, &error);
  *contents = bytes_from_host(bytes);
  return true;
}

bool patchbay_complete(patchbay_call *call, const char *system, const char *prompt, patchbay_str *answer) {
  plugin_string_t instructions, question, text;
  patchbay_host_inference_error_t error;
  if (!argument(call, "the system prompt", system, &instructions) || !argument(call, "the prompt", prompt, &question)) return false;
  if (!patchbay_host_inference_complete(&instructions, &question, &text, &error)) return patchbay_pass(call, &error);
  *answer = from_host(text);
  return true;
}

bool patchbay_call_tool(patchbay_call *call, const char *tool, const char *input, patchbay_str *answer) {
  plugin_string_t name, json, text;
  patchbay_host_tools_error_t error;
  if (!argument(call, "the tool's name", tool, &name) || !argument(call, "the tool's input", input, &json)) return false;
  if (!patchbay_host_tools_call(&name, &json, &text, &error)) return patchbay_pass(call, &error);
  *answer = from_host(text);
  return true;
}

// ---- The component's exports

// The bindings free what a component returns, so all of it is copied.
static plugin_string_t give(patchbay_str text) { return to_host(copy(text)); }

void exports_patchbay_skill_skill_tools(exports_patchbay_skill_skill_list_tool_t *ret) {
  static const char no_input[] = "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}";
  ret->len = patchbay_tool_count;
  ret->ptr = patchbay_alloc(ret->len * sizeof *ret->ptr);
  for (size_t i = 0; i < ret->len; i++) {
    const patchbay_tool *tool = &patchbay_tools[i];
    enum { MOST = sizeof tool->extra / sizeof *tool->extra };
    patchbay_skill_types_list_pair_t *extra = &ret->ptr[i].extra;
    ret->ptr[i].name = give(patchbay_cstr(tool->name));
    ret->ptr[i].description = give(patchbay_cstr(tool->description));
    ret->ptr[i].input_schema = give(patchbay_cstr(tool->schema ? tool->schema : no_input));
    extra->ptr = patchbay_alloc(MOST * sizeof *extra->ptr);
    while (extra->len < MOST && tool->extra[extra->len].name) {
      const patchbay_pair *pair = &tool->extra[extra->len];
      extra->ptr[extra->len++] = (patchbay_skill_types_pair_t){give(patchbay_cstr(pair->name)), give(patchbay_cstr(pair->value))};
    }
  }
}

static bool run_tool(patchbay_call *call, patchbay_str name, patchbay_str input) {
  for (size_t i = 0; i < patchbay_tool_count; i++) {
    const patchbay_tool *tool = &patchbay_tools[i];
    if (!tool->name || !patchbay_equal(name, tool->name)) continue;
    if (!tool->run) return patchbay_fail(call, "failed", "tool '%s' has no function: set .run in PATCHBAY_TOOLS", tool->name);
    if (!check(call, "invalid-input", "the input", input, "")) return false;
    patchbay_value value = {.call = call, .at = skip_space(input.ptr), .blame = "invalid-input"};
    if (tool->run(call, value)) return true;
    if (call->failure_kind.len) return false;
    return patchbay_fail(call, "failed", "tool '%s' returned false without a reason: return patchbay_fail(…) instead", tool->name);
  }
  return patchbay_fail(call, "unknown-tool", "this skill has no tool '%.*s'", PATCHBAY_STR(name));
}

static exports_patchbay_skill_skill_content_t export_content(const content *from) {
  exports_patchbay_skill_skill_content_t to = {.tag = PATCHBAY_SKILL_TYPES_CONTENT_TEXT};
  switch (from->tag) {
    case TEXT: to.val.text = to_host(from->first); break;
    case JSON:
      to.tag = PATCHBAY_SKILL_TYPES_CONTENT_JSON;
      to.val.json = to_host(from->first);
      break;
    case BLOB:
      to.tag = PATCHBAY_SKILL_TYPES_CONTENT_BLOB;
      to.val.blob = (patchbay_skill_types_blob_t){to_host(from->first), bytes_to_host(from->second)};
      break;
    case LINK:
      to.tag = PATCHBAY_SKILL_TYPES_CONTENT_LINK;
      to.val.link = (patchbay_skill_types_link_t){to_host(from->first), to_host(from->second)};
      break;
  }
  return to;
}

static void flush_printed(void);

bool exports_patchbay_skill_skill_call(plugin_string_t *tool, plugin_string_t *input, exports_patchbay_skill_skill_list_blob_t *attachments,
                                       exports_patchbay_skill_skill_list_content_t *ret, exports_patchbay_skill_skill_failure_t *err) {
  patchbay_call call = {.attachments = patchbay_alloc(attachments->len * sizeof *call.attachments), .attachment_count = attachments->len};
  for (size_t i = 0; i < attachments->len; i++) {
    call.attachments[i] = (patchbay_attachment){from_host(attachments->ptr[i].media_type), bytes_from_host(attachments->ptr[i].data)};
  }
  bool done = run_tool(&call, from_host(*tool), from_host(*input));
  flush_printed();
  if (!done) {
    err->kind = give(call.failure_kind);
    err->message = give(call.failure_message);
    return false;
  }
  ret->len = call.count;
  ret->ptr = patchbay_alloc(call.count * sizeof *ret->ptr);
  for (size_t i = 0; i < call.count; i++) ret->ptr[i] = export_content(&call.contents[i]);
  return true;
}

// ---- WASI functions for `printf` and `assert`. Because they are defined here, libc's imports are resolved without WASI,
// which Patchbay components do not have. They are only linked if the skill prints.

static patchbay_buffer printed[2];

static void print(int stream, patchbay_str text) {
  patchbay_buffer *line = &printed[stream];
  while (text.len) {
    const char *end = memchr(text.ptr, '\n', text.len);
    size_t length = end ? (size_t)(end - text.ptr) : text.len;
    patchbay_add(line, (patchbay_str){text.ptr, length});
    if (!end) return;
    log_text(stream ? PATCHBAY_WARN : PATCHBAY_INFO, readable(line->text));
    line->text.len = 0;
    text = (patchbay_str){end + 1, text.len - length - 1};
  }
}

static void flush_printed(void) {
  fflush(NULL);
  for (int stream = 0; stream < 2; stream++) {
    if (printed[stream].text.len) print(stream, patchbay_cstr("\n"));
  }
}

int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t fd, int32_t vectors, int32_t count, int32_t written) {
  const patchbay_str *texts = (const patchbay_str *)vectors;
  size_t total = 0;
  for (int32_t i = 0; i < count; i++) {
    print(fd == 2, texts[i]);
    total += texts[i].len;
  }
  *(size_t *)written = total;
  return 0;
}

// Reports a terminal: libc then writes at each line instead of once at the end, and lines before a trap are not lost.
int32_t __imported_wasi_snapshot_preview1_fd_fdstat_get(int32_t fd, int32_t result) {
  (void)fd;
  memset((void *)result, 0, 24);
  *(uint8_t *)result = 2;
  return 0;
}

int32_t __imported_wasi_snapshot_preview1_fd_seek(int32_t fd, int64_t offset, int32_t whence, int32_t result) {
  (void)fd, (void)offset, (void)whence, (void)result;
  return 70;  // not seekable
}

int32_t __imported_wasi_snapshot_preview1_fd_close(int32_t fd) {
  (void)fd;
  return 0;
}

// The Zig part of zig's libc uses these names for its imports.
int32_t fd_close_for_zig(int32_t fd) __asm__("fd_close|wasi_snapshot_preview1");
int32_t fd_close_for_zig(int32_t fd) { return __imported_wasi_snapshot_preview1_fd_close(fd); }

_Noreturn void __imported_wasi_snapshot_preview1_proc_exit(int32_t code) {
  patchbay_log(PATCHBAY_ERROR, "exit(%ld) was called; return false from the tool instead", (long)code);
  __builtin_trap();
}

#endif
