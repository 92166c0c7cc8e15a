/** An expected failure of a tool: `throw new Failure("invalid-input", "the name is empty")`. */
export class Failure extends Error {
  /** `kind`: a stable word, such as `invalid-input`, `unavailable`, `failed`, or one of your own. */
  constructor(kind: string, message: string);
  readonly kind: string;
}

/**
 * An error that the host returned. `kind` is `denied`, `unavailable`, `invalid`, `not-found`, `too-large`, `too-deep`,
 * `quota`, `timeout`, `conflict` or `failed`; later versions may add more. Uncaught, it becomes the tool's failure.
 */
export class HostError extends Failure {}
