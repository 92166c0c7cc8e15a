// Schemas: one declaration is both the JSON Schema that the host checks and the TypeScript type that the tool receives.

/** A JSON Schema with the type of the values that satisfy it. */
export class Schema {
  #json;
  #parse;

  constructor(json, parse = undefined, isOptional = false) {
    this.#json = json;
    this.#parse = parse;
    this.isOptional = isOptional;
  }

  /** Makes a property optional. */
  optional() {
    return new Schema(this.#json, this.#parse, true);
  }

  /** Makes a property optional; the tool receives `value` in its place. */
  default(value) {
    return new Schema(
      { ...this.#json, default: value },
      (given) => (given === undefined ? structured(value) : this.parse(given)),
      true,
    );
  }

  /** Allows null as well. */
  nullable() {
    return new Schema({ anyOf: [this.#json, { type: "null" }] }, (value) => (value === null ? null : this.parse(value)));
  }

  /** Returns the JSON Schema. */
  toJSON() {
    return this.#json;
  }

  /** Returns `value`, which satisfies the schema, with defaults filled in. */
  parse(value) {
    return this.#parse ? this.#parse(value) : value;
  }
}

// A copy, because a tool may change its input.
const structured = (value) => JSON.parse(JSON.stringify(value));

const scalar = (type) => (description, options) => new Schema({ type, ...about(description), ...options });

const about = (description) => {
  if (description === undefined) return {};
  if (typeof description !== "string") throw new TypeError("the description of a schema must be a string; options come after it");
  return { description };
};

const expect = (schema, where) => {
  if (schema instanceof Schema) return schema;
  throw new TypeError(`${where} must be a schema such as s.string(); wrap a JSON Schema in s.raw({…})`);
};

/** Builds schemas. Models see the descriptions, and choose values by them. */
export const s = {
  string: scalar("string"),
  number: scalar("number"),
  integer: scalar("integer"),
  boolean: scalar("boolean"),
  enum: (values, description) => new Schema({ type: "string", enum: [...values], ...about(description) }),
  array(items, description, options) {
    expect(items, "the items of s.array()");
    return new Schema({ type: "array", items: items.toJSON(), ...about(description), ...options }, (value) =>
      value.map((item) => items.parse(item)),
    );
  },
  object(properties, description, options) {
    const entries = Object.entries(properties ?? {}).map(([name, schema]) => [name, expect(schema, `the property '${name}'`)]);
    const required = entries.filter(([, schema]) => !schema.isOptional).map(([name]) => name);
    const json = {
      type: "object",
      ...about(description),
      properties: Object.fromEntries(entries.map(([name, schema]) => [name, schema.toJSON()])),
      ...(required.length > 0 ? { required } : {}),
      additionalProperties: false,
      ...options,
    };
    return new Schema(json, (value) => {
      const parsed = { ...value };
      for (const [name, schema] of entries) {
        if (Object.hasOwn(value, name)) parsed[name] = schema.parse(value[name]);
        else if ("default" in schema.toJSON()) parsed[name] = schema.parse(undefined);
      }
      return parsed;
    });
  },
  /** An object with arbitrary names, whose values all satisfy `values`. */
  record(values, description) {
    expect(values, "the values of s.record()");
    return new Schema({ type: "object", additionalProperties: values.toJSON(), ...about(description) }, (value) =>
      Object.fromEntries(Object.entries(value).map(([name, item]) => [name, values.parse(item)])),
    );
  },
  /** Any of several schemas. Defaults inside them are not filled in. */
  union: (...schemas) => new Schema({ anyOf: schemas.map((schema) => expect(schema, "each part of s.union()").toJSON()) }),
  any: (description) => new Schema(about(description)),
  /** Any JSON Schema, as an object. In TypeScript, name the type: `s.raw<{ id: string }>({ … })`. */
  raw(json) {
    if (typeof json !== "object" || json === null) throw new TypeError("s.raw() needs a JSON Schema as an object, not as text");
    return new Schema(json);
  },
};
