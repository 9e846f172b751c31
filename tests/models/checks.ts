import { isRecord } from './is-record.ts';
import { valuesAt } from './json-path.ts';
import type { Check } from './model-case.ts';

/** A request as a server got it. */
export interface SeenRequest {
  readonly path: string;
  readonly raw: string;
  /** Absent where `raw` is not JSON. */
  readonly body?: unknown;
}

/** Whether the request satisfies the check. */
export function satisfies(check: Check, request: SeenRequest): boolean {
  if (check.onPath !== undefined && !request.path.includes(check.onPath)) return true;
  if (check.except !== undefined && request.raw.includes(check.except)) return true;
  if (check.if !== undefined) return !satisfies(check.if, request) || satisfies(check.then ?? {}, request);
  const found = Object.entries(wholeChecks).find(([name]) => name in check);
  if (found !== undefined) return found[1](check, request);
  return valuesFit(check, valuesAt(request.body, check.every ?? ''));
}

type RequestCheck = (check: Check, request: SeenRequest) => boolean;

/** Checks of the whole request, each by the member that names it. */
const wholeChecks: Readonly<Partial<Record<keyof Check, RequestCheck>>> = {
  some: ({ some = '' }, { body }) => valuesAt(body, some).length > 0,
  never: ({ never = '' }, { body }) => valuesAt(body, never).length === 0,
  distinct: ({ distinct = '' }, { body }) => isDistinct(valuesAt(body, distinct)),
  everyObjectIn: (check, { body }) => objectsFit(check, valuesAt(body, check.everyObjectIn ?? '')),
  strictSchema: ({ strictSchema = [], allRequired = false }, { body }) => {
    const [schema] = [strictSchema].flat().flatMap((path) => valuesAt(body, path));
    return schema !== undefined && isStrict(schema, allRequired);
  },
  noNeighbours: ({ noNeighbours: [before, after] = ['', ''] }, { body }) => {
    const roles = valuesAt(body, 'messages[].role');
    return !roles.some((role, index) => role === after && roles[index - 1] === before);
  },
  neverAfterFirst: ({ neverAfterFirst }, { body }) =>
    !valuesAt(body, 'messages[].role').slice(1).includes(neverAfterFirst),
  resultsFollowCalls: (_, { body }) => {
    const called = new Set<unknown>();
    return idsOf(body).every(({ call, result }) => {
      if (call !== undefined) called.add(call);
      return result === undefined || called.has(result);
    });
  },
  callsHaveResults: (_, { body }) => {
    const answered = new Set(idsOf(body).map(({ result }) => result));
    return idsOf(body).every(({ call }) => call === undefined || answered.has(call));
  },
  wellFormed: (_, { raw }) => !/[\ud800-\udfff]/u.test(raw) && !hasLoneEscape(raw),
  lacks: ({ lacks = '' }, { raw }) => !raw.includes(lacks),
  maxBody: ({ maxBody = 0 }, { raw }) => raw.length <= maxBody,
};

function valuesFit(check: Check, values: readonly unknown[]): boolean {
  if (values.length < (check.atLeast ?? 0)) return false;
  const { includes } = check;
  if (includes !== undefined) return values.length > 0 && values.every((value) => asText(value).includes(includes));
  if (Object.keys(check).every((name) => !(name in valueChecks)))
    if (check.atLeast === undefined) throw new Error(`unknown check: ${JSON.stringify(check)}`);
  return Object.entries(valueChecks).every(([name, fits]) => !(name in check) || values.every((v) => fits(check, v)));
}

type ValueCheck = (check: Check, value: unknown) => boolean;

/** Checks of each value at a path, each by the member that names it. */
const valueChecks: Readonly<Partial<Record<keyof Check, ValueCheck>>> = {
  matches: ({ matches = '' }, value) => new RegExp(matches).test(asText(value)),
  maxLength: ({ maxLength = 0 }, value) => typeof value === 'string' && value.length <= maxLength,
  has: ({ has = '' }, value) => isRecord(value) && value[has] !== undefined,
  hasNone: ({ hasNone = [] }, value) => isRecord(value) && hasNone.every((name) => value[name] === undefined),
  hasText: ({ hasText = '' }, value) => isRecord(value) && typeof value[hasText] === 'string',
  notEmpty: ({ notEmpty = [] }, value) => isRecord(value) && notEmpty.some((name) => !isEmpty(value[name])),
  notBlank: ({ notBlank = '' }, value) => isRecord(value) && !isBlank(value[notBlank]),
  isJson: (_, value) => typeof value === 'string' && isJson(value),
};

function asText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function isEmpty(value: unknown): boolean {
  return !(Array.isArray(value) || typeof value === 'string') || value.length === 0;
}

/** Blanks alone, or blocks of nothing but such text. */
function isBlank(content: unknown): boolean {
  if (typeof content === 'string') return content.trim() === '';
  if (!Array.isArray(content)) return true;
  return content.every((block) => block.type === 'text' && block.text.trim() === '');
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function isDistinct(values: readonly unknown[]): boolean {
  return new Set(values.map(asText)).size === values.length;
}

function objectsFit({ where = {}, has, hasNone, enumLacks }: Check, roots: readonly unknown[]): boolean {
  const meant = roots.flatMap(objectsIn).filter((object) =>
    Object.entries(where).every(([name, value]) => {
      if (name === 'hasArray') return Array.isArray(object[String(value)]);
      return object[name] === value;
    }),
  );
  if (has !== undefined) return meant.every((object) => object[has] !== undefined);
  if (hasNone !== undefined) return meant.every((object) => hasNone.every((name) => object[name] === undefined));
  return meant.every(({ enum: members }) => !Array.isArray(members) || !members.includes(enumLacks));
}

/** Every object at and below the value. */
function objectsIn(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (Array.isArray(value)) return value.flatMap(objectsIn);
  return isRecord(value) ? [value, ...Object.values(value).flatMap(objectsIn)] : [];
}

/** Whether every object of the schema is closed and, with `allRequired`, requires each of its properties. */
function isStrict(schema: unknown, allRequired: boolean): boolean {
  if (!isRecord(schema)) return true;
  const { properties, $defs, definitions, items, anyOf, oneOf, required, additionalProperties } = schema;
  const names = isRecord(properties) ? Object.keys(properties) : [];
  if (schema['type'] === 'object' || isRecord(properties)) {
    if (additionalProperties !== false) return false;
    if (allRequired && names.some((name) => !Array.isArray(required) || !required.includes(name))) return false;
  }
  const below = [properties, $defs, definitions].flatMap((schemas) =>
    isRecord(schemas) ? Object.values(schemas) : [],
  );
  return [...below, items, anyOf, oneOf].flat().every((inner) => isStrict(inner, allRequired));
}

interface CallId {
  readonly call?: unknown;
  readonly result?: unknown;
}

/** The ids of calls and of results in the order of the request, on every wire that has ids. */
function idsOf(body: unknown): readonly CallId[] {
  const messages = valuesAt(body, 'messages[]').flatMap((message): readonly CallId[] => [
    ...valuesAt(message, 'tool_calls[].id').map((call) => ({ call })),
    ...valuesAt(message, 'tool_call_id').map((result) => ({ result })),
    ...valuesAt(message, 'content[type=tool_use].id').map((call) => ({ call })),
    ...valuesAt(message, 'content[type=tool_result].tool_use_id').map((result) => ({ result })),
  ]);
  const items = valuesAt(body, 'input[]').flatMap((item): readonly CallId[] => {
    if (!isRecord(item)) return [];
    if (item['type'] === 'function_call') return [{ call: item['call_id'] }];
    return item['type'] === 'function_call_output' ? [{ result: item['call_id'] }] : [];
  });
  return [...messages, ...items];
}

/** Whether JSON text has half of a surrogate pair as an escape. */
function hasLoneEscape(json: string): boolean {
  const pairs = /\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}/gi;
  return /\\ud[89a-f][0-9a-f]{2}/i.test(json.replaceAll('\\\\', '').replace(pairs, ''));
}
