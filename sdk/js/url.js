// URL and URLSearchParams, as far as plugins need them: URLs with an authority such as https, and opaque ones such as
// mailto. Hosts are ASCII (no punycode is computed) and IPv4 addresses are not normalised.
import { decode, encode } from "./utf8.js";

const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21" };

/** Percent-encodes everything that `keep` does not match, as UTF-8. */
const escapeAll = (text, keep) =>
  text.toWellFormed().replace(/[\s\S]/gu, (char) => (keep.test(char) ? char : percent(char)));
const percent = (char) => [...encode(char)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");

const PATH = /[!$%&'()*+,\-./0-9:;=@A-Z[\\\]_a-z|~]/;
const QUERY = /[!$%&()*+,\-./0-9:;=?@A-Z[\\\]^_`a-z{|}~]/;
const FRAGMENT = /[!#$%&'()*+,\-./0-9:;=?@A-Z[\\\]^_a-z{|}~]/;
const USERINFO = /[!$%&'()*+,\-.0-9A-Z_a-z~]/;
const FORM = /[*\-.0-9A-Z_a-z]/;

const formEncode = (text) => escapeAll(text, FORM).replaceAll("%20", "+");
const formDecode = (text) => {
  const plain = text.replaceAll("+", " ");
  if (!plain.includes("%")) return plain;
  const bytes = [];
  const all = encode(plain);
  for (let i = 0; i < all.length; i += 1) {
    const hex = all[i] === 0x25 ? String.fromCharCode(all[i + 1], all[i + 2]) : "";
    if (/^[0-9a-f]{2}$/i.test(hex)) {
      bytes.push(parseInt(hex, 16));
      i += 2;
    } else bytes.push(all[i]);
  }
  return decode(Uint8Array.from(bytes));
};

export class URLSearchParams {
  #pairs = [];
  #changed = () => {};

  constructor(init = "", changed = undefined) {
    if (typeof changed === "function") this.#changed = changed;
    if (typeof init === "object" && init !== null) {
      const entries = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
      for (const [name, value] of entries) this.#pairs.push([String(name), String(value)]);
    } else {
      for (const part of String(init).replace(/^\?/, "").split("&")) {
        if (part === "") continue;
        const [, name, value = ""] = /^([^=]*)=?([\s\S]*)$/.exec(part);
        this.#pairs.push([formDecode(name), formDecode(value)]);
      }
    }
  }

  get size() {
    return this.#pairs.length;
  }

  append(name, value) {
    this.#pairs.push([String(name), String(value)]);
    this.#changed();
  }

  delete(name) {
    this.#pairs = this.#pairs.filter(([each]) => each !== name);
    this.#changed();
  }

  get(name) {
    return this.#pairs.find(([each]) => each === name)?.[1] ?? null;
  }

  getAll(name) {
    return this.#pairs.filter(([each]) => each === name).map(([, value]) => value);
  }

  has(name) {
    return this.#pairs.some(([each]) => each === name);
  }

  set(name, value) {
    const at = this.#pairs.findIndex(([each]) => each === name);
    if (at < 0) return this.append(name, value);
    this.#pairs = this.#pairs.filter(([each], i) => each !== name || i === at);
    this.#pairs[at] = [name, String(value)];
    this.#changed();
  }

  sort() {
    this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#changed();
  }

  forEach(run) {
    for (const [name, value] of this.#pairs) run(value, name, this);
  }

  entries() {
    return this.#pairs.map((pair) => [...pair])[Symbol.iterator]();
  }

  keys() {
    return this.#pairs.map(([name]) => name)[Symbol.iterator]();
  }

  values() {
    return this.#pairs.map(([, value]) => value)[Symbol.iterator]();
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    return this.#pairs.map(([name, value]) => `${formEncode(name)}=${formEncode(value)}`).join("&");
  }
}

export class URL {
  #parts;
  #params;

  constructor(url, base = undefined) {
    const parts = parse(String(url).trim(), base === undefined ? undefined : new URL(base).#parts);
    if (!parts) throw new TypeError(`Invalid URL: '${url}'${base === undefined ? " (a relative URL needs a base)" : ` with the base '${base}'`}`);
    this.#parts = parts;
  }

  static canParse(url, base) {
    try {
      return Boolean(new URL(url, base));
    } catch {
      return false;
    }
  }

  get protocol() {
    return this.#parts.protocol;
  }

  get username() {
    return this.#parts.username;
  }

  get password() {
    return this.#parts.password;
  }

  get hostname() {
    return this.#parts.hostname ?? "";
  }

  get port() {
    return this.#parts.port;
  }

  get host() {
    return this.hostname + (this.port && `:${this.port}`);
  }

  get origin() {
    return this.protocol in PORTS ? `${this.protocol}//${this.host}` : "null";
  }

  get pathname() {
    return this.#parts.pathname;
  }

  set pathname(path) {
    this.#parts.pathname = normalize(`/${String(path).replace(/^\//, "")}`);
  }

  get search() {
    return this.#parts.search ? `?${this.#parts.search}` : "";
  }

  set search(query) {
    this.#parts.search = escapeAll(String(query).replace(/^\?/, ""), QUERY);
    this.#params = undefined;
  }

  get hash() {
    return this.#parts.hash ? `#${this.#parts.hash}` : "";
  }

  set hash(fragment) {
    this.#parts.hash = escapeAll(String(fragment).replace(/^#/, ""), FRAGMENT);
  }

  get searchParams() {
    this.#params ??= new URLSearchParams(this.#parts.search ?? "", () => {
      this.#parts.search = this.#params.toString();
    });
    return this.#params;
  }

  get href() {
    const { protocol, username, password, hostname, search, hash } = this.#parts;
    const user = username || password ? `${username}${password && `:${password}`}@` : "";
    const authority = hostname === undefined ? "" : `//${user}${this.host}`;
    return protocol + authority + this.pathname + (search === undefined ? "" : `?${search}`) + (hash === undefined ? "" : `#${hash}`);
  }

  toString() {
    return this.href;
  }

  toJSON() {
    return this.href;
  }
}

/** Returns the parts of a URL, or undefined if it is not valid. */
function parse(input, base) {
  const text = input.replace(/[\t\n\r]/g, "");
  const [, scheme, rest] = /^([a-z][a-z0-9+.-]*:)?([\s\S]*)$/i.exec(text);
  const protocol = scheme?.toLowerCase();
  const [, main, search, hash] = /^([^?#]*)(?:\?([^#]*))?(?:#([\s\S]*))?$/.exec(rest);
  const tail = {
    search: search === undefined ? undefined : escapeAll(search, QUERY),
    hash: hash === undefined ? undefined : escapeAll(hash, FRAGMENT),
  };
  if (!protocol) return base && relative(main, tail, base);
  const path = protocol in PORTS ? main.replaceAll("\\", "/") : main;
  if (!path.startsWith("//")) {
    return protocol in PORTS ? undefined : { protocol, username: "", password: "", port: "", pathname: path, ...tail };
  }
  const at = authority(path, protocol);
  return at && { protocol, ...at, ...tail };
}

function relative(main, tail, base) {
  if (base.hostname === undefined) return undefined;
  const path = base.protocol in PORTS ? main.replaceAll("\\", "/") : main;
  if (path.startsWith("//")) {
    const at = authority(path, base.protocol);
    return at && { protocol: base.protocol, ...at, ...tail };
  }
  if (path === "") return { ...base, search: tail.search ?? base.search, hash: tail.hash };
  const folder = base.pathname.slice(0, base.pathname.lastIndexOf("/") + 1);
  return { ...base, pathname: normalize(path.startsWith("/") ? path : folder + path), ...tail };
}

function authority(text, protocol) {
  const match = /^\/\/(?:([^/]*)@)?(\[[0-9a-f:.]+\]|[^/:@[\]]*)(?::(\d*))?(\/[\s\S]*)?$/i.exec(text);
  if (!match) return undefined;
  const [, user = "", host, port = "", path = ""] = match;
  if (/[^\x21-\x7e]|[<>^|%#?\\]/.test(host) || (host === "" && protocol in PORTS) || Number(port) > 65535) return undefined;
  const [, username, password = ""] = /^([^:]*):?([\s\S]*)$/.exec(user);
  const number = port === "" ? "" : String(Number(port));
  return {
    username: escapeAll(username, USERINFO),
    password: escapeAll(password, USERINFO),
    hostname: protocol in PORTS ? host.toLowerCase() : host,
    port: number === PORTS[protocol] ? "" : number,
    pathname: normalize(path === "" && protocol in PORTS ? "/" : path),
  };
}

/** Percent-encodes a path and removes '.' and '..'. */
function normalize(path) {
  const segments = [];
  const all = path.split("/").slice(1);
  all.forEach((segment, i) => {
    const dots = segment.replace(/%2e/gi, ".");
    if (dots === "..") segments.pop();
    else if (dots !== ".") return segments.push(escapeAll(segment, PATH));
    if (i === all.length - 1) segments.push("");
  });
  return path === "" ? "" : `/${segments.join("/")}`;
}
