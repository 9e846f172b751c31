import { type CommandArgument, command, type RedisClient } from './redis-client.ts';
import { redisError } from './redis-errors.ts';

/** One command, and what Redis answers. Errors: `FULL`, `UNAVAILABLE`. */
export async function sendCommand(
  client: RedisClient,
  name: string,
  ...args: readonly CommandArgument[]
): Promise<unknown> {
  try {
    return await command(client, name, ...args);
  } catch (thrown) {
    throw redisError(thrown);
  }
}
