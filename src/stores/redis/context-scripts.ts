import type { AgentLoopError } from '../../core/contracts/index.ts';
import { versionConflict } from '../messages/check-input.ts';
import { damagedContext, newerContext } from '../messages/context-errors.ts';
import { evaluate } from './evaluate.ts';
import { luaScript } from './lua-scripts.ts';
import type { RedisClient } from './redis-client.ts';

/** By name: the flags that Redis runs `lua/context-<name>-4.lua` with. */
const flags = {
  begin: '',
  append: '',
  agent: '',
  metadata: '',
  load: ' flags=no-writes',
  list: ' flags=no-writes',
  describe: ' flags=no-writes',
  delete: ' flags=allow-oom',
} as const;

type ContextScript = keyof typeof flags;

export interface ContextCall {
  readonly script: ContextScript;
  readonly contextId: string;
  readonly args?: readonly (string | number)[];
  /** The version that a change of the metadata expects. */
  readonly version?: number | undefined;
}

/** Runs the scripts of the message store on the contexts with a prefix. */
export class ContextScripts {
  readonly #client: RedisClient;
  readonly #prefix: string;

  constructor(client: RedisClient, prefix: string) {
    this.#client = client;
    this.#prefix = prefix;
  }

  /**
   * What the script gave, its code first; undefined where there is no such context. Errors: `CONFLICT`, `SCHEMA`, `POISON`, `FULL`,
   * `UNAVAILABLE`.
   */
  async run(call: ContextCall): Promise<readonly unknown[] | undefined> {
    const { script, contextId, args = [] } = call;
    const lua = luaScript({ prelude: 'context-prelude', file: `context-${script}-4`, flags: flags[script] });
    const answer = await evaluate(this.#client, { script: lua, keys: this.#keys(contextId), args });
    if (answer[0] === -1) return undefined;
    const error = errorOf(call, answer.map(Number));
    if (error) throw error;
    return answer;
  }

  /** Context ids match `taskIdPattern`, so none of them breaks the hash tag. */
  #keys(contextId: string): readonly string[] {
    return ['mh', 'mm', 'mt', 'mo'].map((name) => `${this.#prefix}:{${contextId}}:${name}`);
  }
}

/** From the code that a script gives, as `lua/context-prelude.lua` names them, to the error. */
function errorOf({ contextId, version = 0 }: ContextCall, answer: readonly number[]): AgentLoopError | undefined {
  const [code, first = 0, second = 0] = answer;
  if (code === -6) return newerContext(contextId, first);
  if (code === -8) return versionConflict(contextId, version, first);
  if (code !== -7) return undefined;
  const why = `it has ${second} messages where its head says ${first}: Redis lost or evicted keys`;
  return damagedContext(contextId, why);
}
