type Test = (value: unknown) => boolean;

const types: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean', 'null', 'object', 'array']);

const isAny: Test = () => true;
const isText: Test = (value) => typeof value === 'string';
const isNumber: Test = (value) => typeof value === 'number' && Number.isFinite(value);
const isCount: Test = (value) => Number.isInteger(value) && Number(value) >= 0;
const isBoolean: Test = (value) => typeof value === 'boolean';
const isList: Test = (value) => Array.isArray(value);
const isEnum: Test = (value) =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.every((each) => !isObject(each) && !isList(each)) &&
  new Set(value).size === value.length;
const isUniqueListOf = (test: Test): Test => {
  return (value) => Array.isArray(value) && value.every(test) && new Set(value).size === value.length;
};
const areTypes = isUniqueListOf((each) => types.has(each));
const areSchemas: Test = (value) => Array.isArray(value) && value.length > 0 && value.every(isPlainSchema);

/** What the drafts agree on about each of the common keywords. */
const keywords: ReadonlyMap<string, Test> = new Map<string, Test>([
  ['type', (value) => types.has(value) || (areTypes(value) && (value as unknown[]).length > 0)],
  ['properties', (value) => isObject(value) && Object.values(value).every(isPlainSchema)],
  ['required', isUniqueListOf(isText)],
  ['additionalProperties', isPlainSchema],
  ['items', isPlainSchema],
  ...['anyOf', 'oneOf', 'allOf'].map((name): [string, Test] => [name, areSchemas]),
  ...['title', 'description', 'format', 'pattern'].map((name): [string, Test] => [name, isText]),
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'].map((name): [string, Test] => [name, isNumber]),
  ...['minLength', 'maxLength', 'minItems', 'maxItems'].map((name): [string, Test] => [name, isCount]),
  ...['const', 'default'].map((name): [string, Test] => [name, isAny]),
  ['enum', isEnum],
  ['examples', isList],
  ['uniqueItems', isBoolean],
]);

/**
 * Whether a schema has common keywords only, each in a form that every draft allows, and so needs no check by the meta-schema of its draft: to compile
 * that takes a tenth of a second. False says nothing. `schema` must not nest deeper than `maxSchemaDepth`.
 */
export function isPlainSchema(schema: unknown): boolean {
  if (!isObject(schema)) return typeof schema === 'boolean';
  return Object.entries(schema).every(([name, value]) => keywords.get(name)?.(value) === true);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
