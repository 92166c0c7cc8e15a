// Workspace files: lists them a page at a time, reads them, and writes one. A real search would use the generated
// `patchbay_host_workspace_search_search`, which is much faster than reading every file here.
#include <string.h>

#include "patchbay.h"

enum { LARGEST = 1 << 20 };

static size_t collect_lines(patchbay_buffer *out, patchbay_str path, patchbay_str text) {
  size_t found = 0, number = 1;
  for (const char *line = text.ptr, *end = text.ptr + text.len; line < end; number++) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    const char *stop = newline ? newline : end;
    for (const char *at = line; at + 4 <= stop; at++) {
      if (memcmp(at, "TODO", 4) != 0) continue;
      patchbay_addf(out, "- %s:%zu: ", path.ptr, number);
      patchbay_add(out, (patchbay_str){at, (size_t)(stop - at)});
      patchbay_add(out, patchbay_cstr("\n"));
      found++;
      break;
    }
    line = stop + 1;
  }
  return found;
}

static bool collect(patchbay_call *call, patchbay_value input) {
  patchbay_str glob;
  if (!patchbay_get_string(input, "glob", &glob)) return false;

  patchbay_buffer out = {0};
  patchbay_entries page = {0};
  size_t files = 0, found = 0;
  do {
    const char *after = page.len ? page.ptr[page.len - 1].path.ptr : NULL;
    if (!patchbay_walk(call, glob.ptr, after, 200, &page)) return false;
    for (size_t i = 0; i < page.len; i++) {
      patchbay_str text;
      if (page.ptr[i].is_directory || page.ptr[i].size > LARGEST || patchbay_equal(page.ptr[i].path, "TODO.md")) continue;
      if (!patchbay_read(call, page.ptr[i].path.ptr, 0, LARGEST, &text)) return false;
      found += collect_lines(&out, page.ptr[i].path, text);
      files++;
      if (text.len) patchbay_release(text);  // optional; keeps the memory small in large workspaces
    }
    patchbay_progress("%zu files searched\n", files);
  } while (page.len);

  if (!found) return patchbay_textf(call, "no TODO in %zu files", files);
  if (!patchbay_write(call, "TODO.md", out.text)) return false;
  return patchbay_textf(call, "%zu TODOs from %zu files are in TODO.md", found, files) && patchbay_link(call, "TODO.md", "text/markdown");
}

PATCHBAY_TOOLS({
    .name = "collect",
    .description = "Collects all lines with TODO into the file TODO.md.",
    .schema = PATCHBAY_SCHEMA({
      "type": "object",
      "properties": {"glob": {"type": "string", "description": "The files to search, such as **/*.c."}},
      "required": ["glob"],
      "additionalProperties": false
    }),
    .run = collect,
    .extra = {{"kind", "edit"}},
})
