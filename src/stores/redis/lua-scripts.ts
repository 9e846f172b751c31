import { createHash } from 'node:crypto';
import { AgentLoopError, type Lease, type Under } from '../../core/contracts/index.ts';
import { busy, ended, fenced, newerSchema, notFound, olderParent, rewound } from '../store-rules.ts';
import { readLua } from './read-lua.ts';
import {
  type CommandArgument,
  command,
  isCluster,
  isNoScript,
  type RedisConnection,
  redisError,
  scriptsLost,
  torn,
  unconfirmed,
} from './redis-connection.ts';

/** A script in `lua/`; read at its first use. */
export class LuaScript {
  readonly #file: string;
  readonly #options: LuaOptions;
  #loaded: { readonly source: string; readonly sha1: string } | undefined;

  constructor(file: string, options: LuaOptions = {}) {
    this.#file = file;
    this.#options = options;
  }

  get source(): string {
    return this.#load().source;
  }

  get sha1(): string {
    return this.#load().sha1;
  }

  /**
   * For calls whose order does not matter; sends the source as well if Redis does not know the script. In a cluster, all
   * `keys` must be in one slot. Errors: `FULL`, `UNAVAILABLE`.
   */
  async run(
    connection: RedisConnection,
    keys: readonly string[],
    args: readonly CommandArgument[] = [],
  ): Promise<readonly unknown[]> {
    connection.assertOpen();
    const rest = [keys.length, ...keys, ...args];
    try {
      return listOf(await command(connection.client, 'evalsha', this.sha1, ...rest));
    } catch (thrown) {
      if (!isNoScript(thrown)) throw redisError(thrown);
    }
    return listOf(await connection.send('eval', this.source, ...rest));
  }

  #load() {
    const { prelude, flags } = this.#options;
    if (this.#loaded) return this.#loaded;
    const first = flags === undefined ? '#!lua' : `#!lua flags=${flags}`;
    const source = `${first}\n${prelude === undefined ? '' : readLua(prelude)}${readLua(this.#file)}`;
    this.#loaded = { source, sha1: createHash('sha1').update(source).digest('hex') };
    return this.#loaded;
  }
}

interface LuaOptions {
  /** The file that is prepended. */
  readonly prelude?: string;
  /** Its script flags. */
  readonly flags?: 'allow-oom' | 'no-writes';
}

const prelude = 'prelude';

/** The scripts of the state store. The number at the end of a file's name is its number of keys. */
const stateScripts = {
  create: new LuaScript('create-2', { prelude }),
  acquire: new LuaScript('acquire-2', { prelude }),
  append: new LuaScript('append-1', { prelude }),
  /** The same for a terminal record: a turn can end even if memory is full. */
  finish: new LuaScript('append-1', { prelude, flags: 'allow-oom' }),
  renew: new LuaScript('renew-1', { prelude, flags: 'allow-oom' }),
  release: new LuaScript('release-1', { prelude, flags: 'allow-oom' }),
  break: new LuaScript('break-1', { prelude, flags: 'allow-oom' }),
  post: new LuaScript('post-3', { prelude }),
  read: new LuaScript('read-3', { prelude, flags: 'no-writes' }),
  look: new LuaScript('look-2', { prelude, flags: 'no-writes' }),
  publish: new LuaScript('publish-2', { prelude }),
  delete: new LuaScript('delete-3', { prelude, flags: 'allow-oom' }),
  describe: new LuaScript('describe-1', { prelude, flags: 'no-writes' }),
};

type ScriptName = keyof typeof stateScripts;

/** Scripts that update the index of runnable tasks. */
const indexing: ReadonlySet<ScriptName> = new Set<ScriptName>([
  'create',
  'acquire',
  'append',
  'finish',
  'renew',
  'release',
  'break',
  'delete',
]);

export interface ScriptCall {
  readonly script: ScriptName;
  /** The first is the head of the task. */
  readonly keys: readonly [string, ...string[]];
  readonly args: readonly (string | number)[];
  readonly subject: ScriptSubject;
}

/** How many replicas must confirm a write, and how long to wait for them. */
export interface Confirmation {
  readonly replicas: number;
  readonly timeoutMs: number;
}

/**
 * Runs the scripts of the store on one client. Calls reach Redis in order. Errors with the error of the script's code,
 * `FULL` or `UNAVAILABLE`.
 */
export class ScriptRunner {
  readonly #connection: RedisConnection;
  /** The index of runnable tasks, which scripts maintain; none in a cluster, where it is in another slot than most tasks. */
  readonly #index: readonly string[];

  constructor(connection: RedisConnection, prefix: string) {
    this.#connection = connection;
    this.#index = isCluster(connection.client) ? [] : [runnableKey(prefix)];
  }

  /** For calls whose order does not matter: if Redis does not know the script, it is loaded and the call repeated. */
  async run(call: ScriptCall): Promise<ScriptAnswer> {
    this.#connection.assertOpen();
    return new ScriptAnswer(await this.#evaluateAnywhere(call), call.subject);
  }

  /**
   * For appends, which may be pipelined: if Redis does not know the script, it is loaded, and the error is `UNAVAILABLE` and
   * retryable, since later calls must not overtake this one. With `confirmation` it also waits for the replicas.
   */
  async runInOrder(call: ScriptCall, confirmation?: Confirmation): Promise<ScriptAnswer> {
    this.#connection.assertOpen();
    const { subject } = call;
    try {
      const reply = await (confirmation ? this.#evaluateAndConfirm(call, confirmation) : this.#evaluate(call));
      return new ScriptAnswer(reply, subject);
    } catch (thrown) {
      if (!isNoScript(thrown)) throw redisError(thrown, subject.taskId);
      this.#loadAnd(['exists', call.keys[0]]).catch(() => {});
      throw scriptsLost(subject.taskId);
    }
  }

  async #evaluateAnywhere(call: ScriptCall): Promise<unknown> {
    try {
      return await this.#evaluate(call).catch((thrown: unknown) => {
        if (isNoScript(thrown)) return this.#loadAnd(['evalsha', ...this.#evalArgs(call)]);
        throw thrown;
      });
    } catch (thrown) {
      throw redisError(thrown, call.subject.taskId);
    }
  }

  #evaluate(call: ScriptCall): Promise<unknown> {
    return command(this.#connection.client, 'evalsha', ...this.#evalArgs(call));
  }

  /** Both in one pipeline, since `WAIT` covers the writes of its own connection and has no key to find the node by. */
  async #evaluateAndConfirm(call: ScriptCall, { replicas, timeoutMs }: Confirmation): Promise<unknown> {
    const { taskId } = call.subject;
    const pipeline = this.#connection.client.pipeline([
      ['evalsha', ...this.#evalArgs(call)],
      ['wait', replicas, timeoutMs],
    ]);
    const [evaluated, waited] = (await pipeline.exec()) ?? [];
    const reply = outcomeOf(evaluated);
    const answer = Number(outcomeOf(waited));
    // The script's refusal comes first: there is nothing to confirm.
    new ScriptAnswer(reply, call.subject);
    if (answer < replicas) throw unconfirmed(taskId, answer, replicas);
    return reply;
  }

  /** Loads all scripts on the node of the keys of `last`, then sends `last`. */
  async #loadAnd(last: readonly (string | number)[]): Promise<unknown> {
    const load = Object.values(stateScripts).map(({ source }) => ['script', 'load', source]);
    const outcomes = await this.#connection.client.pipeline([...load, [...last]]).exec();
    return outcomeOf(outcomes?.at(-1));
  }

  #evalArgs({ script, keys, args }: ScriptCall): (string | number)[] {
    const index = indexing.has(script) ? this.#index : [];
    const declared = isCluster(this.#connection.client) ? withAllKeys(keys) : [...keys, ...index];
    return [stateScripts[script].sha1, declared.length, ...declared, ...args];
  }
}

/**
 * Adds the keys that the script derives: while a cluster migrates the slot, a node then refuses a task that it has only in part (TRYAGAIN).
 * A single server does not need them.
 */
function withAllKeys(keys: ScriptCall['keys']): readonly string[] {
  return [...new Set([...keys, ...keysBeside(keys[0])])];
}

function outcomeOf(outcome: readonly [Error | null, unknown] | undefined): unknown {
  if (outcome === undefined) throw new Error('Connection is closed.');
  const [error, reply] = outcome;
  if (error !== null) throw error;
  return reply;
}

/** The subject of a script's error. */
interface ScriptSubject {
  readonly taskId: string;
  readonly lease?: Lease;
  /** The lease of the parent turn, of an acquire. */
  readonly under?: Under | undefined;
  /** The first seq of an append. */
  readonly seq?: number;
}

type MakeError = (subject: ScriptSubject, answer: ScriptAnswer) => AgentLoopError;

/** The errors of the scripts' codes, as named in `lua/prelude.lua`. */
const errors: ReadonlyMap<number, MakeError> = new Map<number, MakeError>([
  [-1, ({ taskId }) => notFound(taskId)],
  [-2, fencedBy],
  [-3, ({ taskId }) => ended(taskId)],
  [-4, ({ taskId, seq = 0 }, answer) => rewound(taskId, answer.int(1), seq)],
  [-5, ({ taskId }, answer) => busy(taskId, answer.int(1))],
  [-6, ({ taskId }, answer) => newerSchema(taskId, answer.int(1))],
  [-7, ({ taskId }, answer) => torn(taskId, answer.int(1), answer.int(2))],
]);

/** An acquire has no lease yet: there a newer owner of the parent turn causes the refusal. */
function fencedBy({ taskId, lease, under }: ScriptSubject, answer: ScriptAnswer): AgentLoopError {
  if (under) return olderParent(taskId, under, answer.int(1));
  return lease === undefined ? notFound(taskId) : fenced(lease);
}

/** The values that a script returned, the first of them its code. */
export class ScriptAnswer {
  readonly #values: readonly unknown[];

  /** Throws the error of the code, unless it is OK. */
  constructor(reply: unknown, subject: ScriptSubject) {
    this.#values = listOf(reply);
    const makeError = errors.get(this.int(0));
    if (makeError !== undefined) throw makeError(subject, this);
  }

  int(index: number): number {
    return Number(this.#values[index]);
  }

  text(index: number): string {
    const value = this.#values[index];
    if (typeof value === 'string') return value;
    throw new AgentLoopError(
      'INTERNAL',
      `A script of the store gave ${typeof value} as its value ${index}, not a string.`,
    );
  }

  texts(index: number): readonly string[] {
    return listOf(this.#values[index]).map(String);
  }

  has(index: number): boolean {
    const value = this.#values[index];
    return value !== undefined && value !== null;
  }

  entry(index: number): StreamEntry {
    return entryOf(this.#values[index]);
  }

  entries(index: number): readonly StreamEntry[] {
    return entriesOf(this.#values[index]);
  }
}

/** An entry of a stream. Ours have one field each. */
export interface StreamEntry {
  readonly id: string;
  readonly field: string;
  readonly value: string;
}

/** The entries of an XRANGE, or of one stream of an XREAD. */
export function entriesOf(reply: unknown): readonly StreamEntry[] {
  return listOf(reply).map(entryOf);
}

export function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : [];
}

function entryOf(reply: unknown): StreamEntry {
  const [id, fields] = listOf(reply);
  const [field, value] = listOf(fields);
  return { id: String(id), field: String(field), value: String(value) };
}

/** The keys of one task. They share a hash slot of a cluster by the hash tag; scripts derive the others. */
export interface TaskKeys {
  readonly head: string;
  readonly journal: string;
  readonly blobs: string;
  readonly deltas: string;
  readonly commands: string;
  readonly commandIds: string;
}

/** Task ids match `taskIdPattern`, so none of them breaks the hash tag. */
export function taskKeys(prefix: string, taskId: string): TaskKeys {
  const base = `${prefix}:{${taskId}}:`;
  return {
    head: `${base}h`,
    journal: `${base}j`,
    blobs: `${base}b`,
    deltas: `${base}d`,
    commands: `${base}c`,
    commandIds: `${base}i`,
  };
}

/** The head alone: most calls name no other. */
export function headKey(prefix: string, taskId: string): string {
  return `${prefix}:{${taskId}}:h`;
}

/** The key of the index of runnable tasks, which is one for all tasks. */
export function runnableKey(prefix: string): string {
  return `${prefix}:due`;
}

/** All keys of the task that a head belongs to. */
function keysBeside(head: string): readonly string[] {
  return [...'hjbdci'].map((letter) => head.slice(0, -1) + letter);
}
