// Where the host puts a secret into a request. The plugin names the secret and never sees it.

/** The secret `credential` as `Authorization: Bearer SECRET`. */
export const bearer = (credential) => header(credential, "authorization", "Bearer ");

/** The secret in a header, after `prefix`. */
export const header = (credential, name, prefix = "") => ({ credential, placement: { tag: "header", val: { name, value: prefix } } });

/** The secret as a parameter of the query. */
export const query = (credential, name) => ({ credential, placement: { tag: "query", val: name } });
