import type { LuaScript } from './lua-scripts.ts';
import { type CommandArgument, command, type RedisClient } from './redis-client.ts';
import { isNoScript, redisError } from './redis-errors.ts';
import { listOf } from './script-answer.ts';

export interface Evaluation {
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
