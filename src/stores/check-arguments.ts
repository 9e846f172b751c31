import { throwError } from 'rxjs';
import {
  AgentLoopError,
  type ArtifactQuery,
  type ArtifactStore,
  type ChunkOptions,
  type ContextQuery,
  isObject,
  jsonFlaw,
  type LoadOptions,
  type MessageQuery,
  type MessageStore,
  type MetadataOptions,
  type PostOptions,
  type ReadOptions,
  shownValue,
  type TaskQuery,
  type TaskStateStore,
  type TurnAppendOptions,
  taskIdPattern,
  type VersionOptions,
} from '../core/contracts/index.ts';
import { type OptionRule, wholeNumber } from '../options/option-rules.ts';
import type { StatusQuery } from './task-summary.ts';

/** What is wrong with an argument. */
export interface Flaw {
  /** Its path in the argument; empty for the argument itself. */
  readonly at: string;
  /** The message after the location. */
  readonly says: string;
}

/** `undefined` if the value is valid. Names are built only for a flaw: these checks run at each append. */
export type Check = (value: unknown) => Flaw | undefined;

/** The checks of a method: one per argument, in order, and how it returns errors. */
export interface MethodArguments {
  /** The check of each argument, by its name, in order. */
  readonly of: Readonly<Record<string, Check>>;
  /** An observable, or an iteration, errors at subscription or iteration. */
  readonly answers?: 'observable' | 'iteration';
}

/** The checks of all methods of a store; `unchecked` for one that never fails. */
export type StoreArguments<Store> = {
  readonly [Method in keyof Store as Required<Store>[Method] extends (...given: never[]) => unknown ? Method : never]-?:
    | MethodArguments
    | 'unchecked';
};

/**
 * Makes the methods of a store refuse arguments of another type, before they do anything: `INVALID_INPUT`, naming the argument. Callers in
 * JavaScript, or with `any`, would otherwise get a wrong result: `list('t1')` is not a query, and returned the artifacts of all tasks.
 *
 * For the static block of a class, with its prototype. An `async` method rejects, and so do those in `promising`, which may be all; others throw.
 */
export function checkArguments<Store extends object>(
  prototype: Store,
  methods: StoreArguments<Store>,
  promising: readonly (keyof Store)[] | 'all' = [],
): void {
  const names = new Set<PropertyKey>(promising === 'all' ? Object.keys(methods) : promising);
  for (const [name, method] of Object.entries<MethodArguments | 'unchecked'>(methods)) {
    if (method !== 'unchecked') checkMethod(prototype, name, { ...method, promises: names.has(name) });
  }
}

interface CheckedMethod extends MethodArguments {
  readonly promises: boolean;
}

function checkMethod(prototype: object, name: string, { of, answers, promises }: CheckedMethod): void {
  const inner: unknown = Reflect.get(prototype, name);
  if (typeof inner !== 'function') throw new TypeError(`${name} is not a method`);
  const [names, checks] = [Object.keys(of), Object.values(of)];
  const rejects = promises || Object.prototype.toString.call(inner) === '[object AsyncFunction]';
  const refuse = (error: unknown): unknown => {
    if (answers === 'observable') return throwError(() => error);
    if (answers === 'iteration') return failing(error);
    if (rejects) return Promise.reject(error);
    throw error;
  };
  const checked = function (this: unknown, ...given: unknown[]): unknown {
    for (let index = 0; index < checks.length; index++) {
      const flaw = checks[index]?.(given[index]);
      if (flaw) return refuse(refusal(names[index] ?? '', flaw));
    }
    return Reflect.apply(inner, this, given);
  };
  Object.defineProperty(prototype, name, { value: checked, writable: true, configurable: true });
}

// biome-ignore lint/correctness/useYield: it fails at the first chunk.
async function* failing(error: unknown): AsyncGenerator<never> {
  throw error;
}

function refusal(argument: string, { at, says }: Flaw): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${argument}${at} ${says}`);
}

export function flaw(value: unknown, wanted: string): Flaw {
  return { at: '', says: `must be ${wanted}, got ${shownValue(value)}.` };
}

/** Prepends the path of the containing value to a flaw. */
export function inside(place: string, found: Flaw): Flaw {
  return { at: place + found.at, says: found.says };
}

export const text: Check = (value) => (typeof value === 'string' ? undefined : flaw(value, 'a string'));

const id: Check = (value) => {
  if (typeof value !== 'string') return text(value);
  return taskIdPattern.test(value) ? undefined : flaw(value, '1 to 128 of the characters A-Z a-z 0-9 _ . : -');
};

/** Refuses NaN, accepts infinity. */
export const number: Check = (value) =>
  typeof value === 'number' && !Number.isNaN(value) ? undefined : flaw(value, 'a number');

const flag: Check = (value) => (typeof value === 'boolean' ? undefined : flaw(value, 'true or false'));

export const anything: Check = () => undefined;

/** An object with these members, and possibly others. */
export function having(members: Readonly<Record<string, Check>>): Check {
  const all = Object.entries(members);
  return (value) => {
    if (!isObject(value)) return flaw(value, 'an object');
    for (const [member, check] of all) {
      const found = check(value[member]);
      if (found) return inside(`.${member}`, found);
    }
    return undefined;
  };
}

/** Options, or nothing: an object with some of these members and no others, so that a misspelled one is refused. */
export function options<Options>(members: { readonly [Member in keyof Options]-?: Check }): Check {
  const checks = new Map<string, Check>(Object.entries(members));
  const allowed = [...checks.keys()].join(', ');
  return (value) => {
    if (value === undefined) return undefined;
    if (!isObject(value)) return flaw(value, `an object with ${allowed}`);
    for (const [member, given] of Object.entries(value)) {
      const check = checks.get(member);
      if (!check) return { at: '', says: `has the unknown property "${member}"; allowed: ${allowed}.` };
      const found = given === undefined ? undefined : check(given);
      if (found) return inside(`.${member}`, found);
    }
    return undefined;
  };
}

export function optional(check: Check): Check {
  return (value) => (value === undefined ? undefined : check(value));
}

const list: Check = (value) => (Array.isArray(value) ? undefined : flaw(value, 'an array'));

const texts: Check = (value) => {
  if (!Array.isArray(value)) return list(value);
  for (const [index, each] of value.entries()) {
    const found = text(each);
    if (found) return inside(`[${index}]`, found);
  }
  return undefined;
};

const content: Check = (value) =>
  typeof value === 'string' || value instanceof Uint8Array ? undefined : flaw(value, 'a string or bytes');

const leaseMembers = having({ taskId: text, owner: text, epoch: number, seq: number, leaseMs: number });

const recordMembers = having({ type: text, seq: number });

const withStatus = having({ status: text });

/** The type that the checks test first, without a call per member: they run at each append. */
type Given = Readonly<Record<string, unknown>> | null | undefined;

const lease: Check = (value) => {
  const { taskId, owner, epoch, seq, leaseMs } = (value as Given) ?? {};
  const texts = typeof taskId === 'string' && typeof owner === 'string';
  const isSound = texts && Number.isFinite(epoch) && Number.isFinite(seq) && Number.isFinite(leaseMs);
  return isSound ? undefined : leaseMembers(value);
};

const records: Check = (value) => {
  if (!Array.isArray(value)) return list(value);
  for (let index = 0; index < value.length; index++) {
    const each: Given = value[index];
    if (typeof each?.['type'] === 'string' && Number.isFinite(each['seq'])) continue;
    const found = recordMembers(each);
    if (found) return inside(`[${index}]`, found);
  }
  return undefined;
};

const status: Check = (value) => (typeof (value as Given)?.['status'] === 'string' ? undefined : withStatus(value));

const from = options<ReadOptions>({ from: number });

const statusMembers = options<StatusQuery>({
  group: text,
  after: having({ statusAt: text, taskId: text }),
  since: text,
});

const withGroup = having({ group: text });

const taskQuery = options<TaskQuery>({
  runnable: flag,
  dueBy: number,
  agentId: text,
  state: text,
  contextId: text,
  roots: flag,
  parentTaskId: text,
  byStatus: (value) => statusMembers(value) ?? withGroup(value),
  afterTaskId: id,
  limit: number,
});

const orderedQuery: Check = (value) => {
  const found = taskQuery(value);
  const { afterTaskId, runnable, byStatus } = (value as TaskQuery | undefined) ?? {};
  if (found || afterTaskId === undefined || !(runnable || byStatus)) return found;
  return { at: '.afterTaskId', says: 'does not go with runnable or byStatus, which have an order of their own.' };
};

/** The checks of the arguments of a `TaskStateStore`, for `checkArguments`. */
export const stateStoreArguments: StoreArguments<TaskStateStore> = {
  create: { of: { taskId: id, started: having({ type: text, contextId: text, agentId: text }) } },
  acquire: { of: { taskId: id, owner: text, leaseMs: number, under: optional(having({ taskId: id, epoch: number })) } },
  append: { of: { lease, records, options: status } },
  renew: { of: { lease } },
  release: { of: { lease } },
  breakLease: { of: { taskId: id } },
  commands: { of: { taskId: id }, answers: 'observable' },
  post: {
    of: { taskId: id, command: having({ id: text, type: text }), options: options<PostOptions>({ most: number }) },
  },
  read: { of: { taskId: id, options: from } },
  follow: { of: { taskId: id, options: from }, answers: 'observable' },
  publish: 'unchecked',
  refersTo: 'unchecked',
  load: { of: { taskId: id } },
  describe: { of: { taskId: id } },
  list: { of: { query: orderedQuery } },
  delete: { of: { taskId: id } },
  check: { of: {} },
};

export const messageStoreArguments: StoreArguments<MessageStore> = {
  begin: { of: { contextId: id, taskId: id } },
  withdraw: { of: { contextId: id, taskId: id } },
  append: {
    of: {
      contextId: id,
      taskId: id,
      messages: list,
      options: options<TurnAppendOptions>({ agentId: text, createdAt: texts, registered: flag }),
    },
  },
  setAgent: { of: { contextId: id, agentId: text } },
  load: { of: { contextId: id, options: options<LoadOptions>({ limit: number, before: number }) } },
  list: {
    of: { contextId: id, query: options<MessageQuery>({ limit: number, order: text, after: text }) },
  },
  setMetadata: {
    of: {
      contextId: id,
      metadata: having({}),
      options: options<MetadataOptions>({ version: number, minTotal: number }),
    },
  },
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

/** The maximum size of metadata, in characters of their JSON: of the application's members, and of the engine's. */
const maxMetadataLength = 1024 * 1024;

/** The members that the engine adds: the summary of a context, and `millrace.…`. They take no room from the application's. */
function isOfEngine(name: string): boolean {
  return name === 'compaction' || name.startsWith('millrace.');
}

/** Metadata as JSON. Errors: `INVALID_INPUT` for anything but an object, values that JSON changes, and too large ones. */
export function encodeMetadata(metadata: object): string {
  if (!isObject(metadata)) {
    throw invalidInput(`metadata must be an object, not ${shownValue(metadata)}.`);
  }
  const text = encodeJson(metadata, 'metadata');
  if (text.length <= maxMetadataLength) return text;
  const members = Object.entries(metadata);
  for (const ofEngine of [false, true]) {
    const part = Object.fromEntries(members.filter(([name]) => isOfEngine(name) === ofEngine));
    const { length } = JSON.stringify(part);
    if (length <= maxMetadataLength) continue;
    throw invalidInput(
      `metadata is ${length} characters of JSON, more than ${maxMetadataLength}; keep large content in an ArtifactStore.`,
    );
  }
  return text;
}

/** A value as JSON. Errors: `INVALID_INPUT`, naming the first member that JSON would lose or change. */
export function encodeJson(value: object, name: string): string {
  const flaw = jsonFlaw(value, name);
  if (flaw !== undefined)
    throw invalidInput(`${flaw}, which JSON does not keep; pass strings, numbers, arrays and objects.`);
  return JSON.stringify(value);
}

function invalidInput(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', sentence);
}

/** How long something is kept. Null keeps it. */
export const aTimeToLive: OptionRule = {
  fits: (value) => value === null || wholeNumber(1).fits(value),
  must: 'be a whole number of seconds from 1, or null to keep what is stored',
};

/** How much is kept at most; infinity for all. */
export function aMost(least: number): OptionRule {
  return { fits: (value) => typeof value === 'number' && value >= least, must: `be a number from ${least}` };
}

/** Milliseconds of `aTimeToLive`. */
export function keptMs(ttl: number | null): number {
  return ttl === null ? Number.POSITIVE_INFINITY : ttl * 1_000;
}
