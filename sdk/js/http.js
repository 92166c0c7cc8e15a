// Requests to hosts that the operator granted. Needs `http:HOST`; a secret also needs `credential:NAME`.
import { send } from "patchbay:host/http";
import { array, bytes, host, optional, pairs, string, u32 } from "./host.js";
import { stringify } from "./content.js";
import { decode } from "./utf8.js";

/** The response of a server. */
class Response {
  constructor({ status, headers, body }) {
    this.status = status;
    this.headers = headers;
    this.body = body;
  }

  /** Whether the status is from 200 to 299. */
  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  /** Returns the first header of this name, or undefined. */
  header(name) {
    const wanted = name.toLowerCase();
    return this.headers.find((header) => header.name.toLowerCase() === wanted)?.value;
  }

  text() {
    return decode(this.body);
  }

  json() {
    return JSON.parse(this.text());
  }
}

export { bearer, header, query } from "./auth.js";

/** Sends a request and returns the response, whatever its status. Redirects are not followed. */
export function request(url, options = {}) {
  const { method, headers, auth = [], body, json, timeoutMs } = options;
  if (body !== undefined && json !== undefined) throw new TypeError("http.request: use either `body` or `json`, not both");
  const list = pairs("http.request: headers", headers);
  if (json !== undefined && !list.some(({ name }) => name.toLowerCase() === "content-type")) {
    list.push({ name: "content-type", value: "application/json" });
  }
  const content = json === undefined ? body : stringify(json);
  const message = {
    method: string("http.request: method", method ?? (content === undefined ? "GET" : "POST")),
    url: string("http.request: the URL", url instanceof URL ? url.href : url),
    headers: list,
    auth: array("http.request: auth", Array.isArray(auth) ? auth : [auth]).map(placed),
    body: optional(bytes, "http.request: body", content),
    timeoutMs: optional(u32, "http.request: timeoutMs", timeoutMs),
  };
  return new Response(host("http.request", () => send(message)));
}

const placed = (auth) => {
  const { tag, val } = auth?.placement ?? {};
  if (typeof auth?.credential !== "string" || !(tag === "query" ? typeof val === "string" : tag === "header")) {
    throw new TypeError('http.request: auth must be http.bearer("NAME"), http.header("NAME", …) or http.query("NAME", …), with the name of a credential');
  }
  if (tag === "header") pairs("http.request: auth", [val]);
  return auth;
};

/** Sends a GET request. */
export const get = (url, options) => request(url, { ...options, method: "GET" });

/** Sends a POST request with `body` or `json`. */
export const post = (url, options) => request(url, { ...options, method: "POST" });
