import { isObject } from './core/contracts/index.ts';

/** What stands in the place of a secret. */
const mark = '[redacted]';

const secretName =
  /(^|[^a-z])(((api|private|access|secret)_?key|authorization|passw(or)?d|pwd|passphrase|secret|cookie|credential)s?|(?<!(^|[^a-z])per_?)token|(access|refresh|auth|api|bearer|session|id|csrf)_?tokens)$/;

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

/** What a secret looks like, wherever it stands; `$1` is kept. */
const secretForms: readonly RegExp[] = [
  /\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}/gi,
  /(\b(?:sk|pk|rk)-)[\w-]{8,}/g,
  /(\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|AIza))[\w-]{8,}/g,
  // Tried once for each run of such characters, with the first `eyJ` in it: else its time would grow with the square of the text.
  /(?<![\w-])(?=([\w-]*?\beyJ))\1[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?/g,
  /(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@:]*:[^\s/@]+(?=@)/gi,
  /(\b(?:api[-_]?key|access[-_]?token|token|password|passwd|secret)["']?\s*[:=]\s*")[^"]+/gi,
  /(\b(?:api[-_]?key|access[-_]?token|token|password|passwd|secret)["']?\s*[:=]\s*')[^']+/gi,
  /(\b(?:api[-_]?key|access[-_]?token|token|password|passwd|secret)=)[^\s"'“”‘’,;&}]+/gi,
  /(\b(?:api[-_]?key|access[-_]?token|token|password|passwd|secret)["']?\s*[:=]\s*)[^\s"'“”‘’,;&}]{8,}/gi,
];

/** Whether a member of this name holds secrets: `apiKeys`, `x-api-key`, `access_token`, …; not `maxTokens`, a count. */
export function isSecretName(name: string): boolean {
  const words = name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').replaceAll('-', '_');
  return secretName.test(words.toLowerCase());
}

/**
 * The same value without secrets: all strings and numbers under the names of secrets, at any depth, and what looks like one in any string,
 * also in a string that is JSON. JSON Schemas keep the description of a secret, and lose its default. `redact` is given every other text. Equal values come out equal, so that what fitted together still does.
 */
export function withoutSecrets(value: unknown, redact: (text: string) => string): unknown {
  if (typeof value === 'string') return textWithoutSecrets(value, redact);
  if (Array.isArray(value)) return value.map((each) => withoutSecrets(each, redact));
  if (typeof value !== 'object' || value === null) return value;
  return withMembers(value, (name, member) => {
    if (isSecretName(name)) return marked(member);
    return name === 'properties' && isObject(member)
      ? withMembers(member, (property, schema) => propertyWithoutSecrets(property, schema, redact))
      : withoutSecrets(member, redact);
  });
}

function withMembers(value: object, change: (name: string, member: unknown) => unknown): object {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, change(name, member)]));
}

/** `null`, a boolean and an empty string say nothing. */
function marked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(marked);
  if (typeof value === 'object' && value !== null) return withMembers(value, (_, member) => marked(member));
  return value === '' || value === null || value === undefined || typeof value === 'boolean' ? value : mark;
}

/** A property of a JSON Schema. */
function propertyWithoutSecrets(property: string, schema: unknown, redact: (text: string) => string): unknown {
  if (!isSecretName(property)) return withoutSecrets(schema, redact);
  if (!isObject(schema)) return marked(schema);
  return withMembers(schema, (name, member) => {
    if (name === 'items') return propertyWithoutSecrets(property, member, redact);
    return describing.has(name) && typeof member !== 'object' ? withoutSecrets(member, redact) : marked(member);
  });
}

function textWithoutSecrets(text: string, redact: (text: string) => string): string {
  const structure = structureIn(text);
  if (structure !== undefined) {
    const clean = JSON.stringify(withoutSecrets(structure, redact));
    return clean === JSON.stringify(structure) ? text : clean;
  }
  return redact(secretForms.reduce((left, form) => left.replace(form, `$1${mark}`), text));
}

/** The object or array in a JSON string. */
function structureIn(text: string): object | undefined {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
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
