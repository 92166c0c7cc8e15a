/** A JSON Schema (2020-12) as an object. */
export type JsonSchema = { [key: string]: unknown };

/** A JSON Schema with the type of the values that satisfy it. */
export class Schema<T, Optional extends boolean = false> {
  private constructor();
  readonly isOptional: Optional;
  /** Makes a property optional. */
  optional(): Schema<T | undefined, true>;
  /** Makes a property optional; the tool receives `value` in its place. */
  default(value: T): Schema<T, true> & Defaulted;
  /** Allows null as well. */
  nullable(): Schema<T | null>;
  toJSON(): JsonSchema;
  parse(value: unknown): T;
}

declare const defaulted: unique symbol;
/** Marks a schema whose property is always present in the tool's input. */
export interface Defaulted {
  readonly [defaulted]: true;
}

/** The type of the values that satisfy a schema. */
export type Infer<S> = S extends { parse(value: unknown): infer T } ? T : never;

type AnySchema = Schema<any, boolean>;
type Absent<P> = { [K in keyof P]: P[K] extends Defaulted ? never : P[K] extends Schema<any, true> ? K : never }[keyof P];
type Flat<T> = { [K in keyof T]: T[K] };
type ObjectOf<P> = Flat<{ [K in Exclude<keyof P, Absent<P>>]: Infer<P[K]> } & { [K in Absent<P>]?: Infer<P[K]> }>;

export interface StringOptions {
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
}
export interface NumberOptions {
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
}
export interface ArrayOptions {
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
}

/** Builds schemas. Models read the descriptions. */
export const s: {
  string(description?: string, options?: StringOptions): Schema<string>;
  number(description?: string, options?: NumberOptions): Schema<number>;
  integer(description?: string, options?: NumberOptions): Schema<number>;
  boolean(description?: string): Schema<boolean>;
  enum<const V extends readonly string[]>(values: V, description?: string): Schema<V[number]>;
  array<T>(items: Schema<T>, description?: string, options?: ArrayOptions): Schema<T[]>;
  /** An object with exactly these properties. To allow others: `{ additionalProperties: true }`. */
  object<P extends Record<string, AnySchema>>(properties: P, description?: string, options?: JsonSchema): Schema<ObjectOf<P>>;
  /** An object with arbitrary names, whose values all satisfy `values`. */
  record<T>(values: Schema<T>, description?: string): Schema<Record<string, T>>;
  /** Any of several schemas. Defaults inside them are not filled in. */
  union<S extends AnySchema[]>(...schemas: S): Schema<Infer<S[number]>>;
  any(description?: string): Schema<any>;
  /** Any JSON Schema: `s.raw<{ id: string }>({ type: "object", … })`. */
  raw<T = any>(json: JsonSchema): Schema<T>;
};
