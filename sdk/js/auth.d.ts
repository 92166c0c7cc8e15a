export interface Header {
  name: string;
  value: string;
}
/** A secret that the host adds to the request. The plugin never sees it. */
export interface Auth {
  credential: string;
  placement: { tag: "header"; val: Header } | { tag: "query"; val: string };
}
/** The secret as `Authorization: Bearer SECRET`. `credential` is its name in SKILL.md, without `credential:`. */
export function bearer(credential: string): Auth;
/** The secret in a header, after `prefix`. */
export function header(credential: string, name: string, prefix?: string): Auth;
/** The secret as a parameter of the query. */
export function query(credential: string, name: string): Auth;
