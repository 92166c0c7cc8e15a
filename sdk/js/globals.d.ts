// Globals of a plugin in addition to the language's. setTimeout, fetch, process, clock and random numbers do not exist:
// code that needs them throws an explanation when it runs.
export {};

declare global {
  interface Console {
    debug(...values: unknown[]): void;
    trace(...values: unknown[]): void;
    log(...values: unknown[]): void;
    info(...values: unknown[]): void;
    warn(...values: unknown[]): void;
    error(...values: unknown[]): void;
    assert(condition?: unknown, ...values: unknown[]): void;
  }
  /** Writes to the log of the plugin; `patchbay plugin call` and a trap show the lines. */
  var console: Console;

  interface TextEncoder {
    readonly encoding: string;
    encode(input?: string): Uint8Array<ArrayBuffer>;
  }
  var TextEncoder: { prototype: TextEncoder; new (): TextEncoder };

  interface TextDecoder {
    readonly encoding: string;
    decode(input?: ArrayBuffer | ArrayBufferView, options?: { stream?: boolean }): string;
  }
  /** UTF-8 only. */
  var TextDecoder: { prototype: TextDecoder; new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder };

  interface URLSearchParams {
    readonly size: number;
    append(name: string, value: string): void;
    delete(name: string): void;
    get(name: string): string | null;
    getAll(name: string): string[];
    has(name: string): boolean;
    set(name: string, value: string): void;
    sort(): void;
    toString(): string;
    forEach(run: (value: string, name: string, parent: URLSearchParams) => void): void;
    entries(): IterableIterator<[string, string]>;
    keys(): IterableIterator<string>;
    values(): IterableIterator<string>;
    [Symbol.iterator](): IterableIterator<[string, string]>;
  }
  var URLSearchParams: {
    prototype: URLSearchParams;
    new (init?: string | Record<string, string> | Iterable<[string, string]> | URLSearchParams): URLSearchParams;
  };

  interface URL {
    readonly protocol: string;
    readonly username: string;
    readonly password: string;
    readonly host: string;
    readonly hostname: string;
    readonly port: string;
    readonly origin: string;
    readonly href: string;
    pathname: string;
    search: string;
    hash: string;
    readonly searchParams: URLSearchParams;
    toString(): string;
    toJSON(): string;
  }
  /** Hosts are ASCII; IPv4 addresses are not normalised. */
  var URL: { prototype: URL; new (url: string | URL, base?: string | URL): URL; canParse(url: string | URL, base?: string | URL): boolean };

  function atob(data: string): string;
  function btoa(data: string): string;
}
