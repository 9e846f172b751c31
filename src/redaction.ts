import {
  isObject,
  isSecretName,
  isSecretString,
  maxJsonDepth,
  parsedJson,
  secretMark,
  withoutForms,
} from './core/contracts/index.ts';

export { isSecretName };

/** Members of a JSON Schema that describe a value, and hold none. */
const describing: ReadonlySet<string> = new Set([
  'type',
  'title',
  'description',
  'format',
  'pattern',
  'minLength',
  'maxLength',
]);

/**
 * The same value without secrets: all strings and numbers under the names of secrets, at any depth, and what looks like one in any string,
 * also in a string that is JSON. JSON Schemas keep the description of a secret, and lose its default. `redact` is given every other text. Equal values come out equal, so that what fitted together still does.
 */
export function withoutSecrets(value: unknown, redact: (text: string) => string): unknown {
  return searched(value, redact, undefined);
}

/** `levels`: how deep JSON in a string may nest here, counted from the outermost string; `undefined` outside of strings. */
function searched(value: unknown, redact: (text: string) => string, levels: number | undefined): unknown {
  if (typeof value === 'string') return textWithoutSecrets(value, redact, levels);
  const below = levels === undefined ? undefined : levels - 1;
  if (Array.isArray(value))
    return value.map((each) => (isSecretEntry(each) ? markedEntry(each) : searched(each, redact, below)));
  if (typeof value !== 'object' || value === null) return value;
  const isNamed = holdsSecretValue(value);
  return withMembers(value, (name, member) => {
    if (typeof member === 'string' ? isSecretString(name, member) : isSecretName(name)) return marked(member);
    if (isNamed && /^value$/i.test(name)) return marked(member);
    if (name === 'rawHeaders' && Array.isArray(member)) return markedHeaders(member, redact, below);
    return name === 'properties' && isObject(member)
      ? withMembers(member, (property, schema) => propertyWithoutSecrets(property, schema, redact, below))
      : searched(member, redact, below);
  });
}

/** `{ name: 'DB_PASSWORD', value: '…' }`: a variable, a header, an option. */
function holdsSecretValue(value: object): boolean {
  return Object.entries(value).some(
    ([name, member]) =>
      typeof member === 'string' && /^(?:name|key|variable|header)$/i.test(name) && isSecretName(member),
  );
}

/** `['Authorization', '…']`, as the entries of headers, maps and forms are. */
function isSecretEntry(value: unknown): value is readonly [string, unknown] {
  return Array.isArray(value) && value.length === 2 && typeof value[0] === 'string' && isSecretName(value[0]);
}

function markedEntry([name, member]: readonly [string, unknown]): unknown {
  return [name, marked(member)];
}

/** Names and values by turns, as Node.js gives headers. */
function markedHeaders(
  headers: readonly unknown[],
  redact: (text: string) => string,
  levels: number | undefined,
): unknown {
  return headers.map((each, index) =>
    index % 2 === 1 && isSecretName(String(headers[index - 1])) ? marked(each) : searched(each, redact, levels),
  );
}

function withMembers(value: object, change: (name: string, member: unknown) => unknown): object {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, change(name, member)]));
}

/** `null`, a boolean and an empty string say nothing. */
function marked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(marked);
  if (typeof value === 'object' && value !== null) return withMembers(value, (_, member) => marked(member));
  return value === '' || value === null || value === undefined || typeof value === 'boolean' ? value : secretMark;
}

/** A property of a JSON Schema. */
function propertyWithoutSecrets(
  property: string,
  schema: unknown,
  redact: (text: string) => string,
  levels: number | undefined,
): unknown {
  if (!isSecretName(property)) return searched(schema, redact, levels);
  if (!isObject(schema)) return marked(schema);
  return withMembers(schema, (name, member) => {
    if (name === 'items') return propertyWithoutSecrets(property, member, redact, levels);
    return describing.has(name) && typeof member !== 'object' ? searched(member, redact, levels) : marked(member);
  });
}

function textWithoutSecrets(text: string, redact: (text: string) => string, levels = maxJsonDepth): string {
  const structure = structureIn(text, levels);
  if (structure !== undefined) {
    const clean = JSON.stringify(searched(structure, redact, levels));
    return clean === JSON.stringify(structure) ? text : clean;
  }
  return redact(withoutForms(text));
}

/** The object or array in a JSON string; one that nests too deep is searched as text. */
function structureIn(text: string, levels: number): object | undefined {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    const value = parsedJson(text, levels);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Members that name or type something; they are no texts. */
const structural: ReadonlySet<string> = new Set([
  'type',
  'role',
  'id',
  'callId',
  'toolCallId',
  'toolName',
  'taskId',
  'contextId',
  'agentId',
  'kind',
  'code',
  'state',
  'finishReason',
  'model',
  'command',
  'commands',
  'tools',
  'forkedFrom',
]);

/** Members whose value is the user's own, whatever its members are called. */
const opaque: ReadonlySet<string> = new Set(['arguments', 'data', 'answer', 'metadata', 'content']);

/**
 * The same structure without secrets, for what the engine itself lays out: records, requests, answers. Members that name something
 * stay; values that are the user's own are searched whatever their members are called; `redact` is given every other text.
 */
export function redactMembers(value: unknown, redact: (text: string) => string): unknown {
  if (Array.isArray(value)) return value.map((each) => redactMembers(each, redact));
  if (typeof value !== 'object' || value === null) return withoutSecrets(value, redact);
  const members = Object.entries(value).map(([name, member]): [string, unknown] => {
    if (structural.has(name) || (name === 'name' && 'arguments' in value)) return [name, member];
    return [name, opaque.has(name) ? withoutSecrets(member, redact) : redactMembers(member, redact)];
  });
  return Object.fromEntries(members);
}
