import { throwError } from 'rxjs';
import { AgentLoopError } from '../core/errors.ts';
import { shownValue } from '../core/shown-value.ts';
import type { ArtifactQuery, ArtifactStore, ChunkOptions, VersionOptions } from './artifacts/artifact-store.ts';
import type { CacheSetOptions, CacheStore } from './cache/cache-store.ts';
import { type ReadOptions, type TaskQuery, type TaskStateStore, taskIdPattern } from './interfaces.ts';
import type {
  ContextQuery,
  LoadOptions,
  MessageStore,
  MetadataOptions,
  TurnAppendOptions,
} from './messages/message-store.ts';
import type { PushStore } from './push/push-store.ts';

/** Throws `INVALID_INPUT` where `value` is not what `name` has to be. */
type Check = (value: unknown, name: string) => void;

/** Of a method: a check for each argument, in order, and what it answers besides a value or a promise. */
interface MethodArguments {
  readonly of: Readonly<Record<string, Check>>;
  /** An observable, or an iteration, gives the error to those who subscribe or iterate. */
  readonly answers?: 'observable' | 'iteration';
}

/** Of all methods of a store; `unchecked` for one that never fails. */
export type StoreArguments<Store> = {
  readonly [Method in keyof Store as Required<Store>[Method] extends (...given: never[]) => unknown ? Method : never]-?:
    | MethodArguments
    | 'unchecked';
};

/**
 * Has the methods of a store refuse arguments of another type, before they do anything: `INVALID_INPUT`, naming the argument. Callers in
 * JavaScript, or with `any`, would otherwise get what they did not ask for: `list('t1')` is no query, and gave the artifacts of all tasks.
 *
 * For the static block of a class, with its prototype. An `async` method rejects, another one throws.
 */
export function checkArguments<Store extends object>(prototype: Store, methods: StoreArguments<Store>): void {
  for (const [name, method] of Object.entries<MethodArguments | 'unchecked'>(methods)) {
    if (method !== 'unchecked') checkMethod(prototype, name, method);
  }
}

function checkMethod(prototype: object, name: string, { of, answers }: MethodArguments): void {
  const inner: unknown = Reflect.get(prototype, name);
  if (typeof inner !== 'function') throw new TypeError(`${name} is not a method`);
  const checks = Object.entries(of);
  const rejects = Object.prototype.toString.call(inner) === '[object AsyncFunction]';
  const refuse = (error: unknown): unknown => {
    if (answers === 'observable') return throwError(() => error);
    if (answers === 'iteration') return failing(error);
    if (rejects) return Promise.reject(error);
    throw error;
  };
  const checked = function (this: unknown, ...given: unknown[]): unknown {
    try {
      for (let index = 0; index < checks.length; index++) {
        const check = checks[index];
        check?.[1](given[index], check[0]);
      }
    } catch (error) {
      return refuse(error);
    }
    return Reflect.apply(inner, this, given);
  };
  Object.defineProperty(prototype, name, { value: checked, writable: true, configurable: true });
}

// biome-ignore lint/correctness/useYield: it fails at the first chunk.
async function* failing(error: unknown): AsyncGenerator<never> {
  throw error;
}

function refused(name: string, wanted: string, value: unknown): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${name} must be ${wanted}, got ${shownValue(value)}.`);
}

const text: Check = (value, name) => {
  if (typeof value !== 'string') throw refused(name, 'a string', value);
};

const id: Check = (value, name) => {
  text(value, name);
  if (taskIdPattern.test(String(value))) return;
  throw refused(name, '1 to 128 of the characters A-Z a-z 0-9 _ . : -', value);
};

/** NaN is none, infinity is. */
const number: Check = (value, name) => {
  if (typeof value !== 'number' || Number.isNaN(value)) throw refused(name, 'a number', value);
};

const flag: Check = (value, name) => {
  if (typeof value !== 'boolean') throw refused(name, 'true or false', value);
};

const anything: Check = () => {};

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An object with these members, and perhaps others. */
function having(members: Readonly<Record<string, Check>>): Check {
  const all = Object.entries(members);
  return (value, name) => {
    if (!isObject(value)) throw refused(name, 'an object', value);
    for (const [member, check] of all) check(Reflect.get(value, member), `${name}.${member}`);
  };
}

/** Options, or nothing: an object with some of these members and no others, so that a misspelt one is noticed. */
function options<Options>(members: { readonly [Member in keyof Options]-?: Check }): Check {
  const checks = new Map<string, Check>(Object.entries(members));
  const allowed = [...checks.keys()].join(', ');
  return (value, name) => {
    if (value === undefined) return;
    if (!isObject(value)) throw refused(name, `an object with ${allowed}`, value);
    for (const [member, given] of Object.entries(value)) {
      const check = checks.get(member);
      if (!check) {
        throw new AgentLoopError('INVALID_INPUT', `${name} has the unknown property "${member}"; allowed: ${allowed}.`);
      }
      if (given !== undefined) check(given, `${name}.${member}`);
    }
  };
}

function optional(check: Check): Check {
  return (value, name) => {
    if (value !== undefined) check(value, name);
  };
}

const list: Check = (value, name) => {
  if (!Array.isArray(value)) throw refused(name, 'an array', value);
};

function listOf(check: Check): Check {
  return (value, name) => {
    if (!Array.isArray(value)) throw refused(name, 'an array', value);
    for (const [index, each] of value.entries()) check(each, `${name}[${index}]`);
  };
}

const content: Check = (value, name) => {
  if (typeof value !== 'string' && !(value instanceof Uint8Array)) throw refused(name, 'a string or bytes', value);
};

const lease = having({ taskId: id, owner: text, epoch: number, seq: number, leaseMs: number });
const record = having({ type: text, seq: number });
const from = options<ReadOptions>({ from: number });

export const stateStoreArguments: StoreArguments<TaskStateStore> = {
  create: { of: { taskId: id, started: having({ type: text, contextId: text, agentId: text }) } },
  acquire: { of: { taskId: id, owner: text, leaseMs: number, under: optional(having({ taskId: id, epoch: number })) } },
  append: { of: { lease, records: listOf(record), options: having({ status: text }) } },
  renew: { of: { lease } },
  release: { of: { lease } },
  breakLease: { of: { taskId: id } },
  commands: { of: { taskId: id }, answers: 'observable' },
  post: { of: { taskId: id, command: having({ id: text, type: text }) } },
  read: { of: { taskId: id, options: from } },
  follow: { of: { taskId: id, options: from }, answers: 'observable' },
  publish: 'unchecked',
  load: { of: { taskId: id } },
  list: {
    of: {
      query: options<TaskQuery>({
        runnable: flag,
        state: text,
        contextId: text,
        roots: flag,
        contextGroup: text,
        behind: having({ statusAt: text, taskId: text }),
        statusSince: text,
        limit: number,
      }),
    },
  },
  delete: { of: { taskId: id } },
  check: { of: {} },
};

export const messageStoreArguments: StoreArguments<MessageStore> = {
  begin: { of: { contextId: id, taskId: id } },
  append: { of: { contextId: id, taskId: id, messages: list, options: options<TurnAppendOptions>({ agentId: text }) } },
  setAgent: { of: { contextId: id, agentId: text } },
  load: { of: { contextId: id, options: options<LoadOptions>({ limit: number, before: number }) } },
  setMetadata: { of: { contextId: id, metadata: having({}), options: options<MetadataOptions>({ version: number }) } },
  contexts: { of: { query: options<ContextQuery>({ limit: number, after: text }) } },
  delete: { of: { contextId: id } },
};

const version = options<VersionOptions>({ version: number });

export const artifactStoreArguments: StoreArguments<ArtifactStore> = {
  create: {
    of: { artifact: having({ name: text, artifactId: optional(id), taskId: optional(id), contextId: optional(id) }) },
  },
  update: {
    of: { artifactId: id, change: having({ name: optional(text), mediaType: optional(text) }), options: version },
  },
  append: { of: { artifactId: id, chunk: content, options: options<ChunkOptions>({ offset: number, last: flag }) } },
  describe: { of: { artifactId: id, options: version } },
  get: { of: { artifactId: id, options: version } },
  read: { of: { artifactId: id, options: version }, answers: 'iteration' },
  list: { of: { query: options<ArtifactQuery>({ taskId: id, contextId: id, limit: number, after: text }) } },
  delete: { of: { artifactId: id } },
};

export const cacheStoreArguments: StoreArguments<CacheStore> = {
  get: { of: { key: text } },
  set: { of: { key: text, value: anything, options: options<CacheSetOptions>({ ttlMs: number }) } },
  delete: { of: { key: text } },
};

const pushKey = having({ taskId: text, configId: text });
const cursor = optional(text);

/** Of a report on a delivery, by its `type`. */
const progress: Check = (value, name) => {
  having({ type: text, cursor })(value, name);
  if (!isObject(value)) return;
  const type: unknown = Reflect.get(value, 'type');
  if (type === 'held') return number(Reflect.get(value, 'leaseMs'), `${name}.leaseMs`);
  if (type === 'parked') return number(Reflect.get(value, 'afterMs'), `${name}.afterMs`);
  if (type !== 'over') throw refused(`${name}.type`, 'held, parked or over', type);
};

export const pushStoreArguments: StoreArguments<PushStore> = {
  add: { of: { entry: having({ taskId: text, configId: text, url: text, version: text, cursor }), most: number } },
  get: { of: { key: pushKey } },
  list: { of: { taskId: text } },
  delete: { of: { key: pushKey } },
  claim: { of: { options: having({ owner: text, leaseMs: number, limit: number, taskId: optional(text) }) } },
  update: { of: { key: pushKey, owner: text, progress } },
};
