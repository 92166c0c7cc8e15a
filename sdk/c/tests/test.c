// Includes the implementation, because the tests create calls themselves and look inside them.
#include "../patchbay.c"

#include <float.h>
#include <math.h>

static int checks, failures;

#define CHECK(condition, ...)                                  \
  do {                                                         \
    checks++;                                                  \
    if (condition) break;                                      \
    failures++;                                                \
    printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);     \
    printf(__VA_ARGS__);                                       \
    putchar('\n');                                             \
  } while (0)

const patchbay_tool patchbay_tools[1];
const size_t patchbay_tool_count = 0;

static patchbay_call call;

// A string in memory of exactly its size, which lets the sanitizer see reads past its end.
static patchbay_str exact(const char *text, size_t length) {
  char *memory = malloc(length + 1);
  memcpy(memory, text, length);
  memory[length] = 0;
  return (patchbay_str){memory, length};
}

static bool parse_bytes(const char *text, size_t length, patchbay_value *value) {
  call = (patchbay_call){0};
  patchbay_str owned = exact(text, length);
  bool done = patchbay_parse(&call, owned, value);
  patchbay_release(owned);
  return done;
}

static bool parse(const char *text, patchbay_value *value) { return parse_bytes(text, strlen(text), value); }

static void accepts_json(void) {
  static const char *const texts[] = {
      "{}", "[]", " [ ] ", "null", "true", "false", "0", "-0", "-0.0e-0", "1E+2", "\"\"", "[[],{}]", "{\"a\":{\"b\":[1,2]}}",
      "\t\r\n {\"a\" : [ 1 , 2.5 , \"x\" ] , \"\" : null } ", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\"", "\"\\uD83D\\uDE00\"",
      "\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    patchbay_value value;
    CHECK(parse(texts[i], &value), "%s: %s", texts[i], call.failure_message.ptr);
  }
}

static void rejects_json(void) {
  static const struct {
    const char *text, *why;
  } cases[] = {
      {"", "expected a value at byte 0"},
      {" ", "expected a value at byte 1"},
      {"{", "expected a string at byte 1"},
      {"[", "expected a value at byte 1"},
      {"[1", "expected ',' or ']' at byte 2"},
      {"[1,", "expected a value at byte 3"},
      {"[1,]", "expected a value at byte 3"},
      {"[,1]", "expected a value at byte 1"},
      {"[1 2]", "expected ',' or ']' at byte 3"},
      {"[1}", "expected ',' or ']' at byte 2"},
      {"]", "expected a value at byte 0"},
      {"{]", "expected a string at byte 1"},
      {"{\"a\"}", "expected ':' at byte 4"},
      {"{\"a\":}", "expected a value at byte 5"},
      {"{\"a\":1", "expected ',' or '}' at byte 6"},
      {"{\"a\":1,}", "expected a string at byte 7"},
      {"{a:1}", "expected a string at byte 1"},
      {"{'a':1}", "expected a string at byte 1"},
      {"{}{}", "expected the end of the text at byte 2"},
      {"1 2", "expected the end of the text at byte 2"},
      {"tru", "expected a value at byte 0"},
      {"truex", "expected the end of the text at byte 4"},
      {"nul", "expected a value at byte 0"},
      {"NaN", "expected a value at byte 0"},
      {"Infinity", "expected a value at byte 0"},
      {"01", "expected the end of the text at byte 1"},
      {"-", "expected a digit at byte 1"},
      {"+1", "expected a value at byte 0"},
      {".5", "expected a value at byte 0"},
      {"1.", "expected a digit at byte 2"},
      {"1e", "expected a digit at byte 2"},
      {"1e+", "expected a digit at byte 3"},
      {"0x10", "expected the end of the text at byte 1"},
      {"\"", "the string does not end at byte 1"},
      {"\"a", "the string does not end at byte 2"},
      {"\"\\", "unknown escape at byte 1"},
      {"\"\\\"", "the string does not end at byte 3"},
      {"\"\\x\"", "unknown escape at byte 1"},
      {"\"\\u\"", "expected four hex digits after '\\u' at byte 1"},
      {"\"\\u12", "expected four hex digits after '\\u' at byte 1"},
      {"\"\\u12g4\"", "expected four hex digits after '\\u' at byte 1"},
      {"\"\\ud800\"", "lone surrogate at byte 1"},
      {"\"\\udc00\"", "lone surrogate at byte 1"},
      {"\"\\udc00\\udc00\"", "lone surrogate at byte 1"},
      {"\"\\ud800\\u0041\"", "lone surrogate at byte 1"},
      {"\"\\ud800\\ud800\"", "lone surrogate at byte 1"},
      {"\"\\ud83d\\", "lone surrogate at byte 1"},
      {"\"\\ud83d\\u", "lone surrogate at byte 1"},
      {"\"\\ud83d\\ude0", "lone surrogate at byte 1"},
      {"\"\n\"", "control character in a string at byte 1"},
      {"\"\x80\"", "not UTF-8 at byte 1"},
      {"\"\xc0\xaf\"", "not UTF-8 at byte 1"},
      {"\"\xe0\x80\xaf\"", "not UTF-8 at byte 1"},
      {"\"\xed\xa0\x80\"", "not UTF-8 at byte 1"},
      {"\"\xf0\x80\x80\x80\"", "not UTF-8 at byte 1"},
      {"\"\xf4\x90\x80\x80\"", "not UTF-8 at byte 1"},
      {"\"\xf5\x80\x80\x80\"", "not UTF-8 at byte 1"},
      {"\"\xe2\x82", "not UTF-8 at byte 1"},
      {"\xef\xbb\xbf{}", "expected a value at byte 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    patchbay_value value;
    patchbay_str expected = patchbay_format("the text is not JSON: %s", cases[i].why);
    CHECK(!parse(cases[i].text, &value), "%s", cases[i].text);
    CHECK(patchbay_equal(call.failure_message, expected.ptr), "%s: %s", cases[i].text, call.failure_message.ptr);
    CHECK(patchbay_equal(call.failure_kind, "invalid-json"), "%s", call.failure_kind.ptr);
  }
  patchbay_value value;
  CHECK(!parse_bytes("[1\0]", 4, &value), "a NUL byte between values");
  CHECK(!parse_bytes("\"a\0b\"", 5, &value), "a NUL byte in a string");
  CHECK(!parse_bytes("[]\0", 3, &value), "a NUL byte at the end");
}

// A truncated object must be refused, and must not be read beyond its end.
static void rejects_every_truncation(void) {
  static const char text[] = "{\"k\\u00e9y\":[1.5e+3,-2,true,false,null,\"\\ud83d\\ude00 \xe2\x82\xac \\\\\",{\"a\":{}}]}";
  for (size_t length = 0; length < sizeof text - 1; length++) {
    patchbay_value value;
    CHECK(!parse_bytes(text, length, &value), "%.*s", (int)length, text);
  }
  patchbay_value value;
  CHECK(parse(text, &value), "%s", call.failure_message.ptr);
}

static void bounds_the_depth(void) {
  for (int depth = 127; depth <= 100000; depth = depth == 127 ? 128 : depth == 128 ? 129 : depth * 10) {
    for (int mixed = 0; mixed < 2; mixed++) {
      patchbay_buffer text = {0};
      for (int i = 0; i < depth; i++) patchbay_add(&text, patchbay_cstr(mixed && i % 2 ? "{\"a\":" : "["));
      if (mixed && depth % 2 == 0) patchbay_add(&text, patchbay_cstr("1"));
      for (int i = depth; i-- > 0;) patchbay_add(&text, patchbay_cstr(mixed && i % 2 ? "}" : "]"));
      patchbay_value value;
      bool accepted = parse_bytes(text.text.ptr, text.text.len, &value);
      CHECK(accepted == (depth <= 128), "%d, mixed %d: %s", depth, mixed, call.failure_message.ptr ? call.failure_message.ptr : "");
      if (accepted) CHECK(patchbay_raw(value).len == text.text.len, "%d", depth);
      patchbay_release(text.text);
    }
  }
}

static void decodes_strings(void) {
  static const struct {
    const char *json, *text;
    size_t length;
  } cases[] = {
      {"\"\"", "", 0},
      {"\"plain\"", "plain", 5},
      {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
      {"\"\\u0000\"", "\0", 1},
      {"\"a\\u0000b\"", "a\0b", 3},
      {"\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 11},
      {"\"\\ud7ff\\ue000\"", "\xed\x9f\xbf\xee\x80\x80", 6},
      {"\"\\uD800\\uDC00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8},
      {"\"\xf0\x9f\x98\x80\"", "\xf0\x9f\x98\x80", 4},
      {"\"\\\\u0041\"", "\\u0041", 6},
      {"\"\\\\\\\"\"", "\\\"", 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    patchbay_value value;
    patchbay_str text = {0};
    CHECK(parse(cases[i].json, &value) && patchbay_get_string(value, NULL, &text), "%s", cases[i].json);
    CHECK(text.len == cases[i].length && memcmp(text.ptr, cases[i].text, text.len) == 0, "%s: %s", cases[i].json, text.ptr);
    CHECK(text.ptr && text.ptr[text.len] == 0, "%s", cases[i].json);
    // In reverse: a quoted text reads back unchanged.
    patchbay_str again = {0};
    CHECK(parse(patchbay_quote(text).ptr, &value) && patchbay_get_string(value, NULL, &again), "%s", cases[i].json);
    CHECK(again.len == text.len && memcmp(again.ptr, text.ptr, text.len) == 0, "%s", cases[i].json);
  }
  CHECK(patchbay_equal(patchbay_quote((patchbay_str){"\x1f\0\"\xff", 4}), "\"\\u001f\\u0000\\\"\xef\xbf\xbd\""), "quote");
}

static void reads_integers_exactly(void) {
  static const struct {
    const char *json;
    bool valid;
    int64_t number;
  } cases[] = {
      {"0", true, 0},
      {"-0", true, 0},
      {"-0.000e9", true, 0},
      {"0e999999999999", true, 0},
      {"42", true, 42},
      {"9007199254740993", true, 9007199254740993},
      {"9223372036854775807", true, INT64_MAX},
      {"9223372036854775808", false, 0},
      {"-9223372036854775808", true, INT64_MIN},
      {"-9223372036854775809", false, 0},
      {"18446744073709551616", false, 0},
      {"99999999999999999999999999", false, 0},
      {"1.0", true, 1},
      {"1.5", false, 0},
      {"15e-1", false, 0},
      {"150e-1", true, 15},
      {"1e3", true, 1000},
      {"1.25E+2", true, 125},
      {"9223372036854775807.000", true, INT64_MAX},
      {"922337203685477580700e-2", true, INT64_MAX},
      {"9.223372036854775807e18", true, INT64_MAX},
      {"1e18", true, 1000000000000000000},
      {"1e19", false, 0},
      {"1e99999999999999999999", false, 0},
      {"1e-99999999999999999999", false, 0},
      {"1000000000000000000000000e-24", true, 1},
      {"0.00000000000000000000000000001e29", true, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    patchbay_value value;
    int64_t number = 77;
    CHECK(parse(cases[i].json, &value), "%s", cases[i].json);
    CHECK(patchbay_get_int(value, NULL, &number) == cases[i].valid, "%s", cases[i].json);
    CHECK(number == (cases[i].valid ? cases[i].number : 77), "%s: %lld", cases[i].json, (long long)number);
  }
}

static void reads_and_writes_doubles(void) {
  static const double numbers[] = {0.0, 0.1, 1.0 / 3, 1e21, 1e-7, DBL_MAX, DBL_MIN, 5e-324, -123456.789, 9007199254740993.0};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    patchbay_value value;
    double number = 77;
    patchbay_str text = patchbay_number(numbers[i]);
    CHECK(parse(text.ptr, &value) && patchbay_get_double(value, NULL, &number), "%s", text.ptr);
    CHECK(number == numbers[i], "%s", text.ptr);
  }
  CHECK(patchbay_equal(patchbay_number(0.1), "0.1"), "%s", patchbay_number(0.1).ptr);
  CHECK(patchbay_equal(patchbay_number(NAN), "null") && patchbay_equal(patchbay_number(-INFINITY), "null"), "NaN");
  patchbay_value value;
  double number = 77;
  CHECK(parse("1e999", &value) && !patchbay_get_double(value, NULL, &number) && number == 77, "overflow");
  CHECK(patchbay_equal(call.failure_message, "the value is 1e999; expected a number in the range of a double"), "%s", call.failure_message.ptr);
  CHECK(parse("1e-999", &value) && patchbay_get_double(value, NULL, &number) && number == 0, "underflow");
}

static void finds_members(void) {
  patchbay_value root, list, object, value;
  const char *json = "{ \"a\" : 1, \"b\\u0063\":\"}]\\\"\", \"list\":[ 1, [2, {\"x\":3}], \"four\" ], \"o\":{\"a\":{}}, \"a\":2, \"n\":null, \"t\":true}";
  int64_t number = 0;
  patchbay_str text;
  bool truth = false;
  CHECK(parse(json, &root), "%s", call.failure_message.ptr);
  CHECK(patchbay_get_int(root, "a", &number) && number == 2, "the last of two equal names counts: %lld", (long long)number);
  CHECK(patchbay_get_string(root, "bc", &text) && patchbay_equal(text, "}]\""), "an escaped name");
  CHECK(patchbay_get_bool(root, "t", &truth) && truth, "true");
  CHECK(patchbay_kind_of(patchbay_member(root, "n")) == PATCHBAY_NULL, "null");
  CHECK(!patchbay_member(root, "x").at && !patchbay_member(root, "").at, "absent");
  CHECK(!patchbay_member(patchbay_member(root, "a"), "x").at, "a member of a number");

  CHECK(patchbay_get_array(root, "list", &list), "list");
  size_t count = 0;
  for (value = patchbay_first(list); value.at; value = patchbay_next(value)) count++;
  CHECK(count == 3, "%zu", count);
  CHECK(patchbay_equal(patchbay_raw(patchbay_next(patchbay_first(list))), "[2, {\"x\":3}]"), "raw");

  patchbay_buffer keys = {0};
  for (value = patchbay_first(root); value.at; value = patchbay_next(value)) patchbay_addf(&keys, "%.*s ", PATCHBAY_STR(value.key));
  CHECK(patchbay_equal(keys.text, "a bc list o a n t "), "%s", keys.text.ptr);
  CHECK(patchbay_get_object(root, "o", &object) && !patchbay_first(patchbay_member(object, "a")).at, "an empty object");

  CHECK(!patchbay_get_int(root, "missing", &number), "missing");
  CHECK(patchbay_equal(call.failure_message, "'missing' is missing; expected an integer"), "%s", call.failure_message.ptr);
  CHECK(!patchbay_get_string(root, "list", &text), "type");
  CHECK(patchbay_equal(call.failure_message, "'list' is an array; expected a string"), "%s", call.failure_message.ptr);
  number = 9;
  CHECK(patchbay_opt_int(root, "missing", &number) && patchbay_opt_int(root, "n", &number) && number == 9, "optional");
  CHECK(patchbay_opt_int(root, "a", &number) && number == 2, "optional and given");
  CHECK(!patchbay_opt_int(root, "t", &number), "optional of another type");
  CHECK(patchbay_equal(call.failure_message, "'t' is a boolean; expected an integer"), "%s", call.failure_message.ptr);
}

static void formats_like_printf(void) {
  char expected[512];
#define SAME(...)                                                                                            \
  do {                                                                                                       \
    snprintf(expected, sizeof expected, __VA_ARGS__);                                                        \
    patchbay_str got = patchbay_format(__VA_ARGS__);                                                         \
    CHECK(got.len == strlen(expected) && strcmp(got.ptr, expected) == 0, "'%s', not '%s'", got.ptr, expected); \
  } while (0)
  SAME("plain");
  SAME("%%|%c|%d|%i|%5d|%-5d|%05d|%+d|% d", 'x', 1, -2, 3, 4, 5, 6, 7);
  SAME("%u|%x|%X|%#x|%o|%.3d", 4294967295u, 255u, 255u, 255u, 8u, 7);
  SAME("%ld|%lu|%lld|%llu|%zu|%jd|%td", -1L, 2UL, INT64_MIN + 0LL, 18446744073709551615ULL, (size_t)9, (intmax_t)-3, (ptrdiff_t)4);
  SAME("%hhd|%hu", 300, 70000);
  SAME("%f|%.2f|%8.3e|%g|%-12g|%a|%.0f|%f", 1.5, 2.345, 1e100, 0.1, 3.0, 1.0, 0.5, DBL_MAX);
  SAME("%s|%5s|%-5s|%.2s|%.*s|%*s|%-*s|", "abc", "abc", "abc", "abc", 2, "abc", 5, "abc", 5, "abc");
  SAME("%.10s|%.0s|%.*s", "abc", "abc", -1, "all");
#undef SAME
  patchbay_str nul = patchbay_format("<%.*s>", PATCHBAY_STR(((patchbay_str){"a\0b", 3})));
  CHECK(nul.len == 5 && memcmp(nul.ptr, "<a\0b>", 6) == 0, "all bytes of a patchbay_str");
  patchbay_str big = {patchbay_alloc(1 << 20), 1 << 20};
  memset((char *)big.ptr, 'x', big.len);
  CHECK(patchbay_format("%.*s!", PATCHBAY_STR(big)).len == (1 << 20) + 1, "1 MiB");
  CHECK(patchbay_format("%s", "").ptr[0] == 0, "empty");
}

static void checks_results(void) {
  call = (patchbay_call){0};
  CHECK(patchbay_textf(&call, "%d", 1) && patchbay_text(&call, patchbay_cstr("two")), "text");
  CHECK(patchbay_jsonf(&call, "{\"a\":%.*s}", PATCHBAY_STR(patchbay_quote(patchbay_cstr("\"")))), "json");
  CHECK(patchbay_blob(&call, "image/png", (patchbay_str){"\x89PNG\0", 5}) && patchbay_link(&call, "a.txt", "text/plain"), "blob, link");
  CHECK(call.count == 5 && call.contents[3].second.len == 5 && call.contents[2].tag == JSON, "%zu", call.count);
  CHECK(!patchbay_jsonf(&call, "{\"a\":%s}", "bare"), "not JSON");
  CHECK(patchbay_equal(call.failure_message, "the result is not JSON: expected a value at byte 5; insert texts with patchbay_quote "
                      "and numbers with patchbay_number"), "%s", call.failure_message.ptr);
  CHECK(!patchbay_text(&call, patchbay_cstr("abc\xff")), "not UTF-8");
  CHECK(patchbay_equal(call.failure_message, "the text of the result is not UTF-8: byte 0xFF at 3"), "%s", call.failure_message.ptr);
  CHECK(!patchbay_text(&call, patchbay_cstr(NULL)), "NULL");
  CHECK(patchbay_equal(call.failure_message, "the text of the result is NULL"), "%s", call.failure_message.ptr);
  CHECK(call.count == 5, "%zu", call.count);
  CHECK(!patchbay_fail(&call, "my-kind", "%s \xc3(", "bad"), "fail");
  CHECK(patchbay_equal(patchbay_failure_message(&call), "bad \xef\xbf\xbd("), "%s", call.failure_message.ptr);
  CHECK(patchbay_equal(patchbay_failure_kind(&call), "my-kind"), "%s", call.failure_kind.ptr);
}

static void knows_blank_texts(void) {
  static const char *const blank[] = {"", " ", "\t\n\v\f\r ", "\xc2\x85", "\xc2\xa0", "\xe1\x9a\x80", "\xe2\x80\x80\xe2\x80\x8a", "\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\x9f\xe3\x80\x80"};
  static const char *const not_blank[] = {"a", "  a", "\xe2\x80\x8b", "\xef\xbb\xbf", "\x1f", "\xc2", "\xf0\x9f\x98\x80"};
  for (size_t i = 0; i < sizeof blank / sizeof *blank; i++) CHECK(patchbay_is_blank(patchbay_cstr(blank[i])), "%zu", i);
  for (size_t i = 0; i < sizeof not_blank / sizeof *not_blank; i++) CHECK(!patchbay_is_blank(patchbay_cstr(not_blank[i])), "%zu", i);
  CHECK(!patchbay_is_blank((patchbay_str){"\0", 1}), "a NUL byte");
}

int main(void) {
  accepts_json();
  rejects_json();
  rejects_every_truncation();
  bounds_the_depth();
  decodes_strings();
  reads_integers_exactly();
  reads_and_writes_doubles();
  finds_members();
  formats_like_printf();
  checks_results();
  knows_blank_texts();
  printf("%d checks, %d failed\n", checks, failures);
  return failures != 0;
}
