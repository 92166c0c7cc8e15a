// Files that are read in pieces.

const CHUNK = 1 << 20;

/** Returns all bytes from `start` on, which `page(offset, max)` reads in pieces. */
export function whole(page, start = 0) {
  const chunks = [];
  let size = 0;
  for (;;) {
    const chunk = page(start + size, CHUNK);
    chunks.push(chunk);
    size += chunk.length;
    if (chunk.length < CHUNK) break;
  }
  if (chunks.length === 1) return chunks[0];
  const all = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}
