import type { StoreCheck } from '../../core/contracts/index.ts';
import { listOf } from './lua-scripts.ts';
import { command, isCluster, type RedisClient, redisError } from './redis-connection.ts';
import type { RedisStoreSettings } from './redis-options.ts';

/** The fields of a server's INFO. */
type ServerInfo = ReadonlyMap<string, string>;

interface Finding {
  /** Whether it breaks a guarantee of the store. */
  readonly broken: boolean;
  /** A sentence with the fix. */
  readonly sentence: string;
}

/** Checks the configuration of every primary. Errors: `UNAVAILABLE`. */
export async function checkServer(client: RedisClient, settings: RedisStoreSettings): Promise<StoreCheck> {
  try {
    const findings = (await serversOf(client)).map(async (server) => {
      const info = infoOf(String(await command(server, 'info')));
      return [
        ...findingsOf(info, settings),
        ...durabilityOf(info, settings, await configuration(server, 'appendfsync')),
      ];
    });
    const all = (await Promise.all(findings)).flat();
    return { ok: !all.some(({ broken }) => broken), warnings: [...new Set(all.map(({ sentence }) => sentence))] };
  } catch (thrown) {
    throw redisError(thrown);
  }
}

async function serversOf(client: RedisClient): Promise<readonly RedisClient[]> {
  if (!isCluster(client)) return [client];
  // A cluster's client knows its nodes once it has sent a command.
  await command(client, 'exists', 'millrace');
  return client.nodes('master');
}

function findingsOf(info: ServerInfo, { strict, replicas }: RedisStoreSettings): readonly Finding[] {
  const findings: Finding[] = [];
  const version = info.get('redis_version') ?? '0';
  const policy = info.get('maxmemory_policy') ?? 'unknown';
  const replicasThere = Number(info.get('connected_slaves') ?? 0);
  if (Number.parseInt(version, 10) < 7) {
    findings.push(broken(`Redis is version ${version}; use 7.0 or newer.`));
  }
  if (policy !== 'noeviction') {
    findings.push(
      broken(`maxmemory-policy is ${policy}, so Redis may evict the journal of a running turn; set it to noeviction.`),
    );
  }
  if (info.get('role') !== 'master') {
    findings.push(broken('This Redis is a read-only replica; connect to its primary, or through Sentinel.'));
  }
  if (replicasThere < replicas) {
    findings.push(
      broken(`${replicasThere} replicas are connected, strict durability waits for ${replicas}; add replicas.`),
    );
  }
  if (replicasThere > 0 && !strict && !info.has('min_slaves_good_slaves')) {
    findings.push(
      warning(
        'min-replicas-to-write is 0, so a primary that lost its replicas continues to accept records that a failover loses; set it to 1.',
      ),
    );
  }
  return findings;
}

function durabilityOf(
  info: ServerInfo,
  { strict, replicas }: RedisStoreSettings,
  fsync: string | undefined,
): Finding[] {
  if (info.get('aof_enabled') !== '1') {
    return [broken('appendonly is off, so a restart of Redis loses turns; set appendonly to yes.')];
  }
  if (strict && replicas === 0 && fsync !== 'always') {
    return [broken(`appendfsync is ${fsync ?? 'not known'}, strict durability without replicas needs always; set it.`)];
  }
  if (fsync === 'no') {
    return [
      warning(
        'appendfsync is no, so a power cut loses as much as the system has buffered; set it to everysec or always.',
      ),
    ];
  }
  return [];
}

/** `undefined` if this user may not read the configuration. */
async function configuration(server: RedisClient, name: string): Promise<string | undefined> {
  const reply = await command(server, 'config', 'GET', name).catch(() => undefined);
  const value = Array.isArray(reply) ? listOf(reply)[1] : Object.values(Object(reply))[0];
  return typeof value === 'string' ? value : undefined;
}

function infoOf(text: string): ServerInfo {
  return new Map(
    text.split('\r\n').flatMap((line): [string, string][] => {
      const colon = line.indexOf(':');
      return colon < 1 ? [] : [[line.slice(0, colon), line.slice(colon + 1)]];
    }),
  );
}

function broken(sentence: string): Finding {
  return { broken: true, sentence };
}

function warning(sentence: string): Finding {
  return { broken: false, sentence };
}
