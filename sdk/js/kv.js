// A small persistent store for the skill. Needs the capability `kv`.
import * as raw from "patchbay:host/kv";
import { bytes, host, oneOf, optional, string, u32, u64 } from "./host.js";
import { stringify } from "./content.js";
import { decode } from "./utf8.js";

/** The keys of one scope. */
class Store {
  constructor(scope) {
    this.scope = scope;
  }

  /** Returns `{ value, version }`, or undefined if there is no such key. */
  entry(key) {
    const name = string("kv.get: the key", key);
    return host("kv.get", () => raw.get(this.scope, name)) ?? undefined;
  }

  /** Returns the bytes, or undefined. */
  get(key) {
    return this.entry(key)?.value;
  }

  /** Returns the value as a string, or undefined. */
  text(key) {
    const value = this.get(key);
    return value && decode(value);
  }

  /** Returns the value that `putJson` stored, or undefined. */
  json(key) {
    const value = this.text(key);
    return value === undefined ? undefined : JSON.parse(value);
  }

  /** Stores bytes or a string; returns the version. `expect`: the version that the key must have now; 0: it must not exist. */
  put(key, value, { expect } = {}) {
    const [name, data] = [string("kv.put: the key", key), bytes("kv.put: the value", value)];
    const version = optional(u64, "kv.put: expect", expect);
    return host("kv.put", () => raw.put(this.scope, name, data, version));
  }

  /** Stores a JSON value; returns the version. */
  putJson(key, value, options) {
    return this.put(key, stringify(value), options);
  }

  /** Returns whether the key existed. */
  delete(key) {
    const name = string("kv.delete: the key", key);
    return host("kv.delete", () => raw.delete(this.scope, name));
  }

  /** Returns keys, sorted by bytes: at most `limit` that begin with `prefix` and follow `after`. */
  keys({ prefix = "", after, limit = 1000 } = {}) {
    const [begin, from] = [string("kv.keys: prefix", prefix), optional(string, "kv.keys: after", after)];
    const most = u32("kv.keys: limit", limit);
    return host("kv.keys", () => raw.keys(this.scope, begin, from, most));
  }
}

/** The stores that all sessions of the user share, that all sessions of the workspace share, and that only this session uses. */
export const user = new Store("user");
export const workspace = new Store("workspace");
export const session = new Store("session");

/** Returns the store of a scope by its name. */
export const scope = (name) => ({ user, workspace, session })[oneOf("kv.scope: the name", name, ["user", "workspace", "session"])];
