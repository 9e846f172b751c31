// What tests run against beside this package: servers and programs that are installed, or not.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import buildEntries from '../build-entries.mjs';
import { postgresPrograms } from '../stores/postgres/postgres-programs.mjs';

const run = promisify(execFile);

/** By name: gives `{ version, ... }` of what is there, or throws what is wrong. */
export const localParts = {
  redis: findRedis,
  sentinel: async () => ({ version: /v=(\S+)/.exec(await output('redis-sentinel', '--version'))?.[1] }),
  postgres: findPostgres,
  // A terminal for what asks whether it has one.
  script: async () => ({ version: /[\d.]+/.exec(await output('script', '--version'))?.[0] }),
};

/** jest's global setup of `npm test`. */
export default async function findLocalParts() {
  await buildEntries();
  await findParts(localParts);
}

/** The workers of jest inherit the environment. Rejects without a part of MILLRACE_REQUIRE_PARTS, names with commas. */
export async function findParts(parts) {
  const found = await Promise.all(
    Object.entries(parts).map(async ([name, find]) => {
      try {
        return [name, await find()];
      } catch (error) {
        return [name, { missing: reasonOf(error) }];
      }
    }),
  );
  // A run of jest that a test starts has the parts of the outer one.
  const all = { ...JSON.parse(process.env.MILLRACE_REAL_PARTS ?? '{}'), ...Object.fromEntries(found) };
  process.env.MILLRACE_REAL_PARTS = JSON.stringify(all);
  const required = (process.env.MILLRACE_REQUIRE_PARTS ?? '').split(',').filter(Boolean);
  const missing = required.filter((name) => all[name]?.version === undefined);
  if (missing.length === 0) return;
  const why = missing.map((name) => `${name}: ${all[name]?.missing ?? 'not known'}`).join('; ');
  throw new Error(`MILLRACE_REQUIRE_PARTS requires unavailable parts: ${why}`);
}

export async function output(command, ...args) {
  const { stdout, stderr } = await run(command, args);
  return (stdout + stderr).trim();
}

/** Tests start the server, and speak to it with `redis-cli`. */
async function findRedis() {
  const version = /v=(\S+)/.exec(await output('redis-server', '--version'))?.[1];
  await output('redis-cli', '--version');
  return { version };
}

async function findPostgres() {
  if (postgresPrograms === undefined) throw new Error('PostgreSQL is not installed');
  return { version: /[\d.]+/.exec(await output(join(postgresPrograms, 'postgres'), '--version'))?.[0] };
}

function reasonOf(error) {
  if (error.code === 'ENOENT') return `${error.path ?? 'a file'} is not installed`;
  return (error.stderr || error.message).trim().split('\n').at(-1);
}
