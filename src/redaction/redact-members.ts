import { withoutSecrets } from './redact-secrets.ts';

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
