import { createHash } from 'node:crypto';
import { AgentLoopError, type Lease, type Under } from '../../core/contracts/index.ts';
import { busy, ended, fenced, newerSchema, notFound, olderParent, rewound } from '../store-rules.ts';
import { readLua } from './read-lua.ts';
import {
  type CommandArgument,
  command,
  isCluster,
  isNoScript,
  type RedisClient,
  redisError,
  scriptsLost,
  storeClosed,
  torn,
  unconfirmed,
} from './redis-connection.ts';

/** By name: the file in `lua/`, whose last number says how many keys it takes, and the flags that Redis runs it with. */
const stateScripts = {
  create: { file: 'create-2', flags: '' },
  acquire: { file: 'acquire-2', flags: '' },
  append: { file: 'append-1', flags: '' },
  /** The same for a terminal record: a turn can end where memory is full. */
  finish: { file: 'append-1', flags: ' flags=allow-oom' },
  renew: { file: 'renew-1', flags: ' flags=allow-oom' },
  release: { file: 'release-1', flags: ' flags=allow-oom' },
  break: { file: 'break-1', flags: ' flags=allow-oom' },
  post: { file: 'post-3', flags: '' },
  read: { file: 'read-3', flags: ' flags=no-writes' },
  look: { file: 'look-2', flags: ' flags=no-writes' },
  publish: { file: 'publish-2', flags: '' },
  delete: { file: 'delete-3', flags: ' flags=allow-oom' },
  describe: { file: 'describe-1', flags: ' flags=no-writes' },
} as const;

type ScriptName = keyof typeof stateScripts;

interface LuaScript {
  readonly source: string;
  readonly sha1: string;
}

type LuaScripts = Readonly<Record<ScriptName, LuaScript>>;

/** The scripts of the state store. */
function luaScripts(): LuaScripts {
  const script = (name: ScriptName): LuaScript => luaScript({ prelude: 'prelude', ...stateScripts[name] });
  return {
    create: script('create'),
    acquire: script('acquire'),
    append: script('append'),
    finish: script('finish'),
    renew: script('renew'),
    release: script('release'),
    break: script('break'),
    post: script('post'),
    read: script('read'),
    look: script('look'),
    publish: script('publish'),
    delete: script('delete'),
    describe: script('describe'),
  };
}

interface LuaFile {
  /** What stands in front of it: another file, or nothing. */
  readonly prelude?: string;
  readonly file: string;
  /** Begin with a blank. */
  readonly flags: string;
}

/** By their names and flags. */
const loaded = new Map<string, LuaScript>();

/** A script of files in `lua/`, as Redis gets it; made at its first use. */
export function luaScript(named: LuaFile): LuaScript {
  const name = `${named.prelude} ${named.file}${named.flags}`;
  const script = loaded.get(name) ?? readScript(named);
  loaded.set(name, script);
  return script;
}

function readScript({ prelude, file, flags }: LuaFile): LuaScript {
  const source = `#!lua${flags}\n${prelude === undefined ? '' : readLua(prelude)}${readLua(file)}`;
  return { source, sha1: createHash('sha1').update(source).digest('hex') };
}

/** Scripts that say when a task may be taken. */
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

/** How many replicas have to have a write before it counts, and how long to wait for them. */
export interface Confirmation {
  readonly replicas: number;
  readonly timeoutMs: number;
}

/**
 * Runs the scripts of the store on one client. Calls reach Redis in the order they are made. Errors with what the script's code
 * stands for, `FULL` or `UNAVAILABLE`.
 */
export class ScriptRunner {
  readonly #client: RedisClient;
  readonly #scripts: LuaScripts = luaScripts();
  /** The index of runnable tasks, which scripts keep; none in a cluster, where it is in another slot than most tasks. */
  readonly #index: readonly string[];
  #closed = false;

  constructor(client: RedisClient, prefix: string) {
    this.#client = client;
    this.#index = isCluster(client) ? [] : [runnableKey(prefix)];
  }

  /** From now on every call is refused. */
  close(): void {
    this.#closed = true;
  }

  /** For calls that may arrive in any order: where Redis does not know the script, it is loaded and the call made again. */
  async run(call: ScriptCall): Promise<ScriptAnswer> {
    this.#assertOpen();
    return new ScriptAnswer(await this.#evaluateAnywhere(call), call.subject);
  }

  /**
   * For appends, which may be pipelined: where Redis does not know the script, it is loaded, and the error is `UNAVAILABLE` and
   * retryable, since later calls must not overtake this one. With `confirmation` the answer also waits for the replicas.
   */
  async runInOrder(call: ScriptCall, confirmation?: Confirmation): Promise<ScriptAnswer> {
    this.#assertOpen();
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
    return command(this.#client, 'evalsha', ...this.#evalArgs(call));
  }

  /** Both in one pipeline, since `WAIT` speaks of the writes of its own connection and names no key to find the node by. */
  async #evaluateAndConfirm(call: ScriptCall, { replicas, timeoutMs }: Confirmation): Promise<unknown> {
    const { taskId } = call.subject;
    const pipeline = this.#client.pipeline([
      ['evalsha', ...this.#evalArgs(call)],
      ['wait', replicas, timeoutMs],
    ]);
    const [evaluated, waited] = (await pipeline.exec()) ?? [];
    const reply = outcomeOf(evaluated);
    const answer = Number(outcomeOf(waited));
    // What the script refuses comes first: there is nothing to confirm.
    new ScriptAnswer(reply, call.subject);
    if (answer < replicas) throw unconfirmed(taskId, answer, replicas);
    return reply;
  }

  /** Loads all scripts on the node that the keys of `last` are on, and sends `last` after them. */
  async #loadAnd(last: readonly (string | number)[]): Promise<unknown> {
    const load = Object.values(this.#scripts).map(({ source }: LuaScript) => ['script', 'load', source]);
    const outcomes = await this.#client.pipeline([...load, [...last]]).exec();
    return outcomeOf(outcomes?.at(-1));
  }

  #evalArgs({ script, keys, args }: ScriptCall): (string | number)[] {
    const index = indexing.has(script) ? this.#index : [];
    const declared = isCluster(this.#client) ? withAllKeys(keys) : [...keys, ...index];
    return [this.#scripts[script].sha1, declared.length, ...declared, ...args];
  }

  #assertOpen(): void {
    if (this.#closed) throw storeClosed();
  }
}

/**
 * Also the keys that the script derives: while a cluster moves the slot, a node then refuses a task that it has only in part (TRYAGAIN).
 * One server has them all, and is spared the names.
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

/** What an error of a script is about. */
interface ScriptSubject {
  readonly taskId: string;
  readonly lease?: Lease;
  /** The lease of the parent turn, of an acquire. */
  readonly under?: Under | undefined;
  /** The first seq of an append. */
  readonly seq?: number;
}

type MakeError = (subject: ScriptSubject, answer: ScriptAnswer) => AgentLoopError;

/** From the code that a script gives, as `lua/prelude.lua` names them, to the error. */
const errors: ReadonlyMap<number, MakeError> = new Map<number, MakeError>([
  [-1, ({ taskId }) => notFound(taskId)],
  [-2, fencedBy],
  [-3, ({ taskId }) => ended(taskId)],
  [-4, ({ taskId, seq = 0 }, answer) => rewound(taskId, answer.int(1), seq)],
  [-5, ({ taskId }, answer) => busy(taskId, answer.int(1))],
  [-6, ({ taskId }, answer) => newerSchema(taskId, answer.int(1))],
  [-7, ({ taskId }, answer) => torn(taskId, answer.int(1), answer.int(2))],
]);

/** An acquire has no lease yet: there a newer owner of the parent turn refuses. */
function fencedBy({ taskId, lease, under }: ScriptSubject, answer: ScriptAnswer): AgentLoopError {
  if (under) return olderParent(taskId, under, answer.int(1));
  return lease === undefined ? notFound(taskId) : fenced(lease);
}

/** The values that a script gave, the first of them its code. */
export class ScriptAnswer {
  readonly #values: readonly unknown[];

  /** Errors with what the code stands for, unless it is OK. */
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

interface Evaluation {
  readonly script: LuaScript;
  /** In a cluster, all in one slot. */
  readonly keys: readonly string[];
  readonly args?: readonly CommandArgument[];
}

/**
 * Runs a script that may arrive in any order with others; its source is sent along where Redis does not know it. Errors: `FULL`,
 * `UNAVAILABLE`.
 */
export async function evaluate(
  client: RedisClient,
  { script, keys, args = [] }: Evaluation,
): Promise<readonly unknown[]> {
  const rest = [keys.length, ...keys, ...args];
  try {
    return listOf(await command(client, 'evalsha', script.sha1, ...rest));
  } catch (thrown) {
    if (!isNoScript(thrown)) throw redisError(thrown);
  }
  try {
    return listOf(await command(client, 'eval', script.source, ...rest));
  } catch (thrown) {
    throw redisError(thrown);
  }
}

/** The keys of one task. They share a slot of a cluster by the hash tag; scripts derive those that are not named here. */
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

/** Of the index of runnable tasks, which is one for all tasks. */
export function runnableKey(prefix: string): string {
  return `${prefix}:due`;
}

/** All keys of the task that a head belongs to. */
function keysBeside(head: string): readonly string[] {
  return [...'hjbdci'].map((letter) => head.slice(0, -1) + letter);
}
