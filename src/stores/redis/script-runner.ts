import { type LuaScript, type LuaScripts, luaScripts, type ScriptName } from './lua-scripts.ts';
import { command, isCluster, type RedisClient } from './redis-client.ts';
import { isNoScript, redisError, scriptsLost, storeClosed, unconfirmed } from './redis-errors.ts';
import { ScriptAnswer, type ScriptSubject } from './script-answer.ts';
import { keysBeside, runnableKey } from './task-keys.ts';

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
