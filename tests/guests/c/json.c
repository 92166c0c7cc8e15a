#include "json.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  const uint8_t *at;
  const uint8_t *end;
} reader;

static bool next(reader *in, uint8_t *byte) {
  if (in->at == in->end) return false;
  *byte = *in->at++;
  return true;
}

static void skip_space(reader *in) {
  while (in->at < in->end && (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r')) in->at++;
}

static bool take(reader *in, uint8_t byte) {
  skip_space(in);
  if (in->at == in->end || *in->at != byte) return false;
  in->at++;
  return true;
}

static bool unit(reader *in, uint32_t *value) {
  *value = 0;
  for (int digit = 0; digit < 4; digit++) {
    uint8_t byte;
    if (!next(in, &byte)) return false;
    uint8_t lower = byte | 0x20;
    if (byte >= '0' && byte <= '9') *value = *value << 4 | (uint32_t)(byte - '0');
    else if (lower >= 'a' && lower <= 'f') *value = *value << 4 | (uint32_t)(lower - 'a' + 10);
    else return false;
  }
  return true;
}

// What follows `\u`: a code point, of one unit or of a pair.
static bool code_point(reader *in, uint32_t *value) {
  if (!unit(in, value)) return false;
  if (*value < 0xD800 || *value > 0xDFFF) return true;
  uint8_t backslash, u;
  uint32_t low;
  if (*value > 0xDBFF || !next(in, &backslash) || !next(in, &u) || backslash != '\\' || u != 'u') return false;
  if (!unit(in, &low) || low < 0xDC00 || low > 0xDFFF) return false;
  *value = 0x10000 + ((*value - 0xD800) << 10) + (low - 0xDC00);
  return true;
}

static uint8_t *encode(uint8_t *to, uint32_t code) {
  if (code < 0x80) {
    *to++ = (uint8_t)code;
    return to;
  }
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const uint8_t lead[] = {0, 0xC0, 0xE0, 0xF0};
  *to++ = (uint8_t)(lead[more] | code >> (6 * more));
  while (more-- > 0) *to++ = (uint8_t)(0x80 | (code >> (6 * more) & 0x3F));
  return to;
}

// A string, quotes and all. What it means is never longer than how it is written.
static bool string(reader *in, uint8_t **text, size_t *length) {
  if (!take(in, '"')) return false;
  uint8_t *start = malloc((size_t)(in->end - in->at) + 1);
  if (!start) abort();
  uint8_t *to = start, byte;
  while (next(in, &byte)) {
    if (byte == '"') {
      *text = start;
      *length = (size_t)(to - start);
      return true;
    }
    if (byte != '\\') {
      *to++ = byte;
      continue;
    }
    if (!next(in, &byte)) break;
    static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    uint32_t code = 0;
    if (byte == 'u') {
      if (!code_point(in, &code)) break;
    } else {
      for (const char *escape = escapes; *escape; escape += 2) {
        if ((uint8_t)*escape == byte) code = (uint8_t)escape[1];
      }
      if (!code) break;
    }
    to = encode(to, code);
  }
  free(start);
  return false;
}

bool json_member(const uint8_t *json, size_t length, const char *name, uint8_t **text, size_t *text_length) {
  reader in = {json, json + length};
  if (!take(&in, '{')) return false;
  do {
    uint8_t *key, *value;
    size_t key_length, value_length;
    if (!string(&in, &key, &key_length)) return false;
    bool found = key_length == strlen(name) && memcmp(key, name, key_length) == 0;
    free(key);
    if (!take(&in, ':') || !string(&in, &value, &value_length)) return false;
    if (found) {
      *text = value;
      *text_length = value_length;
      return true;
    }
    free(value);
  } while (take(&in, ','));
  return false;
}
