import { randomUUID } from 'node:crypto';
import { AgentLoopError, messageOf, type StoreCheck, systemClock } from '../../core/contracts/index.ts';
import { within } from '../../core/streams/index.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { openConnection, type PostgresTarget } from './postgres-target.ts';

/** How long a notification may take. */
const probeMs = 1_000;

interface ServerSettings {
  readonly version: number;
  readonly fsync: string;
  readonly commit: string;
  readonly full_pages: string;
  readonly is_replica: boolean;
}

/** `TaskStateStore.check`. */
export async function checkServer(database: PostgresDatabase, listen: PostgresTarget | false): Promise<StoreCheck> {
  try {
    const [settings] = await database.query<ServerSettings>(
      `select current_setting('server_version_num')::int as version, current_setting('fsync') as fsync,
        current_setting('synchronous_commit') as commit, current_setting('full_page_writes') as full_pages,
        pg_is_in_recovery() as is_replica`,
    );
    const faults = settings ? faultsOf(settings) : [];
    const isHeard = listen === false || (await hears(database, listen));
    const deaf =
      'Notifications do not arrive, so readers of other processes wait for the poll: `postgres` may be a pooler that lends connections for one transaction; give a direct URL as `listen`, or `listen: false`.';
    return { ok: faults.length === 0, warnings: isHeard ? faults : [...faults, deaf] };
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'UNAVAILABLE') throw error;
    return { ok: false, warnings: [messageOf(error)] };
  }
}

function faultsOf({ version, fsync, commit, full_pages, is_replica }: ServerSettings): readonly string[] {
  const faults: string[] = [];
  if (version < 130_000) faults.push(`PostgreSQL ${Math.floor(version / 10_000)} is too old; use 13 or newer.`);
  if (is_replica) faults.push('The server is a replica, which cannot be written to; connect to the primary.');
  if (fsync !== 'on') faults.push('fsync is off: a power cut may destroy the database; set fsync = on.');
  if (full_pages !== 'on') {
    faults.push('full_page_writes is off: a power cut may destroy the database; set full_page_writes = on.');
  }
  if (commit === 'off') {
    faults.push('synchronous_commit is off: a crash of the server may lose records; set synchronous_commit = on.');
  }
  return faults;
}

/** Whether a notification arrives: a connection that a pooler lends for one transaction takes LISTEN, and hears nothing. */
async function hears(database: PostgresDatabase, target: PostgresTarget): Promise<boolean> {
  const client = openConnection(target);
  client.on('error', () => {});
  try {
    await client.connect();
    const channel = `${database.schema}_check`;
    const payload = randomUUID();
    await client.query(`listen ${channel}`);
    const heard = new Promise<boolean>((resolve) => {
      client.on('notification', (message) => {
        if (message.payload === payload) resolve(true);
      });
    });
    await database.query('select pg_notify($1, $2)', [channel, payload]);
    return await within({ ms: probeMs, clock: systemClock, late: () => false }, heard);
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}
