import { checkMessages } from './check-messages.ts';
import { AgentLoopError } from './errors.ts';
import { isKnownType, type JournalRecord } from './records.ts';
import { shownValue } from './shown-value.ts';

type Kind = 'text' | 'number' | 'list' | 'object' | 'flag' | 'content' | 'any';

/** Members of a record; a `?` marks one that may be absent. */
type Shape = Readonly<Record<string, Kind | `${Kind}?`>>;

const stamp: Shape = { seq: 'number', epoch: 'number', at: 'number' };

const ofFailure: Shape = { code: 'text', message: 'text', reason: 'text' };

const shapes: ReadonlyMap<string, Shape> = new Map(
  Object.entries<Shape>({
    'turn.started': {
      schema: 'number',
      taskId: 'text',
      contextId: 'text',
      agentId: 'text',
      messages: 'list',
      settings: 'object',
      metadata: 'object?',
      trace: 'object?',
      forkedFrom: 'object?',
      parent: 'object?',
    },
    'turn.resumed': { trace: 'object?', lostAt: 'number?' },
    'llm.start': { iteration: 'number', attempt: 'number', tools: 'list?', options: 'object?', summary: 'flag?' },
    'llm.done': {
      iteration: 'number',
      attempt: 'number',
      message: 'object',
      calls: 'list',
      finishReason: 'text',
      usage: 'object?',
      model: 'text?',
    },
    'tool.intent': { callId: 'text', attempt: 'number', arguments: 'any', child: 'object?' },
    'tool.result': {
      callId: 'text',
      content: 'content',
      success: 'flag',
      error: 'object?',
      arguments: 'any?',
      durationMs: 'number',
      usage: 'object?',
      usageBy: 'list?',
      fails: 'object?',
    },
    'turn.suspended': {
      state: 'text',
      reason: 'text',
      questions: 'list',
      commands: 'list?',
      hold: 'object?',
      usage: 'object?',
    },
    'turn.asked': { question: 'object', usage: 'object?', usageBy: 'list?' },
    'agent.changed': { from: 'text', to: 'text', reason: 'text', callId: 'text?', note: 'text?' },
    'turn.answered': { callId: 'text', questionId: 'text', answer: 'any', command: 'text?' },
    'turn.done': { text: 'text', value: 'any?', reason: 'text', usage: 'object?' },
    'turn.failed': { ...ofFailure, usage: 'object?' },
    'turn.canceled': { reason: 'text', usage: 'object?' },
  }),
);

const ofQuestion: Shape = { callId: 'text', kind: 'text', toolName: 'text', prompt: 'text?', data: 'any?' };

const ofParent: Shape = { taskId: 'text', callId: 'text', agentId: 'text', rootTaskId: 'text' };

const ofHold: Shape = { until: 'number?', attempt: 'number?', error: 'object?' };

const ofChild: Shape = { taskId: 'text', agentId: 'text' };

const ofExtension: Shape = { effects: 'object?', data: 'any?', hook: 'text?', event: 'object?', command: 'text?' };

const ofEffects: Shape = {
  messages: 'list?',
  given: 'list?',
  earlier: 'number?',
  agent: 'object?',
  results: 'object?',
  settings: 'object?',
  tools: 'object?',
  finish: 'object?',
  usage: 'object?',
  usageBy: 'list?',
};

const ofUsage: Shape = { promptTokens: 'number', completionTokens: 'number', totalTokens: 'number' };

const ofToolNames: Shape = { add: 'list?', remove: 'list?' };

const ofChoice: Shape = { to: 'text', reason: 'text', callId: 'text?', note: 'text?' };

const kinds: { readonly [Name in Kind]: readonly [fits: (value: unknown) => boolean, what: string] } = {
  text: [(value) => typeof value === 'string', 'a text'],
  number: [Number.isFinite, 'a number'],
  list: [Array.isArray, 'a list'],
  object: [isObject, 'an object'],
  flag: [(value) => typeof value === 'boolean', 'true or false'],
  content: [(value) => typeof value === 'string' || Array.isArray(value), 'a text or a list of parts'],
  any: [(value) => value !== undefined, 'a value'],
};

/**
 * Checks that something is a record of a journal: a type that this version knows, and the members of that type. Whether it may stand
 * where it stands is for the fold to say. Errors: `POISON`, naming the member and what it has to be.
 */
export function checkRecord(value: unknown): asserts value is JournalRecord {
  if (!isObject(value)) throw misshapen(`a record is an object, not ${shownValue(value)}`);
  const type: unknown = Reflect.get(value, 'type');
  if (typeof type !== 'string' || !isKnownType(type))
    throw misshapen(`there is no record of the type ${shownValue(type)}`);
  checkMembers(value, { ...stamp, ...(shapes.get(type) ?? ofExtension) }, type);
  checkInner(value, type);
}

function checkMembers(value: object, shape: Shape, type: string): void {
  for (const [name, rule] of Object.entries(shape)) {
    const member: unknown = Reflect.get(value, name);
    if (member === undefined && rule.endsWith('?')) continue;
    const [fits, what] = kinds[kindOf(rule)];
    if (!fits(member)) throw misshapen(`${type} needs ${name}, ${what}, not ${shownValue(member)}`);
  }
}

function kindOf(rule: Kind | `${Kind}?`): Kind {
  const bare = rule.replace('?', '');
  return isKind(bare) ? bare : 'any';
}

function isKind(name: string): name is Kind {
  return name in kinds;
}

/** The members that the fold and the events look into. */
function checkInner(value: object, type: string): void {
  const record = new Map<string, unknown>(Object.entries(value));
  if (type === 'turn.started') checkMessageList(record.get('messages'), type);
  if (type === 'llm.done') {
    checkMessageList([record.get('message')], type);
    checkCalls(record.get('calls'));
  }
  const question = record.get('question');
  if (type === 'turn.asked' && isObject(question)) checkMembers(question, ofQuestion, type);
  const parent = record.get('parent');
  if (type === 'turn.started' && isObject(parent)) checkMembers(parent, ofParent, `${type}: parent`);
  const child = record.get('child');
  if (type === 'tool.intent' && isObject(child)) checkMembers(child, ofChild, `${type}: child`);
  const hold = record.get('hold');
  if (type === 'turn.suspended' && isObject(hold)) checkMembers(hold, ofHold, `${type}: hold`);
  const fails = record.get('fails');
  if (type === 'tool.result' && isObject(fails)) checkMembers(fails, ofFailure, `${type}: fails`);
  const effects = record.get('effects');
  if (!shapes.has(type) && isObject(effects)) checkEffects(effects, type);
}

function checkEffects(effects: object, type: string): void {
  checkMembers(effects, ofEffects, type);
  for (const [name, shape] of Object.entries({ usage: ofUsage, tools: ofToolNames, agent: ofChoice })) {
    const inner: unknown = Reflect.get(effects, name);
    if (isObject(inner)) checkMembers(inner, shape, `${type}: ${name}`);
  }
  for (const name of ['messages', 'given'] as const) {
    const messages: unknown = Reflect.get(effects, name);
    if (messages !== undefined) checkMessageList(messages, type);
  }
}

function checkMessageList(messages: unknown, type: string): void {
  try {
    checkMessages(Array.isArray(messages) ? messages : []);
  } catch (error) {
    throw misshapen(`${type}: ${error instanceof Error ? error.message.replace(/\.$/, '') : 'its messages are none'}`);
  }
}

function checkCalls(calls: unknown): void {
  for (const call of Array.isArray(calls) ? calls : []) {
    const usable =
      typeof call?.callId === 'string' &&
      typeof call.call?.id === 'string' &&
      typeof call.call.function?.name === 'string' &&
      typeof call.call.function.arguments === 'string';
    if (!usable) throw misshapen('llm.done needs calls of the form { callId, call: { id, type, function } }');
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function misshapen(why: string): AgentLoopError {
  return new AgentLoopError('POISON', `This is no record of a journal: ${why}.`);
}
