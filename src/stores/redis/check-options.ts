import { AgentLoopError, shownValue } from '../../core/contracts/index.ts';

/** A URL that ioredis would connect to all the same, as to a Redis. */
const otherProtocol = /^(?!rediss?:)[a-z][a-z0-9+.-]*:\/\//i;

/** Refuses what is nothing to connect with: `INVALID_CONFIG`. ioredis takes nothing for the server of this machine. */
export function assertRedisTarget(redis: unknown): void {
  if (typeof redis === 'string' && otherProtocol.test(redis)) {
    const scheme = redis.slice(0, redis.indexOf(':'));
    throw invalid(`redis is a URL of the protocol "${scheme}"; give one that begins with redis:// or rediss://.`);
  }
  if ((typeof redis === 'string' && redis !== '') || (typeof redis === 'object' && redis !== null)) return;
  throw invalid(`redis is ${shownValue(redis)}; give a URL, options of ioredis, or a client of it.`);
}

/** Errors: `INVALID_CONFIG`. */
export function assertPrefix(prefix: string): void {
  if (/^[A-Za-z0-9_.:-]{1,64}$/.test(prefix)) return;
  throw invalid(`prefix is ${JSON.stringify(prefix)}; take 1 to 64 of the characters A-Z a-z 0-9 _ . : -`);
}

/** Errors: `INVALID_CONFIG`. */
export function assertTimeToLive(name: string, value: number | null): void {
  if (value === null || (Number.isInteger(value) && value >= 1)) return;
  throw invalid(`${name} is ${value}; give a whole number of seconds from 1, or null to keep what is stored.`);
}

function invalid(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', sentence);
}
