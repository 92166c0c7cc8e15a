// Expected failures of tools. Anything else that a tool throws is a bug, and traps.

/**
 * An expected failure of a tool. `kind` is a stable word for programs; `message` is for the user and the model.
 */
export class Failure extends Error {
  constructor(kind, message) {
    if (typeof kind !== "string" || typeof message !== "string") {
      throw new TypeError(
        `new Failure(kind, message) needs two strings, such as new Failure("invalid-input", "the name is empty"); ` +
          `got ${describe(kind)} and ${describe(message)}`,
      );
    }
    super(message);
    this.kind = kind;
  }

  get name() {
    return "Failure";
  }
}

/** An error that the host returned, such as `denied`. If it is not caught, it becomes the tool's failure, with the same message. */
export class HostError extends Failure {
  get name() {
    return "HostError";
  }
}

/** Returns `{ kind, message }` if `error` is a failure of any form, otherwise undefined. */
export function failureOf(error) {
  const failure = error instanceof Failure ? error : (error?.payload ?? (error instanceof Error ? undefined : error));
  if (typeof failure?.kind !== "string" || typeof failure.message !== "string") return undefined;
  return { kind: failure.kind.toWellFormed(), message: failure.message.toWellFormed() };
}

/** Describes a value in a few words, for error messages. */
export function describe(value) {
  if (value === null || value === undefined) return String(value);
  switch (typeof value) {
    case "string":
      return `the string ${JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)}`;
    case "number":
    case "boolean":
      return `the ${typeof value} ${value}`;
    case "bigint":
      return `the BigInt ${value}n`;
    case "symbol":
      return "a symbol";
    case "function":
      return value.name ? `the function '${value.name}'` : "a function";
  }
  if (Array.isArray(value)) return `an array of ${value.length}`;
  const name = value.constructor?.name;
  return name && name !== "Object" ? `a value of the class ${name}` : "an object";
}
