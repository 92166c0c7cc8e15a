// UTF-8. QuickJS runs a loop over bytes slowly, so the work is left to functions that the engine implements natively.

const ASCII = /^[\0-\x7f]*$/;

/** Returns the UTF-8 bytes of a string; lone surrogates become U+FFFD. */
export function encode(string) {
  const latin = ASCII.test(string) ? string : unescape(encodeURIComponent(string.toWellFormed()));
  return Uint8Array.fromBase64(btoa(latin));
}

/** Returns the string of UTF-8 bytes. Invalid bytes become U+FFFD, or, with `fatal`, throw a TypeError. */
export function decode(bytes, fatal = false) {
  const latin = atob(bytes.toBase64());
  if (ASCII.test(latin)) return latin;
  try {
    return decodeURIComponent(escape(latin));
  } catch {
    if (fatal) throw new TypeError("the bytes are not valid UTF-8");
    return decodeLossy(bytes);
  }
}

/** Decodes as browsers do: the valid beginning of an incomplete character becomes a single U+FFFD. */
function decodeLossy(bytes) {
  const parts = [];
  let units = [];
  for (let i = 0; i < bytes.length; ) {
    const { size, length, point } = character(bytes, i);
    units.push(...(size === length ? [...utf16(point)] : [0xfffd]));
    i += size;
    if (units.length > 4096) {
      parts.push(String.fromCharCode.apply(null, units));
      units = [];
    }
  }
  parts.push(String.fromCharCode.apply(null, units));
  return parts.join("");
}

const utf16 = (point) =>
  point < 0x10000 ? [point] : [0xd800 | ((point - 0x10000) >> 10), 0xdc00 | ((point - 0x10000) & 0x3ff)];

/** Returns how long the character at `i` claims to be, and how many of its bytes are valid. */
function character(bytes, i) {
  const first = bytes[i];
  if (first < 0x80) return { size: 1, length: 1, point: first };
  const length = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
  if (length === 0) return { size: 1, length };
  let low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  let high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  let point = first & (0x7f >> length);
  let size = 1;
  while (size < length) {
    const byte = bytes[i + size];
    if (!(byte >= low && byte <= high)) break;
    point = (point << 6) | (byte & 0x3f);
    [low, high] = [0x80, 0xbf];
    size += 1;
  }
  return { size, length, point };
}

/** Returns how many bytes at the end are the beginning of a character that may still be completed. */
export function incomplete(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const at = bytes.length - back;
    if (bytes[at] >= 0x80 && bytes[at] < 0xc0) continue;
    const { size, length } = character(bytes, at);
    return size === back && size < length ? back : 0;
  }
  return 0;
}
