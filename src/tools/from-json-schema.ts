/**
 * The type that a JSON Schema written as a literal describes: `type`, `properties`, `required`, `items`, `enum` and
 * `const` are read. Anything else, and any schema whose type is too wide to read, gives `unknown`.
 */
export type FromJsonSchema<S> = S extends { readonly const: infer Value }
  ? Value
  : S extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : S extends { readonly type: infer Type }
      ? FromType<Type, S>
      : unknown;

type FromType<Type, S> = Type extends readonly (infer One)[]
  ? FromType<One, S>
  : Type extends 'string'
    ? string
    : Type extends 'number' | 'integer'
      ? number
      : Type extends 'boolean'
        ? boolean
        : Type extends 'null'
          ? null
          : Type extends 'array'
            ? FromItems<S>
            : Type extends 'object'
              ? FromProperties<S>
              : unknown;

type FromItems<S> = S extends { readonly items: infer Item } ? readonly FromJsonSchema<Item>[] : readonly unknown[];

type FromProperties<S> = S extends { readonly properties: infer Properties }
  ? Flat<
      {
        readonly [Key in keyof Properties as Key extends RequiredKey<S> ? Key : never]: FromJsonSchema<Properties[Key]>;
      } & {
        readonly [Key in keyof Properties as Key extends RequiredKey<S> ? never : Key]?: FromJsonSchema<
          Properties[Key]
        >;
      }
    >
  : Readonly<Record<string, unknown>>;

type RequiredKey<S> = S extends { readonly required: readonly (infer Key)[] }
  ? string extends Key
    ? never
    : Key
  : never;

type Flat<T> = { [Key in keyof T]: T[Key] };
