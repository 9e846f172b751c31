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

/**
 * A test that is true only for values that a plain schema allows in every draft, or `undefined` for a schema with keywords that are not tested here.
 * It takes time in proportion to the values of the schema times those of the value. `schema` must be plain: see `isPlainSchema`.
 */
export function plainTest(schema: unknown): Test | undefined {
  if (!isObject(schema)) return () => schema === true;
  const tests: Test[] = [];
  for (const [name, expected] of Object.entries(schema)) {
    if (annotations.has(name)) continue;
    const test = name === 'additionalProperties' ? othersTest(schema, expected) : testOf.get(name)?.(expected);
    if (test === undefined) return undefined;
    tests.push(test);
  }
  return (value) => tests.every((test) => test(value));
}

/** Keywords that allow every value. The properties that `additionalProperties` is about are those of its schema. */
const annotations: ReadonlySet<string> = new Set(['title', 'description', 'format', 'default', 'examples']);

const ofType: Readonly<Record<string, Test>> = {
  string: isText,
  number: isNumber,
  integer: (value) => Number.isInteger(value),
  boolean: isBoolean,
  null: (value) => value === null,
  object: isObject,
  array: isList,
};

/** For values of other types the keyword says nothing. */
function about<T>(isOne: (value: unknown) => boolean, test: (value: T) => boolean): Test {
  return (value) => !isOne(value) || test(value as T);
}

const ofNumber = (test: (value: number, limit: number) => boolean) => (limit: unknown) =>
  about<number>(
    (value) => typeof value === 'number',
    (value) => test(value, Number(limit)),
  );
const ofText = (test: (length: number, limit: number) => boolean) => (limit: unknown) =>
  about<string>(isText, (value) => test([...value].length, Number(limit)));
const ofList = (test: (length: number, limit: number) => boolean) => (limit: unknown) =>
  about<readonly unknown[]>(isList, ({ length }) => test(length, Number(limit)));
const atLeast = (value: number, limit: number) => value >= limit;
const atMost = (value: number, limit: number) => value <= limit;

/** The test of each keyword, made from what the schema gives for it. */
const testOf: ReadonlyMap<string, (expected: unknown) => Test | undefined> = new Map<
  string,
  (expected: unknown) => Test | undefined
>([
  ['type', typeTest],
  ['enum', (expected) => (value) => (expected as unknown[]).includes(value)],
  ['const', (expected) => (isObject(expected) || isList(expected) ? undefined : (value) => value === expected)],
  ['minimum', ofNumber(atLeast)],
  ['maximum', ofNumber(atMost)],
  ['exclusiveMinimum', ofNumber((value, limit) => value > limit)],
  ['exclusiveMaximum', ofNumber((value, limit) => value < limit)],
  ['minLength', ofText(atLeast)],
  ['maxLength', ofText(atMost)],
  ['minItems', ofList(atLeast)],
  ['maxItems', ofList(atMost)],
  ['items', itemsTest],
  ['properties', propertiesTest],
  ['required', (names) => about<object>(isObject, (value) => (names as string[]).every((name) => has(value, name)))],
  ['anyOf', (schemas) => ofSchemas(schemas, (tests) => (value) => tests.some((test) => test(value)))],
  ['allOf', (schemas) => ofSchemas(schemas, (tests) => (value) => tests.every((test) => test(value)))],
]);

function typeTest(expected: unknown): Test {
  const tests = [expected].flat().map((type) => ofType[String(type)] ?? isAny);
  const [only = isAny] = tests;
  return tests.length === 1 ? only : (value) => tests.some((test) => test(value));
}

function itemsTest(schema: unknown): Test | undefined {
  const test = plainTest(schema);
  return test && about<readonly unknown[]>(isList, (value) => value.every(test));
}

function propertiesTest(schemas: unknown): Test | undefined {
  const tests = Object.entries(schemas as object).map(([name, schema]) => [name, plainTest(schema)] as const);
  if (!tests.every(isComplete)) return undefined;
  return about<object>(isObject, (value) =>
    tests.every(([name, test]) => !has(value, name) || test(Reflect.get(value, name))),
  );
}

function isComplete(entry: readonly [string, Test | undefined]): entry is readonly [string, Test] {
  return entry[1] !== undefined;
}

function othersTest(schema: object, others: unknown): Test | undefined {
  const test = plainTest(others);
  const known: unknown = Reflect.get(schema, 'properties') ?? {};
  if (!test || !isObject(known)) return undefined;
  return about<object>(isObject, (value) =>
    Object.entries(value).every(([name, inner]) => Object.hasOwn(known, name) || test(inner)),
  );
}

function ofSchemas(schemas: unknown, combined: (tests: readonly Test[]) => Test): Test | undefined {
  const tests = (schemas as unknown[]).flatMap((schema) => plainTest(schema) ?? []);
  return tests.length === (schemas as unknown[]).length ? combined(tests) : undefined;
}

function has(value: object, name: string): boolean {
  return Object.hasOwn(value, name) && Reflect.get(value, name) !== undefined;
}
