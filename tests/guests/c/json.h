// Reads what the tools of this guest take: a JSON object of strings, which the host has checked already.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Finds the member `name` of the object in `json` and puts its text, as UTF-8, into memory of its own.
// False where the object has no such member, or where it holds something other than strings.
bool json_member(const uint8_t *json, size_t length, const char *name, uint8_t **text, size_t *text_length);
