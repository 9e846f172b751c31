/** What one vendor accepts of JSON Schema, as data. Whatever a member does not forbid is accepted, as long as it is well-formed. */
export interface SchemaRules {
  /** Keywords that the root may not have. Its type is always `object`. */
  readonly rootRefuses?: readonly string[];
  /** The only keywords that the root may have. */
  readonly rootKeywords?: readonly string[];
  /** The only keywords that a schema may have. Absent: any, also unknown ones. */
  readonly keywords?: readonly string[];
  /** `any`: as they are; `defs`: to `#/$defs/NAME` only; `acyclic`: as `defs`, without recursion; `none`: inlined. */
  readonly references: 'any' | 'defs' | 'acyclic' | 'none';
  /** What may stand beside `$ref`. Absent: anything. */
  readonly besideReference?: readonly string[];
  /** What may not stand beside `anyOf`; `all`: nothing may. */
  readonly besideUnion?: readonly string[] | 'all';
  /** Several types in one schema: as they are, as branches of `anyOf`, or one type with `nullable`. Default `any`. */
  readonly typeLists?: 'any' | 'anyOf' | 'nullable';
  /** Whether each schema has a `type`, a `$ref` or a union. */
  readonly typed?: boolean;
  /** Whether each array has `items`. */
  readonly itemsGiven?: boolean;
  /** `given`: each object has `properties`; `filled`: none has empty ones. */
  readonly properties?: 'given' | 'filled';
  /** Whether each name in `required` is one of `properties`. */
  readonly requiredExist?: boolean;
  /** What a name of a property must match. */
  readonly propertyName?: RegExp;
  /** Whether each object has `additionalProperties: false`. */
  readonly closed?: boolean;
  /** Whether each property is required. */
  readonly allRequired?: boolean;
  /** Members of an `enum`: `filled`: no empty string; `strings`: not empty, and strings only. */
  readonly enums?: 'filled' | 'strings';
  /** The most members of an `enum`. */
  readonly maxEnum?: number;
  /** The only values of `format`. */
  readonly formats?: readonly string[];
  /** `portable`: without lookaround, back references and what only some engines know; `none`. Absent: any. */
  readonly patterns?: 'portable' | 'none';
  /** The largest values of keywords that are numbers. */
  readonly largest?: Readonly<Record<string, number>>;
  /** How deep objects and arrays may nest. */
  readonly maxDepth?: number;
  /** The most properties of all objects. */
  readonly maxProperties?: number;
  /** The rules for a schema that loses its meaning under these, where the vendor accepts one as not strict. */
  readonly relaxed?: SchemaRules;
  /** The most characters of the description of a tool. */
  readonly maxToolDescription?: number;
  /** The most tools of a request. */
  readonly maxTools?: number;
}

/** Anthropic refuses other names of properties; so does Bedrock for its models. */
const plainName = /^[a-zA-Z0-9_.-]{1,64}$/;

const unions = ['oneOf', 'anyOf', 'allOf'];

const basic = [
  'type',
  'title',
  'description',
  'enum',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'anyOf',
];
const referring = ['$ref', '$defs'];
const numeric = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
const strictFormats = ['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid'];
const numberFormats = ['int32', 'int64', 'float', 'double'];

/** https://platform.openai.com/docs/guides/function-calling, and the refusals of `/chat/completions` and `/responses`. */
const openai: SchemaRules = {
  rootRefuses: [...unions, 'enum', 'not', '$ref', 'const', 'if'],
  references: 'any',
  itemsGiven: true,
  properties: 'given',
  patterns: 'portable',
  maxToolDescription: 1_024,
  maxTools: 128,
};

/** https://platform.openai.com/docs/guides/structured-outputs#supported-schemas */
const openaiStrict: SchemaRules = {
  ...openai,
  keywords: [...basic, ...referring, ...numeric, 'const', 'pattern', 'format', 'minItems', 'maxItems'],
  references: 'defs',
  besideReference: [],
  typed: true,
  requiredExist: true,
  closed: true,
  allRequired: true,
  maxEnum: 1_000,
  formats: strictFormats,
  maxDepth: 10,
  maxProperties: 5_000,
  relaxed: openai,
};

/** https://docs.claude.com/en/docs/agents-and-tools/tool-use: draft 2020-12. */
const anthropic: SchemaRules = {
  rootRefuses: [...unions, '$ref'],
  references: 'any',
  propertyName: plainName,
  patterns: 'portable',
};

/** https://docs.claude.com/en/docs/build-with-claude/structured-outputs: there is no form that is not strict. */
const anthropicOutput: SchemaRules = {
  ...anthropic,
  keywords: [...basic, ...referring, 'const', 'pattern', 'format', 'minItems', 'default'],
  references: 'acyclic',
  besideReference: [],
  requiredExist: true,
  typed: true,
  closed: true,
  formats: [...strictFormats, 'uri'],
  largest: { minItems: 1 },
  relaxed: anthropic,
};

/** `parametersJsonSchema` and `responseJsonSchema` of https://ai.google.dev/api/caching#FunctionDeclaration. */
const google: SchemaRules = {
  rootRefuses: [...unions, '$ref', 'enum'],
  keywords: [
    ...basic,
    ...referring,
    'format',
    'prefixItems',
    'minItems',
    'maxItems',
    'minimum',
    'maximum',
    'oneOf',
    'propertyOrdering',
  ],
  references: 'acyclic',
  besideReference: [],
  // Packages send it as `parameters`, where each schema needs a type, and members of `enum` are strings.
  typed: true,
  itemsGiven: true,
  requiredExist: true,
  enums: 'strings',
  formats: ['date-time', 'date', 'time', ...numberFormats],
};

/** `parameters` and `responseSchema`, a subset of OpenAPI 3.0: https://ai.google.dev/api/caching#Schema. */
const googleOpenApi: SchemaRules = {
  rootRefuses: [...unions, 'enum'],
  keywords: [
    ...basic.filter((keyword) => keyword !== 'additionalProperties'),
    ...['format', 'nullable', 'pattern', 'minItems', 'maxItems', 'minLength', 'maxLength', 'minimum', 'maximum'],
    ...['minProperties', 'maxProperties', 'propertyOrdering'],
  ],
  references: 'none',
  besideUnion: 'all',
  typeLists: 'nullable',
  typed: true,
  itemsGiven: true,
  properties: 'filled',
  requiredExist: true,
  enums: 'strings',
  formats: ['date-time', 'enum', ...numberFormats],
  patterns: 'portable',
};

/** https://docs.x.ai/docs/guides/structured-outputs */
const xai: SchemaRules = {
  ...openai,
  keywords: [
    ...basic,
    ...referring,
    ...numeric,
    'definitions',
    'const',
    'oneOf',
    'format',
    'pattern',
    'default',
    'prefixItems',
  ],
};

/** "Moonshot flavored JSON Schema": https://platform.moonshot.ai/docs, and the refusals of its validator. */
const moonshot: SchemaRules = {
  ...openai,
  keywords: [
    ...[...basic, ...referring, ...numeric, 'const', 'default', 'format', 'pattern', 'prefixItems', 'uniqueItems'],
    ...['minItems', 'maxItems', 'minLength', 'maxLength'],
  ],
  references: 'defs',
  besideReference: ['description'],
  besideUnion: ['type'],
  typed: true,
  enums: 'filled',
};

/** https://docs.aws.amazon.com/nova/latest/userguide/tool-use-definition.html: Nova takes three keywords at the root. */
const bedrock: SchemaRules = {
  ...anthropic,
  rootRefuses: [...unions, 'not', 'enum', 'const'],
  rootKeywords: ['type', 'properties', 'required'],
  references: 'none',
  itemsGiven: true,
  properties: 'given',
};

/** The grammars of llama.cpp, with which Ollama and LM Studio keep a model to a schema. */
const llamaCpp: SchemaRules = {
  rootRefuses: [...unions, '$ref', 'not', 'enum', 'const'],
  keywords: [
    ...[
      ...basic,
      ...referring,
      ...numeric.slice(0, 4),
      'definitions',
      'const',
      'oneOf',
      'allOf',
      'prefixItems',
      'format',
    ],
    ...['minItems', 'maxItems', 'minLength', 'maxLength', 'default'],
  ],
  references: 'any',
  itemsGiven: true,
  properties: 'given',
  formats: ['date', 'time', 'date-time', 'uuid'],
  patterns: 'none',
  largest: { minItems: 500, maxItems: 500, minLength: 500, maxLength: 500 },
};

/** What every other dialect but the strict ones accepts, for a server that nobody knows. */
const careful: SchemaRules = {
  rootRefuses: [...unions, 'not', 'enum', 'const', 'if', '$ref'],
  keywords: [
    ...[
      ...basic,
      ...referring,
      'format',
      'default',
      'minimum',
      'maximum',
      'minItems',
      'maxItems',
      'minLength',
      'maxLength',
    ],
    'pattern',
  ],
  references: 'acyclic',
  besideReference: [],
  besideUnion: ['type'],
  itemsGiven: true,
  properties: 'given',
  requiredExist: true,
  propertyName: plainName,
  enums: 'filled',
  formats: ['date-time', 'date', 'time', 'uuid'],
  patterns: 'portable',
  largest: { minItems: 500, maxItems: 500, minLength: 500, maxLength: 500 },
  maxToolDescription: 1_024,
  maxTools: 128,
};

/** What the vendors accept. A dialect with `-strict` or `-output` is for `fitOutputSchema`, the others for tools. */
export const schemaDialects = {
  openai,
  'openai-strict': openaiStrict,
  anthropic,
  'anthropic-output': anthropicOutput,
  google,
  'google-openapi': googleOpenApi,
  mistral: openai,
  'mistral-strict': { ...openaiStrict, maxEnum: 500 },
  groq: openai,
  'groq-strict': openaiStrict,
  deepseek: openai,
  xai,
  'xai-strict': { ...openaiStrict, relaxed: xai },
  moonshot,
  'moonshot-strict': { ...openaiStrict, besideUnion: ['type'], relaxed: moonshot },
  zai: openai,
  minimax: openai,
  qwen: openai,
  bedrock,
  'llama-cpp': llamaCpp,
  careful,
  /** For an unknown server that offers a response format: what the strict ones have in common. */
  'careful-strict': {
    ...openaiStrict,
    keywords: [...basic, ...referring],
    besideUnion: ['type'],
    references: 'acyclic',
    propertyName: plainName,
    enums: 'filled',
    maxDepth: 5,
    maxProperties: 100,
    maxEnum: 500,
    relaxed: careful,
  },
} as const satisfies Readonly<Record<string, SchemaRules>>;

/** The name of a dialect. */
export type SchemaDialect = keyof typeof schemaDialects;
